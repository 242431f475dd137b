"""End the processes of commands when the kernel ends, however it ends.

A guard is a small process that reads a pipe of the kernel. The pipe ends with the kernel: also with
SIGTERM, SIGHUP, SIGKILL, or a crash, in which the kernel itself runs no more code. The guard then
ends the process groups that still run. This file is the guard's program, too, so it imports only
light modules of the standard library.

`PR_SET_PDEATHSIG` is no alternative: it needs code between fork and exec, where a process with
threads may hang, and it reaches only the first process of a group.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import os
import signal
import sys
import time

STOP_GRACE_S = 1.0
"""Seconds between SIGTERM and SIGKILL to the groups."""


class ProcessGuard:
    """Tells the guard which process groups run. Used by the agent's thread.

    Windows has no process groups, so there is no guard.
    """

    def __init__(self) -> None:
        self._pipe: int | None = None
        self._owner = 0
        self._process: object = None

    def start(self) -> None:
        """Start the guard, if it does not run. Call it before a process starts."""
        if self._pipe is None or self._owner != os.getpid():
            self._start()

    def add(self, group: int) -> None:
        """Let the guard end the process group `group` when this process ends."""
        self._write(f"+{group}\n")

    def remove(self, group: int) -> None:
        """Forget the process group `group`."""
        if self._owner == os.getpid():
            self._write(f"-{group}\n")

    def _start(self) -> None:
        import logging
        import subprocess

        self._owner = os.getpid()
        self._pipe = None
        if os.name != "posix" or not sys.executable:
            return
        read_end, write_end = os.pipe()  # no child inherits the write end
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__],
                stdin=read_end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # no signal to the kernel's group ends the guard
            )
            self._pipe = write_end
        except OSError as exc:  # the command runs all the same
            os.close(write_end)
            log = logging.getLogger(__name__)
            log.warning("Processes of tools may outlive the kernel: %s", exc.strerror)
        finally:
            os.close(read_end)

    def _write(self, line: str) -> None:
        if self._pipe is None:
            return
        try:
            os.write(self._pipe, line.encode())
        except BrokenPipeError:  # the guard was killed: the next process starts another one
            os.close(self._pipe)
            self._pipe = None


def watch(pipe: int) -> None:
    """Read process groups from `pipe` until it ends, and then end those that still run."""
    groups: dict[int, None] = {}
    with open(pipe, encoding="ascii") as lines:
        for line in lines:
            group = int(line[1:])
            if line.startswith("+"):
                groups[group] = None
            else:
                groups.pop(group, None)

    for group in groups:
        _send(group, signal.SIGTERM)
    until = time.monotonic() + STOP_GRACE_S
    while any(_send(group, 0) for group in groups) and time.monotonic() < until:
        time.sleep(0.02)
    for group in groups:
        _send(group, signal.SIGKILL)


def _send(group: int, number: int) -> bool:
    """Send a signal to `group`; return False if it has ended."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


if __name__ == "__main__":
    watch(0)
