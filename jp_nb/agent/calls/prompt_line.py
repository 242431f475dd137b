"""The line in which the calls of a batch wait for the screen: one prompt is shown at any time.

A call keeps the screen for several prompts, such as a permission and the editor of its arguments.
The menu of an interrupt goes first.

Source: `docs/architecture.md` (two queues of prompts), `docs/turns.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from jp_nb.agent.calls.activity import Activity
from jp_nb.agent.calls.cell_functions import CellFunctions
from jp_nb.agent.prompting.prompt_queue import PromptQueue, SafeAsk
from jp_nb.agent.prompting.prompts import Prompter
from jp_nb.agent.turn_times import TurnTimes
from jp_nb.toolkit.cancellation import raise_if_cancelled


class _Place:
    """The place of a call in the line. `granted` is done when it may use the screen."""

    def __init__(self, *, first: bool) -> None:
        self.first = first
        self.granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class PromptLine:
    """The line in which calls wait for the screen: one prompt at a time, in order of request.

    A call that waits here does not count as `activity`.
    """

    def __init__(
        self,
        prompter: Prompter,
        activity: Activity,
        functions: CellFunctions,
        times: TurnTimes | None = None,
    ) -> None:
        self._ask = SafeAsk(prompter, times)
        self.activity = activity
        self.functions = functions
        self._queue = PromptQueue[_Place](self._grant)

    @asynccontextmanager
    async def take_screen(
        self, *, first: bool = False, after_run: bool = False
    ) -> AsyncIterator[SafeAsk]:
        """Wait for the screen, and keep it in the block, for one prompt or several.

        `first` goes in front of all others, and ends `hold`. Set `after_run` if the tool of the
        call has run: then the cell's thread begins its next function before the prompt.
        """
        raise_if_cancelled()
        # A prompt on stdin blocks the cell's thread. Before it opens, the other calls take their
        # next step, and the cell's thread takes the function that waits for this call's result.
        await asyncio.sleep(0)
        if after_run:
            await self.functions.wait_until_begun()

        place = _Place(first=first)
        try:
            await self._wait(place, before=lambda other: first)
            yield self._ask
        finally:
            self._queue.remove(place)
            if not place.granted.done() or place.granted.cancelled():
                self.activity.begin()
            self._queue.show_next()
            raise_if_cancelled()

    async def wait_again(self) -> None:
        """Let the menu of an interrupt use the screen, if one waits, then take the screen again.

        Call it inside `take_screen`. The prompts of other calls wait longer.
        """
        raise_if_cancelled()
        place = self._queue.shown
        assert place is not None
        self._queue.remove(place)
        place.granted = asyncio.get_running_loop().create_future()
        await self._wait(place, before=lambda other: not other.first)

    def hold(self) -> None:
        """Display no new prompt until `release`."""
        self._queue.held = True

    def release(self) -> None:
        """Display the next prompt."""
        self._queue.held = False
        self._queue.show_next()

    def clear(self) -> None:
        """Forget all prompts, because their calls were canceled, and end `hold`."""
        self._queue.clear()
        if self._queue.shown is not None:
            self._queue.remove(self._queue.shown)
        self.release()

    async def _wait(self, place: _Place, *, before: Callable[[_Place], bool]) -> None:
        self.activity.end()
        self._queue.add(place, before=before)
        if place.first:
            self.release()
        await place.granted

    def _grant(self, place: _Place) -> None:
        if not place.granted.done():  # else its call was just canceled
            self.activity.begin()
            place.granted.set_result(None)
