"""Read configuration files with their includes, and the environment.

Imported only if a file or a variable exists, because the configuration schema loads slowly.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from jp_nb.config.authority import strip_own_settings, strip_untrusted
from jp_nb.config.directives import ENVIRONMENT_PREFIX
from jp_nb.config.layers import (
    CONFIG_FILE_LAYER,
    Layer,
    list_includes,
    parse_layer,
    read_environment,
)
from jp_nb.errors import ConfigError
from jp_nb.storage.file_search import FileSearchError, find_matching_files
from jp_nb.storage.files import ForeignFileError, Stamp, make_stamp, read_owned_file
from jp_nb.storage.trust import PendingLeaf

MAX_INCLUDE_DEPTH = 255
"""Levels of files that include files."""
MAX_INCLUDE_ENTRIES = 5_000
"""Directory entries that one pattern of `extends` may visit."""


class ReadFile(NamedTuple):
    """Layer of a file, and the SHA-256 digest of its bytes."""

    layer: Layer
    digest: bytes


class ConfigReader:
    """Read files with their includes, and `say` notices. A file is read again after a change."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._known: dict[tuple[Path, str], tuple[Stamp, ReadFile]] = {}

    def group(
        self, path: Path, name: str = CONFIG_FILE_LAYER, above: tuple[Path, ...] = ()
    ) -> list[ReadFile]:
        """Return the file at `path` and its includes, weakest first.

        `above` are the files that include it. The default `name` of the layer means that the user
        named the file, so a file that is not owned is an error. Other such files are ignored.

        Raises:
            ConfigError: A file is invalid or cannot be read, or files include each other.
        """
        resolved = path.resolve()

        if resolved in above:
            chain = " -> ".join(str(p) for p in (*above[above.index(resolved) :], resolved))
            text = f"these files include each other: {chain}"
            raise ConfigError(text, path="extends", layer=name, file=str(path))

        if len(above) > MAX_INCLUDE_DEPTH:
            raise ConfigError("too many levels of included files", path="extends", file=str(path))

        try:
            own = self._read(path, name)
        except ForeignFileError as exc:
            if name == CONFIG_FILE_LAYER and not above:  # the user named it
                raise ConfigError(
                    f"the file is ignored: {exc}", layer=name, file=str(path)
                ) from exc
            self._say(f"{path} is ignored: {exc}")
            return []

        before: list[ReadFile] = []
        after: list[ReadFile] = []

        for include in list_includes(own.layer):
            part = before if include.strategy == "before" else after
            try:
                included = self._included(path, include.path)
            except (FileSearchError, OSError, ValueError) as exc:  # an impossible name
                text = f"{include.path!r} cannot be searched: {exc}"
                raise ConfigError(text, path="extends", layer=name, file=str(path)) from exc

            for found in included:
                part += self.group(found, name, (*above, resolved))

        return [*before, own, *after]

    def _included(self, path: Path, pattern: str) -> list[Path]:
        if glob.has_magic(pattern):
            searched = Path(os.path.abspath(path.parent / pattern))
            found = find_matching_files(searched, max_entries=MAX_INCLUDE_ENTRIES)
            return [each for each in found if not os.path.samefile(each, path)]

        candidate = path.parent / pattern

        with suppress(OSError, ValueError):  # an impossible name
            if candidate.is_file():
                return [candidate]

        self._say(f"{path} includes {pattern!r}, which does not exist")
        return []

    def _read(self, path: Path, name: str) -> ReadFile:
        try:
            now = make_stamp(path)

            known = self._known.get((path, name))
            if known is None or known[0] != now:
                data = read_owned_file(path)
                layer = parse_layer(data.decode("utf-8"), name, str(path))
                known = now, ReadFile(layer, hashlib.sha256(data).digest())
                self._known[path, name] = known
        except (OSError, UnicodeDecodeError) as exc:
            raise ConfigError(f"cannot be read: {exc}", layer=name, file=str(path)) from exc
        return known[1]


def compute_digest(group: Iterable[ReadFile]) -> str:
    """Return a digest of the paths and contents of `group`."""
    whole = hashlib.sha256()
    for layer, digest in group:
        whole.update(os.fsencode(os.path.realpath(layer.file or "")) + b"\0" + digest)
    return f"sha256:{whole.hexdigest()}"


# The same files and variables give the same layers, so that nothing is merged again.


def read_variables() -> Layer:
    """Return the layer of the environment; `read_environment` has the errors."""
    pairs = (pair for pair in os.environ.items() if pair[0].startswith(ENVIRONMENT_PREFIX))
    return _read_variables(tuple(sorted(pairs)))


@lru_cache(maxsize=16)
def _read_variables(variables: tuple[tuple[str, str], ...]) -> Layer:
    return read_environment(dict(variables))


@lru_cache(maxsize=16)
def strip_group(group: tuple[ReadFile, ...]) -> tuple[tuple[ReadFile, ...], tuple[str, ...]]:
    """Return `group` without the settings that no folder may switch on, and their paths."""
    kept: list[ReadFile] = []
    paths: list[str] = []

    for read in group:
        partial, refused = strip_own_settings(read.layer.partial)
        paths += refused
        if refused:
            read = read._replace(layer=Layer(read.layer.name, partial, read.layer.file))
        kept.append(read)

    return tuple(kept), tuple(paths)


@lru_cache(maxsize=16)
def split_group(
    group: tuple[ReadFile, ...],
) -> tuple[tuple[Layer, ...], tuple[PendingLeaf, ...]]:
    """Return the layers of `group` that apply without consent, and the ignored settings."""
    kept: list[Layer] = []
    leaves: list[PendingLeaf] = []

    for layer, _ in group:
        partial, ignored = strip_untrusted(layer.partial, "folder")
        kept.append(Layer(layer.name, partial, layer.file))
        leaves += [(at, value, layer.file or "") for at, value in ignored.items()]

    return tuple(kept), tuple(leaves)
