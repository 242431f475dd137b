"""OpenAI Responses, without state on the server: build requests, send input items.

Encrypted reasoning and unknown items are kept in the metadata of the record, and sent back as they
came.

Source: `docs/providers.md`, https://platform.openai.com/docs/api-reference/responses.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import chain
from typing import ClassVar, Final, Self

from pydantic import JsonValue

from jp_nb.agent.provider import (
    Attachment,
    ModelList,
    ModelRequest,
    ProviderEvent,
    Retry,
    ToolDefinition,
)
from jp_nb.errors import ProviderError
from jp_nb.images import MAX_IMAGE_NAME_CHARS, PDF, Image
from jp_nb.json_values import compact_json, read_json
from jp_nb.providers import schemas
from jp_nb.providers.attachment_parts import (
    IMAGE_AND_PDF_TYPES,
    FormattedAttachments,
    encode_content,
    format_attachment_name,
    format_documents_xml,
    format_file_name,
    split_attachments,
)
from jp_nb.providers.cache_diagnostics import CacheDiagnostics, read_response_id
from jp_nb.providers.call_rules import RESPONSES_CALLS, format_arguments
from jp_nb.providers.endpoint import Endpoint, ParsedReasoning, parse_reasoning
from jp_nb.providers.head_changes import REMOVED_TOOLS, HeadChange
from jp_nb.providers.http_provider import HttpProvider
from jp_nb.providers.messages import (
    CONTINUE_PROMPT,
    RESULT_IMAGES_INTRO,
    RESULT_PDFS_INTRO,
    Rendering,
    format_response_text,
)
from jp_nb.providers.models import Local, list_chat_completions_models
from jp_nb.providers.openai_responses_decoder import (
    ANNOTATIONS,
    ENCRYPTED,
    ITEM,
    ITEM_ID,
    PART_SEPARATOR,
    PHASE,
    SUMMARY_LENGTHS,
    ResponsesDecoder,
)
from jp_nb.providers.own_metadata import (
    read_item_id,
    read_own_text,
    read_phase,
    rebuild_annotations,
)
from jp_nb.providers.request_body import (
    Omitted,
    RequestBody,
    WireMessage,
    encode_json,
    omit_parameter,
)
from jp_nb.providers.schemas import get_parameter_schema
from jp_nb.providers.streaming import Decoder, WireObject
from jp_nb.providers.token_counts import CountQuery
from jp_nb.record.context import ContextItem
from jp_nb.record.events import ChatResponse, ToolCallRequest
from jp_nb.text import one_line

_LOGGER: Final = logging.getLogger(__name__)
_ASSUMED_MAX_TOKENS: Final = 32_000
_EXTRAS: Final = frozenset(
    {"parallel_tool_calls", "service_tier", "prompt_cache_options", "prompt_cache_retention"}
)
_EFFORTS: Final[Mapping[str, str]] = {"xlow": "minimal", "auto": "medium"}
_NEXT_EFFORTS: Final[Mapping[str, str]] = {
    "max": "xhigh", "xhigh": "high", "none": "minimal", "minimal": "low"
}  # fmt: skip
"""The effort to request if a model does not have one."""
_REFUSABLE: Final[Mapping[str, re.Pattern[str]]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "stream_options": r"stream_options|obfuscation",
        "summary": r"reasoning\.summary|reasoning\ssummar",
        "include": r"encrypted\scontent\sis\snot\ssupported|[':]\s?'?include\b",
        "truncation": "truncation",
        "prompt_cache_key": "prompt_cache_key",
        "stream": r"\bstream",
        "temperature": r"\btemperature\b",
        "top_p": r"\btop_p\b",
        "reasoning": r"'reasoning(\.effort)?' is not supported"
        r"|(parameter|argument)\b.{0,60}\breasoning",
    }.items()
}
"""Parts of a request that are omitted after an error with a text that fits, in lower case."""
_IMAGE_REFUSAL: Final = re.compile(
    r"input_(image|file)|\.output\b|\b(image|pdf|file).*(tool|function|output)"
)
_COUNTED: Final = frozenset(
    {"model", "tools", "tool_choice", "parallel_tool_calls", "text", "reasoning", "truncation"}
)
"""Members of a request for a token count, besides the items."""
_CACHE_OPTIONS: Final = re.compile(r"comparison_response_id|prompt_cache_options")
_STALE: Final = re.compile(r"encrypted[_ ]content")


def build_request_fields(
    request: ModelRequest,
    *,
    answer: schemas.AnswerSchema | None = None,
    refused: frozenset[str] = frozenset(),
    local: Local | None = None,
    omitted: Omitted | None = None,
) -> WireMessage:
    """Return all members of the request body except `input`.

    `refused` are names of `_REFUSABLE`, and efforts, that the server does not accept for this
    model. `local` is the kind of a local server. Parameters that are not sent are added to
    `omitted`, each with the reason.
    """
    omitted = {} if omitted is None else omitted
    fields: WireMessage = {"model": request.model, "store": False}

    if "stream" not in refused:
        fields["stream"] = True
        if "stream_options" not in refused:
            fields["stream_options"] = {"include_obfuscation": False}

    if "include" not in refused:
        fields["include"] = ["reasoning.encrypted_content"]
    if "truncation" not in refused:
        fields["truncation"] = "disabled"  # a silent cut would contradict the record
    if request.conversation_id and "prompt_cache_key" not in refused:
        # A digest, because a conversation of JP may have a name as its id.
        fields["prompt_cache_key"] = sha256(request.conversation_id.encode()).hexdigest()[:32]

    fields.update(_format_tools(request, local))
    fields.update(_format_text(request, answer, local))
    if reasoning := _format_reasoning(request, refused, omitted):
        fields["reasoning"] = reasoning

    return fields | _format_sampling(request, refused, omitted)


def _format_text(
    request: ModelRequest, answer: schemas.AnswerSchema | None, local: Local | None
) -> WireMessage:
    fields: WireMessage = {}
    text: WireMessage = {}

    if answer is not None:
        text["format"] = _format_answer(answer)
        if local == "llamacpp":  # it reads only the member of Chat Completions
            form = {key: text["format"].pop(key) for key in ("name", "schema", "strict")}
            fields["response_format"] = {**text.pop("format"), "json_schema": form}

    if "verbosity" in request.parameters.other:
        text["verbosity"] = request.parameters.other["verbosity"]
    return {**fields, "text": text} if text else fields


def _adapt(schema: Mapping[str, JsonValue], *, is_local: bool = False) -> schemas.AnswerSchema:
    return schemas.pass_schema(schema) if is_local else schemas.adapt_for_openai(schema)


def _format_answer(answer: schemas.AnswerSchema) -> WireMessage:
    form = {"name": "structured_output", "schema": answer.schema, "strict": answer.strict}
    return {"type": "json_schema", **form}


def _format_tools(request: ModelRequest, local: Local | None) -> WireMessage:
    tools = request.tools
    choice = request.tool_choice
    if not tools:
        return {}

    name = choice.removeprefix("tool:")
    if name != choice and local == "llamacpp":  # it ignores a named choice
        tools = tuple(tool for tool in tools if tool.name == name) or tools
        name = "required"
        choice = "required"

    wire_choice: str | WireMessage = choice
    if name != choice:
        wire_choice = {"type": "function", "name": name}
    return {
        "tools": [*map(_format_tool, tools)],
        "tool_choice": wire_choice,
    }


def _format_tool(tool: ToolDefinition) -> WireMessage:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": get_parameter_schema(tool),
        "strict": False,
    }


def _format_allowed_tools(names: Sequence[str], mode: str) -> WireMessage | str:
    tools = [{"type": "function", "name": name} for name in names]
    return {"type": "allowed_tools", "mode": mode, "tools": tools} if tools else "none"


def _format_effort(reasoning: ParsedReasoning, refused: frozenset[str] = frozenset()) -> str:
    level = reasoning.to_level(_ASSUMED_MAX_TOKENS)
    effort = _EFFORTS.get(level, level)
    while f"effort {effort}" in refused:
        effort = _NEXT_EFFORTS[effort]
    return effort


def _format_reasoning(
    request: ModelRequest, refused: frozenset[str], omitted: Omitted
) -> WireMessage | None:
    fields: WireMessage = {}
    reasoning = parse_reasoning(request.parameters.reasoning)

    if reasoning is not None:
        fields["effort"] = _format_effort(reasoning, refused)
        if "summary" in refused:
            omit_parameter(omitted, "reasoning.summary", "the server refused it for this account")
        elif not (reasoning.exclude or reasoning.is_off):
            fields["summary"] = "auto"

    for name in ("mode", "context"):
        if (value := request.parameters.other.get(f"reasoning_{name}")) is not None:
            fields[name] = value

    if fields and "reasoning" in refused:
        omit_parameter(omitted, "reasoning", f"{request.model} does not support it")
        return None
    return fields


def _format_sampling(
    request: ModelRequest, refused: frozenset[str], omitted: Omitted
) -> WireMessage:
    parameters = request.parameters
    sampling: WireMessage = {}

    for name, value in (
        ("max_output_tokens", parameters.max_tokens),
        ("temperature", parameters.temperature),
        ("top_p", parameters.top_p),
    ):
        if value is not None and name in refused:
            omit_parameter(omitted, name, f"{request.model} does not support it")
        elif value is not None:
            sampling[name] = value

    ignored = set[str]()
    if parameters.top_k is not None:
        ignored.add("top_k")
    if parameters.stop_words:
        ignored.add("stop_words")
    for name, extra in parameters.other.items():
        if name in _EXTRAS:
            sampling[name] = extra
        elif name not in ("verbosity", "reasoning_mode", "reasoning_context"):
            ignored.add(name)

    for name in sorted(ignored):
        omit_parameter(omitted, name, "not a parameter of this API")

    return sampling


def format_attachments(
    attachments: Sequence[Attachment], media_types: frozenset[str] = IMAGE_AND_PDF_TYPES
) -> FormattedAttachments:
    """Format attachments as a user message before the context."""
    sent, omitted = split_attachments(attachments, media_types)
    xml = format_documents_xml(sent)
    parts = [_text_part(xml)] if xml else []

    for attachment in sent:
        if isinstance(attachment.content, str):
            continue
        name = format_attachment_name(attachment)
        data = encode_content(attachment.content)
        if attachment.media_type == PDF:
            parts.append(_pdf_part(name, data))
        else:
            parts += [_text_part(name), _image_part(attachment.media_type, data)]

    messages = (encode_json(_user_message(parts)),) if parts else ()
    return FormattedAttachments(messages, omitted=omitted)


def _text_part(text: str) -> WireMessage:
    return {"type": "input_text", "text": text}


def _image_part(media_type: str, base64_data: str) -> WireMessage:
    url = f"data:{media_type};base64,{base64_data}"
    return {"type": "input_image", "image_url": url, "detail": "auto"}


def _pdf_part(name: str, base64_data: str) -> WireMessage:
    url = f"data:{PDF};base64,{base64_data}"
    return {"type": "input_file", "filename": name, "file_data": url}


def _text_and_image_parts(
    text: str, images: Sequence[Image], origin: str = ""
) -> list[WireMessage]:
    parts = [_text_part(text)] if text.strip() else []
    for image in images:
        parts.append(_text_part(f"[{image.noun}: {image.words}{origin}]"))
        if image.media_type == PDF:
            parts.append(_pdf_part(format_file_name(image), image.text))
        else:
            parts.append(_image_part(image.media_type, image.text))
    return parts


def _user_message(parts: list[WireMessage]) -> WireMessage:
    return {"type": "message", "role": "user", "content": parts}


_CALL_TYPES: Final = ("function_call", "function_call_output")


OPENAI_APPENDED: Final = frozenset({"system", "attachments", "tools", "reasoning", "schema"})
"""Changes that OpenAI's own server accepts as items."""
OTHERS_APPENDED: Final = frozenset({"system", "attachments", REMOVED_TOOLS})


