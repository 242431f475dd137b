"""Read and write notebook files, and other files of headless runs.

Source: `docs/ci.md`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat

from jp_nb.errors import StorageError, UsageError
from jp_nb.file_reading import MAX_NOTEBOOK_BYTES, read_regular
from jp_nb.file_writing import replace_file, resolve_write_target


def require_notebook(path: Path) -> Path:
    """Return `path`.

    Raises:
        UsageError: The file does not exist.
    """
    if not os.path.isfile(path):
        raise UsageError(f"there is no notebook {path}")
    return path


def read_notebook(path: Path) -> Any:
    """Read the notebook at `path` with nbformat.

    Raises:
        StorageError: It cannot be read, or is no notebook.
    """
    try:
        text = read_regular(path, max_bytes=MAX_NOTEBOOK_BYTES).decode("utf-8")
        return nbformat.reads(text, as_version=4)
    except OSError as exc:
        raise StorageError(f"{path}: {exc.strerror or exc}") from exc
    except Exception as exc:  # nbformat raises whatever the file provokes
        raise StorageError(f"{path} is not a notebook: {exc}") from exc


def write_notebook(notebook: Any, path: Path) -> None:
    """Replace the file at `path` atomically with `notebook`.

    Raises:
        StorageError: It cannot be written.
    """
    text = nbformat.writes(notebook)
    # Half a surrogate pair is legal in a JSON escape, but not in UTF-8.
    data = text.encode("utf-8", "backslashreplace")
    if not data.endswith(b"\n"):
        data += b"\n"
    replace_file_at(path, data)


def refuse_unsafe_target(path: Path) -> None:
    """Check that `path` is no link, or one that `resolve_write_target` follows.

    Raises:
        StorageError: It is an unsafe link, such as one of another user.
    """
    try:
        resolve_write_target(path)
    except OSError as exc:
        raise StorageError(f"{path} cannot be written: {exc.strerror or exc}") from exc


def replace_file_at(path: Path, data: bytes, *, folders: bool = False) -> None:
    """Replace the file at `path` atomically with `data`; `folders` creates missing folders.

    Raises:
        StorageError: It cannot be written.
    """
    try:
        if folders:
            path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
    except OSError as exc:
        raise StorageError(f"{path} cannot be written: {exc.strerror or exc}") from exc
