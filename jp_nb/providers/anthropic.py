"""Anthropic Messages: build requests, decode streams, list models.

Source: `docs/providers.md`, https://docs.anthropic.com/en/api/messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Final, Self

from pydantic import JsonValue

from jp_nb.agent.provider import (
    Attachment,
    Finished,
    FinishReason,
    Flush,
    KeepAlive,
    ModelList,
    ModelRequest,
    ProviderEvent,
    Retry,
    SentRequest,
    TextPart,
    ToolCallArguments,
    ToolCallStart,
    ToolChoice,
    Usage,
)
from jp_nb.errors import ProviderError
from jp_nb.images import Image
from jp_nb.providers import schemas
from jp_nb.providers.endpoint import (
    Endpoint,
    LeftOut,
    Level,
    ProviderSettings,
    ReasoningEffort,
    Warnings,
    parse_reasoning,
)
from jp_nb.providers.errors import classify_in_stream
from jp_nb.providers.http import HttpClient
from jp_nb.providers.messages import (
    CONTINUE,
    IMAGES,
    PDF,
    Attached,
    AttachedOnce,
    CallIds,
    Message,
    Rendering,
    Renderings,
    base64_text,
    continues_answer,
    encode,
    encode_body,
    name_of,
    plain_schema,
    reasoning_as_text,
    response_text,
    sort_out,
)
from jp_nb.providers.models import list_anthropic
from jp_nb.providers.schemas import AnswerText, is_json_object
from jp_nb.providers.streaming import StreamDecoder, WireObject, events
from jp_nb.record.context import ContextItem, RequestContext
from jp_nb.record.events import ChatRequest, ChatResponse, ToolCallRequest, ToolCallResponse

NAME: Final = "anthropic"
SIGNATURE: Final = "anthropic_thinking_signature"
REDACTED: Final = "anthropic_redacted_thinking"
_THINKING: Final = ("thinking", "redacted_thinking")

_INTERLEAVED: Final = "interleaved-thinking"
_MIN_BUDGET: Final = 1024
_NO_THINKING: Final[Message] = {"type": "disabled"}
_CACHE: Final[Message] = {"type": "ephemeral"}
_MAX_TITLE: Final = 500
# Models before effort levels, which want a number of tokens.
_BUDGETTED: Final = re.compile(r"claude-(?:3-7-|(?:sonnet|opus|haiku)-4(?:-[0-5])?(?:-20\d{6})?$)")
# Models that take no sampling settings at all.
_UNSAMPLED: Final = re.compile(r"claude-(?:opus-4-[7-9]|[a-z]+-[5-9])")
_RECENT: Final = re.compile(r"claude-[a-z]+-[4-9]")


def build_head(
    request: ModelRequest,
    *,
    answer: schemas.AnswerSchema | None = None,
    betas: str = "",
    always_thinking: bool = False,
    warnings: Warnings | None = None,
) -> Message:
    """Everything in the body of `request` but its messages.

    Three of the four cache markers allowed: on the last system text, on the last tool, and the
    automatic one that follows the end of the messages. `attach` sets the fourth.
    """
    warnings = warnings or Warnings(NAME)
    max_tokens = request.parameters.max_tokens or default_max_tokens(request.model)
    thinking, effort = _thinking(request, max_tokens, interleaved=_INTERLEAVED in betas)
    if always_thinking and thinking == _NO_THINKING:
        thinking = None
    active = always_thinking or thinking not in (None, _NO_THINKING)
    system = [_text(text) for text in request.system if text.strip()]
    if system:
        system[-1]["cache_control"] = _CACHE
    tools: list[Message] = [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": plain_schema(tool),
        }
        for tool in request.tools
    ]
    head: Message = {
        "model": request.model,
        "max_tokens": max_tokens,
        "stream": True,
        "cache_control": _CACHE,
    }
    if tools:
        tools[-1]["cache_control"] = _CACHE
        choice = request.tool_choice
        if active and choice not in ("auto", "none"):
            # The API refuses to force a tool while it thinks: an order behind the cached part.
            system.append(_text(_order(choice)))
            choice = "auto"
        head["tools"] = tools
        head["tool_choice"] = _tool_choice(choice, len(tools))
    if system:
        head["system"] = system
    if thinking is not None:
        head["thinking"] = thinking
    output: Message = {}
    if effort is not None:
        output["effort"] = effort
    if answer is not None:
        output["format"] = {"type": "json_schema", "schema": answer.schema}
    if output:
        head["output_config"] = output
    head.update(_sampling(request, thinking=active, warnings=warnings))
    return head


def attach(attachments: Sequence[Attachment]) -> Attached:
    """`attachments` as blocks for the front of the first user message; the last marks the cache."""
    sent, skipped = sort_out(attachments, IMAGES | {PDF})
    blocks = [block for attachment in sent for block in _attachment_blocks(attachment)]
    if not blocks:
        return Attached(skipped=skipped)
    blocks[-1]["cache_control"] = _CACHE
    return Attached(front=encode(blocks)[1:-1], skipped=skipped)


def _attachment_blocks(attachment: Attachment) -> list[Message]:
    content = attachment.content
    if isinstance(content, str):
        text = content if content.strip() else "(empty)"  # a blank one is refused
        return [_document(attachment, {"type": "text", "media_type": "text/plain", "data": text})]
    source = {
        "type": "base64",
        "media_type": attachment.media_type,
        "data": base64_text(content),
    }
    if attachment.media_type == PDF:
        return [_document(attachment, source)]
    return [_text(name_of(attachment)), {"type": "image", "source": source}]


def _with_images(text: str, images: Sequence[Image]) -> list[Message]:
    """`text`, and each of `images` behind its name."""
    blocks = [_text(text)] if text.strip() else []
    for image in images:
        source = {"type": "base64", "media_type": image.media_type, "data": image.text}
        blocks += [_text(f"[image: {image.words}]"), {"type": "image", "source": source}]
    return blocks


def _document(attachment: Attachment, source: Message) -> Message:
    title = name_of(attachment)
    if len(title) > _MAX_TITLE:
        title = "…" + title[1 - _MAX_TITLE :]
    return {"type": "document", "source": source, "title": title}


def default_max_tokens(model: str) -> int:
    """Size of an answer where nobody set one; the API demands a number."""
    return 32_000 if _RECENT.match(model) else 8_192


def _sampling(request: ModelRequest, *, thinking: bool, warnings: Warnings) -> Message:
    parameters = request.parameters
    sampling: Message = {}
    for name, value in (
        ("temperature", parameters.temperature),
        ("top_p", parameters.top_p),
        ("top_k", parameters.top_k),
    ):
        if value is None:
            continue
        if _UNSAMPLED.match(request.model):
            reason = f"{request.model} does not support this parameter"
        elif thinking and name != "top_p":
            reason = "not allowed with reasoning"
        else:
            sampling[name] = value
            continue
        warnings.ignored(name, reason, conversation_id=request.conversation_id)
    if parameters.stop_words:
        sampling["stop_sequences"] = list(parameters.stop_words)
    for name, extra in parameters.other.items():
        if name == "context_management":
            sampling[name] = extra
        else:
            warnings.ignored(
                name, "not a parameter of this API", conversation_id=request.conversation_id
            )
    return sampling


def _thinking(
    request: ModelRequest, max_tokens: int, *, interleaved: bool
) -> tuple[Message | None, str | None]:
    """The `thinking` object and the effort, by what the model's name says about it."""
    reasoning = parse_reasoning(request.parameters.reasoning)
    if reasoning is None:
        return None, None
    if reasoning.off:
        return _NO_THINKING, None
    display = "omitted" if reasoning.exclude else "summarized"
    if _BUDGETTED.match(request.model):
        budget = max(reasoning.tokens(max_tokens), _MIN_BUDGET)
        if not interleaved:
            budget = min(budget, max_tokens - 1)
        if budget < _MIN_BUDGET:
            return None, None  # an answer this short leaves no room to think
        return {"type": "enabled", "budget_tokens": budget, "display": display}, None
    return {"type": "adaptive", "display": display}, _effort(reasoning, max_tokens)


