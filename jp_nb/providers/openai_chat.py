"""Chat completions of OpenAI and compatible servers: build requests, decode streams, list models.

Source: `docs/providers.md`, https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, ClassVar, Final, Self

from pydantic import JsonValue

from jp_nb.agent.provider import (
    Attachment,
    Finished,
    FinishReason,
    Flush,
    ModelList,
    ModelRequest,
    Provider,
    TextKind,
    ToolCallStart,
    Usage,
)
from jp_nb.config.tree.models import (
    ChatCompletionsProvider,
    OpenRouter,
)
from jp_nb.errors import ProviderError
from jp_nb.images import MAX_NAME_CHARS, PDF, Image
from jp_nb.providers import schemas
from jp_nb.providers.attachments import (
    IMAGES,
    FormattedAttachments,
    base64_text,
    format_attachment_name,
    format_documents_xml,
    format_file_name,
    split_attachments,
)
from jp_nb.providers.call_rules import format_arguments
from jp_nb.providers.chat_profiles import PROFILES, Profile
from jp_nb.providers.dialect import HttpProvider
from jp_nb.providers.endpoint import Endpoint, find_dialect, make_endpoint, parse_reasoning
from jp_nb.providers.errors import classify_stream_error
from jp_nb.providers.head_changes import REMOVED_TOOLS, HeadChange
from jp_nb.providers.messages import (
    CONTINUE,
    RESULT_IMAGES_INTRO,
    RESULT_PDFS_INTRO,
    Rendering,
)
from jp_nb.providers.models import list_chat_completions_models
from jp_nb.providers.request_body import Message, Omitted, RequestBody, encode_json, omit_parameter
from jp_nb.providers.schemas import get_parameter_schema
from jp_nb.providers.streaming import (
    Decoder,
    EventBuffer,
    ThinkSplitter,
    WireObject,
    is_json_object,
)
from jp_nb.providers.token_counts import CountQuery
from jp_nb.record.events import ChatResponse, ToolCallRequest
from jp_nb.text import one_line

DETAILS: Final = "openrouter_reasoning_details"
"""Metadata key of a response for OpenRouter's reasoning details, which are sent back."""


def make_answer_schema(request: ModelRequest, profile: Profile) -> schemas.AnswerSchema | None:
    """Return the schema of a structured answer for a server with `profile`; None for text."""
    if request.schema is None:
        return None
    return (profile.answer or schemas.adapt_for_json_mode)(request.schema)


def build_request_fields(
    request: ModelRequest,
    profile: Profile,
    *,
    answer: schemas.AnswerSchema | None = None,
    omitted: Omitted | None = None,
) -> Message:
    """Return all members of the request body except `messages`.

    Parameters that are not sent are added to `omitted`, each with the reason.
    """
    fields: Message = {"model": request.model, "stream": True}
    if profile.stream_options:
        fields["stream_options"] = {"include_usage": True}
    fields.update(_format_tools(request, profile))
    if answer is not None:
        fields["response_format"] = _format_response_format(answer, profile)
        if profile.require_parameters:  # only servers that enforce the schema
            fields["provider"] = {"require_parameters": True}
    reasoning = parse_reasoning(request.parameters.reasoning)
    if reasoning is not None:
        fields.update(profile.reasoning(reasoning))
    fields.update(_format_sampling(request, profile, {} if omitted is None else omitted))
    return fields


def format_system_messages(
    request: ModelRequest, profile: Profile, *, documents: str = ""
) -> list[Message]:
    """Return the system texts as one message, because many chat templates reject a second one.

    The texts of attachments (`documents`) follow the system texts. The schema of the answer is last
    if the server cannot enforce it. Without any text, there is no message.
    """
    texts = [text for text in (*request.system, documents) if text.strip()]
    answer = make_answer_schema(request, profile) if profile.answer is None else None
    if answer is not None:
        texts.append(_describe_answer(answer))
    if not texts:
        return []
    if request.model.startswith(profile.cached_by_mark):
        parts = [_text_part(text) for text in texts]
        parts[-1]["cache_control"] = {"type": "ephemeral"}
        return [{"role": "system", "content": parts}]
    return [{"role": "system", "content": "\n\n".join(texts)}]


