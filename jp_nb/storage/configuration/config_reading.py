"""Read configuration files with their includes.

Imported only if a file exists, because the configuration schema loads slowly.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from jp_nb.config.layers import CONFIG_FILE_LAYER, Layer, list_includes, parse_layer
from jp_nb.errors import ConfigError
from jp_nb.storage.file_search import FileSearchError, find_matching_files
from jp_nb.storage.files import ForeignFileError, Stamp, make_stamp, read_owned_file

MAX_INCLUDE_DEPTH = 255
"""Levels of files that include files."""
MAX_INCLUDE_ENTRIES = 5_000
"""Directory entries that one pattern of `extends` may visit."""


class DigestedLayer(NamedTuple):
    """The layer of a file, which has its settings, and the SHA-256 digest of its bytes."""

    layer: Layer
    digest: bytes


class ConfigReader:
    """Reads *groups*: a group is a configuration file with its includes.

    A file is read again after a change. `add_notice` gets messages for the user.
    """

    def __init__(self, add_notice: Callable[[str], None]) -> None:
        self._add_notice = add_notice
        # By path and name of the layer: the stamp of the file when it was last read, and the layer.
        self._known: dict[tuple[Path, str], tuple[Stamp, DigestedLayer]] = {}

    def read_group(
        self, path: Path, layer_name: str = CONFIG_FILE_LAYER, above: tuple[Path, ...] = ()
    ) -> list[DigestedLayer]:
        """Return the file at `path` and its includes, weakest first.

        `layer_name` is the kind of source, and `above` are the files that include this one. A file
        that another user of the computer owns, or that is too long or no regular file, is ignored
        with a notice. If the user has named it (`CONFIG_FILE_LAYER`), it is an error.

        Raises:
            ConfigError: A file is invalid or cannot be read, or files include each other.
        """
        resolved = path.resolve()

        if resolved in above:
            loop = (*above[above.index(resolved) :], resolved)
            text = f"these files include each other: {' -> '.join(map(str, loop))}"
            raise ConfigError(text, path="extends", layer=layer_name, file=str(path))

        if len(above) > MAX_INCLUDE_DEPTH:
            raise ConfigError("too many levels of included files", path="extends", file=str(path))

        try:
            file = self._read(path, layer_name)
        except ForeignFileError as exc:
            is_named_by_user = layer_name == CONFIG_FILE_LAYER and not above
            if is_named_by_user:
                raise ConfigError(
                    f"the file is ignored: {exc}", layer=layer_name, file=str(path)
                ) from exc
            self._add_notice(f"{path} is ignored: {exc}")
            return []

        weaker: list[DigestedLayer] = []
        stronger: list[DigestedLayer] = []

        for include in list_includes(file.layer):
            side = weaker if include.strategy == "before" else stronger
            try:
                included = self._find_included(path, include.path)
            except (FileSearchError, OSError, ValueError) as exc:  # an impossible name
                text = f"{include.path!r} cannot be searched: {exc}"
                raise ConfigError(text, path="extends", layer=layer_name, file=str(path)) from exc

            for included_path in included:
                side += self.read_group(included_path, layer_name, (*above, resolved))

        return [*weaker, file, *stronger]

    def _find_included(self, path: Path, pattern: str) -> list[Path]:
        """Return the files that the file at `path` includes by a path or `pattern`."""
        if glob.has_magic(pattern):
            searched = Path(os.path.abspath(path.parent / pattern))
            matches = find_matching_files(searched, max_entries=MAX_INCLUDE_ENTRIES)
            return [match for match in matches if not os.path.samefile(match, path)]

        candidate = path.parent / pattern

        with suppress(OSError, ValueError):  # an impossible name
            if candidate.is_file():
                return [candidate]

        self._add_notice(f"{path} includes {pattern!r}, which does not exist")
        return []

    def _read(self, path: Path, layer_name: str) -> DigestedLayer:
        """Return the file at `path`, as it was read before if it has not changed."""
        try:
            stamp = make_stamp(path)

            known = self._known.get((path, layer_name))
            if known is None or known[0] != stamp:
                data = read_owned_file(path)
                layer = parse_layer(data.decode("utf-8"), layer_name, str(path))
                known = stamp, DigestedLayer(layer, hashlib.sha256(data).digest())
                self._known[path, layer_name] = known
        except (OSError, UnicodeDecodeError) as exc:
            raise ConfigError(f"cannot be read: {exc}", layer=layer_name, file=str(path)) from exc
        return known[1]


def compute_digest(group: Iterable[DigestedLayer]) -> str:
    """Return a digest of the paths and contents of `group`."""
    whole = hashlib.sha256()
    for layer, digest in group:
        whole.update(os.fsencode(os.path.realpath(layer.file or "")) + b"\0" + digest)
    return f"sha256:{whole.hexdigest()}"
