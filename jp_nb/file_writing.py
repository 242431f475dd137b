"""Writing files beside a notebook, so that no link leads elsewhere and no file is ever half there.

A folder from someone else may hold links. What is written goes through a link only if it is the
user's own and leads to an existing file of the same kind in the same folder; see `write_target`.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

MAX_LINKS: Final = 40
_SAFELY: Final = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
_DEVICES: Final = ("/dev", "/proc")
"""Folders whose links are the system's: `/dev/stdout` leads to a pipe or a file of the shell."""


def resolve_write_target(path: Path, *, folder: Path | None = None) -> Path:
    """Return the file to write for `path`: itself, or where a safe link leads.

    A link is safe if it belongs to the user (or root) and leads to an existing file with the same
    suffix in the folder, or below.

    Args:
        path: The file; it need not exist.
        folder: The folder that the file has to be in, if its path says that it is; None: the one
            that its path names.

    Raises:
        OSError: If a link is not safe. The message says where it leads, and what to do.
    """
    path = Path(os.path.abspath(path))
    if str(path).startswith(tuple(f"{place}{os.sep}" for place in _DEVICES)):
        return path
    if folder is None or not path.is_relative_to(os.path.abspath(folder)):
        folder = path.parent
    target = path
    for _ in range(MAX_LINKS):
        if not target.is_symlink():
            break
        if not _is_ours(target.lstat()):
            raise _unsafe(path, f"{target} is a link that belongs to another user")
        target = target.parent / os.readlink(target)
    if target != path:
        target = Path(os.path.normpath(target.parent.resolve() / target.name))
        if not target.is_file():
            raise _unsafe(path, f"it is a link to {target}, which does not exist")
        if target.suffix != path.suffix:
            raise _unsafe(path, f"it is a link to {target}, a file of another type")
    if not target.parent.resolve().is_relative_to(folder.resolve()):
        raise _unsafe(path, f"a link points to {target.resolve()}, outside of {folder}")
    return target


def open_file(path: Path, flags: int, mode: int = 0o666, *, folder: Path | None = None) -> int:
    """Open the file at `path` to write, as `os.open` does; arguments as for `write_target`.

    Raises:
        OSError: If it cannot be opened, a link there is not safe, or it is no regular file.
    """
    target = resolve_write_target(path, folder=folder)
    descriptor = os.open(target, flags | _SAFELY, mode)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is a device, a pipe or a folder", str(path))
    return descriptor


def replace_file(
    path: Path, data: bytes, *, mode: int | None = None, folder: Path | None = None
) -> None:
    """Replace the content of the file at `path` by `data`: all of it or nothing.

    Args:
        path: The file; it need not exist. A safe link stays a link. A device or a pipe is written
            to: root, who may replace it, would have no `/dev/null` any more.
        data: The new content.
        mode: Its permissions. None: those it has, for a new one those of other new files.
        folder: As for `write_target`.

    Raises:
        OSError: If it cannot be written, or a link there is not safe; the old file is as it was.
    """
    path = resolve_write_target(path, folder=folder)
    # `/dev/stdout` is a link, perhaps to a regular file: what is there already stays.
    if is_stream(path) or path.is_symlink():
        with path.open("ab") as stream:
            stream.write(data)
        return
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _mode_of(path) if mode is None else mode)
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)  # of a file that could not be replaced


def is_stream(path: Path) -> bool:
    """Return True if `path` leads to a device or a pipe, such as `/dev/null` and `/dev/stdout`."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _unsafe(path: Path, why: str) -> OSError:
    text = f"{why}; remove the link, or name the target file"
    return OSError(errno.ELOOP, text, str(path))


def _is_ours(status: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or status.st_uid in (os.geteuid(), 0)


def _mode_of(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o7777
    except FileNotFoundError:
        mask = os.umask(0o022)
        os.umask(mask)
        return 0o666 & ~mask