def _describe_answer(answer: schemas.AnswerSchema) -> str:
    schema = json.dumps(answer.schema, ensure_ascii=False)
    return f"Answer with one JSON object that fits this JSON schema, and nothing else:\n{schema}"


def format_attachments(attachments: Sequence[Attachment], profile: Profile) -> FormattedAttachments:
    """Format attachments as a user message or as a part of the system message; see `Profile`."""
    sent, omitted = split_attachments(attachments, profile.media_types)
    xml = format_documents_xml(sent)
    parts = [part for attachment in sent for part in _format_binary_parts(attachment)]
    system, text = (xml, "") if profile.documents == "system" else ("", xml)
    content = [_text_part(text), *parts] if text and parts else text or parts
    messages = (encode_json({"role": "user", "content": content}),) if content else ()
    return FormattedAttachments(messages, system, omitted)


def _format_binary_parts(attachment: Attachment) -> list[Message]:
    content, name = attachment.content, format_attachment_name(attachment)
    if isinstance(content, str):
        return []
    media_type, data = attachment.media_type, base64_text(content)
    if media_type == PDF:
        return [_pdf_part(name, data)]
    return [_text_part(name), _image_part(media_type, data)]


def _pdf_part(name: str, base64_data: str) -> Message:
    url = f"data:{PDF};base64,{base64_data}"
    return {"type": "file", "file": {"filename": name, "file_data": url}}


def _image_part(media_type: str, base64_data: str) -> Message:
    url = f"data:{media_type};base64,{base64_data}"
    return {"type": "image_url", "image_url": {"url": url}}


def _text_part(text: str) -> Message:
    return {"type": "text", "text": text}


def _format_tools(request: ModelRequest, profile: Profile) -> Message:
    tools, choice = request.tools, request.tool_choice
    name = choice.removeprefix("tool:") if choice.startswith("tool:") else None
    # A server that ignores `tool_choice` calls tools unless the list is empty.
    if not tools or (choice == "none" and profile.tool_choices == "nothing"):
        return {}
    if name is not None and profile.tool_choices != "named":  # send only the forced tool
        tools = tuple(tool for tool in tools if tool.name == name) or tools
        name, choice = None, "required"
    functions = [
        {
            "name": tool.name,
            "description": tool.description,
            "parameters": get_parameter_schema(tool),
        }
        for tool in tools
    ]
    return {
        "tools": [{"type": "function", "function": function} for function in functions],
        "tool_choice": (
            choice if name is None else {"type": "function", "function": {"name": name}}
        ),
    }


def _format_response_format(answer: schemas.AnswerSchema, profile: Profile) -> Message:
    if profile.answer is None:
        return {"type": "json_object"}
    return {
        "type": "json_schema",
        "json_schema": {
            "name": "structured_output",
            "schema": answer.schema,
            "strict": answer.strict,
        },
    }


def _format_sampling(request: ModelRequest, profile: Profile, omitted: Omitted) -> Message:
    parameters = request.parameters
    sampling: Message = {
        name: value
        for name, value in (
            (profile.max_tokens, parameters.max_tokens),
            ("temperature", parameters.temperature),
            ("top_p", parameters.top_p),
            ("top_k", parameters.top_k if profile.top_k else None),
            ("stop", list(parameters.stop_words) or None),
        )
        if value is not None
    }
    ignored = {name for name in parameters.other if name not in profile.extras}
    if parameters.top_k is not None and not profile.top_k:
        ignored.add("top_k")
    for name in sorted(ignored):
        omit_parameter(omitted, name, "not a parameter of this API")
    sampling.update(
        (name, value) for name, value in parameters.other.items() if name in profile.extras
    )
    return sampling


