"""Fake users and cells, for tests without a kernel."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import jp_nb as jp
from tests.kit.kinds import is_kind, make
from tests.kit.questions import answered, not_answered

T = TypeVar("T")


# --- a person --------------------------------------------------------------------------------


class FakePrompter:
    """A user who ends prompts with `ends`, in order; `away` is the reason why no user is there.

    Each end may also be an exception to raise, or a function to await for it.

    Attributes:
        asked: The prompts that were shown.
        most_at_once: The largest number of prompts that were shown at the same time.
    """

    def __init__(
        self,
        *ends: Any | Exception | Callable[[], Awaitable[Any]],
        away: str | None = None,
    ) -> None:
        self._ends = list(ends)
        self.away = away
        self.asked: list[Any] = []
        self.most_at_once = 0
        self._shown = 0
        self._open: set[asyncio.Future[Any]] = set()

    def give(self, *ends: Any) -> None:
        """Let the next prompts end with `ends`, and drop those that are left."""
        self._ends = list(ends)

    def unavailable(self) -> Any | None:
        return None if self.away is None else make("unavailable", self.away)

    async def ask(self, prompt: Any) -> Any:
        """End `prompt`: a form with one prepared end, or with one for each page."""
        if not is_kind(prompt, "form_prompt"):
            return await self._put(prompt)
        ends: list[Any | Any] = []
        if self._ends and (is_kind(self._ends[0], "form_end") or callable(self._ends[0])):
            end = await self._put(prompt)
            if not is_kind(end, "answered"):
                return end
            ends.append(end)
        for page in prompt.pages[len(ends) :]:
            end = await self._put(page)
            if not is_kind(end, "answered"):
                return end
            ends.append(end)
        return make("form_end", tuple(ends))

    def ask_in_cell(self, prompt: Any, *, keeps_record: bool = True) -> Any:
        return self.unavailable() or asyncio.run(self.ask(prompt))

    async def _put(self, prompt: Any) -> Any:
        self.asked.append(prompt)
        if not self._ends:
            raise AssertionError(f"unexpected prompt: {prompt}")
        end = self._ends.pop(0)
        self._shown += 1
        self.most_at_once = max(self.most_at_once, self._shown)
        try:
            if callable(end):
                return await self._unless_interrupted(end)
            await asyncio.sleep(0)
            if isinstance(end, Exception):
                raise end
            return end
        finally:
            self._shown -= 1

    async def _unless_interrupted(self, end: Callable[[], Awaitable[Any]]) -> Any:
        answer = asyncio.ensure_future(end())
        self._open.add(answer)  # at once: an interrupt ends whatever is in `asked`
        try:
            return await answer
        except asyncio.CancelledError:
            if answer in self._open:
                raise
            return not_answered("interrupted", "form")
        finally:
            self._open.discard(answer)
            answer.cancel()

    def interrupt(self) -> None:
        while self._open:
            self._open.pop().cancel()


def yes(value: Any = True, *, remember: bool = False) -> Any:
    """Return the answer `value`, given in the form."""
    return answered(value, "form", remember=remember)


CANCELLED = not_answered("cancelled", "form")


# --- the cell --------------------------------------------------------------------------------


class InlineCell:
    """Runs functions at once, in the thread of the event loop.

    Attributes:
        released: Number of releases after an interrupt.
    """

    released = 0

    async def call(self, function: Callable[[], T]) -> T:
        return function()

    def release(self) -> None:
        self.released += 1


def for_tool(name: str, **settings: Any) -> dict[str, Any]:
    """Return a partial that sets fields of one tool."""
    return {"conversation": {"tools": {name: settings}}}


async def until(condition: Callable[[], object]) -> None:
    """Wait until `condition` is true.

    On a busy machine, the event loop may need many steps.
    """
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - any condition, not one event
            await asyncio.sleep(0.001)


async def forever() -> Any:
    """Wait until the task is cancelled."""
    await asyncio.Event().wait()


def model_inquiry(
    inquiry_id: str, call_id: str, tool: str, question: jp.Question, number: int = 1
) -> Any:
    """Return a question for a model that nobody watches, and that waits for nothing."""

    async def idle() -> None:
        pass

    def ignore(*args: object, **options: object) -> None:
        pass

    values = (inquiry_id, call_id, tool, question, number, ignore, ignore, idle)
    return make("model_inquiry", *values)
