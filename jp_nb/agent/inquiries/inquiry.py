"""Interface for questions of tools that a model answers, in place of the user.

Such a question is an *inquiry*. While the calls of a batch run, `call_steps/model_questions.py`
makes a `ModelInquiry` of each, with callbacks for the progress of its request.
`jp_nb/agent/inquiries/llm_inquiry.py` implements the interface: it sends the model the conversation
so far, followed by the question.

Source: `docs/turns.md` (RFD 028, RFD 034).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from jp_nb.agent.model_requests.retries import WaitCallback
from jp_nb.agent.provider_events import Usage
from jp_nb.errors import JpNbError
from jp_nb.record.request_context.context import RequestContext
from jp_nb.toolkit.question import Question


class InquiryError(JpNbError):
    """A model gave no valid answer. The message is for the model that called the tool."""


@dataclass(frozen=True, slots=True)
class ModelInquiry:
    """A question of a tool call for a model, neither secret nor exclusive.

    Attributes:
        id: Id in the record, `<call>.<question>.<attempt>`.
        call_id: Id of the call whose tool asks.
        tool: Name of the tool.
        question: The question, which the model answers alone.
        number: Position among the open calls with this id, from 1. Models repeat ids, and the model
            that answers reads which of the calls is paused.
        waits: Shows the user which model answers.
        on_usage: Receives the model and the tokens of each request, including failed ones.
        when_idle: Waits until each other task of the batch is done, or waits too. Called before a
            replayed answer, so that several inquiries are replayed in a fixed order.
    """

    id: str
    call_id: str
    tool: str
    question: Question
    number: int
    waits: WaitCallback
    on_usage: Callable[[str, Usage], None]
    when_idle: Callable[[], Awaitable[None]]

    @property
    def schema_id(self) -> str:
        """Constant that the answer has to repeat (R028-8): another one answers another question."""
        return f"tool_call.{self.tool}.{self.call_id}"


class InquiryBackend(Protocol):
    """Asks a model questions of tools."""

    async def inquire(self, context: RequestContext, inquiry: ModelInquiry) -> JsonValue:
        """Return a valid answer. The question goes into a copy of `context`, the current context.

        The copy is made before the first await, because other calls of the batch may change
        `context` meanwhile.

        Raises:
            InquiryError: There is no valid answer.
        """