class ChatRendering(Rendering):
    """Chat messages of a context: one message for each response, followed by its tool results."""

    continue_request: ClassVar[Message] = {"role": "user", "content": CONTINUE}
    appended = frozenset({"system", "attachments", "schema", REMOVED_TOOLS})

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile.name, profile.calls, profile.media_types)
        self._profile = profile
        self._turn_start = 0
        self._tool_names: dict[str, str] = {}
        self._image_messages: set[int] = set()  # indexes of messages whose results have images

    def make_empty(self) -> Self:
        """Return an empty rendering."""
        return type(self)(self._profile)

    def _render_change(self, change: HeadChange) -> list[Message]:
        attached = format_attachments(change.added, self._profile)
        schema, texts = change.after.schema, [change.instructions(), change.tools()]
        texts += [change.attachments(), attached.system]
        if self._profile.answer is None and schema is not None:
            texts.append(_describe_answer(schemas.adapt_for_json_mode(schema)))
        elif self._profile.answer is None and change.before.schema is not None:
            texts.append("Answer with text again.")
        text = "\n\n".join(text for text in texts if text.strip())
        messages = [json.loads(message) for message in attached.messages]
        return [*messages, {"role": "system", "content": text}] if text else messages

    def _strip_reasoning(self, message: Message) -> Message | None:
        has_content = message["content"] is not None or "tool_calls" in message
        return message if has_content else None

    def _open_answer(self) -> Message:
        return self._open_message("assistant", None)

    def _add_request(self, text: str, images: Sequence[Image]) -> None:
        self._drop_turn_reasoning()
        self._drop_empty_answer()
        content: list[Message] | str = text
        if images:
            content = [_text_part(text)] if text.strip() else []
            for image in images:
                content += _format_image(image, f"[{image.noun}: {image.words}]")
        if images or text.strip():
            self.messages.append({"role": "user", "content": content})

    def _drop_turn_reasoning(self) -> None:
        # Some servers reject reasoning of earlier turns.
        field = self._profile.reasoning_field
        if field is None or self._profile.reasoning_lasts:
            return
        for index in range(self._turn_start, len(self.messages)):
            if field in self.messages[index]:
                del self._edit(index)[field]
        self._turn_start = len(self.messages)

    def _add_text(self, text: str) -> None:
        if text:
            message = self._open_answer()
            message["content"] = (message["content"] or "") + text

    def _add_reasoning(self, response: ChatResponse) -> bool:
        field = self._profile.reasoning_field
        if field is None:
            return False
        details = response.metadata.get(DETAILS)
        if isinstance(details, list) and details:
            self._open_answer().setdefault("reasoning_details", []).extend(details)
        elif response.reasoning:
            message = self._open_answer()
            message[field] = message.get(field, "") + response.reasoning
        return True

    def _add_call(self, call: ToolCallRequest) -> None:
        calls = self._open_answer().setdefault("tool_calls", [])
        id_ = self._ids.assign(call.id, len(self.messages) - 1)
        name = self._tool_names[id_] = self._rules.format_name(call.name)
        arguments = json.dumps(format_arguments(call.arguments), ensure_ascii=False)
        function = {"name": name, "arguments": arguments}
        calls.append({"id": id_, "type": "function", "function": function})

    def _add_result(
        self, call_id: str, call_index: int, text: str, images: Sequence[Image], *, is_error: bool
    ) -> None:
        place = call_index + 1
        while place < len(self.messages) and self.messages[place]["role"] == "tool":
            place += 1
        self._insert(place, {"role": "tool", "tool_call_id": call_id, "content": text})
        if not images:
            return
        # A message with the role `tool` holds only text, so images follow the results of the batch.
        place += 1
        if call_index not in self._image_messages:
            self._image_messages.add(call_index)
            content = [_text_part(RESULT_IMAGES_INTRO)]
            self._insert(place, {"role": "user", "content": content})
        parts = self._edit(place)["content"]
        if any(image.media_type == PDF for image in images):
            parts[0] = _text_part(RESULT_PDFS_INTRO)
        name = one_line(self._tool_names[call_id], limit=MAX_NAME_CHARS)
        for image in images:
            words = f"{image.noun}: {image.words}, of {name}, call {call_id}"
            parts += _format_image(image, f"[{words}]")


