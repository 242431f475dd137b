"""Has a model answer the question of a tool.

Source: `docs/turns.md` (RFD 028, RFD 034).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from pydantic import JsonValue

from jp_nb.agent.provider import (
    Attachment,
    Finished,
    ModelParameters,
    ModelRequest,
    Provider,
    Retry,
    ToolDefinition,
    Usage,
)
from jp_nb.agent.response import ResponseBuilder, WaitCallback, with_retries
from jp_nb.config.aliases import background_request
from jp_nb.config.tree.models import Request as RequestConfig
from jp_nb.errors import JpNbError, ProviderError
from jp_nb.record.context import ContextItem, RequestContext
from jp_nb.record.events import (
    ChatRequest,
    ChatResponse,
    Entry,
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.tools.base import is_cancelled
from jp_nb.tools.question import Question

log = logging.getLogger(__name__)

MARK: Final = "inquiry"
"""Metadata of the request that puts a question: `<tool>.<question id>`. Never stored."""
PAUSED: Final = "Tool paused: "
INTERRUPTED: Final = "Tool call was interrupted."
BESIDE: Final = "No result yet: this call was made in the same answer as the paused one."


class InquiryError(JpNbError):
    """A model gave no valid answer. The text is for the model that called the tool."""


def _unheard(model: str, *, again: str = "", until: float | None = None) -> None:
    """Tell nobody."""


def _uncounted(model: str, usage: Usage) -> None:
    """Count nothing."""


async def _at_once() -> None:
    """Wait for nothing."""


@dataclass(frozen=True, slots=True)
class ModelInquiry:
    """A question of a tool call that a model is to answer.

    Attributes:
        id: Id of the round trip in the record, `<call>.<question>.<attempt>`.
        call_id: The tool call that waits.
        tool: Its tool.
        question: What it asks; never a secret, never exclusive.
        number: Which of the open calls with its id waits, from 1: models give one id twice.
        waits: Is told whom the call waits for.
        spent: Is told the tokens of every request and who took them, also of one that failed.
        when_idle: Waits until whatever else the batch does is done, or waits likewise.
    """

    id: str
    call_id: str
    tool: str
    question: Question
    number: int = 1
    waits: WaitCallback = field(default=_unheard, compare=False)
    spent: Callable[[str, Usage], None] = field(default=_uncounted, compare=False)
    when_idle: Callable[[], Awaitable[None]] = field(default=_at_once, compare=False)

    @property
    def schema_id(self) -> str:
        """The constant that the answer has to repeat (R028-8)."""
        return f"tool_call.{self.tool}.{self.call_id}"


class InquiryBackend(Protocol):
    """Answers questions by asking a model."""

    async def inquire(self, thread: RequestContext, inquiry: ModelInquiry) -> JsonValue:
        """Return an answer that is valid for the question. Cancelling the task cancels the request.

        Args:
            thread: What a provider sees of the conversation now. It is not changed: the copy that
                the question goes into is made here, before anything is awaited.
            inquiry: The question.

        Raises:
            InquiryError: If no valid answer came.
        """
        ...


# --- the question ----------------------------------------------------------------------------


def answer_schema(inquiry: ModelInquiry) -> dict[str, JsonValue]:
    """Return the JSON schema of the answer; `inquiry_id` is in it by `docs/decisions.md` D2."""
    return {
        "type": "object",
        "properties": {
            "inquiry_id": {"type": "string", "const": inquiry.schema_id},
            "answer": inquiry.question.answer_type.answer_schema(),
        },
        "required": ["inquiry_id", "answer"],
        "additionalProperties": False,
    }


def with_open_question(thread: RequestContext, inquiry: ModelInquiry) -> RequestContext:
    """Return a copy of `thread` in which the call is paused and its question is asked.

    No call in it stays without a response: that of the running batch which asks is paused, the
    others of the batch have no result yet, and those of earlier turns were interrupted.
    """
    items: list[ContextItem] = []
    open_calls: list[ContextItem] = []

    def respond(*, now: bool) -> None:
        same = 0
        for call in open_calls:
            same += _id(call) == inquiry.call_id
            asks = now and _id(call) == inquiry.call_id and same == inquiry.number
            items.append(ContextItem(_response(call, inquiry, asks=asks, now=now), call.provider))
        open_calls.clear()

    for item in thread:
        match item.entry:
            case ToolCallRequest():
                open_calls.append(item)
            case ToolCallResponse(id=call_id):
                # Ids repeat: the n-th response of an id answers its n-th request.
                first = (n for n, call in enumerate(open_calls) if _id(call) == call_id)
                if (number := next(first, None)) is not None:
                    del open_calls[number]
            case ChatRequest():
                respond(now=False)
        items.append(item)
    respond(now=True)
    items.append(ContextItem(_question(inquiry), items[-1].provider if items else ""))
    return RequestContext(items)


def _id(item: ContextItem) -> str:
    return item.entry.id if isinstance(item.entry, ToolCallRequest) else ""


def _response(
    call: ContextItem, inquiry: ModelInquiry, *, asks: bool, now: bool
) -> ToolCallResponse:
    text = PAUSED + inquiry.question.text if asks else BESIDE if now else INTERRUPTED
    return ToolCallResponse(id=_id(call), content=text, is_error=not now)


def _question(inquiry: ModelInquiry) -> ChatRequest:
    question = inquiry.question
    parts = [
        f"The tool `{inquiry.tool}` is paused and asks you a question.",
        question.context or "",
        f"Question: {question.text}",
        "Answer it yourself, from the information in this conversation. No user is asked.",
    ]
    return ChatRequest(
        content="\n\n".join(part for part in parts if part.strip()),
        schema=answer_schema(inquiry),
        metadata={MARK: f"{inquiry.tool}.{question.id}"},
    )


# --- the answer ------------------------------------------------------------------------------


def extract_answer(entries: Sequence[Entry], inquiry: ModelInquiry) -> JsonValue:
    """Return the answer in the first structured response among `entries`.

    Raises:
        InquiryError: If there is none, or it is no answer to the question.
    """
    for entry in entries:
        if isinstance(entry, ChatResponse) and entry.kind == "structured":
            return _answer(entry.data, inquiry)
    raise InquiryError("No structured data in the LLM response")


def _answer(data: JsonValue, inquiry: ModelInquiry) -> JsonValue:
    if not isinstance(data, dict):
        raise _unusable("expected a JSON object")
    if "answer" not in data:
        raise _unusable("`answer` is missing")
    if data.get("inquiry_id", inquiry.schema_id) != inquiry.schema_id:
        raise _unusable(f"`inquiry_id` is not {inquiry.schema_id!r}")
    answer = data["answer"]
    match inquiry.question.misfit(answer):
        case "option":
            raise _unusable("`answer` is not one of the options")
        case "type":
            raise _unusable(f"`answer` is not {inquiry.question.answer_type.expects}")
        case "value":
            why = inquiry.question.answer_type.format_problem(answer)
            raise _unusable(f"`answer` does not fit: {why}")
    return answer


def _unusable(reason: str) -> InquiryError:
    return InquiryError(f"Failed to extract answer from structured response: {reason}")


# --- a model is asked ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InquiryModel:
    """A model that answers questions, and how it is asked.

    Attributes:
        request: Limits and retries, as they hold for inquiries.
        full_name: `provider/name`, for the person.
        is_replayed: True if its answers take no time: then those of one batch come in the order
            in which they were asked for.
    """

    provider: Provider
    model: str
    system: tuple[str, ...] = ()
    parameters: ModelParameters = field(default_factory=ModelParameters)
    request: RequestConfig = field(default_factory=background_request)
    full_name: str = ""
    is_replayed: bool = False


@dataclass(slots=True)
class LlmInquiryBackend:
    """Puts each question to a model in a request of its own. Made once per turn (R028-19).

    Attributes:
        default: Who answers.
        overrides: Who answers instead, by tool and question id.
        tools: Those of the conversation. They are sent so that the request begins like the
            conversation's own, and none may be called.
        attachments: Those of the conversation.
        conversation_id: The conversation's, for prompt caching.
        sleep: Waits before a retry.
    """

    default: InquiryModel
    overrides: Mapping[tuple[str, str], InquiryModel] = field(default_factory=dict)
    tools: tuple[ToolDefinition, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    conversation_id: str = ""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def inquire(self, thread: RequestContext, inquiry: ModelInquiry) -> JsonValue:
        """See `InquiryBackend`."""
        model = self.overrides.get((inquiry.tool, inquiry.question.id), self.default)
        request = self._request(model, with_open_question(thread, inquiry), inquiry)
        try:
            assert request.schema is not None
            model.provider.check_schema(request.schema)
            if model.is_replayed:
                await inquiry.when_idle()
            entries = await request_response(
                model, request, waits=inquiry.waits, spent=inquiry.spent, sleep=self.sleep
            )
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            raise InquiryError("Inquiry cancelled") from None  # by the provider itself
        except JpNbError as exc:
            raise InquiryError(f"LLM provider error: {without_addresses(str(exc))}") from exc
        except Exception as exc:
            log.exception("An inquiry failed")
            raise InquiryError(f"LLM provider error: {type(exc).__name__}") from exc
        return extract_answer(entries, inquiry)

    def _request(
        self, model: InquiryModel, thread: RequestContext, inquiry: ModelInquiry
    ) -> ModelRequest:
        return ModelRequest(
            model=model.model,
            thread=thread,
            system=model.system,
            attachments=self.attachments,
            tools=self.tools,
            tool_choice="none",
            parameters=model.parameters,
            schema=answer_schema(inquiry),
            idle_timeout=float(model.request.stream_idle_timeout_secs),
            max_response_bytes=model.request.max_response_bytes,
            conversation_id=self.conversation_id,
        )


async def request_response(
    model: InquiryModel,
    request: ModelRequest,
    *,
    waits: WaitCallback,
    spent: Callable[[str, Usage], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> list[Entry]:
    """Return the entries of one whole response to `request`, with as many attempts as it takes.

    Args:
        model: Who is asked.
        request: What is asked.
        waits: Is told whom is waited for.
        spent: Is told the tokens of every attempt, also of one that failed.
        sleep: Waits before a retry.

    Raises:
        ProviderError: If none came.
    """
    name = model.full_name or model.model
    return await with_retries(
        lambda: _attempt(model.provider, request, partial(spent, name)),
        model=name,
        limits=model.request,
        waits=waits,
        sleep=sleep,
    )


async def _attempt(
    provider: Provider, request: ModelRequest, spent: Callable[[Usage], None]
) -> list[Entry] | Retry:
    """Return the entries of one response; `Retry` if the provider asks to be called again."""
    builder = ResponseBuilder()
    entries: list[Entry] = []
    retry: Retry | None = None
    finished: Finished | None = None
    try:
        async with aclosing(provider.stream(request)) as events:
            async for event in events:
                if isinstance(event, Finished):
                    finished = event
                elif isinstance(event, Retry):
                    retry = event
                elif (entry := builder.feed(event)) is not None:
                    entries.append(entry)
    finally:
        if builder.usage != Usage():
            spent(builder.usage)
    if finished is None:
        if retry is not None:
            return retry
        raise ProviderError("the response ended before the answer was complete", kind="transient")
    _refuse_unless_whole(finished)
    return entries + builder.finish()[0]


def _refuse_unless_whole(finished: Finished) -> None:
    """Raise `ProviderError` if the response is refused or cut off."""
    if finished.reason == "refused":
        detail = f": {finished.detail}" if finished.detail else ""
        raise ProviderError(f"the model refused to answer{detail}")
    if finished.reason == "max_tokens":
        raise ProviderError(
            "the answer reached the token limit and is incomplete", kind="output_limit"
        )


# --- what another model may read -------------------------------------------------------------

_LONGEST: Final = 1000
_URL: Final = re.compile(
    r"\b[a-z][a-z0-9+.-]*://(?:[^\s/@'\"]*@)?([^\s/:'\"?#)\]]+)[^\s'\")\]]*(?<![:.,;])",
    re.IGNORECASE,
)
_ADDRESS: Final = re.compile(
    r"\b(?:\d{1,3}(?:\.\d{1,3}){3}|localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)+(?=:\d))(?::\d+)?\b",
    re.IGNORECASE,
)
_KEY: Final = re.compile(
    r"\bbearer\s+\S+|\b(?:sk|pk|rk|gsk|xai|ghp|gho|key)[-_][\w*-]{8,}|\bAIza[\w-]{8,}",
    re.IGNORECASE,
)


def without_addresses(text: str) -> str:
    """Return `text` without servers and keys that a provider's error may name, and shortened.

    The error goes to the model that called the tool, and into the record.
    """
    text = text[:_LONGEST]
    hosts = {match[1] for match in _URL.finditer(text)}
    text = _URL.sub("[address]", text)
    for host in hosts:
        text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", "[address]", text)
    return _KEY.sub("[key]", _ADDRESS.sub("[address]", text))
