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
    ModelInfo,
    ModelList,
    ModelRequest,
    ProviderEvent,
    Retry,
    TextKind,
    ToolCallStart,
    ToolChoice,
    ToolDefinition,
    Usage,
)
from jp_nb.config.tree.models import Anthropic
from jp_nb.errors import ProviderError
from jp_nb.images import Image
from jp_nb.providers import schemas
from jp_nb.providers.anthropic_models import Abilities
from jp_nb.providers.dialect import (
    CONTINUE,
    IMAGES,
    PDF,
    CallIds,
    FormattedAttachments,
    HttpProvider,
    Message,
    Omitted,
    Rendering,
    base64_text,
    encode_json,
    encode_messages_body,
    format_attachment_name,
    get_parameter_schema,
    omit_parameter,
    split_attachments,
)
from jp_nb.providers.endpoint import Endpoint, make_endpoint, parse_reasoning
from jp_nb.providers.errors import classify_stream_error
from jp_nb.providers.models import list_anthropic_models
from jp_nb.providers.streaming import (
    Decoder,
    EventBuffer,
    WireObject,
    is_json_object,
)
from jp_nb.record.events import ChatResponse, ToolCallRequest

NAME: Final = "anthropic"
SIGNATURE: Final = "anthropic_thinking_signature"
REDACTED: Final = "anthropic_redacted_thinking"
_THINKING: Final = ("thinking", "redacted_thinking")

_MIN_BUDGET: Final = 1024
_NO_THINKING: Final[Message] = {"type": "disabled"}
_THINKING_PLACE: Final = re.compile(r"messages\.(\d{1,7})(?:\.content\.(\d{1,7}))?")
"""Index of a message and of a block in it, in an error of the API."""
_CACHE: Final[Message] = {"type": "ephemeral"}
_MAX_TITLE: Final = 500
_BINDING_BETA: Final = "thinking-binding-controls"


def build_request_fields(
    request: ModelRequest,
    *,
    answer: schemas.AnswerSchema | None = None,
    betas: str = "",
    abilities: Abilities | None = None,
    omitted: Omitted | None = None,
) -> Message:
    """Return all members of the request body except `messages`.

    Sets three of the four cache markers that the API allows: on the last system text, on the last
    tool, and the automatic one at the end of the messages. `format_attachments` sets the fourth.
    """
    omitted = {} if omitted is None else omitted
    abilities = abilities or Abilities.of(request.model)
    max_tokens = _limit_answer(request, abilities, omitted)
    thinking, effort = _format_thinking(request, max_tokens, abilities, betas, omitted)
    active = thinking != _NO_THINKING and (thinking is not None or abilities.thinks_unasked)
    system = [_text_block(text) for text in request.system if text.strip()]
    if system:
        system[-1]["cache_control"] = _CACHE
    tools = _format_tools(request.tools, strict=abilities.strict)
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
            name = choice.removeprefix("tool:")
            tool = "one of your tools" if name == choice else f"the tool `{name}`"
            system.append(_text_block(f"Your next response must call {tool}."))
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
    return fields | _format_sampling(request, abilities, thinking=active, omitted=omitted)


def format_attachments(attachments: Sequence[Attachment]) -> FormattedAttachments:
    """Format attachments as blocks of the first user message. The last one has a cache marker."""
    sent, omitted = split_attachments(attachments, IMAGES | {PDF})
    blocks = [block for attachment in sent for block in _format_attachment(attachment)]
    if blocks:
        blocks[-1]["cache_control"] = _CACHE
    return FormattedAttachments(user_parts=encode_json(blocks)[1:-1], omitted=omitted)


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


def _format_tools(tools: Sequence[ToolDefinition], *, strict: bool) -> list[Message]:
    parameters = [get_parameter_schema(tool) for tool in tools]
    enforced = schemas.select_strict_tools(parameters) if strict else {}
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": enforced.get(index, parameters[index]),
        }
        | ({"strict": True} if index in enforced else {})
        for index, tool in enumerate(tools)
    ]


