"""Write files safely: atomic replacement, and no writing through unsafe links.

A folder from someone else may contain links. A link is only followed if it belongs to the user and
leads to an existing file of the same kind in the same folder: see `resolve_write_target`.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

MAX_FOLLOWED_LINKS: Final = 40
_SAFE_FLAGS: Final = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)  # some platforms lack some of these flags
_DEVICES: Final = ("/dev/", "/proc/")
"""Folders of the system, whose links are followed. `/dev/stdout` is a link to a pipe or a file."""
_SHARED_MEMORY: Final = ("/dev/shm/",)
"""A folder with files of users, so its links are checked as elsewhere."""


def resolve_write_target(path: Path, *, folder: Path | None = None) -> Path:
    """Return the file to write for `path`, which need not exist: itself, or the target of a link.

    A link is safe if it belongs to the user (or root) and leads to an existing file with the same
    suffix in `folder`, or below. A `folder` that does not contain `path` has no effect; the folder
    of `path` counts. A path of a device, below `/dev` or `/proc`, stays as it is.

    Raises:
        OSError: If a link is not safe. The message has its target and the remedy.
    """
    path = Path(os.path.abspath(path))
    if _is_below(path, _DEVICES) and not _is_below(path, _SHARED_MEMORY):
        return path
    if folder is None or not path.is_relative_to(os.path.abspath(folder)):
        folder = path.parent

    target = path
    for _ in range(MAX_FOLLOWED_LINKS):
        if not target.is_symlink():
            break
        if not _belongs_to_user(target.lstat()):
            raise _make_unsafe_link_error(path, f"{target} is a link that belongs to another user")
        target = target.parent / os.readlink(target)

    if target != path:
        target = Path(os.path.normpath(target.parent.resolve() / target.name))
        if not target.is_file():
            raise _make_unsafe_link_error(path, f"it is a link to {target}, which does not exist")
        if target.suffix != path.suffix:
            raise _make_unsafe_link_error(path, f"it is a link to {target}, a file of another type")

    if not target.parent.resolve().is_relative_to(folder.resolve()):
        raise _make_unsafe_link_error(
            path, f"a link points to {target.resolve()}, outside of {folder}"
        )

    return target


def _is_below(path: Path, folders: tuple[str, ...]) -> bool:
    return path.as_posix().startswith(folders)


def open_file(path: Path, flags: int, mode: int = 0o666, *, folder: Path | None = None) -> int:
    """Open the file at `path` for writing, as `os.open` does. See `resolve_write_target`.

    Raises:
        OSError: If it cannot be opened, a link is not safe, or it is not a regular file.
    """
    target = resolve_write_target(path, folder=folder)
    descriptor = os.open(target, flags | _SAFE_FLAGS, mode)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is a device, a pipe, or a folder", str(path))
    return descriptor


def replace_file(
    path: Path, data: bytes, *, mode: int | None = None, folder: Path | None = None
) -> None:
    """Replace the content of the file at `path` atomically.

    A safe link stays a link (`resolve_write_target`). A device or a pipe is written to, because a
    replaced `/dev/null` would no longer be a device. Without `mode`, the file keeps its
    permissions, and a new one has the default.

    Raises:
        OSError: If it cannot be written, or a link is not safe. The old file is not changed.
    """
    path = resolve_write_target(path, folder=folder)
    # Below `/dev` and `/proc`, links are not resolved. `/dev/stdout` may be a link to the file to
    # which the shell redirects the output: append to this file.
    is_link_to_output = path.is_symlink()
    if is_stream(path) or is_link_to_output:
        with path.open("ab") as stream:
            stream.write(data)
        return

    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new_mode = _read_mode(path) if mode is None else mode
        os.chmod(name, new_mode)
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)  # left over if the file could not be replaced


def sync_folder(path: Path) -> None:
    """Flush the names of a folder's files to the disk, on systems that can open a folder."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def is_stream(path: Path) -> bool:
    """Return True if `path` leads to a device or a pipe, such as `/dev/null` or `/dev/stdout`."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _make_unsafe_link_error(path: Path, reason: str) -> OSError:
    text = f"{reason}; remove the link, or name the target file"
    return OSError(errno.ELOOP, text, str(path))


def _belongs_to_user(status: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or status.st_uid in (os.geteuid(), 0)


def _read_mode(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o7777
    except FileNotFoundError:
        mask = os.umask(0o022)
        os.umask(mask)
        return 0o666 & ~mask