def _effort(reasoning: ReasoningEffort, max_tokens: int) -> str | None:
    level: Level = reasoning.level(max_tokens)
    return {"auto": None, "xlow": "low"}.get(level, level)


def _tool_choice(choice: ToolChoice, tools: int) -> Message:
    name = choice.removeprefix("tool:")
    if name == choice:
        return {"type": "any" if choice == "required" else choice}
    # With one tool the named form misbehaves, and means the same.
    return {"type": "any"} if tools == 1 else {"type": "tool", "name": name}


def _order(choice: ToolChoice) -> str:
    name = choice.removeprefix("tool:")
    what = "one of your tools" if name == choice else f"the tool `{name}`"
    return f"Your next response must call {what}."


def _text(text: str) -> Message:
    return {"type": "text", "text": text}


class AnthropicRendering(Rendering):
    """A thread as Messages: roles alternate, thinking before calls, results before text.

    Args:
        unsigned_items: The first items, whose thinking the API no longer accepts as its own.
    """

    def __init__(self, unsigned_items: int = 0) -> None:
        super().__init__()
        self.signed = False
        self._unsigned_items = unsigned_items
        self._ids = CallIds(limit=64, clean=True)

    def anew(self) -> Self:
        """Return an empty rendering of what begins as this thread does."""
        return type(self)(self._unsigned_items)

    def add(self, item: ContextItem) -> None:
        """Render the next item."""
        match item.entry:
            case ChatRequest(content=text):
                if text.strip() or item.images:
                    self._drop_loose_thinking()
                    self._content("user").extend(_with_images(text, item.images))
            case ChatResponse() as response:
                blocks = self._response(response, own=item.provider == NAME)
                if blocks:
                    self._content("assistant").extend(blocks)
            case ToolCallRequest() as call:
                content = self._content("assistant")
                content.append(
                    {
                        "type": "tool_use",
                        "id": self._ids.called(call.id, len(self.messages) - 1),
                        "name": call.name,
                        "input": call.arguments,
                    }
                )
            case ToolCallResponse() as result:
                self._result(result, item.images)

    def encode(self, thread: RequestContext, *, front: bytes = b"") -> bytes:
        """Return the messages of `thread`, which is rendered here, as JSON.

        `front` is as in `MessageList.encode`.
        """
        if not continues_answer(thread):
            return self.messages.encode(front=front)
        ended = self.anew() if self._ends_in_thinking() else self
        if ended is not self:
            ended.follow(thread)
            ended._drop_loose_thinking()
        goes_on = ended.messages.last_role == "assistant"
        after = ({"role": "user", "content": [_text(CONTINUE)]},) if goes_on else ()
        return ended.messages.encode(front=front, after=after)

    def _ends_in_thinking(self) -> bool:
        if self.messages.last_role != "assistant":
            return False
        return self.messages[-1]["content"][-1]["type"] in _THINKING

    def _drop_loose_thinking(self) -> None:
        """Take away thinking that nothing came of: the API refuses a message that ends in it."""
        if not self._ends_in_thinking():
            return
        content = self.messages.edit(-1)["content"]
        while content and content[-1]["type"] in _THINKING:
            del content[-1]
        if not content:
            self.messages.drop_last()

    def _response(self, response: ChatResponse, *, own: bool) -> list[Message]:
        if response.kind != "reasoning":
            text = response_text(response)
            return [_text(text)] if text else []
        if own and self.items >= self._unsigned_items:
            signature = response.metadata.get(SIGNATURE)
            redacted = response.metadata.get(REDACTED)
            if redacted:
                return [{"type": "redacted_thinking", "data": redacted}]
            if signature:
                self.signed = True
                return [
                    {
                        "type": "thinking",
                        "thinking": response.reasoning,
                        "signature": signature,
                    }
                ]
        text = reasoning_as_text(response)
        return [_text(text)] if text else []

    def _result(self, result: ToolCallResponse, images: Sequence[Image]) -> None:
        asked = self._ids.answered(result.id)
        if asked is None:
            return  # nobody asked: the API would refuse the whole thread
        id_, asked_in = asked
        block: Message = {"type": "tool_result", "tool_use_id": id_}
        if images:
            block["content"] = _with_images(result.content, images)
        elif result.content.strip():
            block["content"] = result.content
        if result.is_error:
            block["is_error"] = True
        if asked_in + 1 == len(self.messages):
            self.messages.append({"role": "user", "content": []})
        content = self.messages.edit(asked_in + 1)["content"]
        results = sum(block["type"] == "tool_result" for block in content)
        content.insert(results, block)

    def _content(self, role: str) -> list[Message]:
        if self.messages.last_role != role:
            self.messages.append({"role": role, "content": []})
        content: list[Message] = self.messages.edit(-1)["content"]
        return content


