"""A lock that processes share, kept by a file. It goes when the process does, however it ends."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from jp_nb.errors import StorageError

PATIENCE: Final = 10.0
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
def locked(path: Path, *, make: bool = True, patience: float = PATIENCE) -> Iterator[None]:
    """Hold the lock of the file at `path`; one process, and one thread of it, at a time.

    Args:
        path: The file; what is in it does not matter.
        make: Make it if there is none. Else, without it there is nothing to wait for.
        patience: Seconds to wait for others.

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
        _wait(descriptor, path, patience)
        yield
    finally:
        os.close(descriptor)  # with it the lock is given back


def _wait(descriptor: int, path: Path, patience: float) -> None:
    """Take the lock when it is free."""
    until, pause = time.monotonic() + patience, _FIRST_PAUSE
    while True:
        try:
            return _take(descriptor)
        except (BlockingIOError, PermissionError):
            if time.monotonic() > until:
                text = f"another process has locked {path} for {patience:g} seconds"
                raise StorageError(text) from None
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
