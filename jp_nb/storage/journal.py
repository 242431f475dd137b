"""Journal files of running kernels: append-only, locked, one for each kernel and conversation.

The process that writes a file locks it while the file is open. A file that can be locked was left
by a process that ended.

Source: `docs/record.md`.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Final

from jp_nb.errors import StorageError
from jp_nb.storage.files import data_folder, try_lock

SUFFIX: Final = ".jsonl"


def journal_path() -> Path:
    """Return the folder of the journals, made or not."""
    return data_folder() / "journal"


def has_journals() -> bool:
    """Return whether some kernel left a journal, or has one now."""
    try:
        with os.scandir(journal_path()) as entries:
            return any(entry.name.endswith(SUFFIX) for entry in entries)
    except OSError:  # no folder, or nobody may look into it: who writes there says so
        return False


MAX_JOURNAL_BYTES: Final = 256_000_000
"""Of one file that is read: more than any notebook holds."""
MAX_HEAD_BYTES: Final = 10_000_000
"""Of the first line: what a conversation begins with."""
MAX_AGE_S: Final = 30 * 24 * 3600.0
"""Of a file that nothing came to, and whose notebook nobody opened."""
MAX_ALL_BYTES: Final = 1_000_000_000
"""Of all files that no process has open; the oldest go first."""
MAX_FILES: Final = 16
"""Of one conversation."""
NEW: Final = ".new"
"""Ends the name of what takes the place of a journal; a kernel that is killed may leave one."""
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,80}", re.ASCII)
_OPEN: Final = (
    os.O_RDWR | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
) | getattr(os, "O_NONBLOCK", 0)


class JournalFile:
    """One journal, locked by this process until it is closed.

    Args:
        path: Where it is.
        descriptor: The open file.

    Attributes:
        path: Where it is.
        size: Its bytes.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor
        self.size = os.fstat(descriptor).st_size
        self._is_synced = True
        self._has_old_name = self.size > 0
        _OPEN_FILES.add(self)

    def read(self) -> bytes:
        """Return all of it.

        Raises:
            OSError: If it cannot be read, or is too long.
        """
        if self.size > MAX_JOURNAL_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(self.path))
        os.lseek(self._open, 0, os.SEEK_SET)
        pieces: list[bytes] = []
        while piece := os.read(self._open, 1 << 20):
            pieces.append(piece)
        return b"".join(pieces)

    def first_line(self) -> bytes:
        """Return its first line, without an end; "" if it cannot be read."""
        try:
            return _first_line(self._open)
        except OSError:
            return b""

    def is_of(self, conversation: str) -> bool:
        """Return True if its name is that of a journal of `conversation`."""
        return self.path.name.startswith(f"{file_name(conversation)}.")

    def append(self, data: bytes) -> None:
        """Add `data`: the system has all of it when this returns.

        Raises:
            OSError: If it cannot be written; the file is as it was.
        """
        self._is_synced = False
        try:
            _write(self._open, data)
        except OSError:
            self.cut(self.size)
            raise
        self.size += len(data)

    def cut(self, size: int) -> None:
        """Take away what is behind the first `size` bytes."""
        with suppress(OSError):  # a last line that is torn is passed over
            os.ftruncate(self._open, size)
        self.size = min(self.size, size)

    def sync(self) -> None:
        """Have what was added reach the disk; without anything new this costs nothing.

        Raises:
            OSError: If the disk does not take it.
        """
        if not self._is_synced:
            os.fsync(self._open)
            self._is_synced = True
        if not self._has_old_name:
            _sync_folder(self.path.parent)
            self._has_old_name = True

    def rewrite(self, data: bytes) -> None:
        """Put `data` in place of all that there is: at no moment is neither there.

        Raises:
            OSError: If it cannot be written; the file is as it was.
        """
        beside = self.path.with_suffix(NEW)
        beside.unlink(missing_ok=True)
        made = os.open(beside, _OPEN | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            try_lock(made)
            _write(made, data)
            os.replace(beside, self.path)
        except OSError:
            os.close(made)
            beside.unlink(missing_ok=True)
            raise
        os.close(self._open)
        self._descriptor, self.size = made, len(data)
        self._is_synced = self._has_old_name = False

    def close(self, *, remove: bool = False) -> None:
        """Let others have the file, or `remove` it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        if remove:
            with suppress(OSError):
                self.path.unlink()
        os.close(descriptor)

    def forget(self) -> None:
        """Close the copy that a forked process got: it would keep the lock."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    @property
    def is_open(self) -> bool:
        """True until it is closed."""
        return self._descriptor is not None

    @property
    def _open(self) -> int:
        if self._descriptor is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), str(self.path))
        return self._descriptor


_OPEN_FILES: Final[weakref.WeakSet[JournalFile]] = weakref.WeakSet()