def _format_image(image: Image, words: str) -> list[Message]:
    is_pdf = image.media_type == PDF
    pdf = _pdf_part(format_file_name(image), image.text) if is_pdf else None
    return [_text_part(words), pdf or _image_part(image.media_type, image.text)]


_OTHER_CONTENT: Final = frozenset(
    {
        "reasoning_content",
        "reasoning",
        "reasoning_details",
        "refusal",
        "tool_calls",
        "function_call",
    }
)
"""Fields of a delta besides its text."""
_REASONING, _ANSWER, _FIRST_CALL = range(3)  # indexes of a response's items
MAX_ARGUMENT_CHECKS: Final = 100
"""How often the arguments of a call are parsed to find out if a new call begins."""
_FINISH: Final[Mapping[str, FinishReason]] = {
    "stop": "completed",
    "tool_calls": "completed",
    "function_call": "completed",
    "length": "max_tokens",
    "content_filter": "refused",
}
_FAILURES: Final = frozenset({"error", "insufficient_system_resource"})


class ChatDecoder(Decoder):
    """Decoder for one response of chat completions.

    A call without an id gets one from a digest of the request body. It is unique in the
    conversation, because each request is longer than the last one. It is the same if the request is
    sent again.
    """

    def __init__(
        self, profile: Profile, schema: schemas.AnswerSchema | None = None, *, request: bytes = b""
    ) -> None:
        super().__init__(schema)
        self._request = request
        self._name = profile.name
        self._splitter = ThinkSplitter(has_tags=profile.think_tags)
        self._open: set[int] = set()  # reasoning or answer, until flushed
        self._calls: list[_Call] = []
        self._by_wire_index: dict[int, _Call] = {}
        self._details: list[dict[str, Any]] = []
        self._refusal: list[str] = []
        self._finish_reason: str | None = None
        self._native_reason: str | None = None

    def feed(self, message: WireObject, out: EventBuffer) -> None:
        """Add the events of `message`, a chunk."""
        if message.get("error"):
            raise classify_stream_error(message["error"], provider=self._name)
        if choices := message.get("choices"):
            self._apply_choice(choices[0], out)
        if usage := message.get("usage"):
            out.add(_parse_usage(usage))

    def finish(self, out: EventBuffer) -> None:
        """Add the last event if a finish reason arrived."""
        if self._finish_reason is None:
            return
        reason = _FINISH.get(self._finish_reason, "other")
        word = self._native_reason or self._finish_reason
        detail = word if reason in ("other", "refused") else None
        if self._refusal:
            reason, detail = "refused", "".join(self._refusal)
        out.add(Finished(reason, detail))

    def _apply_choice(self, choice: WireObject, out: EventBuffer) -> None:
        delta = choice.get("delta") or choice.get("message") or {}
        if _OTHER_CONTENT.isdisjoint(delta):  # the usual case
            self._add_content(delta.get("content"), out)
        else:
            self._apply_delta(delta, out)
        if reason := choice.get("finish_reason"):
            self._native_reason = choice.get("native_finish_reason")
            self._finish_response(reason, choice, out)

    def _apply_delta(self, delta: WireObject, out: EventBuffer) -> None:
        if thought := delta.get("reasoning_content") or delta.get("reasoning"):
            self._add_piece("reasoning", thought, out)
        if details := delta.get("reasoning_details"):
            self._add_reasoning_details(details, out)
        self._add_content(delta.get("content"), out)
        if refusal := delta.get("refusal"):
            self._refusal.append(refusal)
            out.held_chars += len(refusal)
        for call in delta.get("tool_calls") or ():
            self._apply_call(call, out)
        if call := delta.get("function_call"):
            self._apply_call({"index": 0, "function": call}, out)

    def _add_content(self, text: str | None, out: EventBuffer) -> None:
        if text and self._splitter.is_done:
            self._add_piece("message", text, out)
        elif text:
            for kind, piece in self._splitter.feed(text):
                self._add_piece(kind, piece, out)

    def _add_piece(self, kind: TextKind, text: str, out: EventBuffer) -> None:
        index = _REASONING if kind == "reasoning" else _ANSWER
        if index not in self._open:
            self._flush_open_items(out)
            self._open.add(index)
        if index == _REASONING:
            out.add_text(index, kind, text)
        else:
            self._answer.feed(index, text, out)

    def _add_reasoning_details(self, details: Sequence[dict[str, Any]], out: EventBuffer) -> None:
        if _REASONING not in self._open:
            self._add_piece("reasoning", "", out)  # encrypted reasoning needs a part
        for detail in details:
            out.held_chars += sum(len(v) for v in detail.values() if isinstance(v, str))
            last = self._details[-1] if self._details else {}
            if (last.get("type"), last.get("index")) != (detail.get("type"), detail.get("index")):
                self._details.append(dict(detail))
                continue
            for key, value in detail.items():
                if key in ("text", "summary", "data") and isinstance(value, str):
                    last[key] = (last.get(key) or "") + value
                elif value is not None:
                    last[key] = value

    def _flush_open_items(self, out: EventBuffer) -> None:
        if _REASONING in self._open:
            metadata: dict[str, JsonValue] = {DETAILS: [*self._details]} if self._details else {}
            self._details = []
            out.add(Flush(_REASONING, metadata))
        if _ANSWER in self._open:
            self._answer.finish(_ANSWER, out)
            out.add(Flush(_ANSWER))
        self._open.clear()

    def _apply_call(self, delta: WireObject, out: EventBuffer) -> None:
        function = delta.get("function") or {}
        id_, name = delta.get("id") or "", function.get("name") or ""
        wire_index = delta.get("index")
        if wire_index is not None:
            call = self._by_wire_index.get(wire_index)
        else:
            call = self._calls[-1] if self._calls else None
        if call is None or self._is_new_call(call, id_, name, has_index=wire_index is not None):
            self._flush_open_items(out)
            call = _Call(_FIRST_CALL + len(self._calls), self._request)
            self._calls.append(call)
            if wire_index is not None:
                self._by_wire_index[wire_index] = call
        call.has_empty_name = call.has_empty_name or function.get("name") == ""
        arguments = function.get("arguments") or ""
        if isinstance(arguments, dict):
            arguments = json.dumps(arguments, ensure_ascii=False)
        call.receive(id_, name, arguments, out)
        if not call.name:
            out.held_chars += len(arguments)

    @staticmethod
    def _is_new_call(call: _Call, id_: str, name: str, *, has_index: bool) -> bool:
        if not id_ or id_ == call.id:
            return False
        # Some servers give every call index 0. A name after a complete call begins a new one.
        return not has_index or (bool(name) and call.is_complete())

    def _finish_response(self, reason: str, choice: WireObject, out: EventBuffer) -> None:
        for kind, piece in self._splitter.finish():
            self._add_piece(kind, piece, out)
        self._flush_open_items(out)
        if reason in _FAILURES:
            error = choice.get("error") or {"code": 503, "message": f"finish reason {reason}"}
            raise classify_stream_error(error, provider=self._name)
        cut = _FINISH.get(reason) == "max_tokens"
        for call in self._calls:
            if not call.name and not call.has_empty_name:
                raise ProviderError(f"{self._name} called a tool without a name", kind="transient")
            if not call.name:
                call.start(out)
            if not cut or is_json_object("".join(call.arguments)):
                out.add(Flush(call.index))
        self._calls.clear()
        self._finish_reason = reason
        self.is_complete = True  # only usage and the end mark are missing