def _limit_answer(request: ModelRequest, abilities: Abilities, omitted: Omitted) -> int:
    # The API requires a limit.
    tokens = request.parameters.max_tokens or abilities.max_tokens
    limit = abilities.max_output
    if limit is None or tokens <= limit:
        return tokens
    why = f"{request.model} writes at most {limit:,} tokens, which is sent"
    omit_parameter(omitted, f"max_tokens = {tokens}", why)
    return limit


def _format_sampling(
    request: ModelRequest, abilities: Abilities, *, thinking: bool, omitted: Omitted
) -> Message:
    parameters = request.parameters
    sampling: Message = {}
    for name, value in (
        ("temperature", parameters.temperature),
        ("top_p", parameters.top_p),
        ("top_k", parameters.top_k),
    ):
        if value is None:
            continue
        if not abilities.sampling:
            omit_parameter(omitted, name, f"{request.model} does not support this parameter")
        elif thinking and name != "top_p":
            omit_parameter(omitted, name, "not allowed with reasoning")
        else:
            sampling[name] = value
    if parameters.stop_words:
        sampling["stop_sequences"] = list(parameters.stop_words)
    for name, extra in parameters.other.items():
        if name == "context_management":
            sampling[name] = extra
        else:
            omit_parameter(omitted, name, "not a parameter of this API")
    return sampling


