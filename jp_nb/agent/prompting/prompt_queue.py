"""Show one prompt at a time: the queue for the screen, and a call that does not fail.

Source: `docs/turns.md`, `docs/architecture.md`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Generic

from jp_nb.agent.prompting.prompt_ends import PromptEnd, T, Unavailable
from jp_nb.agent.prompting.prompts import Prompt, Prompter
from jp_nb.agent.turn_times import TurnTimes
from jp_nb.toolkit.function_tools.tool_errors import summarize_error

log = logging.getLogger(__name__)


class SafeAsk:
    """Displays one prompt and waits. A prompt that fails counts as unavailable.

    `times` measures the waits.
    """

    def __init__(self, prompter: Prompter, times: TurnTimes | None = None) -> None:
        self._prompter = prompter
        self._times = TurnTimes() if times is None else times

    async def __call__(self, prompt: Prompt[T], /) -> PromptEnd[T]:
        """Display `prompt` and wait. It raises no error, except for cancellation."""
        try:
            with self._times.waiting_for_user():
                return await self._prompter.ask(prompt)
        except Exception as exc:
            log.exception("A prompt failed")
            return Unavailable(f"the prompt failed: {summarize_error(exc)}")


class PromptQueue(Generic[T]):
    """Queue with at most one item `shown` on screen, for one thread.

    While it is `held`, items are added, but none is displayed. The function `show` may remove the
    item that it gets.
    """

    def __init__(self, show: Callable[[T], None]) -> None:
        self._show = show
        self._line: deque[T] = deque()
        self.shown: T | None = None
        self.held = False

    def add(self, item: T, *, before: Callable[[T], bool] = lambda other: False) -> None:
        """Add `item` at the end, or in front of the first item for which `before` returns True."""
        places = (index for index, other in enumerate(self._line) if before(other))
        self._line.insert(next(places, len(self._line)), item)
        self.show_next()

    def remove(self, item: T) -> bool:
        """Remove `item`; return True if it was on screen. Does not display the next one."""
        if item is self.shown:
            self.shown = None
            return True
        if item in self._line:
            self._line.remove(item)
        return False

    def show_next(self) -> None:
        """Display the next item, unless one is on screen."""
        while self.shown is None and self._line and not self.held:
            self.shown = self._line.popleft()
            self._show(self.shown)

    def clear(self) -> None:
        """Remove all waiting items, but not the one on screen."""
        self._line.clear()
