"""The configuration layers that come from files and the environment.

Source: `design/interface.md` section 5, `spec/config.md` 6.3 to 6.5.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from jp_nb.config.defaults import ENVIRONMENT_PREFIX
from jp_nb.errors import ConfigError

if TYPE_CHECKING:  # nothing of it is needed where nothing is configured
    from jp_nb.config.layers import Layer

WORKSPACE_FILE = Path(".jp") / "config.toml"
SUFFIXES = ("", ".toml", ".json")
MAX_DEPTH = 255
"""Of files that include files."""


def user_folder() -> Path:
    """Where the user's own configuration lies."""
    return platformdirs.user_config_path("jp")


def user_file() -> Path:
    """The user's own configuration file; it need not exist."""
    return user_folder() / "config.toml"


def workspace_files(folder: Path) -> Iterator[Path]:
    """`.jp/config.toml` in `folder` and above, from the filesystem's root down."""
    for place in reversed([folder, *folder.parents]):
        candidate = place / WORKSPACE_FILE
        if candidate.is_file():
            yield candidate


def workspace_root(folder: Path) -> Path:
    """The nearest folder at or above `folder` that holds `.jp/`, else `folder` itself (D23)."""
    return next((p for p in (folder, *folder.parents) if (p / ".jp").is_dir()), folder)


