"""The queue in which the calls of a batch wait for the screen: one prompt is shown at any time.

A call keeps the screen for several prompts, such as a permission and the editor of its arguments.
The menu that an interrupt opens goes first. While the effect of an interrupt is decided, or the
turn is stopped, the queue is *held*: no other prompt appears.

Source: `docs/architecture.md` (two queues of prompts), `docs/turns.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from jp_nb.agent.calls.activity import Activity
from jp_nb.agent.calls.cell_functions import CellFunctions
from jp_nb.agent.prompting.prompt_queue import PromptQueue
from jp_nb.agent.prompting.prompts import Prompter
from jp_nb.agent.prompting.safe_ask import SafeAsk
from jp_nb.agent.turn_times import TurnTimes
from jp_nb.toolkit.cancellation import raise_if_cancelled


class _Waiter:
    """A call, or the menu of an interrupt, that waits for the screen or has it.

    Attributes:
        is_menu: True for the menu of an interrupt, which goes in front of all calls.
        granted: Is done when the waiter has the screen.
    """

    def __init__(self, *, is_menu: bool) -> None:
        self.is_menu = is_menu
        self.granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class ScreenQueue:
    """The queue for the screen: one prompt at a time, in the order of the requests.

    All methods are for the agent's thread.

    Attributes:
        activity: Counts the tasks of the batch that work. A call that waits here is not one of
            them: `_wait` ends its work, and `_grant` begins it again.
        functions: The functions that the calls run in the cell's thread.
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
        # Calls `_grant` for the waiter that gets the screen, when it is its turn.
        self._queue = PromptQueue[_Waiter](self._grant)

    @asynccontextmanager
    async def take_screen(
        self, *, for_menu: bool = False, after_run: bool = False
    ) -> AsyncIterator[SafeAsk]:
        """Wait for the screen, and keep it in the block, for one prompt or several.

        The block gets the function that displays a prompt, and waits for its end.

        Args:
            for_menu: True for the menu of an interrupt. It goes in front of all calls, and ends
                `hold`.
            after_run: True if the tool of the call has run. The next function that waits for the
                cell's thread begins before the prompt, which may block that thread.
        """
        raise_if_cancelled()
        # A prompt on stdin blocks the cell's thread. Before it opens, let the other tasks take the
        # step that is due: it may give a function to that thread.
        await asyncio.sleep(0)
        if after_run:
            await self.functions.wait_until_begun()

        waiter = _Waiter(is_menu=for_menu)
        try:
            # A menu goes in front of every waiter, a call in front of none.
            await self._wait(waiter, before=lambda other: for_menu)
            yield self._ask
        finally:
            self._queue.remove(waiter)
            never_had_screen = not waiter.granted.done() or waiter.granted.cancelled()
            if never_had_screen:
                self.activity.begin()  # `_wait` ended it, and `_grant` never began it again
            self._queue.show_next()
            raise_if_cancelled()  # a prompt that just ended may have hidden the cancellation

    async def wait_again(self) -> None:
        """Let the menu of an interrupt use the screen, if one waits, then take the screen again.

        Call it inside `take_screen`, after an interrupt has closed the prompt without a decision.
        The prompts of other calls wait longer.
        """
        raise_if_cancelled()
        waiter = self._queue.shown
        assert waiter is not None
        self._queue.remove(waiter)
        waiter.granted = asyncio.get_running_loop().create_future()
        # In front of the other calls, but behind a menu.
        await self._wait(waiter, before=lambda other: not other.is_menu)

    def hold(self) -> None:
        """Display no new prompt until `release`, or until the menu of an interrupt opens."""
        self._queue.is_held = True

    def release(self) -> None:
        """Display the next prompt."""
        self._queue.is_held = False
        self._queue.show_next()

    def clear(self) -> None:
        """Forget all prompts, because their calls were canceled, and end `hold`."""
        self._queue.clear_waiting()
        if self._queue.shown is not None:
            self._queue.remove(self._queue.shown)
        self.release()

    async def _wait(self, waiter: _Waiter, *, before: Callable[[_Waiter], bool]) -> None:
        """Wait for the screen in front of the first waiter for which `before` returns True."""
        self.activity.end()
        self._queue.add(waiter, before=before)  # calls `_grant` at once if the screen is free
        if waiter.is_menu:
            self.release()
        await waiter.granted

    def _grant(self, waiter: _Waiter) -> None:
        if not waiter.granted.done():  # else its call was just canceled
            self.activity.begin()
            waiter.granted.set_result(None)
