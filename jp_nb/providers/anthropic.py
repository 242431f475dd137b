"""Anthropic Messages: build requests, decode streams, list models.

Source: `docs/providers.md`, https://docs.anthropic.com/en/api/messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Self

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
    ToolCallStart,
    ToolChoice,
    ToolDefinition,
    Usage,
)
from jp_nb.config.tree.models import Anthropic
from jp_nb.errors import ProviderError
from jp_nb.images import Image
from jp_nb.providers import schemas
from jp_nb.providers.dialect import HttpProvider
from jp_nb.providers.endpoint import (
    Endpoint,
    OmissionLog,
    make_endpoint,
    parse_reasoning,
)
from jp_nb.providers.errors import classify_stream_error
from jp_nb.providers.messages import (
    CONTINUE,
    IMAGES,
    PDF,
    CallIds,
    FormattedAttachments,
    Message,
    Rendering,
    base64_text,
    encode_json,
    encode_messages_body,
    format_attachment_name,
    format_reasoning_text,
    format_response_text,
    get_parameter_schema,
    split_attachments,
)
from jp_nb.providers.models import list_anthropic_models
from jp_nb.providers.streaming import (
    AnswerText,
    EventBuffer,
    WireObject,
    is_json_object,
)
from jp_nb.record.context import ContextItem
from jp_nb.record.events import ChatRequest, ChatResponse, ToolCallRequest, ToolCallResponse

NAME: Final = "anthropic"
SIGNATURE: Final = "anthropic_thinking_signature"
REDACTED: Final = "anthropic_redacted_thinking"
_THINKING: Final = ("thinking", "redacted_thinking")

_MIN_BUDGET: Final = 1024
_NO_THINKING: Final[Message] = {"type": "disabled"}
_CACHE: Final[Message] = {"type": "ephemeral"}
_MAX_TITLE: Final = 500
# Models without effort levels: they take a number of tokens.
_TOKEN_BUDGET_MODELS: Final = re.compile(
    r"claude-(?:3-7-|(?:sonnet|opus|haiku)-4(?:-[0-5])?(?:-20\d{6})?$)"
)
# Models that reject all sampling settings.
_NO_SAMPLING_MODELS: Final = re.compile(r"claude-(?:opus-4-[7-9]|[a-z]+-[5-9])")
_LARGE_OUTPUT_MODELS: Final = re.compile(r"claude-[a-z]+-[4-9]")


def build_request_fields(
    request: ModelRequest,
    *,
    answer: schemas.AnswerSchema | None = None,
    betas: str = "",
    always_thinking: bool = False,
    omissions: OmissionLog | None = None,
) -> Message:
    """Return all members of the request body except `messages`.

    Sets three of the four cache markers that the API allows: on the last system text, on the last
    tool, and the automatic one at the end of the messages. `format_attachments` sets the fourth.
    """
    omissions = omissions or OmissionLog(NAME)
    max_tokens = request.parameters.max_tokens or default_max_tokens(request.model)
    interleaved = "interleaved-thinking" in betas
    thinking, effort = _format_thinking(request, max_tokens, interleaved=interleaved)
    if always_thinking and thinking == _NO_THINKING:
        thinking = None
    active = always_thinking or thinking not in (None, _NO_THINKING)
    system = [_text_block(text) for text in request.system if text.strip()]
    if system:
        system[-1]["cache_control"] = _CACHE
    tools = [_format_tool(tool) for tool in request.tools]
    fields: Message = {
        "model": request.model,
        "max_tokens": max_tokens,
        "stream": True,
        "cache_control": _CACHE,
    }
    if tools:
        tools[-1]["cache_control"] = _CACHE
        choice = request.tool_choice
        if active and choice not in ("auto", "none"):
            # The API rejects a forced tool with thinking. The instruction follows the cached part.
            system.append(_text_block(_format_tool_instruction(choice)))
            choice = "auto"
        fields["tools"] = tools
        fields["tool_choice"] = _format_tool_choice(choice, len(tools))
    if system:
        fields["system"] = system
    if thinking is not None:
        fields["thinking"] = thinking
    output: Message = {}
    if effort is not None:
        output["effort"] = effort
    if answer is not None:
        output["format"] = {"type": "json_schema", "schema": answer.schema}
    if output:
        fields["output_config"] = output
    fields.update(_format_sampling(request, thinking=active, omissions=omissions))
    return fields


def _format_tool(tool: ToolDefinition) -> Message:
    schema = get_parameter_schema(tool)
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


def format_attachments(attachments: Sequence[Attachment]) -> FormattedAttachments:
    """Format attachments as blocks of the first user message. The last one has a cache marker."""
    sent, skipped = split_attachments(attachments, IMAGES | {PDF})
    blocks = [block for attachment in sent for block in _format_attachment(attachment)]
    if not blocks:
        return FormattedAttachments(skipped=skipped)
    blocks[-1]["cache_control"] = _CACHE
    return FormattedAttachments(user_parts=encode_json(blocks)[1:-1], skipped=skipped)


def _format_attachment(attachment: Attachment) -> list[Message]:
    content = attachment.content
    if isinstance(content, str):
        text = content if content.strip() else "(empty)"  # the API rejects a blank text
        return [
            _document_block(attachment, {"type": "text", "media_type": "text/plain", "data": text})
        ]
    source = {
        "type": "base64",
        "media_type": attachment.media_type,
        "data": base64_text(content),
    }
    if attachment.media_type == PDF:
        return [_document_block(attachment, source)]
    return [_text_block(format_attachment_name(attachment)), {"type": "image", "source": source}]


def _format_text_and_images(text: str, images: Sequence[Image]) -> list[Message]:
    blocks = [_text_block(text)] if text.strip() else []
    for image in images:
        source = {"type": "base64", "media_type": image.media_type, "data": image.text}
        blocks += [_text_block(f"[image: {image.words}]"), {"type": "image", "source": source}]
    return blocks


def _document_block(attachment: Attachment, source: Message) -> Message:
    title = format_attachment_name(attachment)
    if len(title) > _MAX_TITLE:
        title = "…" + title[1 - _MAX_TITLE :]
    return {"type": "document", "source": source, "title": title}


def default_max_tokens(model: str) -> int:
    """Return the token limit of an answer if none is configured. The API requires one."""
    return 32_000 if _LARGE_OUTPUT_MODELS.match(model) else 8_192


def _format_sampling(request: ModelRequest, *, thinking: bool, omissions: OmissionLog) -> Message:
    parameters = request.parameters
    sampling: Message = {}
    for name, value in (
        ("temperature", parameters.temperature),
        ("top_p", parameters.top_p),
        ("top_k", parameters.top_k),
    ):
        if value is None:
            continue
        if _NO_SAMPLING_MODELS.match(request.model):
            reason = f"{request.model} does not support this parameter"
        elif thinking and name != "top_p":
            reason = "not allowed with reasoning"
        else:
            sampling[name] = value
            continue
        omissions.report_parameter(name, reason, conversation_id=request.conversation_id)
    if parameters.stop_words:
        sampling["stop_sequences"] = list(parameters.stop_words)
    for name, extra in parameters.other.items():
        if name == "context_management":
            sampling[name] = extra
        else:
            omissions.report_parameter(
                name, "not a parameter of this API", conversation_id=request.conversation_id
            )
    return sampling


def _format_thinking(
    request: ModelRequest, max_tokens: int, *, interleaved: bool
) -> tuple[Message | None, str | None]:
    reasoning = parse_reasoning(request.parameters.reasoning)
    if reasoning is None:
        return None, None
    if reasoning.is_off:
        return _NO_THINKING, None
    display = "omitted" if reasoning.exclude else "summarized"
    if _TOKEN_BUDGET_MODELS.match(request.model):
        budget = max(reasoning.to_tokens(max_tokens), _MIN_BUDGET)
        if not interleaved:
            budget = min(budget, max_tokens - 1)
        if budget < _MIN_BUDGET:
            return None, None  # the answer is too short for thinking
        return {"type": "enabled", "budget_tokens": budget, "display": display}, None
    level = reasoning.to_level(max_tokens)
    effort = {"auto": None, "xlow": "low"}.get(level, level)
    return {"type": "adaptive", "display": display}, effort


def _format_tool_choice(choice: ToolChoice, tools: int) -> Message:
    name = choice.removeprefix("tool:")
    if name == choice:
        return {"type": "any" if choice == "required" else choice}
    # Models ignore the named form if there is only one tool. `any` has the same meaning.
    return {"type": "any"} if tools == 1 else {"type": "tool", "name": name}


def _format_tool_instruction(choice: ToolChoice) -> str:
    name = choice.removeprefix("tool:")
    tool = "one of your tools" if name == choice else f"the tool `{name}`"
    return f"Your next response must call {tool}."


def _text_block(text: str) -> Message:
    return {"type": "text", "text": text}


class AnthropicRendering(Rendering):
    """Anthropic messages of a context.

    Roles alternate, thinking precedes calls, and results precede text.

    Args:
        unsigned_items: Number of leading items whose signatures the API has rejected.
    """

    continue_request: ClassVar[Message] = {"role": "user", "content": [_text_block(CONTINUE)]}

    def __init__(self, unsigned_items: int = 0) -> None:
        super().__init__()
        self.has_signatures = False
        self._unsigned_items = unsigned_items
        self._ids = CallIds(limit=64, clean=True)

    def make_empty(self) -> Self:
        """Return an empty rendering with the same number of unsigned items."""
        return type(self)(self._unsigned_items)

    def add(self, item: ContextItem) -> None:
        """Render the next item."""
        match item.entry:
            case ChatRequest(content=text):
                if text.strip() or item.images:
                    self._drop_empty_answer()
                    self._open_content("user").extend(_format_text_and_images(text, item.images))
            case ChatResponse() as response:
                blocks = self._format_response(response, own=item.provider == NAME)
                if blocks:
                    self._open_content("assistant").extend(blocks)
            case ToolCallRequest() as call:
                content = self._open_content("assistant")
                content.append(
                    {
                        "type": "tool_use",
                        "id": self._ids.assign(call.id, len(self.messages) - 1),
                        "name": call.name,
                        "input": call.arguments,
                    }
                )
            case ToolCallResponse() as result:
                self._add_result(result, item.images)

    def _has_empty_answer(self) -> bool:
        if self.messages.last_role != "assistant":
            return False
        return self.messages[-1]["content"][-1]["type"] in _THINKING

    def _drop_empty_answer(self) -> None:
        # The API rejects an assistant message that ends with thinking.
        if not self._has_empty_answer():
            return
        content = self.messages.edit(-1)["content"]
        while content and content[-1]["type"] in _THINKING:
            del content[-1]
        if not content:
            self.messages.drop_last()

    def _format_response(self, response: ChatResponse, *, own: bool) -> list[Message]:
        if response.kind != "reasoning":
            text = format_response_text(response)
            return [_text_block(text)] if text else []
        if own and self.items >= self._unsigned_items:
            signature = response.metadata.get(SIGNATURE)
            redacted = response.metadata.get(REDACTED)
            if redacted:
                return [{"type": "redacted_thinking", "data": redacted}]
            if signature:
                self.has_signatures = True
                return [
                    {
                        "type": "thinking",
                        "thinking": response.reasoning,
                        "signature": signature,
                    }
                ]
        text = format_reasoning_text(response)
        return [_text_block(text)] if text else []

    def _add_result(self, result: ToolCallResponse, images: Sequence[Image]) -> None:
        call = self._ids.match_result(result.id)
        if call is None:
            return  # the API rejects a request with a result that has no call
        id_, call_index = call
        block: Message = {"type": "tool_result", "tool_use_id": id_}
        if images:
            block["content"] = _format_text_and_images(result.content, images)
        elif result.content.strip():
            block["content"] = result.content
        if result.is_error:
            block["is_error"] = True
        if call_index + 1 == len(self.messages):
            self.messages.append({"role": "user", "content": []})
        content = self.messages.edit(call_index + 1)["content"]
        results = sum(block["type"] == "tool_result" for block in content)
        content.insert(results, block)

    def _open_content(self, role: str) -> list[Message]:
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
    """Decoder for one response of Anthropic Messages; see `streaming.Decoder`."""

    def __init__(self, schema: schemas.AnswerSchema | None = None) -> None:
        self._answer = AnswerText(schema)
        self._blocks: dict[int, _OpenBlock] = {}
        self._pending_flush: Flush | None = None
        self._usage: dict[str, int] = {}
        self._stop_reason: str | None = None
        self._stop_details: Mapping[str, JsonValue] = {}
        self._finished = False
        self._signatures = 0

    @property
    def held_chars(self) -> int:
        """Number of received characters that are in no event yet."""
        return self._answer.held_chars + self._signatures

    is_complete = False

    def feed(self, message: WireObject, out: EventBuffer) -> None:
        """Add the events of `message`."""
        match message.get("type"):
            case "content_block_delta":
                self._apply_delta(message["index"], message["delta"], out)
            case "content_block_start":
                self._flush_pending_call(out)
                self._start_block(message["index"], message["content_block"], out)
            case "content_block_stop":
                self._stop_block(message["index"], out)
            case "message_start":
                self._add_usage(message["message"].get("usage"), out)
            case "message_delta":
                self._apply_message_delta(message, out)
            case "message_stop":
                self._finished = True
                self._flush_pending_call(out)
                out.add(self._make_finished())
            case "ping":
                out.add(KeepAlive())
            case "error":
                raise classify_stream_error(message.get("error"), provider=NAME)
            case None if "error" in message:
                raise classify_stream_error(message["error"], provider=NAME)

    def finish(self, out: EventBuffer) -> None:
        """Add no event: the protocol has its own last message."""
        if not self._finished:
            raise ProviderError(
                f"the response of {NAME} ended before it was complete", kind="transient"
            )

    def _start_block(self, index: int, content: WireObject, out: EventBuffer) -> None:
        block = self._blocks[index] = _OpenBlock(content["type"])
        match block.type:
            case "text":
                self._add_text(index, content.get("text"), out)
            case "thinking":
                self._add_signature(block, content.get("signature") or "")
                self._add_thinking(index, content.get("thinking"), out)
            case "redacted_thinking":
                block.redacted = content["data"]
            case "tool_use":
                out.add(ToolCallStart(index, content["id"], content["name"]))
                if given := content.get("input"):
                    self._add_arguments(index, json.dumps(given), out)

    def _apply_delta(self, index: int, delta: WireObject, out: EventBuffer) -> None:
        match delta["type"]:
            case "text_delta":
                self._add_text(index, delta["text"], out)
            case "input_json_delta" if self._blocks[index].type == "tool_use":
                self._add_arguments(index, delta["partial_json"], out)
            case "thinking_delta":
                self._add_thinking(index, delta["thinking"], out)
            case "signature_delta":
                self._add_signature(self._blocks[index], delta["signature"])

    def _stop_block(self, index: int, out: EventBuffer) -> None:
        block = self._blocks.pop(index)
        match block.type:
            case "text":
                self._answer.finish(index, out)
                out.add(Flush(index))
            case "thinking" | "redacted_thinking":
                metadata: dict[str, JsonValue] = {}
                if signature := "".join(block.signature):
                    metadata[SIGNATURE] = signature
                    self._signatures -= len(signature)
                if block.redacted:
                    metadata[REDACTED] = block.redacted
                if metadata and not block.pieces:
                    # A signature without text is replayed as well, so it needs a part.
                    out.add_text(index, "reasoning", "")
                if metadata or block.pieces:
                    out.add(Flush(index, metadata))
            case "tool_use":
                if is_json_object("".join(block.pieces)):
                    out.add(Flush(index))
                else:  # The arguments are empty or cut, which the stop reason tells.
                    self._pending_flush = Flush(index)

    def _add_text(self, index: int, text: str | None, out: EventBuffer) -> None:
        if text:
            self._answer.feed(index, text, out)

    def _add_thinking(self, index: int, text: str | None, out: EventBuffer) -> None:
        pieces = self._blocks[index].pieces
        if text:
            pieces.append(text)
            out.add_text(index, "reasoning", text)

    def _add_arguments(self, index: int, text: str, out: EventBuffer) -> None:
        if text:
            self._blocks[index].pieces.append(text)
            out.add_arguments(index, text)

    def _add_signature(self, block: _OpenBlock, signature: str) -> None:
        block.signature.append(signature)
        self._signatures += len(signature)

    def _flush_pending_call(self, out: EventBuffer) -> None:
        flush, self._pending_flush = self._pending_flush, None
        if flush is not None:
            out.add(flush)

    def _apply_message_delta(self, message: WireObject, out: EventBuffer) -> None:
        delta = message["delta"]
        self._stop_reason = delta.get("stop_reason") or self._stop_reason
        self._stop_details = delta.get("stop_details") or self._stop_details
        if _FINISH.get(self._stop_reason or "") == "max_tokens":
            self._pending_flush = None
        self._flush_pending_call(out)
        self._add_usage(message.get("usage"), out)

    def _add_usage(self, usage: WireObject | None, out: EventBuffer) -> None:
        # Input tokens include cached ones, as with the other providers.
        if not usage:
            return
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
        out.add(Usage(**counts))

    def _make_finished(self) -> Finished:
        word = self._stop_reason
        reason: FinishReason = "completed" if word is None else _FINISH.get(word, "other")
        if reason == "refused":
            details = (self._stop_details.get(name) for name in ("category", "explanation"))
            return Finished(reason, ": ".join(str(text) for text in details if text) or None)
        return Finished(reason, word if reason == "other" else None)


class _OpenBlock:
    def __init__(self, kind: str) -> None:
        self.type = kind
        self.pieces: list[str] = []
        self.signature: list[str] = []
        self.redacted = ""


PATH: Final = "/v1/messages"
VERSION: Final = "2023-06-01"


class AnthropicProvider(HttpProvider[AnthropicRendering]):
    """Provider for servers with the Anthropic Messages API."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, AnthropicRendering, format_attachments)
        self._always_thinking: set[str] = set()

    def _answer_schema(self, request: ModelRequest) -> schemas.AnswerSchema | None:
        return None if request.schema is None else schemas.adapt_for_anthropic(request.schema)

    def _encode_body(
        self,
        request: ModelRequest,
        rendering: AnthropicRendering,
        attached: FormattedAttachments,
        answer: schemas.AnswerSchema | None,
        omissions: OmissionLog,
    ) -> bytes:
        fields = build_request_fields(
            request,
            answer=answer,
            betas=self._http.endpoint.headers.get("anthropic-beta", ""),
            always_thinking=request.model in self._always_thinking,
            omissions=omissions,
        )
        return encode_messages_body(
            fields, rendering.encode(request.thread, user_parts=attached.user_parts)
        )

    def _make_decoder(self, answer: schemas.AnswerSchema | None, body: bytes) -> AnthropicDecoder:
        return AnthropicDecoder(answer)

    def _recover(
        self, error: ProviderError, request: ModelRequest, rendering: AnthropicRendering
    ) -> ProviderEvent | None:
        # Thinking with a rejected signature is sent as text in the next attempt.
        if rendering.has_signatures and is_stale_signature(error):
            self._renderings.replace(
                request.thread, AnthropicRendering(unsigned_items=len(request.thread))
            )
            return Retry(error.without_address, drop_metadata=SIGNATURE)
        if is_always_thinking(error) and request.model not in self._always_thinking:
            self._always_thinking.add(request.model)
            return Retry(error.without_address)
        return None

    async def models(self, *, seconds: float) -> ModelList:
        """List the models of the server."""
        return await list_anthropic_models(self._http, seconds)

    def check_schema(self, schema: Mapping[str, JsonValue]) -> None:
        """Raise if the API cannot enforce `schema`."""
        schemas.check_anthropic(schema)


def create(name: str, config: Anthropic) -> AnthropicProvider:
    """Return the provider that `config` describes.

    Raises:
        ConfigError: The address is not valid.
    """
    headers = {"anthropic-version": VERSION}
    if config.beta_headers:
        headers["anthropic-beta"] = ",".join(config.beta_headers)
    endpoint = make_endpoint(name, config, PATH, headers=headers, key_header="x-api-key")
    return AnthropicProvider(endpoint)


def is_stale_signature(error: ProviderError) -> bool:
    """Return True if the API rejects a thinking block that it signed before."""
    text = str(error).lower()
    return (
        error.status == 400
        and "thinking" in text
        and ("signature" in text or "cannot be modified" in text)
    )


def is_always_thinking(error: ProviderError) -> bool:
    """Return True if the API reports that thinking cannot be disabled for the model."""
    text = str(error).lower()
    return error.status == 400 and "thinking" in text and "disabled" in text
