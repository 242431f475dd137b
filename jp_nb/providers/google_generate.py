"""The `generateContent` API of Google Gemini: build requests, decode streams.

The dialect `generate`, for proxies and models that do not have the Interactions API.

Source: `docs/providers.md`, https://ai.google.dev/api/generate-content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final
from urllib.parse import quote

from pydantic import JsonValue

from jp_nb.agent.provider import (
    Attachment,
    Finished,
    FinishReason,
    Flush,
    ModelRequest,
    ProviderEvent,
    Retry,
    TextKind,
    ToolCallStart,
    ToolChoice,
)
from jp_nb.errors import ProviderError
from jp_nb.images import Image
from jp_nb.providers.answer_schemas import AnswerSchema
from jp_nb.providers.attachment_parts import FormattedAttachments
from jp_nb.providers.call_rules import format_arguments
from jp_nb.providers.endpoint import Endpoint, parse_reasoning
from jp_nb.providers.event_buffer import EventBuffer
from jp_nb.providers.google import (
    GOOGLE_NAME,
    THOUGHT_SIGNATURE_KEY,
    Content,
    ContinuedDecoder,
    GoogleProvider,
    GoogleRendering,
    describe_change,
    end_with_error,
    list_attachments,
    list_input_contents,
    name_model,
)
from jp_nb.providers.head_changes import HeadChange
from jp_nb.providers.messages import CONTINUE_PROMPT
from jp_nb.providers.own_metadata import read_own_text
from jp_nb.providers.request_body import (
    Omitted,
    RequestBody,
    WireMessage,
    encode_json,
    omit_parameter,
)
from jp_nb.providers.stream_decoder import WireObject
from jp_nb.providers.streamed_arguments import StreamedArguments
from jp_nb.providers.token_counts import CountQuery
from jp_nb.providers.tool_call_ids import make_call_id
from jp_nb.providers.tool_parameters import get_parameter_schema
from jp_nb.record.context import ContextItem
from jp_nb.record.events import ChatResponse, ToolCallRequest

NO_SIGNATURE: Final = "skip_thought_signature_validator"
"""Signature of a call that has none, such as a call of another provider.