class ResponsesRendering(Rendering):
    """Input items of a context.

    The reasoning of `stale_items`, which are positions in the context, is sent as text: the API has
    rejected its encrypted content. `images_in_results` is False if the API has rejected images in
    the results of tools: then they follow in a user message.
    """

    continue_request: ClassVar[WireMessage] = _user_message([_text_part(CONTINUE_PROMPT)])
    appended = OPENAI_APPENDED | OTHERS_APPENDED

    def __init__(
        self,
        provider: str,
        *,
        media_types: frozenset[str] = IMAGE_AND_PDF_TYPES,
        system_role: str = "developer",
        stale_items: frozenset[int] = frozenset(),
        images_in_results: bool = True,
    ) -> None:
        super().__init__(provider, RESPONSES_CALLS, media_types)
        self.allowed_tools: tuple[str, ...] | None = None  # None: all tools of the list
        self._media_types = media_types
        self._system_role = system_role
        self._is_openai = system_role == "developer"
        self.stale_items = stale_items
        self.images_in_results = images_in_results
        self.has_result_images = False
        self.last_response_id: str | None = None  # in this conversation
        self.encrypted_items: dict[str, int] = {}  # position in the context by item id
        self._follows_reasoning = False  # encrypted reasoning, within the same response
        self._tool_names: dict[str, str] = {}

    def make_empty(self) -> Self:
        """Return an empty rendering that keeps what the API has rejected in this one."""
        return self.without()

    def without(
        self, stale_items: frozenset[int] = frozenset(), *, result_images: bool = False
    ) -> Self:
        """Return an empty rendering without the reasoning of `stale_items`, or `result_images`."""
        copy = type(self)(
            self.provider,
            media_types=self._media_types,
            system_role=self._system_role,
            stale_items=self.stale_items | stale_items,
            images_in_results=self.images_in_results and not result_images,
        )

        copy.last_response_id = self.last_response_id
        return copy

    def settle(self, request: ModelRequest) -> ModelRequest:
        """Return `request` with the head at the beginning; see `Rendering.settle`."""
        tools = chain.from_iterable(head.tools for _, head in request.context.heads)
        offered = {tool.name for tool in tools}
        names = tuple(tool.name for tool in request.tools)
        is_limited = "tools" in self.appended and not offered <= {*names}
        self.allowed_tools = names if is_limited else None
        return super().settle(request)

    def _render_change(self, change: HeadChange) -> list[WireMessage]:
        before = change.before
        after = change.after
        attached = format_attachments(change.added, self._media_types)
        items: list[WireMessage] = [json.loads(message) for message in attached.messages]
        texts = [change.instructions(), change.tools(), change.attachments()]
        if parts := [_text_part(text) for text in texts if text.strip()]:
            items.append({"type": "message", "role": self._system_role, "content": parts})

        new_tools = change.new_tools()
        if "tools" in self.appended and new_tools:
            tools = [*map(_format_tool, new_tools)]
            items.append({"type": "additional_tools", "role": "developer", "tools": tools})

        update: WireMessage = {}
        if before.reasoning != after.reasoning:
            reasoning = parse_reasoning(after.reasoning) or ParsedReasoning("auto")
            update["reasoning"] = {"effort": _format_effort(reasoning)}
        if before.schema != after.schema:
            schema = after.schema
            answer = {"type": "text"} if schema is None else _format_answer(_adapt(schema))
            update["text"] = {"format": answer}

        if update:
            items.append({"type": "configuration_update", **update})
        return items

    def _continue_answer(self, pieces: list[bytes]) -> None:
        # The API answers, and does not continue, a message of the assistant that comes last.
        while pieces and self._strip_reasoning(self.messages[len(pieces) - 1]) is None:
            del pieces[-1]
        if pieces and self.messages[len(pieces) - 1].get("role") == "assistant":
            pieces.append(encode_json(self.continue_request))

    def _add(self, item: ContextItem) -> None:
        entry = item.entry
        if self.is_own and isinstance(entry, ChatResponse) and entry.kind != "reasoning":
            self._add_own_message(entry)
        else:
            super()._add(item)

    def _strip_reasoning(self, message: WireMessage) -> WireMessage | None:
        return None if message["type"] == "reasoning" else message

    @property
    def _ends_in_answer(self) -> bool:
        if not self.messages:
            return False
        last = self.messages[-1]
        return last["type"] == "reasoning" or last.get("role") == "assistant"

    def _drop_empty_answer(self) -> None:
        # The API rejects reasoning without the item that it led to.
        while self.messages and self.messages[-1]["type"] == "reasoning":
            del self.messages[-1]
        del self._encoded[len(self.messages) :]

    def _add_request(self, text: str, images: Sequence[Image]) -> None:
        self._drop_empty_answer()
        self._follows_reasoning = False
        if parts := _text_and_image_parts(text, images):
            self.messages.append(_user_message(parts))

    def _add_text(self, text: str) -> None:
        if text:
            self.messages.append({"type": "message", "role": "assistant", "content": text})

    def _add_own_message(self, response: ChatResponse) -> None:
        text = format_response_text(response)
        metadata = response.metadata
        if not text:
            return

        message: WireMessage = {"type": "message", "role": "assistant", "content": text}
        item_id = self._read_id(metadata, "msg_")
        phase = read_phase(metadata, PHASE)

        if self._follows_reasoning and item_id:
            annotations = rebuild_annotations(metadata.get(ANNOTATIONS))
            part = {"type": "output_text", "text": text, "annotations": annotations}
            message |= {"id": item_id, "status": "completed", "content": [part]}

        if phase:
            message["phase"] = phase
        self.messages.append(message)

    def _read_id(self, metadata: Mapping[str, JsonValue], prefix: str) -> str:
        if not self._is_openai:
            prefix = ""  # other servers may have other prefixes
        return read_item_id(metadata, ITEM_ID, prefix)

    def _add_reasoning(self, response: ChatResponse) -> bool:
        metadata = response.metadata
        text = response.reasoning or ""
        if not self.is_own:
            return False
        if ITEM_ID not in metadata:
            return True  # incomplete, or an item that is not part of an answer

        item_id = self._read_id(metadata, "rs_")
        encrypted = read_own_text(metadata, ENCRYPTED)
        is_complete = bool(item_id and encrypted and self.is_bound)
        if not is_complete or self.items in self.stale_items:
            return False

        self.encrypted_items[item_id] = self.items
        self._follows_reasoning = True
        parts = _split_summary(text, metadata.get(SUMMARY_LENGTHS))
        item = {
            "type": "reasoning",
            "id": item_id,
            "summary": [{"type": "summary_text", "text": part} for part in parts],
            "encrypted_content": encrypted,
        }
        self.messages.append(item)
        return True

    def _add_call(self, call: ToolCallRequest) -> None:
        call_id = self._ids.assign(call.id, len(self.messages))
        name = self._tool_names[call_id] = self._rules.format_name(call.name)

        item: WireMessage = {
            "type": "function_call",
            "call_id": call_id,
            "name": name,
            "arguments": compact_json(format_arguments(call.arguments)),
        }

        if self.is_own:
            whole = call.metadata.get(ITEM)
            if isinstance(whole, dict) and _has_arguments(whole, call.arguments):
                item["arguments"] = whole["arguments"]  # as the model has spelled them
            item_id = self._read_id(call.metadata, "fc_")
            if self._follows_reasoning and item_id:
                item["id"] = item_id

        self.messages.append(item)

    def _add_result(
        self, call_id: str, call_index: int, text: str, images: Sequence[Image], *, is_error: bool
    ) -> None:
        self._follows_reasoning = False
        output: str | list[WireMessage] = text
        self.has_result_images = self.has_result_images or bool(images)

        if images and self.images_in_results:
            output = _text_and_image_parts(text, images)

        place = len(self.messages)
        if self.messages[-1]["type"] not in _CALL_TYPES:
            place = self._find_batch_end(call_id, call_index)

        item = {"type": "function_call_output", "call_id": call_id, "output": output}
        self._insert(place, item)

        if images and not self.images_in_results:
            name = one_line(self._tool_names[call_id], limit=MAX_IMAGE_NAME_CHARS)
            has_pdf = any(image.media_type == PDF for image in images)
            intro = RESULT_PDFS_INTRO if has_pdf else RESULT_IMAGES_INTRO
            parts = _text_and_image_parts(intro, images, origin=f", of {name}, call {call_id}")
            self._insert(place + 1, _user_message(parts))

    def _find_batch_end(self, call_id: str, call_index: int) -> int:
        # Items that were inserted before a call have moved it.
        place = call_index
        while self.messages[place].get("call_id") != call_id:
            place += 1
        while place < len(self.messages) and self.messages[place]["type"] in _CALL_TYPES:
            place += 1
        return place


