"""End the processes of commands and MCP servers when the kernel ends, however it ends.

A guard is a small process that watches the kernel, and reads a pipe of it. It notices each end of
the kernel: also SIGTERM, SIGHUP, SIGKILL, or a crash, in which the kernel itself runs no more code.
The guard then ends the process groups that still run. This file is also the program of the guard,
so it imports only light modules of the standard library.

The end of the pipe alone is no sign: a process that the kernel forked, such as a worker of
`multiprocessing`, holds it open.

`PR_SET_PDEATHSIG` is no alternative: it needs code between fork and exec, where a process with
threads may hang, and it reaches only the first process of a group.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

TYPE_CHECKING = False  # the guard does not load `typing`
if TYPE_CHECKING:
    from jp_nb.toolkit.command_tools.guard_process import GuardProcess

STOP_GRACE_S = 1.0
"""Seconds between SIGTERM and SIGKILL to the groups."""
POLL_S = 0.5
"""Seconds between checks of the kernel, where the system reports no end of a process."""


class ProcessGuard:
    """Tells the guard which process groups run. Used by the agent's thread.

    Windows has no process groups, so there is no guard.
    """

    def __init__(self) -> None:
        self._pipe: int | None = None  # the write end; None: no guard runs
        self._owner = 0  # the process that started the guard; a fork of it starts another one
        self._process: GuardProcess | None = None

    def start(self) -> None:
        """Start the guard, if it does not run. Call it before a process starts."""
        is_other_process = self._owner != os.getpid()  # this process is a fork of the owner
        if self._pipe is None or is_other_process:
            self._start()

    def add(self, group: int) -> None:
        """Let the guard end the process group `group` when this process ends."""
        self._write(f"+{group}\n")

    def remove(self, group: int) -> None:
        """Forget the process group `group`."""
        if self._owner == os.getpid():
            self._write(f"-{group}\n")

    def _start(self) -> None:
        """Start a guard. If that fails, processes run without one, with a warning in the log."""
        # Imported late, because the guard itself does not need them.
        import logging
        import subprocess

        from jp_nb.toolkit.command_tools.guard_process import GuardProcess

        if self._process is not None and self._owner == os.getpid():
            self._process.wait()  # it was killed: it has closed its pipe
        self._process = None

        self._owner = os.getpid()
        self._pipe = None
        if os.name != "posix" or not sys.executable:
            return

        read_end, write_end = os.pipe()  # no child inherits the write end
        try:
            self._process = GuardProcess(
                [sys.executable, "-I", "-S", __file__, str(self._owner)],
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
        """Tell the guard about a group, if it runs."""
        if self._pipe is None:
            return
        try:
            os.write(self._pipe, line.encode())
        except BrokenPipeError:  # the guard was killed: the next process starts another one
            os.close(self._pipe)
            self._pipe = None


def watch(pipe: int, owner: int) -> None:
    """Read process groups from `pipe` until the process `owner` ends; then end those that run."""
    _end_groups(_read_groups(pipe, owner))


def _read_groups(pipe: int, owner: int) -> list[int]:
    """Return the process groups that run when `owner` ends.

    `owner` writes the line `+GROUP` for a new group, and `-GROUP` for one that ended.
    """
    groups: dict[int, None] = {}
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
    """Send a signal to `group`; return False if it has ended."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


if __name__ == "__main__":
    watch(0, int(sys.argv[1]))
