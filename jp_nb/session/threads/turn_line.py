"""The line of threads that wait for their turn: one turn at a time runs in a kernel.

Threads of the user may call `jp.query` at the same time. The thread at the first place in the line
*holds* it and runs its turn, and the others wait. A command, such as `%jp config`, also holds the
line, so that no turn of another thread starts meanwhile.

A tool must not wait in line for its own turn: both would wait for ever. Code inside of a tool gets
an error, and so does a thread for which a tool may wait.

Source: `docs/turns.md#several-threads`, `docs/decisions.md` D184.
"""

from __future__ import annotations

import concurrent.futures
import os
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from time import monotonic
from types import FrameType
from typing import Final, TypeVar

from jp_nb.errors import UsageError

T = TypeVar("T")

MAX_BLOCKED_S: Final = 5.0
"""A tool that waits for another thread for this time may wait for a turn behind its own turn."""

_POLL_S: Final = 0.1
_WAITING_CODE: Final = (
    threading.__file__,
    queue.__file__,
    os.path.dirname(concurrent.futures.__file__),
)
"""Files of the standard library in which a thread waits for another one."""

INSIDE_A_TOOL: Final = (
    "a turn is still running in this kernel, and this code is part of it: `jp.query` and other "
    "turns cannot start inside of a tool. Return a result, from which the model continues. Ask "
    'the user with `jp.ask`, or a model with a question whose `target` is "assistant"'
)
MAY_BE_AWAITED: Final = (
    "this turn waits for a turn whose tool waits for another thread. It does not start, because "
    "the tool may wait for it: `jp.query` and other turns cannot start inside of a tool, also not "
    "in a thread of it"
)
LINE_INTERRUPTED: Final = (
    "Interrupted while the turn of another thread was running. Nothing was sent."
)


def is_inside_tool() -> bool:
    """Return True if the caller is the code of a tool that runs."""
    from jp_nb.toolkit.current_run import CURRENT_RUN  # not loaded by `%load_ext`

    run = CURRENT_RUN.get()
    return run is not None and not run.is_over


class _PlaceInLine:
    """The place of a thread in the line.

    Attributes:
        thread: Id of the thread.
        in_turn: True while the thread prepares or runs a turn, False for a command.
        interrupted: True if the thread must not start its turn any more, or must end it.
        wakeups: An item ends the current or the next wait of the thread.
    """

    def __init__(self, *, in_turn: bool) -> None:
        self.thread = threading.get_ident()
        self.in_turn = in_turn
        self.interrupted = False
        # A SimpleQueue, not an Event: its C code leaves no lock behind when interrupted.
        self.wakeups: SimpleQueue[None] = SimpleQueue()


