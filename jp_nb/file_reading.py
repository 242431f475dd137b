"""Open and read regular files only, without waiting.

A folder from someone else may contain a named pipe, a socket, a device, or a file without an end,
under the name of any file that `jp_nb` looks for. Opening a pipe waits for a writer, and reading a
device may never end. So this module opens each file whose name the user has not typed.

Source: `docs/security.md`.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

MAX_NOTEBOOK_BYTES: Final = 512 * 1024 * 1024
"""Maximum size of a notebook file. A larger one could fill the memory."""
_NO_WAIT_FLAGS: Final = (
    getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)  # some platforms lack some of these flags


class NotRegularFileError(OSError):
    """The path leads to a pipe, a socket, or a device."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EINVAL, "it is a pipe, a socket, or a device", str(path))


class FileTooLongError(OSError):
    """The file has more bytes than its reader accepts."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        super().__init__(errno.EFBIG, f"it has more than {max_bytes:,} bytes", str(path))


def open_regular(path: Path, flags: int = os.O_RDONLY, *, folder: int | None = None) -> int:
    """Open the regular file at `path`, and return its descriptor. Never wait for another program.

    Args:
        path: The file, relative to `folder` if there is one.
        flags: As of `os.open`.
        folder: Descriptor of the folder that contains `path`.

    Raises:
        NotRegularFileError: It is a pipe, a socket, or a device.
        OSError: It is a folder, or cannot be opened.
    """
    # Opening a device may have an effect, so the path is checked first. The opened file is checked
    # again, because the path may lead to another file a moment later.
    follows_links = not flags & getattr(os, "O_NOFOLLOW", 0)
    _require_regular(os.stat(path, dir_fd=folder, follow_symlinks=follows_links), path)

    if folder is None:  # some platforms have no `dir_fd`
        descriptor = os.open(path, flags | _NO_WAIT_FLAGS)
    else:
        descriptor = os.open(path, flags | _NO_WAIT_FLAGS, dir_fd=folder)

    try:
        _require_regular(os.fstat(descriptor), path)
    except OSError:
        os.close(descriptor)
        raise

    return descriptor


def _require_regular(status: os.stat_result, path: Path) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    # A link passes: with `O_NOFOLLOW`, `os.open` refuses it.
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISLNK(status.st_mode):
        raise NotRegularFileError(path)


def read_regular(path: Path, *, max_bytes: int, flags: int = os.O_RDONLY) -> bytes:
    """Return the content of the regular file at `path`.

    Raises:
        NotRegularFileError: It is not a regular file.
        FileTooLongError: It has more than `max_bytes`. No more than that is read.
        OSError: It cannot be read.
    """
    with os.fdopen(open_regular(path, flags), "rb") as file:
        if os.fstat(file.fileno()).st_size > max_bytes:
            raise FileTooLongError(path, max_bytes)
        # The file may grow while it is read.
        content = file.read(max_bytes + 1)

    if len(content) > max_bytes:
        raise FileTooLongError(path, max_bytes)
    return content


def describe_os_error(exc: OSError | ValueError) -> str:
    """Return the reason of a failed access to a file.

    Python raises `ValueError` for a path that contains a null character.
    """
    if isinstance(exc, OSError) and exc.strerror:
        return exc.strerror
    return str(exc)
