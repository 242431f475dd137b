"""Interrupts of the kernel during a turn: they go to the step that runs now.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from jp_nb.agent.display import Display, InterruptReceived

T = TypeVar("T")


class TurnInterrupts:
    """Counts the interrupts of a turn, and gives each to the handler of the current step.

    A step that handles interrupts itself, such as a batch of tool calls, sets `handler`. Any other
    work is awaited with `run`: an interrupt ends it, and the turn.

    Attributes:
        count: Number of interrupts so far.
        handler: Called at each interrupt; None before the first step.
        is_over: True after the turn. An interrupt that arrives then has no effect.
    """

    def __init__(self, display: Display) -> None:
        self._display = display
        self.count = 0
        self.handler: Callable[[], object] | None = None
        self.is_over = False

    def receive(self) -> None:
        """Handle an interrupt of the kernel, on the agent's event loop."""
        if self.is_over:
            return

        self.count += 1
        if self.handler is not None:
            self._display(InterruptReceived())  # before the effect, which may take a while
            self.handler()

    async def run(self, work: Awaitable[T]) -> T:
        """Await `work`, which an interrupt cancels.

        Raises:
            CancelledError: An interrupt arrived in the meantime.
        """
        count = self.count
        task = asyncio.ensure_future(work)
        self.handler = task.cancel  # has no effect after the work, until the next step sets its own

        result = await task
        if self.count > count:  # it came just after the end of the work
            raise asyncio.CancelledError
        return result

    def end(self) -> None:
        """Ignore later interrupts: the turn is over."""
        self.handler = None
        self.is_over = True