Source: https://ai.google.dev/gemini-api/docs/thought-signatures
"""
_BUDGET_MODELS: Final = re.compile("gemini-2")
"""Models whose thinking has a number of tokens instead of a level."""
_MAX_BUDGET: Final = 24_576
_EXTRAS: Final = frozenset({"seed", "presencePenalty", "frequencyPenalty"})


def build_request_fields(
    request: ModelRequest,
    *,
    answer: AnswerSchema | None = None,
    thinking: tuple[str | None, bool] | None = None,
    allowed_tools: Sequence[str] | None = None,
    omitted: Omitted | None = None,
) -> WireMessage:
    """Return all members of the request body except `contents`.

    The other arguments are those of the dialect `interactions`.
    """
    fields: WireMessage = {}
    if system := [{"text": text} for text in request.system if text.strip()]:
        fields["systemInstruction"] = {"parts": system}

    if request.tools:
        declarations = [
            {
                "name": tool.name,
                "description": tool.description,
                "parametersJsonSchema": get_parameter_schema(tool),
            }
            for tool in request.tools
        ]
        fields["tools"] = [{"functionDeclarations": declarations}]
        choice = _format_tool_choice(request.tool_choice, allowed_tools)
        fields["toolConfig"] = {"functionCallingConfig": choice}

    config: WireMessage = {}
    if answer is not None:
        config = {"responseMimeType": "application/json", "responseJsonSchema": answer.schema}

    parameters = request.parameters
    for name, value in (
        ("maxOutputTokens", parameters.max_tokens),
        ("temperature", parameters.temperature),
        ("topP", parameters.top_p),
        ("topK", parameters.top_k),
        ("stopSequences", list(parameters.stop_words) or None),
        ("thinkingConfig", _format_thinking(request, thinking)),
    ):
        if value is not None:
            config[name] = value

    omitted = {} if omitted is None else omitted
    for name, extra in parameters.other.items():
        if name in _EXTRAS:
            config[name] = extra
        else:
            omit_parameter(omitted, name, "not a parameter of this API")

    if config:
        fields["generationConfig"] = config
    return fields


def _format_thinking(
    request: ModelRequest, thinking: tuple[str | None, bool] | None
) -> WireMessage | None:
    reasoning = parse_reasoning(request.parameters.reasoning)
    if thinking is None or reasoning is None:
        return None

    level, is_hidden = thinking
    config: WireMessage = {"includeThoughts": not is_hidden}
    if not _BUDGET_MODELS.match(name_model(request)):
        return config if level is None else {**config, "thinkingLevel": level}

    budget = min(reasoning.to_tokens(request.parameters.max_tokens or _MAX_BUDGET), _MAX_BUDGET)
    if reasoning.effort == "auto":
        budget = -1
    return {**config, "thinkingBudget": budget}


def _format_tool_choice(choice: ToolChoice, allowed: Sequence[str] | None) -> WireMessage:
    name = choice.removeprefix("tool:")
    if name != choice:
        return {"mode": "ANY", "allowedFunctionNames": [name]}
    if allowed is None or choice == "none":
        mode = "ANY" if choice == "required" else choice.upper()
        return {"mode": mode}

    # AUTO cannot be limited to some of the tools. With VALIDATED, the model can also call none.
    mode = "ANY" if choice == "required" else "VALIDATED"
    return {"mode": mode, "allowedFunctionNames": [*allowed]} if allowed else {"mode": "NONE"}


def format_attachments(attachments: Sequence[Attachment]) -> FormattedAttachments:
    """Format attachments as parts at the start of the first message of the user."""
    contents, omitted = list_attachments(attachments)
    message = {"role": "user", "parts": [*map(_format_part, contents)]}
    messages = (encode_json(message),) if contents else ()
    return FormattedAttachments(messages, omitted=omitted)


def _format_part(content: Content) -> WireMessage:
    if isinstance(content, str):
        return {"text": content}
    media_type, data = content
    return {"inlineData": {"mimeType": media_type, "data": data}}


class GenerateRendering(GoogleRendering):
    """Contents of a context: messages whose roles alternate."""

    continue_request: ClassVar[WireMessage] = {"role": "user", "parts": [{"text": CONTINUE_PROMPT}]}

    def __init__(self, unsigned_items: int = 0) -> None:
        super().__init__(unsigned_items)
        self._signature = ""  # of the item that is added
        self._names: dict[str, str] = {}  # of tools, by the id of their call

    @property
    def _ends_in_answer(self) -> bool:
        return bool(self.messages) and self.messages[-1]["role"] == "model"

    def _render_change(self, change: HeadChange) -> list[WireMessage]:
        text = describe_change(change)
        parts: list[WireMessage] = []
        for message in format_attachments(change.added).messages:
            parts += json.loads(message)["parts"]
        parts += [{"text": text}] if text else []
        return [{"role": "user", "parts": parts}] if parts else []

    def _strip_reasoning(self, message: WireMessage) -> WireMessage | None:
        parts = message["parts"]
        while parts and (parts[-1].get("thought") or parts[-1].get("text") == ""):
            parts = parts[:-1]
        return {**message, "parts": parts} if parts else None

    def _add(self, item: ContextItem) -> None:
        self.is_bound = item.is_bound
        self._signature = ""
        if self.is_own and self._may_sign():
            self._signature = read_own_text(item.entry.metadata, THOUGHT_SIGNATURE_KEY)
        self.has_signatures = self.has_signatures or bool(self._signature)
        super()._add(item)

    def _open_parts(self, role: str) -> list[WireMessage]:
        if not self.messages or self.messages[-1]["role"] != role:
            self.messages.append({"role": role, "parts": []})
        parts: list[WireMessage] = self._edit(-1)["parts"]
        return parts

    def _sign(self, part: WireMessage) -> WireMessage:
        return {**part, "thoughtSignature": self._signature} if self._signature else part

    def _add_request(self, text: str, images: Sequence[Image]) -> None:
        if contents := list_input_contents(text, images):
            self._drop_empty_answer()
            self._open_parts("user").extend(map(_format_part, contents))

    def _add_text(self, text: str) -> None:
        if text:
            self._open_parts("model").append(self._sign({"text": text}))

    def _add_reasoning(self, response: ChatResponse) -> bool:
        if not self._signature:
            return False
        text = response.reasoning or ""
        part: WireMessage = {"text": text, "thought": True} if text else {"text": ""}
        self._open_parts("model").append(self._sign(part))
        return True

    def _add_call(self, call: ToolCallRequest) -> None:
        parts = self._open_parts("model")
        id_ = self._ids.assign(call.id, len(self.messages) - 1)
        name = self._names[id_] = self._rules.format_name(call.name)
        arguments = format_arguments(call.arguments)
        part = self._sign({"functionCall": {"id": id_, "name": name, "args": arguments}})
        # Of parallel calls, only the first has a signature.
        if not any("functionCall" in each for each in parts):
            part.setdefault("thoughtSignature", NO_SIGNATURE)

        parts.append(part)

    def _add_result(
        self, call_id: str, call_index: int, text: str, images: Sequence[Image], *, is_error: bool
    ) -> None:
        key = "error" if is_error else "result"
        response: WireMessage = {
            "id": call_id,
            "name": self._names[call_id],
            "response": {key: text},
        }

        if images:
            response["parts"] = [_format_part((each.media_type, each.text)) for each in images]

        if call_index + 1 == len(self.messages):
            self.messages.append({"role": "user", "parts": []})

        parts = self._edit(call_index + 1)["parts"]
        results = sum("functionResponse" in part for part in parts)
        parts.insert(results, {"functionResponse": response})


_FINISH: Final[Mapping[str, FinishReason]] = {
    "STOP": "completed",
    "MAX_TOKENS": "max_tokens",
    "CONTINUATION": "max_tokens",  # after the last continuation
    **dict.fromkeys(
        (
            *("SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "LANGUAGE"),
            *("MODEL_ARMOR", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
            *("IMAGE_OTHER", "JAILBREAK"),
        ),
        "refused",
    ),
}
_MALFORMED: Final = frozenset(
    {"UNEXPECTED_TOOL_CALL", "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE"}
)
_USAGE: Final = (
    ("promptTokenCount", "input_tokens"),
    ("candidatesTokenCount", "output_tokens"),
    ("thoughtsTokenCount", "output_tokens"),  # not included in the candidates
    ("thoughtsTokenCount", "reasoning_tokens"),
    ("cachedContentTokenCount", "cache_read_tokens"),
)


class GenerateDecoder(ContinuedDecoder):
    """Decoder for one response of `streamGenerateContent`.

    A call without an id gets one from a digest of the request body, as in chat completions.
    """

    def __init__(self, schema: AnswerSchema | None = None, *, request: bytes = b"") -> None:
        super().__init__(schema, _USAGE)
        self._request = request
        self._index = -1
        self._kind: TextKind | None = None  # of the open text; None: there is none
        self._call: _OpenCall | None = None
        self._ended_calls: dict[tuple[str, str], str] = {}  # arguments by id and name
        self._signature = ""  # of the open item
        self._has_content = False
        self._reason = ""
        self._detail: str | None = None

    def feed(self, message: WireObject, out: EventBuffer) -> None:
        """Add the events of `message`, a chunk of the response."""
        if error := message.get("error"):
            out.add(end_with_error(error))
            return

        self.add_usage(message.get("usageMetadata"), out)
        if reason := (message.get("promptFeedback") or {}).get("blockReason"):
            detail = message["promptFeedback"].get("blockReasonMessage")
            out.add(Finished("refused", str(detail or reason)))

        for candidate in message.get("candidates") or ():
            # The request asks for one candidate, which has no index, or 0.
            if candidate is not None and not candidate.get("index"):
                self._apply_candidate(candidate, message, out)

    def _apply_candidate(
        self, candidate: WireObject, message: WireObject, out: EventBuffer
    ) -> None:
        for part in (candidate.get("content") or {}).get("parts") or ():
            if part is not None:
                self._add_part(part, out)
        if reason := candidate.get("finishReason"):
            self._end(reason, candidate, message, out)

    def finish(self, out: EventBuffer, *, has_end_mark: bool = False) -> None:
        """Add the last event if a finish reason arrived, or the end mark after some content."""
        is_over = bool(self._reason) or (has_end_mark and self._has_content)
        if not is_over or self.is_continued:
            return

        self._flush(out)
        word = self._reason or "STOP"
        reason = _FINISH.get(word, "other")
        is_told = reason in ("other", "refused")
        detail = (self._detail or word) if is_told else None
        out.add(Finished(reason, detail))

    def _add_part(self, part: WireObject, out: EventBuffer) -> None:
        signature = part.get("thoughtSignature") or ""
        if not isinstance(signature, str):
            raise TypeError  # `StreamDecoder` reports it
        if call := part.get("functionCall"):
            self._add_call(call, signature, out)
            return

        text = part.get("text")
        if text is None:
            return  # such as an image, which was not asked for

        kind: TextKind = "reasoning" if part.get("thought") else "message"
        if not text and signature and self._kind is None:
            kind = "reasoning"  # without any text, the signature is kept as a thought

        self._has_content = self._has_content or (kind == "message" and bool(text))
        if self._kind is None or (text and kind != self._kind):
            self._flush(out)
            self._index += 1
            self._kind = kind

        if self._kind == "reasoning":
            out.add_text(self._index, "reasoning", text)
        elif text:
            self._answer.feed(self._index, text, out)

        if signature:
            self._signature = signature

    def _add_call(self, call: WireObject, signature: str, out: EventBuffer) -> None:
        id_ = call.get("id") or ""
        name = call["name"]
        arguments = StreamedArguments()
        arguments.add(call.get("args") or {})

        if id_ and self._ended_calls.get((id_, name)) == arguments.resolve():
            return  # a server that repeats its calls at the end

        is_same = bool(id_) and self._call is not None and self._call.key == (id_, name)
        if not is_same:
            self._flush(out)
            self._has_content = True
            self._index += 1
            self._call = _OpenCall((id_, name))
            call_id = id_ or make_call_id(self._index, self._request)
            out.add(ToolCallStart(self._index, call_id, name))

        assert self._call is not None
        out.held_chars -= self._call.arguments.held_chars
        self._call.arguments.add(call.get("args") or {})
        out.held_chars += self._call.arguments.held_chars
        self._signature = signature or self._signature

    def _flush(self, out: EventBuffer) -> None:
        if self._call is not None:
            text = self._call.arguments.resolve()
            out.held_chars -= self._call.arguments.held_chars
            out.add_text(self._index, None, text)
            self._ended_calls[self._call.key] = text
            self._add_flush(out)
        elif self._kind is not None:
            if self._kind == "message":
                self._answer.finish(self._index, out)
            self._add_flush(out)

        self._kind = None
        self._call = None
        self._signature = ""

    def _add_flush(self, out: EventBuffer) -> None:
        metadata: dict[str, JsonValue] = {}
        if self._signature:
            metadata[THOUGHT_SIGNATURE_KEY] = self._signature
        out.add(Flush(self._index, metadata))

    def _end(
        self, reason: str, candidate: WireObject, message: WireObject, out: EventBuffer
    ) -> None:
        token = candidate.get("continuationToken") or message.get("continuationToken")
        if reason == "CONTINUATION" and self.keep_token(token):
            return  # the open text goes on in the next stream

        if reason in _MALFORMED:
            said = _read_message(candidate)
            raise ProviderError(
                f"the model of {GOOGLE_NAME} failed: {reason}{said}", kind="transient"
            )
        if reason == "MISSING_THOUGHT_SIGNATURE":
            raise ProviderError(
                f"{GOOGLE_NAME} misses a thought signature of this conversation. Start a new one "
                "(`%jp new`)",
                status=400,
            )

        self._flush(out)
        self._reason = reason
        self._detail = candidate.get("finishMessage")
        self.is_complete = True  # only usage is missing


class _OpenCall:
    """A call that the next part may repeat. `key` is its id and its name."""

    def __init__(self, key: tuple[str, str]) -> None:
        self.key = key
        self.arguments = StreamedArguments()


def _read_message(candidate: WireObject) -> str:
    message = candidate.get("finishMessage")
    return f" ({message[:300]})" if isinstance(message, str) and message else ""


class GenerateProvider(GoogleProvider[GenerateRendering]):
    """Provider for servers with the `generateContent` API."""

    continuation_member: ClassVar[str] = "continuationToken"
    instructions_member: ClassVar[str] = "systemInstruction"
    messages_member: ClassVar[str] = "contents"
    build_request_fields = staticmethod(build_request_fields)

    def __init__(self, endpoint: Endpoint, *, append_instructions: bool) -> None:
        super().__init__(
            endpoint, GenerateRendering, format_attachments, append_instructions=append_instructions
        )

    def _get_url(self, request: ModelRequest) -> str:
        name = quote(name_model(request), safe="")
        return f"{self._http.endpoint.url}/{name}:streamGenerateContent?alt=sse"

    def _make_count_query(self, request: ModelRequest, body: RequestBody) -> CountQuery:
        name = name_model(request)
        counted: WireMessage = {"model": f"models/{name}", **body.select(body.fields)}
        url = f"{self._http.endpoint.url}/{quote(name, safe='')}:countTokens"
        return CountQuery(url, {"generateContentRequest": counted}, "totalTokens")

    def _make_decoder(
        self, request: ModelRequest, answer: AnswerSchema | None, body: bytes
    ) -> GenerateDecoder:
        return GenerateDecoder(answer, request=body)

    def _repair(
        self, error: ProviderError, request: ModelRequest, rendering: GenerateRendering
    ) -> ProviderEvent | None:
        if not rendering.has_signatures:
            return None
        self._keep_rendering(request.context, GenerateRendering(len(request.context)))
        return Retry(error.without_address)
