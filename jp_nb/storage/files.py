"""File locks, ownership of files, and the user's folders.

Configuration, answers files, cassettes, question logs and imported tables are read only if they
are the user's own: the file, its folder and all links on the way belong to the user or root, and
no one else may write there. A group may write if it has no other member. On a system without such
owners (Windows), every file counts as the user's own.

Source: https://platformdirs.readthedocs.io/.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final

import platformdirs

from jp_nb.errors import StorageError

LOCK_TIMEOUT_S: Final = 10.0
"""Seconds for others to finish."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.02

if sys.platform == "win32":
    import msvcrt

    _LOCKABLE = os.O_RDWR

    def _take(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    _LOCKABLE = os.O_RDONLY

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def try_lock(descriptor: int) -> bool:
    """Take the lock of an open file until it is closed; return False if another one has it."""
    try:
        _take(descriptor)
    except (BlockingIOError, PermissionError):
        return False
    return True


@contextmanager
def file_lock(
    path: Path, *, make: bool = True, timeout_s: float = LOCK_TIMEOUT_S
) -> Iterator[None]:
    """Hold the lock of the file at `path`; one process, and one thread of it, at a time.

    Args:
        path: The file; what is in it does not matter.
        make: Make it if there is none. Else, without it there is nothing to wait for.
        timeout_s: Seconds to wait for others.

    Raises:
        StorageError: If another process keeps it.
        OSError: If the file cannot be opened.
    """
    flags = _LOCKABLE | (os.O_RDWR | os.O_CREAT if make else 0)
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags, 0o644)
    except FileNotFoundError:
        if make:
            raise
        yield
        return
    try:
        _wait(descriptor, path, timeout_s)
        yield
    finally:
        os.close(descriptor)  # with it the lock is given back


def _wait(descriptor: int, path: Path, timeout_s: float) -> None:
    """Take the lock when it is free."""
    until, pause = time.monotonic() + timeout_s, _FIRST_PAUSE
    while True:
        try:
            return _take(descriptor)
        except (BlockingIOError, PermissionError):
            if time.monotonic() > until:
                text = f"another process has locked {path} for {timeout_s:g} seconds"
                raise StorageError(text) from None
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


MAX_BYTES: Final = 10_000_000
"""Of a file of configuration, and of any other that names no bound of its own."""

Stamp = tuple[tuple[int, ...], ...]
"""What tells whether a file, or who may change it, is another than before."""

_OPEN_FILE = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)  # no waiting for somebody to write into a named pipe
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_BINARY", 0)
)
_OPEN_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)


class ForeignFileError(Exception):
    """A file that is not read; the message says why, and names the path."""


def is_owned_folder(path: Path) -> bool:
    """Return whether there is a folder at `path`, and it is the user's own."""
    try:
        return path.is_dir() and _why_not(path) is None
    except OSError:  # nobody lets us look
        return False


def stamp(path: Path) -> Stamp:
    """Return the stamp of the file at `path`, its folder, and links to both.

    Raises:
        OSError: If there is none, or it cannot be looked at.
    """
    folders = (os.lstat(path.parent), os.stat(path.parent))
    files = (os.lstat(path), os.stat(path))
    return (
        *((s.st_dev, s.st_ino, s.st_mode, s.st_uid, s.st_gid) for s in (*folders, *files)),
        *((s.st_size, s.st_mtime_ns, s.st_ctime_ns) for s in files),
    )


def read_owned_file(path: Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Read the file at `path`, which is the user's own and has at most `max_bytes`.

    Raises:
        NotOwnError: If it is not, is longer, or is no regular file.
        OSError: If it cannot be read.
    """
    real = path.resolve(strict=True)
    for place in dict.fromkeys((path, path.parent, real.parent)):
        if why := _why_not(place):
            raise ForeignFileError(why)
    # What was looked at is what is read: a path may mean another file a moment later.
    if os.open not in os.supports_dir_fd:
        return _read(os.open(real, _OPEN_FILE), path, max_bytes)
    folder = os.open(real.parent, _OPEN_FOLDER)
    try:
        if why := _why_foreign(os.fstat(folder)):
            raise ForeignFileError(f"{real.parent} {why}")
        return _read(os.open(real.name, _OPEN_FILE, dir_fd=folder), path, max_bytes)
    finally:
        os.close(folder)


def _read(descriptor: int, path: Path, max_bytes: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ForeignFileError(f"{path} is not a file")
        if why := _why_foreign(status):
            raise ForeignFileError(f"{path} {why}")
        found = file.read(max_bytes + 1)
    if len(found) > max_bytes:
        raise ForeignFileError(f"{path} has more than {max_bytes} bytes")
    return found


# --- whose it is -------------------------------------------------------------------------------


def _why_not(path: Path) -> str | None:
    """Say why what is at `path`, or the link there, is not the user's own; None if it is."""
    link, status = os.lstat(path), os.stat(path)
    if stat.S_ISLNK(link.st_mode) and not _is_ours(link):
        return f"{path} is a link that belongs to another user"
    why = _why_foreign(status)
    return f"{path} {why}" if why else None


def _why_foreign(status: os.stat_result) -> str | None:
    if not hasattr(os, "geteuid"):
        return None
    if not _is_ours(status):
        return "belongs to another user"
    if status.st_mode & stat.S_IWOTH:
        return "is writable for everyone (make it private with `chmod go-w`)"
    if status.st_mode & stat.S_IWGRP and not _is_private(status.st_gid):
        return "is writable for its group (make it private with `chmod g-w`)"
    return None


def _is_ours(status: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or status.st_uid in (os.geteuid(), 0)


@lru_cache
def _is_private(group: int) -> bool:
    """Return whether nobody but the user is in `group`: the one of the user's name, or root's."""
    if group == 0:
        return True
    import grp
    import pwd

    try:
        user, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    own = user.pw_gid == group and found.gr_name == user.pw_name
    return own and set(found.gr_mem) <= {user.pw_name}


NOWHERE: Final = Path(os.devnull) / "jp"
"""In place of a folder of who has no home: nothing is there, and nothing can be put there."""


def data_folder() -> Path:
    """Return where keys, consents and journals are; it need not exist."""
    return _found(platformdirs.user_data_path)


def config_folder() -> Path:
    """Return where the user's own configuration is; it need not exist."""
    return _found(platformdirs.user_config_path)


def _found(path: Callable[[str], Path]) -> Path:
    try:
        found = path("jp")
    except RuntimeError:  # containers run as users that the system does not know
        return NOWHERE
    return found if found.is_absolute() else NOWHERE
