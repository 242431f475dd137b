"""One journal file: open, lock, read, append, sync, replace.

The kernel that writes a journal keeps it open and locked. If another process can lock the file
(`take_journal`), that kernel has ended, and the file may be recovered or removed. The lines are
those of `journal_format.py`. The names of the files are the business of `journal_folder.py`.

Source: `docs/record.md` (the journal).
"""

from __future__ import annotations

import errno
import os
import stat
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Final

from jp_nb.file_reading import open_regular
from jp_nb.file_writing import sync_folder
from jp_nb.storage.file_locks import try_lock
from jp_nb.storage.journals.journal_format import JournalHeader, read_journal_header

MAX_JOURNAL_BYTES: Final = 256_000_000
"""Maximum size of a file that is read. It is larger than any notebook."""
MAX_HEADER_BYTES: Final = 10_000_000
"""Limit of the first line, which describes the conversation."""
NEW_SUFFIX: Final = ".new"
"""Suffix of a temporary file that replaces a journal. A killed kernel may leave one behind."""
_OTHER_USERS: Final = stat.S_IRWXG | stat.S_IRWXO
_OPEN_FLAGS: Final = (
    os.O_RDWR
    | os.O_APPEND
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NONBLOCK", 0)
)


class JournalFile:
    """An open journal file, locked by this process until `close`.

    Attributes:
        size: Size of the file in bytes.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor  # None after `close`
        self.size = os.fstat(descriptor).st_size

        # False if the content, or the name of a new file in its folder, may not be on the disk.
        self._is_synced = True
        self._is_name_synced = self.size > 0
        _OPEN_FILES.add(self)

    def read(self) -> bytes:
        """Return the content.

        Raises:
            OSError: The file cannot be read, or is longer than `MAX_JOURNAL_BYTES`.
        """
        if self.size > MAX_JOURNAL_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(self.path))

        os.lseek(self._open_descriptor, 0, os.SEEK_SET)
        pieces: list[bytes] = []
        while piece := os.read(self._open_descriptor, 1 << 20):
            pieces.append(piece)
        return b"".join(pieces)

    def read_header(self) -> JournalHeader | None:
        """Return the header; None if it is invalid, or the file cannot be read."""
        with suppress(OSError):
            return read_journal_header(_read_first_line(self._open_descriptor))
        return None

    def append(self, data: bytes) -> None:
        """Append `data`, without fsync.

        Raises:
            OSError: The data cannot be written. The file is unchanged.
        """
        self._is_synced = False
        try:
            _write(self._open_descriptor, data)
        except OSError:
            self.cut(self.size)
            raise

        self.size += len(data)

    def cut(self, size: int) -> None:
        """Truncate the file to `size` bytes."""
        with suppress(OSError):  # a reader ignores an incomplete last line
            os.ftruncate(self._open_descriptor, size)
        self.size = min(self.size, size)

    def sync(self) -> None:
        """Write appended data and a new file name to the disk (fsync).

        Raises:
            OSError: The data cannot be written.
        """
        if not self._is_synced:
            os.fsync(self._open_descriptor)
            self._is_synced = True

        if not self._is_name_synced:
            sync_folder(self.path.parent)
            self._is_name_synced = True

    def rewrite(self, data: bytes) -> None:
        """Replace the content atomically.

        Raises:
            OSError: The data cannot be written. The file is unchanged.
        """
        if not self.size:  # an empty file has no content that could be lost
            self.append(data)
            return

        replacement = self.path.with_suffix(NEW_SUFFIX)
        replacement.unlink(missing_ok=True)
        new_descriptor = os.open(replacement, _OPEN_FLAGS | os.O_CREAT | os.O_EXCL, 0o600)

        try:
            try_lock(new_descriptor)  # before it has the name under which others look for it
            _write(new_descriptor, data)
            os.replace(replacement, self.path)
        except OSError:
            os.close(new_descriptor)
            replacement.unlink(missing_ok=True)
            raise

        os.close(self._open_descriptor)
        self._descriptor = new_descriptor
        self.size = len(data)
        self._is_synced = False
        self._is_name_synced = False

    def close(self, *, remove: bool = False) -> None:
        """Close and unlock the file; with `remove`, delete it first."""
        descriptor = self._descriptor
        self._descriptor = None

        if descriptor is None:
            return
        if remove:
            with suppress(OSError):
                self.path.unlink()

        os.close(descriptor)

    @property
    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), str(self.path))
        return self._descriptor


_OPEN_FILES: Final[weakref.WeakSet[JournalFile]] = weakref.WeakSet()


def _close_in_forked_child() -> None:
    """Close all journals in a child of `os.fork`, whose descriptors would keep the locks."""
    for file in list(_OPEN_FILES):
        file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_forked_child)


def create_journal(path: Path) -> JournalFile | None:
    """Create and lock a new journal. Return None if another process locked it at once.

    Such a process searches for journals of ended kernels (`take_journal`).

    Raises:
        FileExistsError: There is a file at `path`.
        OSError: The file cannot be created, or the file system has no locks.
    """
    descriptor = os.open(path, _OPEN_FLAGS | os.O_CREAT | os.O_EXCL, 0o600)

    try:
        if try_lock(descriptor):
            return JournalFile(path, descriptor)
    except OSError:  # the file system has no locks
        os.close(descriptor)
        path.unlink()
        raise

    os.close(descriptor)
    return None


def take_journal(path: Path) -> JournalFile | None:
    """Open and lock a journal; None if a process has it, it is gone, or it is not private."""
    try:
        descriptor = open_regular(path, _OPEN_FLAGS)
    except OSError:
        return None

    try:
        status = os.fstat(descriptor)
        is_private = not find_access_problem(status)
        # Another process may have replaced or removed the file before it was locked.
        if is_private and try_lock(descriptor) and os.path.samestat(status, os.lstat(path)):
            return JournalFile(path, descriptor)
    except OSError:  # it was removed
        pass

    os.close(descriptor)
    return None


def read_header_if_open(path: Path) -> JournalHeader | None:
    """Return the header of a journal that a process has open; None if no process has.

    An invalid or unreadable file has no header.
    """
    with suppress(OSError), open(open_regular(path, _OPEN_FLAGS), "rb", buffering=0) as file:
        if not try_lock(file.fileno()):
            return read_journal_header(_read_first_line(file.fileno()))
    return None


def find_access_problem(status: os.stat_result) -> str | None:
    """Return the reason why a file or folder is not private to the user; None if it is."""
    if not hasattr(os, "geteuid"):
        return None
    if status.st_uid != os.geteuid():
        return "belongs to another user"
    if status.st_mode & _OTHER_USERS:
        return "is accessible to other users"
    return None


def _read_first_line(descriptor: int) -> bytes:
    """Return the first line of a file; the beginning of one that exceeds `MAX_HEADER_BYTES`."""
    os.lseek(descriptor, 0, os.SEEK_SET)

    beginning = b""
    while b"\n" not in beginning and len(beginning) <= MAX_HEADER_BYTES:
        piece = os.read(descriptor, 1 << 14)
        if not piece:
            break
        beginning += piece
    return beginning.partition(b"\n")[0]


def _write(descriptor: int, data: bytes) -> None:
    """Write all of `data`: one `os.write` may write only a part."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