def _format_thinking(
    request: ModelRequest, max_tokens: int, abilities: Abilities, betas: str, omitted: Omitted
) -> tuple[Message | None, str | None]:
    reasoning = parse_reasoning(request.parameters.reasoning)
    if reasoning is None:
        return None, None
    if reasoning.is_off:
        return (_NO_THINKING if "disabled" in abilities.thinking else None), None
    shared: Message = {"display": "omitted" if reasoning.exclude else "summarized"}
    if _BINDING_BETA in betas:
        shared["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    if "adaptive" in abilities.thinking:
        level = reasoning.to_level(max_tokens)
        wanted = {"auto": None, "xlow": "low"}.get(level, level)
        effort = None if wanted is None else abilities.nearest_effort(wanted)
        if effort != wanted:
            sent = f"; `{effort}` is sent" if effort else ""
            why = f"{request.model} does not support this effort{sent}"
            omit_parameter(omitted, f"reasoning = {wanted}", why)
        return {"type": "adaptive", **shared}, effort
    if "enabled" not in abilities.thinking:
        omit_parameter(omitted, "reasoning", f"{request.model} does not support this parameter")
        return None, None
    budget = max(reasoning.to_tokens(max_tokens), _MIN_BUDGET)
    if "interleaved-thinking" not in betas:
        budget = min(budget, max_tokens - 1)
    if budget < _MIN_BUDGET:
        return None, None  # the answer is too short for thinking
    return {"type": "enabled", "budget_tokens": budget, **shared}, None


def _format_tool_choice(choice: ToolChoice, tools: int) -> Message:
    name = choice.removeprefix("tool:")
    if name == choice:
        return {"type": "any" if choice == "required" else choice}
    # Models ignore the named form if there is only one tool. `any` has the same meaning.
    return {"type": "any"} if tools == 1 else {"type": "tool", "name": name}


def _text_block(text: str) -> Message:
    return {"type": "text", "text": text}


class AnthropicRendering(Rendering):
    """Anthropic messages of a context.

    Roles alternate, thinking precedes calls, and results precede text. The reasoning of
    `unsigned_items`, which are positions in the context, is sent as text: the API has rejected its
    signatures.
    """

    continue_request: ClassVar[Message] = {"role": "user", "content": [_text_block(CONTINUE)]}

    def __init__(self, unsigned_items: frozenset[int] = frozenset()) -> None:
        super().__init__(NAME, CallIds(limit=64, clean=True))
        self.unsigned_items = unsigned_items
        self.signed_items: dict[str, int] = {}  # first position by signature

    def make_empty(self) -> Self:
        """Return an empty rendering with the same unsigned items."""
        return type(self)(self.unsigned_items)

    def _strip_reasoning(self, message: Message) -> Message | None:
        content = message["content"]
        while content and content[-1]["type"] in _THINKING:
            content = content[:-1]
        return {**message, "content": content} if content else None

    def _open_content(self, role: str) -> list[Message]:
        content: list[Message] = self._open_message(role, [])["content"]
        return content

    def _add_request(self, text: str, images: Sequence[Image]) -> None:
        if text.strip() or images:
            self._drop_empty_answer()
            self._open_content("user").extend(_format_text_and_images(text, images))

    def _add_text(self, text: str) -> None:
        if text:
            self._open_content("assistant").append(_text_block(text))

    def _add_reasoning(self, response: ChatResponse) -> bool:
        if self.items in self.unsigned_items:
            return False
        signature, redacted = (response.metadata.get(name) for name in (SIGNATURE, REDACTED))
        if redacted:
            block: Message = {"type": "redacted_thinking", "data": redacted}
        elif signature:
            thinking = response.reasoning
            block = {"type": "thinking", "thinking": thinking, "signature": signature}
        else:
            return False
        self.signed_items.setdefault(str(redacted or signature), self.items)
        self._open_content("assistant").append(block)
        return True

    def _add_call(self, call: ToolCallRequest) -> None:
        content = self._open_content("assistant")
        id_ = self._ids.assign(call.id, len(self.messages) - 1)
        content.append({"type": "tool_use", "id": id_, "name": call.name, "input": call.arguments})

    def _add_result(
        self, call_id: str, call_index: int, text: str, images: Sequence[Image], *, is_error: bool
    ) -> None:
        block: Message = {"type": "tool_result", "tool_use_id": call_id}
        if images:
            block["content"] = _format_text_and_images(text, images)
        elif text.strip():
            block["content"] = text
        if is_error:
            block["is_error"] = True
        if call_index + 1 == len(self.messages):
            self.messages.append({"role": "user", "content": []})
        content = self._edit(call_index + 1)["content"]
        results = sum(block["type"] == "tool_result" for block in content)
        content.insert(results, block)


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


class AnthropicDecoder(Decoder):
    """Decoder for one response of Anthropic Messages."""

    def __init__(self, schema: schemas.AnswerSchema | None = None) -> None:
        super().__init__(schema)
        self._blocks: dict[int, _OpenBlock] = {}
        self._pending_flush: Flush | None = None
        self._usage: dict[str, int] = {}
        self._stop_reason: str | None = None
        self._stop_details: Mapping[str, JsonValue] = {}

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
                self._flush_pending_call(out)
                out.add(self._make_finished())
            case "ping":
                out.add(KeepAlive())
            case "error":
                raise classify_stream_error(message.get("error"), provider=NAME)
            case None if "error" in message:
                raise classify_stream_error(message["error"], provider=NAME)

    def _start_block(self, index: int, content: WireObject, out: EventBuffer) -> None:
        block = self._blocks[index] = _OpenBlock(content["type"])
        match block.type:
            case "text":
                self._add_text(index, content.get("text"), out)
            case "thinking":
                self._add_signature(block, content.get("signature") or "", out)
                self._add_piece(index, "reasoning", content.get("thinking") or "", out)
            case "redacted_thinking":
                block.redacted = content["data"]
            case "tool_use":
                out.add(ToolCallStart(index, content["id"], content["name"]))
                if given := content.get("input"):
                    self._add_piece(index, None, json.dumps(given), out)

    def _apply_delta(self, index: int, delta: WireObject, out: EventBuffer) -> None:
        match delta["type"]:
            case "text_delta":
                self._add_text(index, delta["text"], out)
            case "input_json_delta" if self._blocks[index].type == "tool_use":
                self._add_piece(index, None, delta["partial_json"], out)
            case "thinking_delta":
                self._add_piece(index, "reasoning", delta["thinking"], out)
            case "signature_delta":
                self._add_signature(self._blocks[index], delta["signature"], out)

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
                    out.held_chars -= len(signature)
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

    def _add_piece(self, index: int, kind: TextKind | None, text: str, out: EventBuffer) -> None:
        pieces = self._blocks[index].pieces
        if text:
            pieces.append(text)
            out.add_text(index, kind, text)

    def _add_signature(self, block: _OpenBlock, signature: str, out: EventBuffer) -> None:
        block.signature.append(signature)
        out.held_chars += len(signature)

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
        self._listed: Mapping[str, ModelInfo] = {}
        self._corrected: dict[str, Abilities] = {}  # by errors of the server

    def _answer_schema(self, request: ModelRequest) -> schemas.AnswerSchema | None:
        return None if request.schema is None else schemas.adapt_for_anthropic(request.schema)

    def _encode_body(
        self,
        request: ModelRequest,
        rendering: AnthropicRendering,
        attached: FormattedAttachments,
        answer: schemas.AnswerSchema | None,
        omitted: Omitted,
    ) -> bytes:
        fields = self._build_fields(request, answer, omitted)
        messages = rendering.encode(request.thread, user_parts=attached.user_parts)
        return encode_messages_body(fields, messages)

    def _build_fields(
        self, request: ModelRequest, answer: schemas.AnswerSchema | None, omitted: Omitted
    ) -> Message:
        betas = self._http.endpoint.headers.get("anthropic-beta", "")
        abilities = self._abilities_of(request.model)
        return build_request_fields(
            request, answer=answer, betas=betas, abilities=abilities, omitted=omitted
        )

    def _abilities_of(self, model: str) -> Abilities:
        return self._corrected.get(model) or Abilities.of(model, self._listed.get(model))

    def _make_decoder(self, answer: schemas.AnswerSchema | None, body: bytes) -> AnthropicDecoder:
        return AnthropicDecoder(answer)

    def _recover(
        self, error: ProviderError, request: ModelRequest, rendering: AnthropicRendering
    ) -> ProviderEvent | None:
        if error.status != 400:
            return None
        text = str(error).lower()
        is_stale = "thinking" in text and ("signature" in text or "cannot be modified" in text)
        if is_stale and rendering.signed_items:
            first = self._find_rejected_item(text, request, rendering)
            unsigned = rendering.unsigned_items.union(range(first, len(request.thread)))
            self._keep_rendering(request.thread, AnthropicRendering(unsigned))
            return Retry(error.without_address, drop_metadata=SIGNATURE)
        abilities = self._abilities_of(request.model)
        sent = self._build_fields(request, self._answer_schema(request), {})
        corrected = abilities.correct(text, sent)
        if corrected == abilities:
            return None
        self._corrected[request.model] = corrected
        return Retry(error.without_address)

    def _find_rejected_item(
        self, error: str, request: ModelRequest, rendering: AnthropicRendering
    ) -> int:
        """Return the first item whose thinking is not sent as such again.

        A valid signature covers everything before it, so all later thinking is invalid as well.
        If the error does not name a block, or the API also rejects an earlier block, no thinking of
        the context stays signed.
        """
        place = _THINKING_PLACE.search(error)
        if place is None or len(request.thread) - 1 in rendering.unsigned_items:
            return 0
        message, block = int(place[1]), int(place[2] or 0)
        body = json.loads(self._build_body(request, rendering, self._answer_schema(request))[0])
        first, *later = body["messages"][message:] or [{"content": []}]
        blocks = [*first["content"][block:], *(each for sent in later for each in sent["content"])]
        signatures = (
            str(each.get("signature") or each.get("data"))
            for each in blocks
            if isinstance(each, dict) and each["type"] in _THINKING
        )
        return rendering.signed_items.get(next(signatures, ""), 0)

    async def models(self, *, seconds: float) -> ModelList:
        """List the models of the server. Later requests use their abilities."""
        found = await list_anthropic_models(self._http, seconds)
        self._listed = {model.id: model for model in found.models}
        return found

    def check_schema(self, schema: Mapping[str, JsonValue]) -> None:
        """Raise `UsageError` if the API cannot enforce `schema`."""
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
