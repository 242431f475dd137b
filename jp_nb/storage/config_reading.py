"""Reads configuration files, each with what it includes, and the environment.

Loaded where something is configured: the schema of the configuration takes its time.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from jp_nb.config.authority import is_path_in_workspace, strip_untrusted_folder
from jp_nb.config.layers import (
    CONFIG_FILE,
    Layer,
    list_includes,
    parse_layer,
    read_environment,
    select_inherited,
)
from jp_nb.config.tree.app import parse_attachment_url
from jp_nb.errors import ConfigError
from jp_nb.storage.files import ForeignFileError, Stamp, read_owned_file, stamp
from jp_nb.storage.trust import PendingLeaf

MAX_DEPTH = 255
"""Of files that include files."""


class ReadFile(NamedTuple):
    """A file that was read: its layer, and a digest of the bytes that say so."""

    layer: Layer
    digest: bytes


class ConfigReader:
    """Reads files with what they include; a file is read again when it changed.

    Args:
        say: Takes what the person should be told, such as an included file that is missing.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._known: dict[tuple[Path, str], tuple[Stamp, ReadFile]] = {}

    def group(
        self, path: Path, name: str = CONFIG_FILE, above: tuple[Path, ...] = ()
    ) -> list[ReadFile]:
        """Return the file at `path` and what it includes, weakest first.

        Args:
            path: The file.
            name: What to call its layer. One that somebody named has to be the user's own.
            above: The files that include it.

        Raises:
            ConfigError: If something of it is wrong.
        """
        resolved = path.resolve()
        if resolved in above:
            chain = " -> ".join(str(p) for p in (*above[above.index(resolved) :], resolved))
            raise ConfigError(
                f"these files include each other: {chain}", path="extends", layer=name,
                file=str(path),
            )  # fmt: skip
        if len(above) > MAX_DEPTH:
            raise ConfigError("too many levels of included files", path="extends", file=str(path))
        try:
            own = self._read(path, name)
        except ForeignFileError as exc:
            if name == CONFIG_FILE and not above:  # somebody asked for it
                raise ConfigError(
                    f"the file is ignored: {exc}", layer=name, file=str(path)
                ) from exc
            self._say(f"{path} is ignored: {exc}")
            return []
        before: list[ReadFile] = []
        after: list[ReadFile] = []
        for include in list_includes(own.layer):
            part = before if include.strategy == "before" else after
            for found in self._included(path, include.path):
                part += self.group(found, name, (*above, resolved))
        return [*before, own, *after]

    def _included(self, path: Path, pattern: str) -> list[Path]:
        """Return the files that `pattern` in the file `path` means, sorted."""
        if glob.has_magic(pattern):
            found = glob.glob(pattern, root_dir=path.parent, recursive=True)
            candidates = sorted(path.parent / name for name in found)
            return [p for p in candidates if p.is_file() and p.resolve() != path.resolve()]
        candidate = path.parent / pattern
        with suppress(OSError, ValueError):  # a name that no file can have
            if candidate.is_file():
                return [candidate]
        self._say(f"{path} includes {pattern!r}, which does not exist")
        return []

    def _read(self, path: Path, name: str) -> ReadFile:
        try:
            now = stamp(path)
            known = self._known.get((path, name))
            if known is None or known[0] != now:
                data = read_owned_file(path)
                layer = parse_layer(data.decode("utf-8"), name, str(path))
                known = now, ReadFile(layer, hashlib.sha256(data).digest())
                self._known[path, name] = known
        except (OSError, UnicodeDecodeError) as exc:
            raise ConfigError(f"cannot be read: {exc}", layer=name, file=str(path)) from exc
        return known[1]

    # --- what counts -------------------------------------------------------------------------

    @staticmethod
    def layers(
        groups: Sequence[Sequence[Layer]], *, environment: bool
    ) -> tuple[list[Layer], list[ConfigError]]:
        """Return the layers that count of `groups` and of the environment, and what is wrong."""
        found = select_inherited(groups)
        if environment:
            try:
                found.append(read_environment(os.environ))
            except ConfigError as exc:
                return found, [exc]
        return found, []

    @staticmethod
    def before_consent(
        group: Iterable[ReadFile],
    ) -> tuple[list[Layer], tuple[PendingLeaf, ...]]:
        """Return the layers of `group` as they count before the user agreed, and what does not."""
        kept: list[Layer] = []
        leaves: list[PendingLeaf] = []
        for layer, _ in group:
            partial, ignored = strip_untrusted_folder(layer.partial)
            kept.append(Layer(layer.name, partial, layer.file))
            leaves += [(at, value, layer.file or "") for at, value in ignored.items()]
        return kept, tuple(leaves)

    @staticmethod
    def digest(group: Iterable[ReadFile]) -> str:
        """Return a digest of all that `group` says, and of where."""
        whole = hashlib.sha256()
        for layer, digest in group:
            whole.update(os.fsencode(os.path.realpath(layer.file or "")) + b"\0" + digest)
        return f"sha256:{whole.hexdigest()}"

    @staticmethod
    def is_inside(url: str, root: Path) -> bool:
        """Return whether the file that an attachment's `url` names lies in the folder `root`.

        Links are followed. A pattern may match anything later, and is not.
        """
        if not is_path_in_workspace(url) or glob.has_magic(path := parse_attachment_url(url).path):
            return False
        root = root.resolve()
        with suppress(OSError, ValueError, RuntimeError):  # what no file can be
            return (root / path).resolve().is_relative_to(root)
        return False