_FINISH: Final[Mapping[str, FinishReason]] = {
    "end_turn": "completed",
    "stop_sequence": "completed",
    "tool_use": "completed",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refused",
}
_USAGE: Final[Mapping[str, str]] = {
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
}


class AnthropicDecoder:
    """Decodes the messages of one response."""

    def __init__(self, schema: schemas.AnswerSchema | None = None) -> None:
        self._answer = AnswerText(schema)
        self._blocks: dict[int, _Block] = {}
        self._cut_call: Flush | None = None
        self._usage: dict[str, int] = {}
        self._stop_reason: str | None = None
        self._stop_details: Mapping[str, JsonValue] = {}
        self._finished = False
        self._signatures = 0

    @property
    def held(self) -> int:
        """Characters that were taken and are in no event yet."""
        return self._answer.held + self._signatures

    complete = False

    def feed(self, message: WireObject) -> list[ProviderEvent]:
        """The events that `message` gives; see `streaming.Decoder`."""
        match message.get("type"):
            case "content_block_delta":
                return self._delta(message["index"], message["delta"])
            case "content_block_start":
                return [*self._release(), *self._start(message["index"], message["content_block"])]
            case "content_block_stop":
                return self._stop(message["index"])
            case "message_start":
                return self._report(message["message"].get("usage"))
            case "message_delta":
                return self._ending(message)
            case "message_stop":
                self._finished = True
                return [*self._release(), self._end()]
            case "ping":
                return [KeepAlive()]
            case "error":
                raise classify_in_stream(message.get("error"), provider=NAME)
            case None if "error" in message:
                raise classify_in_stream(message["error"], provider=NAME)
        return []

    def finish(self) -> list[ProviderEvent]:
        """Nothing more, or an error: the protocol has its own last message."""
        if not self._finished:
            raise ProviderError(
                f"the response of {NAME} ended before it was complete", kind="transient"
            )
        return []

    def _start(self, index: int, content: WireObject) -> list[ProviderEvent]:
        block = self._blocks[index] = _Block(content["type"])
        match block.type:
            case "text":
                return self._text(index, content.get("text"))
            case "thinking":
                signature = content.get("signature") or ""
                block.signature.append(signature)
                self._signatures += len(signature)
                return self._thought(index, block, content.get("thinking"))
            case "redacted_thinking":
                block.redacted = content["data"]
            case "tool_use":
                start = ToolCallStart(index, content["id"], content["name"])
                given = content.get("input")
                if not given:
                    return [start]
                return [start, *self._arguments(index, block, json.dumps(given))]
        return []

    def _delta(self, index: int, delta: WireObject) -> list[ProviderEvent]:
        match delta["type"]:
            case "text_delta":
                return self._text(index, delta["text"])
            case "input_json_delta" if self._blocks[index].type == "tool_use":
                return self._arguments(index, self._blocks[index], delta["partial_json"])
            case "thinking_delta":
                return self._thought(index, self._blocks[index], delta["thinking"])
            case "signature_delta":
                self._blocks[index].signature.append(delta["signature"])
                self._signatures += len(delta["signature"])
        return []

    def _stop(self, index: int) -> list[ProviderEvent]:
        block = self._blocks.pop(index)
        match block.type:
            case "text":
                return [*self._answer.complete(index), Flush(index)]
            case "thinking" | "redacted_thinking":
                metadata: dict[str, JsonValue] = {}
                if signature := "".join(block.signature):
                    metadata[SIGNATURE] = signature
                    self._signatures -= len(signature)
                if block.redacted:
                    metadata[REDACTED] = block.redacted
                # Reasoning without a text still has to be replayed: give it a place.
                empty = [] if block.pieces else [TextPart(index, "reasoning", "")]
                return [*empty, Flush(index, metadata)] if metadata or block.pieces else []
            case "tool_use":
                flush = Flush(index)
                if is_json_object("".join(block.pieces)):
                    return [flush]
                self._cut_call = flush  # empty, or cut by the limit? The stop reason will tell.
        return []

    def _text(self, index: int, text: str | None) -> list[ProviderEvent]:
        return self._answer.part(index, text) if text else []

    def _thought(self, index: int, block: _Block, text: str | None) -> list[ProviderEvent]:
        if not text:
            return []
        block.pieces.append(text)
        return [TextPart(index, "reasoning", text)]

    def _arguments(self, index: int, block: _Block, text: str) -> list[ProviderEvent]:
        if not text:
            return []
        block.pieces.append(text)
        return [ToolCallArguments(index, text)]

    def _release(self) -> list[ProviderEvent]:
        flush, self._cut_call = self._cut_call, None
        return [flush] if flush is not None else []

    def _ending(self, message: WireObject) -> list[ProviderEvent]:
        delta = message["delta"]
        self._stop_reason = delta.get("stop_reason") or self._stop_reason
        self._stop_details = delta.get("stop_details") or self._stop_details
        if _FINISH.get(self._stop_reason or "") == "max_tokens":
            self._cut_call = None
        return [*self._release(), *self._report(message.get("usage"))]

    def _report(self, usage: WireObject | None) -> list[ProviderEvent]:
        """Usage as all providers give it: the input includes what the cache served or took."""
        if not usage:
            return []
        self._usage.update((key, value) for key, value in usage.items() if isinstance(value, int))
        counts: dict[str, int] = {
            ours: self._usage[theirs] for theirs, ours in _USAGE.items() if theirs in self._usage
        }
        details = usage.get("output_tokens_details") or {}
        if "thinking_tokens" in details:
            counts["reasoning_tokens"] = details["thinking_tokens"]
        if "input_tokens" in self._usage:
            counts["input_tokens"] = self._usage["input_tokens"] + sum(
                counts.get(name, 0) for name in ("cache_read_tokens", "cache_write_tokens")
            )
        return [Usage(**counts)]

    def _end(self) -> Finished:
        word = self._stop_reason
        reason: FinishReason = "completed" if word is None else _FINISH.get(word, "other")
        if reason == "refused":
            said = (self._stop_details.get(name) for name in ("category", "explanation"))
            return Finished(reason, ": ".join(str(text) for text in said if text) or None)
        return Finished(reason, word if reason == "other" else None)


