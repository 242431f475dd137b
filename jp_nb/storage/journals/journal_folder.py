"""The folder of all journals of a user: names, creation, abandoned journals, removal of old ones.

Each kernel has one journal for each of its conversations. The name of a file has the conversation's
id, a digest of the notebook's path, and a number, such as `jp-c17738399468.5f2a9c01.0.jsonl`. The
journals themselves are in `journal_file.py`.

Source: `docs/record.md` (the journal).
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Final

from jp_nb.errors import StorageError
from jp_nb.storage.journals.journal_file import (
    NEW_SUFFIX,
    JournalFile,
    create_journal,
    find_access_problem,
    read_header_if_open,
    take_journal,
)
from jp_nb.storage.journals.journal_format import JournalHeader
from jp_nb.storage.user_folders import get_data_folder

JOURNAL_SUFFIX: Final = ".jsonl"
MAX_JOURNAL_AGE_S: Final = 30 * 24 * 3600.0
"""An unused file is removed after this time without a write."""
MAX_ALL_JOURNAL_BYTES: Final = 1_000_000_000
"""Limit for all files together. The oldest unused files are removed first."""
REMOVE_EVERY: Final = 32
"""Old files are removed before the first new file of a kernel, and then before each 32nd."""
MAX_JOURNAL_FILES: Final = 16
"""Maximum number of files of one conversation in one notebook."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,80}", re.ASCII)


class JournalFolder:
    """Folder of journals, by default in the user's data folder."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._created = 0

    @cached_property
    def path(self) -> Path:
        """Path of the folder. It may not exist."""
        return self._path or get_data_folder() / "journal"

    def has_journals(self) -> bool:
        """Return True if there is a journal of any kernel, running or ended."""
        try:
            with os.scandir(self.path) as entries:
                return any(entry.name.endswith(JOURNAL_SUFFIX) for entry in entries)
        except OSError:  # no folder, or no permission, which a later write reports
            return False

    def create(self, conversation: str, notebook: str = "") -> JournalFile:
        """Create a journal of `conversation`, and remove old ones at times (`REMOVE_EVERY`).

        `notebook` is the notebook's path. It is part of the file name, because conversations of two
        notebooks may have the same id.

        Raises:
            StorageError: The folder is not private, or the conversation has `MAX_JOURNAL_FILES`
                journals.
            OSError: The file cannot be created.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check_is_private()

        if self._created % REMOVE_EVERY == 0:
            self.remove_old()
        self._created += 1

        name = f"{make_file_name(conversation)}.{_digest(notebook)[:8]}"
        for number in range(MAX_JOURNAL_FILES):
            path = self.path / f"{name}.{number}{JOURNAL_SUFFIX}"
            with suppress(FileExistsError):
                # None if another kernel, which looks for abandoned journals, locked it at once.
                if (made := create_journal(path)) is not None:
                    return made

        raise StorageError(
            f"this conversation already has {MAX_JOURNAL_FILES} journals in {self.path}"
        )

    def take_abandoned(self) -> Iterator[JournalFile]:
        """Lock and yield the journals that no process has open, newest first.

        Their kernels have ended. The caller closes them.

        Raises:
            StorageError: The folder is not private.
            OSError: The folder cannot be read.
        """
        if not os.path.lexists(self.path):
            return

        self._check_is_private()
        for _, _, path in self._list_files():
            if (found := take_journal(path)) is not None:
                yield found

    def read_open_headers(
        self, conversation: str, *, besides: JournalFile | None = None
    ) -> Iterator[JournalHeader]:
        """Yield the headers of the journals of `conversation` that a process has open.

        `besides`, the caller's own journal, is omitted.

        Raises:
            OSError: The folder cannot be read.
        """
        for _, _, path in self._list_files(f"{make_file_name(conversation)}."):
            if besides is not None and path == besides.path:
                continue
            if (header := read_header_if_open(path)) is not None:
                yield header

    def remove_old(self) -> None:
        """Remove unused files that are too old, or that exceed `MAX_ALL_JOURNAL_BYTES` together.

        Raises:
            OSError: The folder cannot be read.
        """
        total_bytes = 0
        oldest_ns = (time.time() - MAX_JOURNAL_AGE_S) * 1e9

        for written_ns, size, path in self._list_files(suffixes=(JOURNAL_SUFFIX, NEW_SUFFIX)):
            total_bytes += size
            is_over = written_ns < oldest_ns or total_bytes > MAX_ALL_JOURNAL_BYTES
            if is_over and (found := take_journal(path)) is not None:
                found.close(remove=True)

    def _list_files(
        self, begins: str = "", suffixes: tuple[str, ...] = (JOURNAL_SUFFIX,)
    ) -> list[tuple[int, int, Path]]:
        """Return modification time in ns, size in bytes, and path of files, newest first."""
        found = []

        with os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.startswith(begins) and entry.name.endswith(suffixes):
                    with suppress(FileNotFoundError):  # its kernel has just removed it
                        status = entry.stat(follow_symlinks=False)
                        found.append((status.st_mtime_ns, status.st_size, Path(entry.path)))

        return sorted(found, reverse=True)

    def _check_is_private(self) -> None:
        status = self.path.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise StorageError(f"{self.path} is not a folder")
        if why := find_access_problem(status):
            raise StorageError(f"{self.path} {why}: make it private (`chmod 700`)")


def make_file_name(conversation: str) -> str:
    """Return the prefix of a conversation's file names: its id, or a digest of an unusual id."""
    if _NAME.fullmatch(conversation):
        return conversation
    return _digest(conversation)


def get_file_identity(notebook: str) -> str:
    """Return device and inode, which a rename keeps and a copy changes; "" if there is no file."""
    try:
        status = os.stat(notebook)
    except (OSError, ValueError):
        return ""
    return f"{status.st_dev}:{status.st_ino}" if stat.S_ISREG(status.st_mode) else ""


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()
