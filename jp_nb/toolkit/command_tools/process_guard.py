"""End the processes of commands and MCP servers when the kernel ends, however it ends.

A guard is a small process that watches the kernel, and reads a pipe of it (`guard_program.py`). It
notices each end of the kernel: also SIGTERM, SIGHUP, SIGKILL, or a crash, in which the kernel
itself runs no more code. The guard then ends the process groups that still run.

`PR_SET_PDEATHSIG` is no alternative: it needs code between fork and exec, where a process with
threads may hang, and it reaches only the first process of a group.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys

from jp_nb.toolkit.command_tools import guard_program

log = logging.getLogger(__name__)


class _GuardProcess(subprocess.Popen[bytes]):
    """A guard as a child process that still runs when this interpreter ends.

    `Popen` warns about such a process (`ResourceWarning`), because nothing waits for its end. The
    guard must notice the end of the interpreter, so nothing can wait for it.
    """

    def __del__(self) -> None:
        """Leave the process alone."""


class ProcessGuard:
    """Tells the guard which process groups run. Used by the agent's thread.

    Windows has no process groups, so there is no guard.
    """

    def __init__(self) -> None:
        self._pipe: int | None = None  # the write end; None: no guard runs
        self._owner = 0  # the process that started the guard; a fork of it starts another one
        self._process: _GuardProcess | None = None

    def start(self) -> None:
        """Start the guard, if it does not run. Call it before a process starts."""
        is_other_process = self._owner != os.getpid()  # this process is a fork of the owner
        if self._pipe is None or is_other_process:
            self._start()

    def add(self, group: int) -> None:
        """Let the guard end the process group `group` when this process ends. After `start`."""
        self._write(f"+{group}\n")

    def remove(self, group: int) -> None:
        """Forget the process group `group`."""
        # A fork may call it for a group of its parent, without a guard of its own.
        if self._owner == os.getpid():
            self._write(f"-{group}\n")

    def _start(self) -> None:
        """Start a guard. If that fails, processes run without one, with a warning in the log."""
        if self._process is not None and self._owner == os.getpid():
            self._process.wait()  # it was killed: it has closed its pipe
        self._process = None

        self._owner = os.getpid()
        self._pipe = None
        if os.name != "posix" or not sys.executable:
            return

        read_end, write_end = os.pipe()  # no child inherits the write end
        try:
            self._process = _GuardProcess(
                [sys.executable, "-I", "-S", guard_program.__file__, str(self._owner)],
                stdin=read_end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # no signal to the kernel's group ends the guard
            )
            self._pipe = write_end
        except OSError as exc:  # the command runs all the same
            os.close(write_end)
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