class ConfigFiles:
    """Reads the layers for a notebook in `folder`; a file is read again when it changed.

    Attributes:
        folder: The notebook's.
        notices: What the person should be told once, such as an included file that is missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notices: list[str] = []
        self._said: set[str] = set()
        self._read: dict[tuple[Path, str], tuple[tuple[int, int], Layer]] = {}

    @property
    def root(self) -> Path:
        """The workspace's folder."""
        return workspace_root(self.folder)

    def layers(self) -> list[Layer]:
        """The user's file, workspace files from the root down, the environment.

        Each file is followed or preceded by what it includes; one with `inherit = false` cuts off
        all that are weaker.

        Raises:
            ConfigError: If a file or a variable is wrong; `layer` and `file` name it.
        """
        files = self._files()
        if not files and not _is_in_environment():
            return []
        from jp_nb.config import layers

        found = layers.inherited([self._with_includes(path, name) for name, path in files])
        if _is_in_environment():
            found.append(layers.from_environment(os.environ))
        return found

    def is_inside(self, url: str) -> bool:
        """Whether the file that an attachment's `url` names lies in the workspace.

        Links are followed. A pattern may match anything later, and is not.
        """
        from jp_nb.config.attachments import attachment_parts
        from jp_nb.config.authority import is_named_inside

        if not is_named_inside(url) or glob.has_magic(path := attachment_parts(url).path):
            return False
        root = self.root.resolve()
        with suppress(OSError, ValueError, RuntimeError):  # what no file can be
            return (root / path).resolve().is_relative_to(root)
        return False

    def anything(self) -> bool:
        """Whether there is a file or a variable at all."""
        return bool(self._files()) or _is_in_environment()

    def _files(self) -> list[tuple[str, Path]]:
        own = [("user file", user_file())] if user_file().is_file() else []
        return own + [("workspace file", path) for path in workspace_files(self.folder)]

    # --- one file and what it includes -------------------------------------------------------

    def _with_includes(self, path: Path, name: str, above: tuple[Path, ...] = ()) -> list[Layer]:
        from jp_nb.config.layers import includes

        resolved = path.resolve()
        if resolved in above:
            chain = " -> ".join(str(p) for p in (*above[above.index(resolved) :], resolved))
            raise ConfigError(
                f"these files include one another: {chain}", path="extends", layer=name,
                file=str(path),
            )  # fmt: skip
        if len(above) > MAX_DEPTH:
            raise ConfigError("files include files too deeply", path="extends", file=str(path))
        own = self._layer(path, name)
        before: list[Layer] = []
        after: list[Layer] = []
        for include in includes(own):
            part = before if include.strategy == "before" else after
            for found in self._included(path, include.path):
                part += self._with_includes(found, name, (*above, resolved))
        return [*before, own, *after]

    def _included(self, path: Path, pattern: str) -> list[Path]:
        """The files that `pattern` in the file `path` means, sorted."""
        if glob.has_magic(pattern):
            found = glob.glob(pattern, root_dir=path.parent, recursive=True)
            candidates = sorted(path.parent / name for name in found)
            return [p for p in candidates if p.is_file() and p.resolve() != path.resolve()]
        candidate = path.parent / pattern
        with suppress(OSError, ValueError):  # a name that no file can have
            if candidate.is_file():
                return [candidate]
        self._say(f"{path} includes {pattern!r}, which does not exist: it is passed over")
        return []

    def _say(self, notice: str) -> None:
        if notice not in self._said:
            self._said.add(notice)
            self.notices.append(notice)

    def take_notices(self) -> list[str]:
        """What the person should be told since the last call."""
        said, self.notices = self.notices, []
        return said

    def _layer(self, path: Path, name: str) -> Layer:
        from jp_nb.config.layers import from_text

        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            known = self._read.get((path, name))
            if known is None or known[0] != stamp:
                known = stamp, from_text(path.read_text(encoding="utf-8"), name, str(path))
                self._read[path, name] = known
        except (OSError, UnicodeDecodeError) as exc:
            raise ConfigError(f"cannot be read: {exc}", layer=name, file=str(path)) from exc
        return known[1]

    # --- files by name -----------------------------------------------------------------------

    def named(self, name: str, load_paths: list[str]) -> list[Layer]:
        """The layers of the configuration file that `-c NAME` means, weakest first.

        A path to a file is that file. Every other name is searched, with and without a suffix, in
        `load_paths` below the user's configuration folder and below the workspace's; the first
        hit of each counts.

        Raises:
            ConfigError: If there is none, with everywhere it was searched; or it is wrong.
        """
        from jp_nb.config.layers import CONFIG_FILE

        try:
            direct = (self.folder / Path(name.removeprefix("@")).expanduser()).resolve()
            found = direct.is_file()
        except (OSError, RuntimeError, ValueError) as exc:  # no such home, a name no file can have
            raise ConfigError(f"there can be no configuration {name[:80]!r}: {exc}") from exc
        if found:
            return self._with_includes(direct, CONFIG_FILE)
        roots = (user_folder() / "config", self.root)
        hits = [hit for root in roots if (hit := _first(root, name, load_paths)) is not None]
        if name.startswith("@") or not hits:
            places = [str(direct), *(str(root / p / name) for root in roots for p in load_paths)]
            raise ConfigError(
                f"there is no configuration {name!r}; searched: {', '.join(places)} (also with "
                f"{' and '.join(SUFFIXES[1:])}; folders to search are in config_load_paths)",
                kind="value",
            )
        return [layer for hit in hits for layer in self._with_includes(hit, CONFIG_FILE)]

    def claim_names(self, layer: Layer) -> tuple[list[str], str]:
        """What a file goes by in claims, and how people read it: nothing private is in that."""
        path = Path(layer.file or "").resolve()
        identity = layer.partial.get("id")
        named = [f"id:{identity}"] if isinstance(identity, str) else []
        if path.is_relative_to(self.root):
            relative = path.relative_to(self.root).as_posix()
            return [f"file:{relative}", *named], relative
        return [f"file:{path.as_posix()}", *named], "<user-local>"


def _first(root: Path, name: str, load_paths: list[str]) -> Path | None:
    for folder in load_paths:
        for suffix in SUFFIXES:
            candidate = root / folder / f"{name}{suffix}"
            if candidate.is_file():
                return candidate
    return None


def _is_in_environment() -> bool:
    return any(name.startswith(ENVIRONMENT_PREFIX) for name in os.environ)
