"""The queue of prompts: one is on screen, the others wait for their turn.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from jp_nb.agent.prompts import (
    FormPrompt,
    FormPromptEnd,
    Prompt,
    PromptEnd,
    Prompter,
    Unavailable,
)
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
"""Has the screen for itself until it returns: a prompt as a rule, and those it leads to."""


def asking(prompter: Prompter) -> Ask:
    """Return the function by which a dialogue asks `prompter`."""

    async def ask(prompt: Prompt) -> PromptEnd:
        try:
            return await prompter.ask(prompt)
        except Exception as exc:
            log.exception("A prompt failed")
            return Unavailable(f"the prompt failed: {summary(exc)}")

    return ask


async def ask_form(prompter: Prompter, prompt: FormPrompt) -> FormPromptEnd:
    """Put `prompt` to the person. Never raises but to be cancelled, as an `Ask`."""
    try:
        return await prompter.ask_form(prompt)
    except Exception as exc:
        log.exception("A form failed")
        return Unavailable(f"the form failed: {summary(exc)}")


class PromptQueue(Generic[T]):
    """Shows one thing at a time to a person: first come, first served. Of one thread.

    Args:
        show: Shows what has come to its turn, or has it leave at once.

    Attributes:
        shown: What is on screen.
        held: True while nothing new is shown.
    """

    def __init__(self, show: Callable[[T], None]) -> None:
        self._show = show
        self._line: deque[T] = deque()
        self.shown: T | None = None
        self.held = False

    def add(self, item: T, *, before: Callable[[T], bool] = lambda other: False) -> None:
        """Put `item` at the end, or in front of the first one that it goes `before`."""
        places = (index for index, other in enumerate(self._line) if before(other))
        self._line.insert(next(places, len(self._line)), item)
        self.show_next()

    def leave(self, item: T) -> bool:
        """Take `item` away, and return whether it was on screen. The next one is not shown yet."""
        if item is self.shown:
            self.shown = None
            return True
        if item in self._line:
            self._line.remove(item)
        return False

    def show_next(self) -> None:
        """Show what is next, unless something is on screen."""
        while self.shown is None and self._line and not self.held:
            self.shown = self._line.popleft()
            self._show(self.shown)

    def clear(self) -> None:
        """Forget what waits. What is on screen stays there."""
        self._line.clear()


@dataclass(slots=True, eq=False)
class _WaitingDialogue(Generic[T]):
    """A dialogue in line; `settle` takes its result, `skip` says that it is not needed any more."""

    dialogue: Dialogue[T]
    settle: Callable[[T], None]
    skip: Callable[[], bool]
    first: bool
    task: asyncio.Task[None] | None = None


class Dialogues:
    """The dialogues of a turn, one at a time. All of it in the coordinator's loop.

    Args:
        prompter: Asks the person.
        spawn: Runs work beside the loop; what the work returns is called in the loop.
    """

    def __init__(self, prompter: Prompter, spawn: Spawn) -> None:
        self._ask = asking(prompter)
        self._spawn = spawn
        self._queue = PromptQueue[_WaitingDialogue[Any]](self._show)

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
        self._queue.add(
            _WaitingDialogue(dialogue, settle, skip, first),
            before=lambda other: first or (again and not other.first),
        )

    def hold(self) -> None:
        """Show nothing new until `release`: something else is to be shown before."""
        self._queue.held = True

    def release(self) -> None:
        """Show what is next."""
        self._queue.held = False
        self._queue.show_next()

    def clear(self) -> None:
        """Drop what is on screen and what waits, unsettled."""
        self._queue.clear()
        if (shown := self._queue.shown) is not None:
            self._queue.leave(shown)
            if shown.task is not None:
                shown.task.cancel()

    def _show(self, waiting: _WaitingDialogue[T]) -> None:
        if waiting.skip():
            self._queue.leave(waiting)
        else:
            waiting.task = self._spawn(lambda: self._have(waiting))

    async def _have(self, waiting: _WaitingDialogue[T]) -> Event:
        result = await waiting.dialogue(self._ask)

        def settle() -> None:
            if self._queue.leave(waiting):  # else it was dropped when it had just ended
                waiting.settle(result)
                self._queue.show_next()

        return settle
