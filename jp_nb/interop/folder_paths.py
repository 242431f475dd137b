"""Check the paths of folders that the user names for an import or an export.

Source: `docs/record.md`.
"""

from __future__ import annotations

from pathlib import Path

from jp_nb.errors import StorageError, UsageError


def find_folder(text: str | Path, below: Path) -> Path:
    """Return the path of a folder: `~` is expanded, and a relative path starts at `below`.

    Raises:
        UsageError: The path is not possible.
    """
    try:
        return make_possible_path(below / Path(text).expanduser())
    except RuntimeError as exc:
        raise UsageError(f"the home directory in {str(text)!r} is unknown") from exc


def make_possible_path(path: Path) -> Path:
    """Return `path`, which may not exist.

    Raises:
        UsageError: It contains NUL, which no file system allows.
    """
    if "\0" in str(path):
        raise UsageError(f"a path cannot contain NUL: {str(path)!r}")
    return path


def is_existing_folder(folder: Path) -> bool:
    """Return True if `folder` exists and is a folder.

    Raises:
        StorageError: The file system cannot tell.
    """
    try:
        return folder.is_dir()
    except OSError as exc:  # a name that is too long, or a parent without permission
        raise StorageError(f"{folder}: {exc.strerror or exc}") from exc