def _after_fork() -> None:
    for file in list(_OPEN_FILES):
        file.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class JournalFolder:
    """The journals of one user.

    Args:
        path: The folder; the user's if it is None.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path

    @cached_property
    def path(self) -> Path:
        """The folder; it need not exist."""
        return self._path or journal_path()

    def exists(self) -> bool:
        """Return whether there may be journals."""
        return self.path.is_dir()

    def create(self, conversation: str, notebook: str = "") -> JournalFile:
        """Return a new journal of `conversation` in the notebook at the path `notebook`.

        Conversations of two notebooks may have one id.

        Raises:
            StorageError: If the folder is not the user's alone, or the conversation has too many.
            OSError: If it cannot be made.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check()
        name = f"{file_name(conversation)}.{_digest(notebook)[:8]}"
        for number in range(MAX_FILES):
            path = self.path / f"{name}.{number}{SUFFIX}"
            with suppress(FileExistsError):
                descriptor = os.open(path, _OPEN | os.O_CREAT | os.O_EXCL, 0o600)
                try:
                    if try_lock(descriptor):
                        return JournalFile(path, descriptor)
                except OSError:  # there are no locks here
                    os.close(descriptor)
                    path.unlink()
                    raise
                os.close(descriptor)
        raise StorageError(f"this conversation already has {MAX_FILES} journals in {self.path}")

    def abandoned(self) -> Iterator[JournalFile]:
        """Yield the journals that no process has open, newest first.

        Each is locked now: close those that are of no use.

        Raises:
            StorageError: If the folder is not the user's alone.
            OSError: If it cannot be looked at.
        """
        self._check()
        for path in self._paths(None):
            if (found := _locked(path)) is not None:
                yield found

    def take(self, path: Path) -> JournalFile | None:
        """Return the journal at `path`, locked; None if another process has it, or it is gone."""
        return _locked(path)

    def open_heads(
        self, conversation: str, *, besides: JournalFile | None = None
    ) -> Iterator[bytes]:
        """Yield the first lines of the journals of `conversation` that processes have open.

        But for one of ours, `besides` which others are looked for.
        """
        for path in self._paths(conversation):
            if besides is None or path != besides.path:
                with suppress(OSError), _opened(path) as descriptor:
                    if not try_lock(descriptor):
                        yield _first_line(descriptor)

    def remove_old(self) -> None:
        """Remove files that are too old, or too many, for anybody to come back to them."""
        kept, oldest = 0, time.time() - MAX_AGE_S
        for written, size, path in self._files(suffixes=(SUFFIX, NEW)):
            kept += size
            is_over = written < oldest * 1e9 or kept > MAX_ALL_BYTES
            if is_over and (found := _locked(Path(path))) is not None:
                found.close(remove=True)

    def _paths(self, conversation: str | None) -> list[Path]:
        """Return the files of `conversation`, or all, newest first."""
        begins = "" if conversation is None else f"{file_name(conversation)}."
        return [Path(path) for _, _, path in self._files(begins)]

    def _files(
        self, begins: str = "", suffixes: tuple[str, ...] = (SUFFIX,)
    ) -> list[tuple[int, int, str]]:
        """Return when, in nanoseconds, files were written, their bytes and paths; newest first."""
        found = []
        with os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.startswith(begins) and entry.name.endswith(suffixes):
                    with suppress(FileNotFoundError):  # its kernel removed it meanwhile
                        status = entry.stat(follow_symlinks=False)
                        found.append((status.st_mtime_ns, status.st_size, entry.path))
        return sorted(found, reverse=True)

    def _check(self) -> None:
        status = self.path.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise StorageError(f"{self.path} is not a folder")
        if why := _why_not_private(status):
            raise StorageError(f"{self.path} {why}: make it private (`chmod 700`)")


def file_name(conversation: str) -> str:
    """Return the beginning of the names of a conversation's files: its id, if that is a name."""
    if _NAME.fullmatch(conversation):
        return conversation
    return _digest(conversation)


def file_identity(notebook: str) -> str:
    """Return what a file keeps when it is renamed, and no copy of it has; "" if there is none."""
    try:
        status = os.stat(notebook)
    except (OSError, ValueError):
        return ""
    return f"{status.st_dev}:{status.st_ino}" if stat.S_ISREG(status.st_mode) else ""


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, _OPEN)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _locked(path: Path) -> JournalFile | None:
    """Open and lock the file at `path`; None if a process has it, it is gone or not the user's."""
    try:
        descriptor = os.open(path, _OPEN)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        own = stat.S_ISREG(status.st_mode) and not _why_not_private(status)
        if own and try_lock(descriptor) and os.path.samestat(status, os.lstat(path)):
            return JournalFile(path, descriptor)
    except OSError:  # it was removed meanwhile
        pass
    os.close(descriptor)
    return None


def _why_not_private(status: os.stat_result) -> str | None:
    if not hasattr(os, "geteuid"):
        return None
    if status.st_uid != os.geteuid():
        return "belongs to another user"
    return "is accessible to other users" if status.st_mode & _OTHERS else None


def _sync_folder(path: Path) -> None:
    """Have the names in a folder reach the disk, where folders can be opened."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _first_line(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    found = b""
    while b"\n" not in found and len(found) <= MAX_HEAD_BYTES:
        piece = os.read(descriptor, 1 << 14)
        if not piece:
            break
        found += piece
    return found.partition(b"\n")[0]


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
