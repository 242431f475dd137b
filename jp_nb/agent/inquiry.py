"""A model answers the question of a tool.

Source: `spec/tools-and-turn-loop.md` section 5.7 (RFD 028, RFD 034).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from jp_nb.errors import JpNbError
from jp_nb.record.thread import Thread
from jp_nb.tools.question import Question


class InquiryError(JpNbError):
    """A model gave no valid answer. The text is for the model that called the tool."""


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A question of a tool call that a model is to answer.

    Attributes:
        id: Id of the round trip in the record, `<call>.<question>.<attempt>`.
        call_id: The tool call that waits.
        tool: Its tool.
        question: What it asks; never a secret, never exclusive.
    """

    id: str
    call_id: str
    tool: str
    question: Question

    @property
    def schema_id(self) -> str:
        """The constant that the answer has to repeat (R028-8)."""
        return f"tool_call.{self.tool}.{self.call_id}"


class InquiryBackend(Protocol):
    """Answers questions by asking a model."""

    async def inquire(self, thread: Thread, inquiry: Inquiry) -> JsonValue:
        """The answer, valid for the question. Cancelling the task cancels the request.

        Args:
            thread: What a provider sees of the conversation now. It is not changed: the copy that
                the question goes into is made here, before anything is awaited.
            inquiry: The question.

        Raises:
            InquiryError: If no valid answer came.
        """
        ...
