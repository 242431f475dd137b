"""`WorkspaceFolder`: the workspace of a notebook, its configuration files, and paths in it.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from contextlib import suppress
from glob import has_magic
from os.path import isfile
from pathlib import Path
from typing import Literal

from jp_nb.storage.configuration.relative_paths import shorten_paths
from jp_nb.storage.files import is_owned_folder
from jp_nb.storage.user_folders import get_config_folder

WORKSPACE_FILE = Path(".jp") / "config.toml"


def get_user_file() -> Path:
    """Return the path of the user's configuration file. It may not exist."""
    return get_config_folder() / "config.toml"


class WorkspaceFolder:
    """The workspace of a notebook in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

        parents = (folder, *folder.parents)
        self._jp_folders = [parent / ".jp" for parent in parents]
        self._possible_files = [parent / WORKSPACE_FILE for parent in reversed(parents)]

    @property
    def root(self) -> Path:
        """Folder of the workspace: the nearest one at or above `folder` with an owned `.jp/`.

        If there is none, it is `folder` itself. It is looked up each time, because a `.jp/` may be
        created meanwhile.
        """
        return next((p.parent for p in self._jp_folders if is_owned_folder(p)), self.folder)

    def list_config_files(self) -> list[Path]:
        """Return the existing `.jp/config.toml` of `folder` and its parents, outermost first."""
        return list(filter(isfile, self._possible_files))

    def find_config_file(self, where: Literal["user", "workspace"]) -> Path:
        """Return the configuration file of the user or of the workspace. It may not exist."""
        return get_user_file() if where == "user" else self.root / WORKSPACE_FILE

    def contains_attachment(self, url: str) -> bool:
        """Return True if the attachment `url` is a file in the workspace.

        Links are followed. A pattern is never inside, because it may match other files later.
        """
        # The schema loads slowly, and only if something is configured.
        from jp_nb.config.tree.attachment_urls import is_path_in_workspace, parse_attachment_url

        if not is_path_in_workspace(url):
            return False
        path = parse_attachment_url(url).path
        if has_magic(path):
            return False

        root = self.root.resolve()
        with suppress(OSError, ValueError, RuntimeError):  # an impossible path
            return (root / path).resolve().is_relative_to(root)

        return False

    def shorten_paths(self, text: str) -> str:
        """Return `text` with paths in the workspace relative to the folder of the notebook."""
        return shorten_paths(text, self.folder, self.root)