class _Call:
    """A tool call whose parts arrive. Its first id and name count."""

    def __init__(self, index: int, request: bytes) -> None:
        self.index = index
        self._request = request
        self.id = ""
        self.name = ""
        self.has_empty_name = False  # of the model; without any name, the stream is incomplete
        self.arguments: list[str] = []
        self._checks = 0

    def is_complete(self) -> bool:
        self._checks += 1
        return self._checks <= MAX_ARGUMENT_CHECKS and is_json_object("".join(self.arguments))

    def receive(self, id_: str, name: str, arguments: str, out: EventBuffer) -> None:
        self.id = self.id or id_
        if arguments:
            self.arguments.append(arguments)
        if not self.name and name:
            self.name = name
            self.start(out)
        elif self.name and arguments:
            out.add_text(self.index, None, arguments)

    def start(self, out: EventBuffer) -> None:
        """Add the start of the call, and its arguments so far."""
        if not self.id:
            digest = sha256(b"%d " % self.index + self._request)
            self.id = f"call_{digest.hexdigest()[:32]}"
        out.add(ToolCallStart(self.index, self.id, self.name))
        if self.arguments:
            out.add_text(self.index, None, "".join(self.arguments))


def _parse_usage(usage: WireObject) -> Usage:
    prompt = usage.get("prompt_tokens_details") or {}
    completion = usage.get("completion_tokens_details") or {}
    return Usage(
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
        reasoning_tokens=completion.get("reasoning_tokens"),
        cache_read_tokens=prompt.get("cached_tokens", usage.get("prompt_cache_hit_tokens")),
        cache_write_tokens=prompt.get("cache_write_tokens"),
    )


