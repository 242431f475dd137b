"""The configuration layers that come from files and the environment.

Source: `design/interface.md` section 5.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from jp_nb.config.defaults import ENVIRONMENT_PREFIX
from jp_nb.errors import ConfigError

if TYPE_CHECKING:  # nothing of it is needed where nothing is configured
    from jp_nb.config.layers import Layer


WORKSPACE_FILE = Path(".jp") / "config.toml"


def user_file() -> Path:
    """The user's own configuration file; it need not exist."""
    return platformdirs.user_config_path("jp") / "config.toml"


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
    """Reads the layers for a notebook in `folder`; a file is read again when it changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[Path, tuple[tuple[int, int], Layer]] = {}

    def layers(self) -> list[Layer]:
        """The user's file, workspace files from the root down, the environment.

        Raises:
            ConfigError: If a file or a variable is wrong; `layer` names it.
        """
        found = [self._layer(path) for path in self._files()]
        if not _is_in_environment():
            return found
        from jp_nb.config.layers import from_environment

        return [*found, from_environment(os.environ)]

    def anything(self) -> bool:
        """Whether there is a file or a variable at all."""
        return bool(self._files()) or _is_in_environment()

    def _files(self) -> list[Path]:
        candidates = [user_file(), *workspace_files(self.folder)]
        return [path for path in candidates if path.is_file()]

    def _layer(self, path: Path) -> Layer:
        from jp_nb.config.layers import from_toml

        status = path.stat()
        stamp = (status.st_mtime_ns, status.st_size)
        known = self._read.get(path)
        if known is None or known[0] != stamp:
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as exc:
                raise ConfigError(f"cannot be read: {exc}", layer=str(path)) from exc
            known = (stamp, from_toml(text, str(path)))
            self._read[path] = known
        return known[1]


def _is_in_environment() -> bool:
    return any(name.startswith(ENVIRONMENT_PREFIX) for name in os.environ)
