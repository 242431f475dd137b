"""The events of a model for a turn, and a model that answers the questions of tools."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import jp_nb as jp
from tests.kit.kinds import make
from tests.kit.models import model_event
from tests.kit.tools import new_tool


def say(text: str, *, index: int = 0) -> list[Any]:
    """Return the events of one message."""
    return [model_event("text", index, "message", text), model_event("flush", index)]


def call(name: str, call_id: str = "call_1", *, index: int = 1, text: str = "{}") -> list[Any]:
    """Return the events of one tool call whose arguments are the JSON `text`."""
    return [
        model_event("call_start", index, call_id, name),
        model_event("call_arguments", index, text),
        model_event("flush", index),
    ]


def reply(*parts: list[Any]) -> list[Any]:
    """Return the events of a whole response."""
    return [*(event for part in parts for event in part), model_event("finished")]


DONE = reply(say("Done."))
BROKEN = jp.ProviderError("reset", kind="transient")


class MockInquiryBackend:
    """A model that answers tools' questions with `answers`: by inquiry id, else by `schema_id`.

    An answer may also be an exception to raise, or a function to await for it. An id without an
    answer is an error.

    Attributes:
        asked: The inquiries, each with the entries of the context at that time.
        running: Number of inquiries that are not answered yet.
        most_at_once: The largest number of them at the same time.
        cancelled: Ids of the inquiries that were cancelled.
    """

    def __init__(self, answers: Mapping[str, Any] | None = None) -> None:
        self._answers = dict(answers or {})
        self.asked: list[tuple[Any, list[Any]]] = []
        self.running = 0
        self.most_at_once = 0
        self.cancelled: list[str] = []

    async def inquire(self, context: Any, inquiry: Any) -> Any:
        self.asked.append((inquiry, [item.entry for item in context]))
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        try:
            return await self._answer(inquiry)
        except asyncio.CancelledError:
            self.cancelled.append(inquiry.id)
            raise
        finally:
            self.running -= 1

    async def _answer(self, inquiry: Any) -> Any:
        for key in (inquiry.id, inquiry.schema_id):
            if key in self._answers:
                answer = self._answers[key]
                if isinstance(answer, Exception):
                    raise answer
                return await answer() if callable(answer) else answer
        why = f"nothing was prepared for {inquiry.id!r} or {inquiry.schema_id!r}"
        raise make("inquiry_error", why)


def make_result_tool(content: str, *, name: str = "t") -> Any:
    return new_tool(lambda: content, name=name)