class ChatProvider(HttpProvider[ChatRendering]):
    """Provider for servers with the Chat Completions API."""

    def __init__(self, endpoint: Endpoint, profile: Profile) -> None:
        super().__init__(
            endpoint,
            lambda: ChatRendering(profile),
            lambda attachments: format_attachments(attachments, profile),
        )
        self._profile = profile

    def _answer_schema(self, request: ModelRequest) -> schemas.AnswerSchema | None:
        return make_answer_schema(request, self._profile)

    def _appended_parts(self, model: str, parts: frozenset[str]) -> frozenset[str]:
        if self._profile.answer is not None:  # a member of the body has the schema
            parts -= {"schema"}
        return super()._appended_parts(model, parts)

    def _encode_body(
        self,
        request: ModelRequest,
        rendering: ChatRendering,
        attached: FormattedAttachments,
        answer: schemas.AnswerSchema | None,
        omitted: Omitted,
    ) -> RequestBody:
        profile = self._profile
        fields = build_request_fields(request, profile, answer=answer, omitted=omitted)
        system = format_system_messages(request, profile, documents=attached.system)
        before = (*map(encode_json, system), *attached.messages)
        messages = rendering.encode(request.thread, before=before)
        return RequestBody(fields, messages, prefix=("tools",))

    def _make_decoder(self, answer: schemas.AnswerSchema | None, body: bytes) -> ChatDecoder:
        return ChatDecoder(self._profile, answer, request=body)

    def _make_count_query(self, request: ModelRequest, body: RequestBody) -> CountQuery | None:
        if self._profile.local != "llamacpp":
            return None  # the other servers have it only in other APIs
        return CountQuery(f"{self._http.endpoint.url}/input_tokens", body.select(body.fields))

    async def models(self, *, seconds: float) -> ModelList:
        """List the models of the server."""
        return await list_chat_completions_models(self._http, seconds, self._profile.local)

    def check_schema(self, schema: Mapping[str, JsonValue]) -> None:
        """Raise if a reference in `schema` refers only to itself; see `Provider`.

        A schema that strict mode does not support is sent without it.
        """
        schemas.check_references(schema)


def create(name: str, config: ChatCompletionsProvider) -> Provider:
    """Return the provider that `config` describes, in its dialect.

    Raises:
        ConfigError: A setting is not valid.
    """
    profile = PROFILES[name]
    if config.images is not None and config.images != profile.takes_images:
        profile = replace(profile, media_types=profile.media_types ^ IMAGES)
    headers = {}
    if isinstance(config, OpenRouter):
        attribution = {"x-title": config.app_name, "http-referer": config.app_referrer}
        headers = {key: value for key, value in attribution.items() if value}
    endpoint = make_endpoint(name, config, profile.path, headers=headers)
    if find_dialect(name, config) != "responses":
        return ChatProvider(endpoint, profile)
    from jp_nb.providers.openai_responses import ResponsesProvider  # few conversations need it

    path = profile.path.replace("/chat/completions", "/responses")
    return ResponsesProvider(
        replace(endpoint, path=path), media_types=profile.media_types, local=profile.local
    )