class TurnLine:
    """Lets one thread at a time run a turn, in the order in which the threads came.

    Its state is one deque, whose methods are atomic. There is no lock that an interrupt of the main
    thread could leave locked.

    Attributes:
        find_tool_threads: Returns the id of the thread of each running tool. The key is an object
            that is another one for each run of a tool.
    """

    def __init__(self) -> None:
        self._places: deque[_PlaceInLine] = deque()
        self.find_tool_threads: Callable[[], Mapping[object, int]] = dict

    @property
    def is_held_by_other_thread(self) -> bool:
        """True if another thread than the caller's runs a turn or a command."""
        first = self._get_first()
        return first is not None and first.thread != threading.get_ident()

    def run(self, work: Callable[[], T]) -> T:
        """Run `work`, a turn, when the turns of all threads that came earlier have ended.

        Raises:
            UsageError: The caller is a tool, or other code of a running turn. Or a tool of the
                running turn may wait for the caller.
            KeyboardInterrupt: The kernel was interrupted while the caller waited.
        """
        if is_inside_tool():
            raise UsageError(INSIDE_A_TOOL)

        first = self._get_first()
        if first is not None and first.thread == threading.get_ident():
            return self._run_in_command(first, work)

        place = _PlaceInLine(in_turn=True)
        try:
            self._places.append(place)
            self._wait_until_first(place)
            return work()
        finally:
            # Nothing is called before the removal, so that an interrupt cannot prevent it.
            if place in self._places:
                self._places.remove(place)
            self._wake_first()

    def run_command(self, work: Callable[[], T]) -> T:
        """Run `work`, a command, at once. No turn starts until it ends, unless one runs now.

        It does not wait for a turn that runs: most commands work beside one, and the others refuse.
        A command that itself starts a turn uses `run`, which then finds the place of the command.
        """
        place = _PlaceInLine(in_turn=False)
        try:
            if not self._places:
                self._places.append(place)

            # Another thread may have come first between the two lines above.
            if self._get_first() is not place and place in self._places:
                self._places.remove(place)
            return work()
        finally:
            if place in self._places:
                self._places.remove(place)
            self._wake_first()

    @property
    def is_held_here(self) -> bool:
        """True if the caller's thread prepares or runs a turn."""
        first = self._get_first()
        return first is not None and first.in_turn and first.thread == threading.get_ident()

    def interrupt(self) -> None:
        """End the wait of all other threads in line, and let the turn of another thread end.

        The cell's thread calls it. The kernel's interrupt has reached the caller itself already.
        """
        for place in [*self._places]:
            place.interrupted = place.thread != threading.get_ident()
            place.wakeups.put(None)

    def take_interrupt(self) -> bool:
        """Return True once after `interrupt`, in the thread that runs the turn."""
        first = self._get_first()
        if first is None or not first.interrupted:
            return False
        first.interrupted = False
        return True

    def _get_first(self) -> _PlaceInLine | None:
        try:
            return self._places[0]
        except IndexError:
            return None

    def _wake_first(self) -> None:
        first = self._get_first()
        if first is not None:
            first.wakeups.put(None)

    def _run_in_command(self, place: _PlaceInLine, work: Callable[[], T]) -> T:
        """Run `work`, a turn that a command of the same thread starts, at the place of the command.

        If the place already has a turn, `work` was called by code that this turn runs.
        """
        if place.in_turn:
            raise UsageError(INSIDE_A_TOOL)
        place.in_turn = True
        try:
            return work()
        finally:
            place.in_turn = False

    def _wait_until_first(self, place: _PlaceInLine) -> None:
        """Wait until `place` is the first, unless a tool may wait for this thread.

        A tool may wait for it if it has been waiting for some thread for `MAX_BLOCKED_S` without a
        break. Only tools that already run count: a later tool does not know this thread.
        """
        earlier_tools = {*self.find_tool_threads()}
        blocked_since: dict[object, float] = {}
        while self._places[0] is not place:
            _raise_if_interrupted(place)

            # A tool that waits no longer is dropped, so a later wait of it counts from its start.
            now = monotonic()
            blocked_tools = earlier_tools & self._find_blocked_tools()
            blocked_since = {tool: blocked_since.get(tool, now) for tool in blocked_tools}
            if any(now - since > MAX_BLOCKED_S for since in blocked_since.values()):
                raise UsageError(MAY_BE_AWAITED)

            try:
                place.wakeups.get(timeout=_POLL_S)
            except Empty:
                continue
            except KeyboardInterrupt:
                raise KeyboardInterrupt(LINE_INTERRUPTED) from None

        # The interrupt may also have ended the turn before, so that this place is now the first.
        _raise_if_interrupted(place)

    def _find_blocked_tools(self) -> set[object]:
        """Return the tools that wait for another thread now."""
        frames = sys._current_frames()
        return {
            tool
            for tool, thread in self.find_tool_threads().items()
            if _waits_for_thread(frames.get(thread))
        }


def _raise_if_interrupted(place: _PlaceInLine) -> None:
    if place.interrupted:
        raise KeyboardInterrupt(LINE_INTERRUPTED)


def _waits_for_thread(frame: FrameType | None) -> bool:
    """Return True if `frame`, the innermost one of a thread, waits for another thread.

    Such a thread executes code of `threading`, `queue`, or `concurrent.futures`.
    """
    return frame is not None and frame.f_code.co_filename.startswith(_WAITING_CODE)
