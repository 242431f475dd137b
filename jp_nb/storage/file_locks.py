"""Locks on files, among processes and threads.

A lock belongs to an open file and ends with its process, so a killed process leaves none behind.

Source: `docs/record.md`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from jp_nb.errors import StorageError

LOCK_TIMEOUT_S: Final = 10.0
_FIRST_PAUSE_S: Final = 0.0005
_LONGEST_PAUSE_S: Final = 0.02

if sys.platform == "win32":
    import msvcrt

    _FLAGS_FOR_LOCK = os.O_RDWR  # `locking` needs a writable file

    def _lock(descriptor: int) -> None:
        """Lock an open file. Raise `PermissionError` if it is locked."""
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    _FLAGS_FOR_LOCK = os.O_RDONLY  # enough for `flock`, also in a read-only folder

    def _lock(descriptor: int) -> None:
        """Lock an open file. Raise `BlockingIOError` if it is locked."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def try_lock(descriptor: int) -> bool:
    """Lock an open file until it is closed. Return False if it is already locked."""
    try:
        _lock(descriptor)
    except (BlockingIOError, PermissionError):
        return False
    return True


@contextmanager
def hold_file_lock(
    path: Path, *, make: bool = True, timeout_s: float = LOCK_TIMEOUT_S
) -> Iterator[None]:
    """Hold an exclusive lock on the file at `path`, among processes and threads.

    Args:
        path: A lock file; its content does not matter.
        make: Create a missing file. If False, a missing file needs no lock.
        timeout_s: Longest time to wait for the lock.

    Raises:
        StorageError: Another process holds the lock for longer than `timeout_s`.
        OSError: The file cannot be opened.
    """
    flags = _FLAGS_FOR_LOCK
    if make:
        flags |= os.O_RDWR | os.O_CREAT
    # Someone may have put a link or a pipe in the place of the file. A file behind a link must not
    # be locked or created, and opening a pipe would wait.
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

    try:
        descriptor = os.open(path, flags, 0o644)
    except FileNotFoundError:
        if make:
            raise
        yield
        return

    try:
        _wait_for_lock(descriptor, path, timeout_s)
        yield
    finally:
        os.close(descriptor)  # releases the lock


def _wait_for_lock(descriptor: int, path: Path, timeout_s: float) -> None:
    until = time.monotonic() + timeout_s

    pause = _FIRST_PAUSE_S
    while True:
        try:
            return _lock(descriptor)
        except (BlockingIOError, PermissionError):
            if time.monotonic() > until:
                text = f"another process has locked {path} for {timeout_s:g} seconds"
                raise StorageError(text) from None

        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)
