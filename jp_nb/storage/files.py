"""Ownership of files: read a file only if no other user can have written it.

Configuration, answers files, cassettes, question logs and imported tables are read only if they
are owned: the file, its folder, and each link that leads to either belong to the user or root, and
no other user may write to them. A group may write if the user is its only member. On Windows, which
has no such owners, every file counts as owned.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from jp_nb.file_reading import NotRegularFileError, open_regular

MAX_OWNED_FILE_BYTES: Final = 10_000_000
"""Size limit of configuration files, and the default limit of `read_owned_file`."""

Stamp = tuple[tuple[int, ...], ...]
"""Identity, permissions, size, and times of a file: it changes when the file or its access does."""

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_OPEN_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)


class ForeignFileError(Exception):
    """A file was not read: it is not owned, is not a regular file, or is too long.

    The message gives the path and the reason.
    """


def is_owned_folder(path: Path) -> bool:
    """Return True if `path` is an owned folder. The folders above it are not checked."""
    try:
        return path.is_dir() and not any(map(_find_problem_at, _follow_links(path)))
    except OSError:  # no permission to look
        return False


def make_stamp(path: Path) -> Stamp:
    """Return the stamp of the file at `path`, its folder, and links to both.

    Raises:
        OSError: The file does not exist or cannot be accessed.
    """
    folders = (os.lstat(path.parent), os.stat(path.parent))
    files = (os.lstat(path), os.stat(path))
    return (
        *((s.st_dev, s.st_ino, s.st_mode, s.st_uid, s.st_gid) for s in (*folders, *files)),
        *((s.st_size, s.st_mtime_ns, s.st_ctime_ns) for s in files),
    )


def read_owned_file(path: Path, *, max_bytes: int = MAX_OWNED_FILE_BYTES) -> bytes:
    """Read an owned file of at most `max_bytes`.

    Raises:
        ForeignFileError: The file is not owned, is too long, or is not a regular file.
        OSError: The file cannot be read.
    """
    real = Path(os.path.realpath(path, strict=True))

    if problem := describe_foreign(path):
        raise ForeignFileError(problem)

    # A moment later, the path may lead to another file. So the opened folder and the opened file
    # are checked again. Windows cannot open a file relative to an open folder.
    if os.open not in os.supports_dir_fd:
        return _read(_open(real, path), path, max_bytes)

    folder = os.open(real.parent, _OPEN_FOLDER)
    try:
        if problem := _find_status_problem(os.fstat(folder)):
            raise ForeignFileError(f"{real.parent} {problem}")
        return _read(_open(Path(real.name), path, folder=folder), path, max_bytes)
    finally:
        os.close(folder)


def _open(real: Path, path: Path, *, folder: int | None = None) -> int:
    """Open `real`, the file that `path` leads to. It is relative to the open `folder`, if any."""
    try:
        return open_regular(real, os.O_RDONLY | _NO_FOLLOW, folder=folder)
    except NotRegularFileError as exc:
        raise ForeignFileError(f"{path} is not a file") from exc


def _read(descriptor: int, path: Path, max_bytes: int) -> bytes:
    """Check, read, and close the opened file; `path` names it in errors."""
    with os.fdopen(descriptor, "rb") as file:
        if problem := _find_status_problem(os.fstat(descriptor)):
            raise ForeignFileError(f"{path} {problem}")
        content = file.read(max_bytes + 1)

    if len(content) > max_bytes:
        raise ForeignFileError(f"{path} has more than {max_bytes} bytes")
    return content


# --- ownership ---------------------------------------------------------------------------------


def _follow_links(path: Path) -> Iterator[Path]:
    """Yield `path`; if it is a link, also each path that the link leads to."""
    yield path
    while path.is_symlink():
        path = path.parent / os.readlink(path)
        yield path


def describe_foreign(path: Path) -> str | None:
    """Return the reason why the file or folder at `path` is not owned; None if it is.

    Raises:
        OSError: There is none, or it cannot be examined.
    """
    for link in _follow_links(path):
        for checked in (link, *_follow_links(link.parent)):
            if problem := _find_problem_at(checked):
                return problem
    return None


def _find_problem_at(path: Path) -> str | None:
    """Return the reason why the file, folder, or link itself is not owned; None if it is.

    The permissions of a link have no meaning, so only its owner counts.
    """
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return None if _is_ours(status) else f"{path} is a link that belongs to another user"

    problem = _find_status_problem(status)
    return f"{path} {problem}" if problem else None


def _find_status_problem(status: os.stat_result) -> str | None:
    """Return the reason why another user may have written a file or folder, or None."""
    if not hasattr(os, "geteuid"):  # Windows
        return None

    if not _is_ours(status):
        return "belongs to another user"
    if status.st_mode & stat.S_IWOTH:
        return "is writable for everyone (make it private with `chmod go-w`)"
    if status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_gid):
        return "is writable for its group (make it private with `chmod g-w`)"
    return None


def _is_ours(status: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or status.st_uid in (os.geteuid(), 0)


@lru_cache
def _is_private_group(group: int) -> bool:
    """Return True if the user is the only member, or if it is root's group.

    The user's group must have the user's name. Other groups may have members that are not listed.
    """
    if group == 0:
        return True
    import grp
    import pwd

    try:
        user = pwd.getpwuid(os.geteuid())
        found = grp.getgrgid(group)
    except KeyError:
        return False

    own = user.pw_gid == group and found.gr_name == user.pw_name
    return own and set(found.gr_mem) <= {user.pw_name}