def _split_summary(text: str, lengths: JsonValue) -> Iterator[str]:
    if isinstance(lengths, list):
        sizes = [size for size in lengths if isinstance(size, int)]
        if not sizes:  # the text is not a summary
            return
        if sum(sizes) + len(PART_SEPARATOR) * (len(sizes) - 1) == len(text):
            start = 0
            for size in sizes:
                yield text[start : start + size]
                start += size + len(PART_SEPARATOR)
            return
    if text:
        yield text


def _has_arguments(item: Mapping[str, JsonValue], arguments: Mapping[str, JsonValue]) -> bool:
    # The arguments of the record count: they may have been edited.
    text = item.get("arguments")
    try:
        return isinstance(text, str) and read_json(text) == arguments
    except ValueError:
        return False


KEEP_ALIVE_SECONDS: Final = 5.0
"""Pause between keep-alives while a response that is not streamed is awaited."""


class ResponsesProvider(HttpProvider[ResponsesRendering]):
    """Provider for servers with the Responses API."""

    counts_whole_prompt = True

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        media_types: frozenset[str],
        local: Local | None = None,
    ) -> None:
        # Chat templates of other servers may know only `system`.
        role = self._system_role = "developer" if endpoint.is_openai else "system"
        super().__init__(
            endpoint,
            lambda: ResponsesRendering(
                endpoint.provider,
                media_types=media_types,
                system_role=role,
                images_in_results=self._images_in_results,
            ),
            lambda attachments: format_attachments(attachments, media_types),
        )
        self._local = local
        self._refused: dict[str, frozenset[str]] = {}  # by model; see `build_request_fields`
        self._images_in_results = True
        self._diagnostics = CacheDiagnostics(_LOGGER, self._http.redactor)

    def _answer_schema(self, request: ModelRequest) -> schemas.AnswerSchema | None:
        is_local = self._local is not None
        return None if request.schema is None else _adapt(request.schema, is_local=is_local)

    def _appended_parts(self, model: str, parts: frozenset[str]) -> frozenset[str]:
        accepted = OPENAI_APPENDED if self._http.endpoint.is_openai else OTHERS_APPENDED
        return super()._appended_parts(model, parts & accepted)

    def _refused_by(self, model: str) -> frozenset[str]:
        return self._refused.get(model, frozenset())

    def _encode_body(
        self,
        request: ModelRequest,
        rendering: ResponsesRendering,
        attached: FormattedAttachments,
        answer: schemas.AnswerSchema | None,
        omitted: Omitted,
    ) -> RequestBody:
        if "schema" in rendering.appended:
            answer = None
        fields = build_request_fields(
            request,
            answer=answer,
            refused=self._refused_by(request.model),
            local=self._local,
            omitted=omitted,
        )
        if rendering.last_response_id and self._diagnostics.are_wanted:
            options = fields.get("prompt_cache_options") or {}
            compared = {"comparison_response_id": rendering.last_response_id}
            fields["prompt_cache_options"] = {**options, **compared}

        allowed = rendering.allowed_tools
        choice = request.tool_choice
        if allowed is not None and choice in ("auto", "required"):
            fields["tool_choice"] = _format_allowed_tools(allowed, choice)

        texts = [_text_part(text) for text in request.system if text.strip()]
        system = {"type": "message", "role": self._system_role, "content": texts}
        before = list(attached.messages)
        if texts:
            before.insert(0, encode_json(system))

        items = rendering.encode(request.context, before=before)
        return RequestBody(fields, items, "input", prefix=("tools",))

    def _make_decoder(
        self, request: ModelRequest, answer: schemas.AnswerSchema | None, body: bytes
    ) -> ResponsesDecoder:
        rendering = next(reversed(self._renderings.values()))  # of the current request

        def on_response(response: WireObject) -> None:
            rendering.last_response_id = read_response_id(response.get("id"))
            self._diagnostics.log(response.get("prompt_cache_diagnostics"))

        name = self._http.endpoint.provider
        return ResponsesDecoder(name, answer, request=body, on_response=on_response)

    def _stream_body(
        self, request: ModelRequest, body: bytes, decoder: Decoder, headers: Mapping[str, str]
    ) -> AsyncGenerator[bytes, None]:
        if "stream" in self._refused_by(request.model):
            return self._fetch_as_stream(body)
        return super()._stream_body(request, body, decoder, headers)

    async def _fetch_as_stream(self, body: bytes) -> AsyncGenerator[bytes, None]:
        url = self._http.endpoint.url
        task = asyncio.ensure_future(self._http.fetch(url, read_json(body.decode())))
        try:
            while not (await asyncio.wait({task}, timeout=KEEP_ALIVE_SECONDS))[0]:
                yield b": waiting\n\n"
            message = {"type": "response.completed", "response": task.result()}
        finally:
            task.cancel()
            await asyncio.wait({task})  # it closes the connection
        yield b"data: " + encode_json(message) + b"\n\n"

    def _recover(
        self, error: ProviderError, request: ModelRequest, rendering: ResponsesRendering
    ) -> ProviderEvent | None:
        if error.status not in (400, 422) or error.kind != "other":
            return super()._recover(error, request, rendering)

        text = str(error).lower()
        refused = self._refused_by(request.model)
        fields = build_request_fields(request, refused=refused)
        reasoning = fields.get("reasoning") or {}
        effort = reasoning.get("effort")

        if effort in _NEXT_EFFORTS and f"'{effort}'" in text:
            return self._refuse(f"effort {effort}", request, error)
        for name, pattern in _REFUSABLE.items():
            if (name in fields or name in reasoning) and pattern.search(text):
                return self._refuse(name, request, error)

        is_compared = rendering.last_response_id and self._diagnostics.are_wanted
        if is_compared and _CACHE_OPTIONS.search(text):
            self._diagnostics.is_accepted = False
            return Retry(error.without_address)

        if rendering.encrypted_items and _STALE.search(text):
            named = [at for id_, at in rendering.encrypted_items.items() if id_.lower() in text]
            # Valid encrypted content covers all before it, so all that is later is invalid as well.
            stale = frozenset(range(min(named, default=0), len(request.context)))
            self._keep_rendering(request.context, rendering.without(stale))
            return Retry(error.without_address, drop_metadata=ENCRYPTED)

        can_move_images = rendering.has_result_images and rendering.images_in_results
        if can_move_images and _IMAGE_REFUSAL.search(text):
            self._images_in_results = False
            self._keep_rendering(request.context, rendering.without(result_images=True))
            return Retry(error.without_address)

        return super()._recover(error, request, rendering)

    def _refuse(self, name: str, request: ModelRequest, error: ProviderError) -> Retry:
        self._refused[request.model] = self._refused_by(request.model) | {name}
        return Retry(error.without_address)

    def _make_count_query(self, request: ModelRequest, body: RequestBody) -> CountQuery | None:
        return CountQuery(f"{self._http.endpoint.url}/input_tokens", body.select(_COUNTED))

    async def models(self, *, seconds: float) -> ModelList:
        """List the models of the server."""
        return await list_chat_completions_models(self._http, seconds, self._local)

    def check_schema(self, schema: Mapping[str, JsonValue]) -> None:
        """Raise if a reference in `schema` refers only to itself; see `Provider`."""
        schemas.check_references(schema)