class _Block:
    """A content block that is being received."""

    def __init__(self, kind: str) -> None:
        self.type = kind
        self.pieces: list[str] = []
        self.signature: list[str] = []
        self.redacted = ""


PATH: Final = "/v1/messages"
VERSION: Final = "2023-06-01"


class AnthropicProvider:
    """A server that speaks Anthropic Messages. Keeps its rendering of the threads it is sent."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._http = HttpClient(endpoint)
        self._renderings: Renderings[AnthropicRendering] = Renderings(AnthropicRendering)
        self._attached = AttachedOnce(attach)
        self._warnings = Warnings(endpoint.provider)
        self._always_thinking: set[str] = set()

    def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Stream one response; see `Provider`."""
        rendering = self._renderings.of(request.thread)
        answer = answer_schema(request)
        body = self._body(request, rendering, answer, self._warnings)

        def recover(error: ProviderError) -> ProviderEvent | None:
            # What it signed once and takes back no longer is sent as text.
            if rendering.signed and is_stale_signature(error):
                self._renderings.replace(
                    request.thread, AnthropicRendering(unsigned_items=len(request.thread))
                )
                return Retry(error.without_address, drop_metadata=SIGNATURE)
            if is_always_thinking(error) and request.model not in self._always_thinking:
                self._always_thinking.add(request.model)
                return Retry(error.without_address)
            return None

        return events(
            self._http.post(body),
            StreamDecoder(
                AnthropicDecoder(answer),
                provider=NAME,
                max_response_bytes=request.max_response_bytes,
                redaction=self._http.redaction(),
            ),
            provider=NAME,
            idle_timeout=request.idle_timeout,
            told=self._http.told,
            recover=recover,
        )

    def preview(self, request: ModelRequest) -> SentRequest:
        """Return what `stream` would send; see `Provider`."""
        rendering, left_out = self._renderings.beside(request.thread), LeftOut(NAME)
        body = self._body(request, rendering, answer_schema(request), left_out)
        return self._http.preview(body, left_out=left_out.lines)

    def _body(
        self,
        request: ModelRequest,
        rendering: AnthropicRendering,
        answer: schemas.AnswerSchema | None,
        warnings: Warnings,
    ) -> bytes:
        attached = self._attached.of(request.attachments)
        attached.warn(warnings, conversation_id=request.conversation_id)
        head = build_head(
            request,
            answer=answer,
            betas=self._http.endpoint.headers.get("anthropic-beta", ""),
            always_thinking=request.model in self._always_thinking,
            warnings=warnings,
        )
        return encode_body(head, rendering.encode(request.thread, front=attached.front))

    @property
    def address(self) -> str:
        """Return the address of the server; see `Provider`."""
        return self._http.endpoint.url

    def check_ready(self, model: str, text: str) -> None:
        """Refuse a request without its key; see `Provider`."""
        self._http.check_ready()

    async def models(self, *, seconds: float) -> ModelList:
        """Ask what there is; see `Provider`."""
        return await list_anthropic(self._http, seconds)

    def check_schema(self, schema: Mapping[str, JsonValue]) -> None:
        """Refuse what cannot be enforced; see `Provider`."""
        schemas.check_anthropic(schema)

    async def aclose(self) -> None:
        """Close connections."""
        await self._http.aclose()


def create(settings: ProviderSettings) -> AnthropicProvider:
    """Return the provider that `settings` describe.

    Raises:
        ConfigError: If a setting cannot be.
    """
    headers = {"anthropic-version": VERSION}
    if betas := settings.texts("beta_headers"):
        headers["anthropic-beta"] = ",".join(betas)
    return AnthropicProvider(settings.endpoint(PATH, headers=headers, key_header="x-api-key"))


def answer_schema(request: ModelRequest) -> schemas.AnswerSchema | None:
    """Return the schema of a structured answer as this API takes it; None for text."""
    return None if request.schema is None else schemas.for_anthropic(request.schema)


def is_stale_signature(error: ProviderError) -> bool:
    """Return True if the API rejects a thinking block that it once signed."""
    text = str(error).lower()
    return (
        error.status == 400
        and "thinking" in text
        and ("signature" in text or "cannot be modified" in text)
    )


def is_always_thinking(error: ProviderError) -> bool:
    """Return True if the API says that the model cannot be kept from thinking."""
    text = str(error).lower()
    return error.status == 400 and "thinking" in text and "disabled" in text
