"""The processes of a kernel: none outlives its run, or the program that started the kernel.

A notebook may start processes that stay. After the run, `KernelProcesses.end` ends those that are
left, and names them. If this program is killed, a guard ends the kernel with its process group.

On Linux, processes that left the group of their kernel are found as well: this program adopts the
orphans of its kernels. Elsewhere, only the process group is ended.

Workers of a batch use it. `jp-nb run` with one notebook does not: its user can see what stays.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from jp_nb.text import one_line
from jp_nb.toolkit.command_tools.process_guard import ProcessGuard

LEAVE_GRACE_S: Final = 0.5
"""Seconds in which processes end by themselves after their kernel."""
END_GRACE_S: Final = 1.0
"""Seconds between SIGTERM and SIGKILL to processes that a kernel has left."""
POLL_S: Final = 0.02
"""Seconds between two looks at the processes."""
MAX_NAMED_PROCESSES: Final = 5
"""Number of left processes that a warning names."""
_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER of Linux
_GUARD: Final = b"guard_program.py"
"""Part of the command line of a guard."""


class KernelProcesses:
    """The process groups of the kernels that this program has started.

    `kept` are children of this program that do not belong to a kernel.
    """

    def __init__(self, *, kept: Iterable[int] = ()) -> None:
        self._kept = frozenset(kept)
        self._guard = ProcessGuard()
        self._groups: set[int] = set()  # of the kernels since the last `end`
        self._adopts = _adopt_orphans()  # True: orphans of kernels are children of this program

    def add(self, pid: int) -> None:
        """Watch the kernel with this process id, which leads a process group."""
        if os.name != "posix":
            return
        with suppress(ProcessLookupError):
            group = os.getpgid(pid)
            # Not this program's own group: ending it would end this program too.
            if group != os.getpgrp():
                self._guard.start()
                self._guard.add(group)
                self._groups.add(group)

    def end(self) -> list[str]:
        """End what the kernels have left, and return the names of these processes.

        Call it after the kernels have ended.
        """
        left = self._wait_for_ends()
        names = [_read_name(pid) for pid in left]

        self._signal_all(left, signal.SIGTERM)
        until = time.monotonic() + END_GRACE_S
        while self._is_any_alive(left) and time.monotonic() < until:
            time.sleep(POLL_S)
            _reap(left)

        self._signal_all(left, signal.SIGKILL)
        _reap(left)

        for group in self._groups:
            self._guard.remove(group)
        self._groups.clear()
        return names

    def _wait_for_ends(self) -> list[int]:
        """Return the processes that are left: most end by themselves with their kernel."""
        left = self._find_left()
        until = time.monotonic() + LEAVE_GRACE_S
        while left and time.monotonic() < until:
            time.sleep(POLL_S)
            _reap(left)
            left = self._find_left()
        return left

    def _signal_all(self, left: list[int], number: int) -> None:
        """Signal the groups and single processes: one may have left the group of its kernel."""
        for group in self._groups:
            _signal_group(group, number)
        for pid in left:
            _signal(pid, number)

    def _find_left(self) -> list[int]:
        """Return the processes that the kernels have left; none outside of Linux."""
        if sys.platform != "linux":
            return []
        pids = [pid for group in self._groups for pid in _list_group(group)]
        if self._adopts:
            pids += [pid for pid in _list_children(os.getpid()) if pid not in pids]
        return [pid for pid in pids if pid not in self._kept]

    def _is_any_alive(self, pids: list[int]) -> bool:
        """Return True if a group of a kernel or one of the processes still exists."""
        # The signal 0 only checks.
        has_group = any(_signal_group(group, 0) for group in self._groups)
        return has_group or any(_signal(pid, 0) for pid in pids)


def format_left_processes(names: list[str]) -> str:
    """Return a warning that names the processes that a notebook has left."""
    shown = ", ".join(one_line(name, limit=40) for name in names[:MAX_NAMED_PROCESSES])
    if len(names) > MAX_NAMED_PROCESSES:
        shown += f" and {len(names) - MAX_NAMED_PROCESSES} more"
    noun = "a process" if len(names) == 1 else f"{len(names)} processes"
    return f"the notebook left {noun} that had to be ended: {shown}"


def _adopt_orphans() -> bool:
    """Become the parent of processes whose parents, such as kernels, have ended."""
    if sys.platform != "linux":
        return False

    import ctypes

    try:
        return bool(ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def _list_group(group: int) -> list[int]:
    """Return the processes of a group that still run.

    Those that have ended, but whose parent has not read their exit code (`Z`), are not among them.
    """
    pids = []
    for path in Path("/proc").glob("[0-9]*"):
        fields = _read_status(path)
        if len(fields) > 2 and fields[2] == str(group) and fields[0] != "Z":
            pids.append(int(path.name))
    return pids


def _list_children(parent: int) -> list[int]:
    """Return the children of a process, also ended ones; `_reap` removes these.

    Guards are not among them: they end by themselves.
    """
    pids = []
    for path in Path("/proc").glob("[0-9]*"):
        fields = _read_status(path)
        if len(fields) > 1 and fields[1] == str(parent) and not _is_guard(path):
            pids.append(int(path.name))
    return pids


def _read_status(path: Path) -> list[str]:
    """Return state, parent, group, and further fields of a process."""
    try:
        text = (path / "stat").read_text(errors="replace")
    except OSError:  # it has ended
        return []
    return text.rpartition(")")[2].split()  # the name before may contain anything


def _is_guard(path: Path) -> bool:
    try:
        return _GUARD in (path / "cmdline").read_bytes()
    except OSError:
        return False


def _read_name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return str(pid)


def _signal(pid: int, number: int) -> bool:
    """Send a signal to a process. Return False if it has ended."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group. Return False if it has ended."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _reap(pids: list[int]) -> None:
    """Collect the exit codes of adopted processes that have ended."""
    for pid in pids:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
