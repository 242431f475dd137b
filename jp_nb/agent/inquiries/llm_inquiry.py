"""Ask a model a question of a tool, in a separate request.

The request has the conversation so far, in which the calling tool is paused, and then the question.
The answer is structured: `{"inquiry_id": "tool_call.NAME.ID", "answer": …}`.

Source: `docs/turns.md` (RFD 028, RFD 034).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pydantic import JsonValue

from jp_nb.agent.error_redaction import redact_error
from jp_nb.agent.inquiries.inquiry import InquiryError, ModelInquiry
from jp_nb.agent.model_requests.chat_model import ChatModel
from jp_nb.agent.model_requests.complete_responses import request_response
from jp_nb.agent.provider import Attachment, ToolDefinition
from jp_nb.errors import JpNbError
from jp_nb.json_values import as_object
from jp_nb.record.entries.events import (
    ChatRequest,
    ChatResponse,
    Entry,
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.record.request_context.context import ContextItem, RequestContext
from jp_nb.toolkit.cancellation import is_cancelled

log = logging.getLogger(__name__)

INQUIRY_KEY: Final = "inquiry"
"""Metadata key of the request with the question: `<tool>.<question id>`. Not stored."""
CALL_PAUSED_PREFIX: Final = "Tool paused: "
CALL_INTERRUPTED_TEXT: Final = "Tool call was interrupted."
NO_RESULT_YET_TEXT: Final = (
    "No result yet: this call was made in the same answer as the paused one."
)


@dataclass(slots=True)
class LlmInquiryBackend:
    """Sends each question to a model in a separate request; one instance per turn (R028-19).

    It implements `InquiryBackend` of `inquiry.py`.

    Attributes:
        default: The model for questions without another one.
        overrides: Other models, by tool and question id.
        tools: The tools of the turn. The model cannot call them: they are sent because requests
            with the same tools share a cached prefix.
        attachments: The attachments of the turn, sent for the same reason.
        conversation_id: Id of the conversation, for the provider's cache.
        sleep: Waits for a number of seconds before a request is sent again.
    """

    default: ChatModel
    overrides: Mapping[tuple[str, str], ChatModel] = field(default_factory=dict)
    tools: tuple[ToolDefinition, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    conversation_id: str = ""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def inquire(self, context: RequestContext, inquiry: ModelInquiry) -> JsonValue:
        """Return a valid answer, as `InquiryBackend.inquire` says."""
        model = self.overrides.get((inquiry.tool, inquiry.question.id), self.default)
        schema = make_answer_schema(inquiry)
        request = model.make_request(
            ask_in_context(context, inquiry),
            attachments=self.attachments,
            tools=self.tools,
            schema=schema,
            conversation_id=self.conversation_id,
        )

        try:
            model.provider.check_schema(schema)
            if model.is_replayed:
                # A cassette answers at once. To keep the order of inquiries reproducible, this one
                # waits until the other calls of the batch wait too.
                await inquiry.when_idle()
            entries = await request_response(
                model, request, waits=inquiry.waits, on_usage=inquiry.on_usage, sleep=self.sleep
            )
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            # The task continues: the provider canceled its own request.
            raise InquiryError("Inquiry cancelled") from None
        except JpNbError as exc:
            raise InquiryError(f"LLM provider error: {redact_error(str(exc))}") from exc
        except Exception as exc:
            log.exception("An inquiry failed")
            raise InquiryError(f"LLM provider error: {type(exc).__name__}") from exc

        return extract_answer(entries, inquiry)


def make_answer_schema(inquiry: ModelInquiry) -> dict[str, JsonValue]:
    """Return the JSON schema of the answer, with `inquiry_id` (`docs/decisions.md` D2)."""
    return {
        "type": "object",
        "properties": {
            "inquiry_id": {"type": "string", "const": inquiry.schema_id},
            "answer": inquiry.question.answer_type.answer_schema(),
        },
        "required": ["inquiry_id", "answer"],
        "additionalProperties": False,
    }


def ask_in_context(context: RequestContext, inquiry: ModelInquiry) -> RequestContext:
    """Return a copy of `context` in which the call is paused and its question is asked.

    Each open call gets a response: the paused one, other calls of the batch without a result yet,
    and interrupted calls of earlier turns.
    """
    items: list[ContextItem] = []
    open_calls: list[_OpenCallId] = []

    for item in context:
        match item.entry:
            case ToolCallRequest(id=call_id):
                open_calls.append(_OpenCallId(call_id, item.provider))
            case ToolCallResponse(id=call_id):
                # Models repeat ids: the n-th response of an id answers its n-th request.
                ids = [call.id for call in open_calls]
                if call_id in ids:
                    del open_calls[ids.index(call_id)]
            case ChatRequest():  # a new turn, so the open calls were interrupted
                items += _make_interrupted_responses(open_calls)
                open_calls.clear()
        items.append(item)

    items += _make_batch_responses(open_calls, inquiry)
    provider = items[-1].provider if items else ""
    items.append(ContextItem(_make_question_request(inquiry), provider))
    # With the same heads (instructions and tools), the request begins like those of the turn.
    return RequestContext(items, context.heads, context.contents)


class _OpenCallId(NamedTuple):
    """The id of a call without a response, and the provider that it was recorded with."""

    id: str
    provider: str


def _make_interrupted_responses(open_calls: Sequence[_OpenCallId]) -> Iterator[ContextItem]:
    """Yield a response to each open call of an earlier turn."""
    for call in open_calls:
        response = ToolCallResponse(id=call.id, content=CALL_INTERRUPTED_TEXT, is_error=True)
        yield ContextItem(response, call.provider)


def _make_batch_responses(
    open_calls: Sequence[_OpenCallId], inquiry: ModelInquiry
) -> Iterator[ContextItem]:
    """Yield a response to each open call of the batch: the one that asks is paused.

    It is the call number `inquiry.number` among the open calls with its id.
    """
    same_id_count = 0
    for call in open_calls:
        text = NO_RESULT_YET_TEXT
        if call.id == inquiry.call_id:
            same_id_count += 1
            if same_id_count == inquiry.number:
                text = CALL_PAUSED_PREFIX + inquiry.question.text

        response = ToolCallResponse(id=call.id, content=text, is_error=False)
        yield ContextItem(response, call.provider)


def _make_question_request(inquiry: ModelInquiry) -> ChatRequest:
    """Return the request with the question, which is not stored."""
    question = inquiry.question
    parts = [
        f"The tool `{inquiry.tool}` is paused and asks you a question.",
        question.context or "",
        f"Question: {question.text}",
        "Answer it yourself, from the information in this conversation. No user is asked.",
    ]
    return ChatRequest(
        content="\n\n".join(part for part in parts if part.strip()),
        schema=make_answer_schema(inquiry),
        metadata={INQUIRY_KEY: f"{inquiry.tool}.{question.id}"},
    )


def extract_answer(entries: Sequence[Entry], inquiry: ModelInquiry) -> JsonValue:
    """Return the answer in the first structured response among `entries`.

    Raises:
        InquiryError: There is none, or it is not valid for the question.
    """
    for entry in entries:
        if isinstance(entry, ChatResponse) and entry.kind == "structured":
            problem = _find_problem(entry.data, inquiry)
            if problem is not None:
                raise InquiryError(f"Failed to extract answer from structured response: {problem}")
            return as_object(entry.data)["answer"]

    raise InquiryError("No structured data in the LLM response")


def _find_problem(data: JsonValue, inquiry: ModelInquiry) -> str | None:
    """Return why `data` is no valid answer, in words; None if it is one.

    An answer without `inquiry_id` is valid: some servers drop constants from schemas.
    """
    if not isinstance(data, dict):
        return "expected a JSON object"
    if "answer" not in data:
        return "`answer` is missing"
    if data.get("inquiry_id", inquiry.schema_id) != inquiry.schema_id:
        return f"`inquiry_id` is not {inquiry.schema_id!r}"

    match inquiry.question.misfit(data["answer"]):
        case "option":
            return "`answer` is not one of the options"
        case "type":
            return f"`answer` is not {inquiry.question.answer_type.expects}"
        case "value":
            why = inquiry.question.answer_type.format_problem(data["answer"])
            return f"`answer` does not fit: {why}"
    return None
