"""Load JP's conversation directories from the disk.

JP is a command-line assistant. Each of its conversations is a directory with `metadata.json`,
`base_config.json`, and `events.json` (`directory_files.py`).

Source: `docs/record.md`.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import NamedTuple

from jp_nb.errors import StorageError, UsageError
from jp_nb.file_reading import NotRegularFileError, open_regular
from jp_nb.interop.directory_files import (
    DIRECTORY_FILES,
    MAX_DIRECTORY_FILE_BYTES,
    MAX_OTHER_BYTES,
    is_other_name,
    is_temporary,
)
from jp_nb.interop.directory_reader import read_directory
from jp_nb.interop.folder_paths import is_existing_folder, make_possible_path
from jp_nb.json_values import JsonObject
from jp_nb.record.entries.clock import Clock

_NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)


class FolderContent(NamedTuple):
    """The files directly in a folder by name, without temporary files.

    A file of JP that is too large has only the first `MAX_DIRECTORY_FILE_BYTES + 1` bytes.
    `skipped` are the names of folders, links, hidden files, files that are not UTF-8 text, and
    files over the limits.
    """

    files: dict[str, bytes]
    skipped: list[str]


def load_directory(folder: Path, *, clock: Clock) -> JsonObject:
    """Return the `jp` object of the conversation in `folder`; see `directory_reader.py`.

    Raises:
        UsageError: The folder does not exist, or its path is not possible.
        StorageError: The folder contains no conversation, or one that cannot be read.
    """
    if not is_existing_folder(make_possible_path(folder)):
        raise UsageError(f"there is no folder {folder}")

    try:
        files, skipped = read_files(folder)
        name = folder.resolve().name  # `Path(".").name` is empty
        return read_directory(name, files, clock=clock, skipped=skipped)
    except StorageError as exc:
        raise StorageError(f"{folder}: {exc}") from exc


def read_files(folder: Path) -> FolderContent:
    """Read the files directly in `folder`. Links are not followed, because they may lead anywhere.

    Raises:
        StorageError: The folder cannot be read, or one of JP's files is not a regular file.
    """
    files: dict[str, bytes] = {}
    skipped: list[str] = []
    remaining_bytes = MAX_OTHER_BYTES

    try:
        for path in sorted(folder.iterdir()):
            name = path.name
            if name in DIRECTORY_FILES:
                content = read_file(path, MAX_DIRECTORY_FILE_BYTES)
                if content is None:
                    raise StorageError("expected a regular file", place=name)
                files[name] = content
                continue

            if is_temporary(name):
                continue

            content = _read_other_file(path, remaining_bytes)
            if content is None:
                skipped.append(name)
            else:
                files[name] = content
                remaining_bytes -= len(content)
    except OSError as exc:
        raise StorageError(f"{exc.filename or folder}: {exc.strerror or exc}") from exc

    return FolderContent(files, skipped)


def _read_other_file(path: Path, limit: int) -> bytes | None:
    """Return the text of a file that is not JP's; None if a conversation cannot store it."""
    if not limit or not is_other_name(path.name):
        return None

    content = read_file(path, limit)
    if content is None or len(content) > limit:
        return None

    try:
        content.decode()
    except UnicodeDecodeError:
        return None
    return content


def read_file(path: Path, limit: int) -> bytes | None:
    """Return at most `limit + 1` bytes; None if `path` is not a regular file."""
    if not stat.S_ISREG(path.lstat().st_mode):
        return None

    try:
        opened = open_regular(path, os.O_RDONLY | _NO_FOLLOW)
    except NotRegularFileError:
        return None
    except OSError as exc:
        if exc.errno == errno.ELOOP:  # a link has replaced the file since `lstat`
            return None
        raise

    with os.fdopen(opened, "rb") as file:
        return file.read(limit + 1)
