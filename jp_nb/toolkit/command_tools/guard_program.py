"""The program of a guard: end the processes of tools when the kernel ends, however it ends.

`ProcessGuard` (`process_guard.py`) starts it, and writes to its stdin which process groups run:

    +4711    a new process group
    -4711    it has ended

When the kernel has ended, the guard ends the groups that still run. It waits for the end of the
pipe, and watches the kernel itself: a process that the kernel forked, such as a worker of
`multiprocessing`, may hold the pipe open.

It imports only light modules of the standard library, because it runs beside each kernel.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

STOP_GRACE_S = 1.0
"""Seconds between SIGTERM and SIGKILL to the groups."""
POLL_S = 0.5
"""Seconds between checks of the kernel, where the system reports no end of a process."""


def watch(pipe: int, owner: int) -> None:
    """Read process groups from `pipe` until the process `owner` ends; then end those that run."""
    _end_groups(_read_groups(pipe, owner))


def _read_groups(pipe: int, owner: int) -> list[int]:
    """Return the process groups that run when `owner` ends.

    `owner` writes the line `+GROUP` for a new group, and `-GROUP` for one that ended.
    """
    groups: dict[int, None] = {}  # a set in the order of insertion
    incomplete_line = b""
    while True:
        received = _read_from(pipe, owner)
        if not received:
            return list(groups)

        *lines, incomplete_line = (incomplete_line + received).split(b"\n")
        for line in lines:
            group = int(line[1:])
            if line.startswith(b"+"):
                groups[group] = None
            else:
                groups.pop(group, None)


def _end_groups(groups: list[int]) -> None:
    """Send SIGTERM to the groups, and SIGKILL after `STOP_GRACE_S` at most."""
    for group in groups:
        _send_signal(group, signal.SIGTERM)

    deadline = time.monotonic() + STOP_GRACE_S
    while any(_exists(group) for group in groups) and time.monotonic() < deadline:
        time.sleep(0.02)

    for group in groups:
        _send_signal(group, signal.SIGKILL)


def _read_from(pipe: int, owner: int) -> bytes:
    """Return the next bytes from `pipe`; none if it ended, or its writer `owner` did."""
    # On Linux a file descriptor of the process `owner` becomes readable when it ends.
    timeout_s: float | None = None
    try:
        owner_ends = [os.pidfd_open(owner)]
    except (AttributeError, OSError):  # not Linux, or not permitted
        owner_ends = []
        timeout_s = POLL_S

    try:
        while True:
            ready = select.select([pipe, *owner_ends], [], [], timeout_s)[0]
            if pipe in ready:
                return os.read(pipe, 65536)
            if ready or os.getppid() != owner:
                return b""
    finally:
        for descriptor in owner_ends:
            os.close(descriptor)


def _exists(group: int) -> bool:
    return _send_signal(group, 0)  # the signal 0 only checks


def _send_signal(group: int, number: int) -> bool:
    """Send a signal to `group`; return False if it has ended, or belongs to another user."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


if __name__ == "__main__":
    watch(0, int(sys.argv[1]))
