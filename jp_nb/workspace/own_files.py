"""Files that decide something: what other users put there, or could change, is not read.

So are read configuration, answers files, cassettes, the log of questions and imported tables.

The user's own is what belongs to the user or to root and what nobody else may write: the file,
the folder it is in, and links on the way to it. A group may write if nobody else is in it. Where a
system has no such owners (Windows), every file counts.
"""

from __future__ import annotations

import os
import stat
from functools import lru_cache
from pathlib import Path
from typing import Final

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


class NotOwnError(Exception):
    """A file that is not read; the message says why, and names the path."""


def is_own_folder(path: Path) -> bool:
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


def read_own(path: Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Read the file at `path`, which is the user's own and has at most `max_bytes`.

    Raises:
        NotOwnError: If it is not, is longer, or is no regular file.
        OSError: If it cannot be read.
    """
    real = path.resolve(strict=True)
    for place in dict.fromkeys((path, path.parent, real.parent)):
        if why := _why_not(place):
            raise NotOwnError(why)
    # What was looked at is what is read: a path may mean another file a moment later.
    if os.open not in os.supports_dir_fd:
        return _read(os.open(real, _OPEN_FILE), path, max_bytes)
    folder = os.open(real.parent, _OPEN_FOLDER)
    try:
        if why := _why_foreign(os.fstat(folder)):
            raise NotOwnError(f"{real.parent} {why}")
        return _read(os.open(real.name, _OPEN_FILE, dir_fd=folder), path, max_bytes)
    finally:
        os.close(folder)


def _read(descriptor: int, path: Path, max_bytes: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NotOwnError(f"{path} is not a file")
        if why := _why_foreign(status):
            raise NotOwnError(f"{path} {why}")
        found = file.read(max_bytes + 1)
    if len(found) > max_bytes:
        raise NotOwnError(f"{path} has more than {max_bytes} bytes")
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
