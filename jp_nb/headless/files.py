"""Notebook files, read and written so that none is ever half there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat

from jp_nb.errors import StorageError, UsageError
from jp_nb.file_writing import replace_file, write_target


def existing_notebook(path: Path) -> Path:
    """Return `path`.

    Raises:
        UsageError: If there is no file.
    """
    if not os.path.isfile(path):
        raise UsageError(f"there is no notebook {path}")
    return path


def read_notebook(path: Path) -> Any:
    """Return the notebook at `path`, as nbformat has it.

    Raises:
        StorageError: If there is no file or it is no notebook.
    """
    try:
        text = path.read_text(encoding="utf-8")
        return nbformat.reads(text, as_version=4)
    except OSError as exc:
        raise StorageError(f"{path}: {exc.strerror or exc}") from exc
    except Exception as exc:  # nbformat raises whatever the file provokes
        raise StorageError(f"{path} is not a notebook: {exc}") from exc


def write_notebook(notebook: Any, path: Path) -> None:
    """Replace the file at `path` by `notebook`, at once or not at all.

    Raises:
        StorageError: If it cannot be written; the old file is as it was.
    """
    text = nbformat.writes(notebook)
    # Half a surrogate pair is legal in a JSON escape, but not in UTF-8.
    data = text.encode("utf-8", "backslashreplace")
    write_whole(path, data if data.endswith(b"\n") else data + b"\n")


def refuse_unsafe_link(path: Path) -> None:
    """Raise `StorageError` if nothing can be written to `path` because of a link.

    Asked before a long run, so that its result is not lost.
    """
    try:
        write_target(path)
    except OSError as exc:
        raise StorageError(f"{path} cannot be written: {exc.strerror}") from exc


def write_whole(path: Path, data: bytes, *, folders: bool = False) -> None:
    """Replace the file at `path` by `data`, at once or not at all; make its `folders` if need be.

    Raises:
        StorageError: If it cannot be written; the old file is as it was.
    """
    try:
        if folders:
            path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
    except OSError as exc:
        raise StorageError(f"{path} cannot be written: {exc.strerror or exc}") from exc
