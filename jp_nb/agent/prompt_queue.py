"""Prompts wait in a line, and one of them is on screen.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from jp_nb.agent.prompts import Prompt, PromptEnd, Prompter, Unavailable
from jp_nb.tooling.faults import summary

log = logging.getLogger(__name__)

T = TypeVar("T")
Ask = Callable[[Prompt], Awaitable[PromptEnd]]
"""Puts one prompt and waits. Never raises but to be cancelled: a prompt that fails asks nobody."""
Event = Callable[[], None]
"""Something that happened: what changes because of it, for the coordinator's loop to call."""
Spawn = Callable[[Callable[[], Awaitable[Event]]], "asyncio.Task[None]"]
"""Runs work beside the coordinator's loop; what the work returns is called in the loop."""
Dialogue = Callable[[Ask], Awaitable[T]]
"""What has the screen for itself until it returns: a prompt as a rule, and those it leads to."""


def asking(prompter: Prompter) -> Ask:
    """How a dialogue asks `prompter`."""

    async def ask(prompt: Prompt) -> PromptEnd:
        try:
            return await prompter.ask(prompt)
        except Exception as exc:
            log.exception("A prompt failed")
            return Unavailable(f"the prompt failed: {summary(exc)}")

    return ask


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[T]):
    """A dialogue in line; `settle` takes its result, `skip` says that it is not needed any more."""

    dialogue: Dialogue[T]
    settle: Callable[[T], None]
    skip: Callable[[], bool]
    first: bool


class PromptQueue:
    """First come, first served; a menu may go to the head. All of it in the coordinator's loop.

    Args:
        prompter: Asks the person.
        spawn: Runs work beside the loop; what the work returns is called in the loop.
    """

    def __init__(
        self,
        prompter: Prompter,
        spawn: Spawn,
    ) -> None:
        self._ask = asking(prompter)
        self._spawn = spawn
        self._line: deque[_Waiting[Any]] = deque()
        self._active: asyncio.Task[None] | None = None

    def add(
        self,
        dialogue: Dialogue[T],
        settle: Callable[[T], None],
        *,
        skip: Callable[[], bool] = lambda: False,
        first: bool = False,
        again: bool = False,
    ) -> None:
        """Have `dialogue` when it is its turn; `first`: right after the one on screen.

        `again`: it was on screen already, and only those that came `first` go before it.
        `skip` is called when its turn has come: true means that it settled things itself.
        """
        waiting = _Waiting(dialogue, settle, skip, first)
        if first:
            self._line.appendleft(waiting)
        elif again:
            self._line.insert(sum(other.first for other in self._line), waiting)
        else:
            self._line.append(waiting)
        self._show_next()

    def clear(self) -> None:
        """Drop what is on screen and what waits, unsettled."""
        self._line.clear()
        active, self._active = self._active, None
        if active is not None:
            active.cancel()

    def _show_next(self) -> None:
        while self._line and self._active is None:
            waiting = self._line.popleft()
            if not waiting.skip():
                self._active = self._spawn(lambda w=waiting: self._have(w))  # type: ignore[misc]

    async def _have(self, waiting: _Waiting[T]) -> Event:
        mine = asyncio.current_task()
        result = await waiting.dialogue(self._ask)

        def settle() -> None:
            if self._active is not mine:
                return  # it was dropped when it had just ended
            self._active = None
            waiting.settle(result)
            self._show_next()

        return settle
