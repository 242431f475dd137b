"""Directories of JP on disk."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jp_nb.interop import directories


def load_jp_folder(folder: Path) -> Any:
    """Return the `jp` object of the conversation in `folder`."""
    return directories.load_directory(folder, clock=_now)


def save_jp_folder(jp: Any, folder: Path, dialect: Any = "native") -> Any:
    """Write the conversation of the `jp` object into `folder`."""
    return directories.save_directory(jp, folder, dialect)


def read_jp_folder(folder: Path) -> tuple[dict[str, bytes], list[str]]:
    """Return the files of `folder` that an import reads, and the names of the others."""
    files, skipped = directories.read_files(folder)
    return files, list(skipped)


def _now() -> datetime:
    return datetime.now(UTC)
