"""Anthropic Messages: build requests, decode streams, list models.

Source: `docs/providers.md`, https://docs.anthropic.com/en/api/messages.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import ClassVar, Final, Self

from pydantic import JsonValue

from jp_nb.agent.provider import (
    Attachment,
    ModelInfo,
    ModelList,
    ModelRequest,
    ProviderEvent,
    Retry,
    ToolChoice,
    ToolDefinition,
)
from jp_nb.config.tree.named_servers import Server
from jp_nb.config.tree.provider_settings import Anthropic
from jp_nb.errors import ProviderError
from jp_nb.images import PDF, Image
from jp_nb.json_schema import Schema
from jp_nb.providers.answer_schemas import AnswerSchema
from jp_nb.providers.anthropic_decoder import (
    ANTHROPIC_NAME,
    REDACTED_THINKING_KEY,
    THINKING_SIGNATURE_KEY,
    AnthropicDecoder,
)
from jp_nb.providers.anthropic_models import Abilities, find_max_pdf_pages
from jp_nb.providers.anthropic_schemas import (
    adapt_for_anthropic,
    check_anthropic,
    select_strict_tools,
)
from jp_nb.providers.attachment_parts import (
    IMAGE_AND_PDF_TYPES,
    FormattedAttachments,
    encode_content,
    format_attachment_name,
    split_attachments,
)
from jp_nb.providers.cache_diagnostics import CacheDiagnostics, read_response_id
from jp_nb.providers.call_rules import ANTHROPIC_CALLS, format_arguments
from jp_nb.providers.endpoint import Endpoint, make_endpoint, parse_reasoning
from jp_nb.providers.head_changes import HeadChange, describe_forced_call
from jp_nb.providers.http_provider import HttpProvider
from jp_nb.providers.messages import CONTINUE_PROMPT, Rendering
from jp_nb.providers.model_lists import list_anthropic_models
from jp_nb.providers.own_metadata import read_own_text
from jp_nb.providers.parameter_names import ParameterNames
from jp_nb.providers.request_body import (
    Omitted,
    RequestBody,
    WireMessage,
    encode_json,
    omit_parameter,
)
from jp_nb.providers.stream_decoder import WireObject
from jp_nb.providers.token_counts import CountQuery
from jp_nb.record.events import ChatResponse, ToolCallRequest

_THINKING: Final = ("thinking", "redacted_thinking")

_MIN_BUDGET: Final = 1024
_NO_THINKING: Final[WireMessage] = {"type": "disabled"}
_THINKING_PLACE: Final = re.compile(r"messages\.(\d{1,7})(?:\.content\.(\d{1,7}))?")
"""Index of a message and of a block in it, in an error of the API."""
_CACHE: Final[WireMessage] = {"type": "ephemeral"}
_COUNTED: Final = frozenset(
    {"model", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control"}
)
"""Members of a request for a token count, besides the messages."""
_MAX_TITLE: Final = 500
# Models that accept system messages only at the beginning.
_NO_SYSTEM_MESSAGES: Final = re.compile(
    r"claude-(?:[23]|instant|(?:sonnet|haiku)-4|opus-4(?:-[0-7])?(?:-20\d{6})?$)"
)
_SYSTEM_MESSAGE: Final = b'{"role":"system"'
_TOOL_CHANGE_BETAS: Final = (
    "mid-conversation-tool-changes-2026-07-01",
    "inline-tools-2026-09-15",
)
_BINDING_BETA: Final = "thinking-binding-controls"
_LOGGER: Final = logging.getLogger(__name__)


def build_request_fields(
    request: ModelRequest,
    *,
    answer: AnswerSchema | None = None,
    betas: str = "",
    abilities: Abilities | None = None,
    appends: bool = False,
    omitted: Omitted | None = None,
) -> WireMessage:
    """Return all members of the request body except `messages`.

    Sets three of the four cache markers that the API allows: on the last system text, on the last
    tool, and the automatic one at the end of the messages. `format_attachments` sets the fourth.
    If the rendering `appends` changes, the messages contain the demand to call a tool.
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

    fields: WireMessage = {
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
            if not appends:
                system.append(_text_block(describe_forced_call(choice)))
            choice = "auto"
        fields["tools"] = tools
        fields["tool_choice"] = _format_tool_choice(choice, len(tools))

    if system:
        fields["system"] = system
    if thinking is not None:
        fields["thinking"] = thinking

    output: WireMessage = {}
    if effort is not None:
        output["effort"] = effort
    if answer is not None:
        output["format"] = {"type": "json_schema", "schema": answer.schema}
    if output:
        fields["output_config"] = output

    return fields | _format_sampling(request, abilities, thinking=active, omitted=omitted)


def format_attachments(attachments: Sequence[Attachment]) -> FormattedAttachments:
    """Format attachments as blocks of the first user message. The last one has a cache marker."""
    sent, omitted = split_attachments(attachments, IMAGE_AND_PDF_TYPES)
    blocks = list(chain.from_iterable(map(_format_attachment, sent)))
    if blocks:
        blocks[-1]["cache_control"] = _CACHE
    return FormattedAttachments(user_parts=encode_json(blocks)[1:-1], omitted=omitted)


def _format_attachment(attachment: Attachment) -> list[WireMessage]:
    content = attachment.content
    if isinstance(content, str):
        text = content if content.strip() else "(empty)"  # the API rejects a blank text
        return [
            _document_block(attachment, {"type": "text", "media_type": "text/plain", "data": text})
        ]

    source = {
        "type": "base64",
        "media_type": attachment.media_type,
        "data": encode_content(content),
    }

    if attachment.media_type == PDF:
        return [_document_block(attachment, source)]
    return [_text_block(format_attachment_name(attachment)), {"type": "image", "source": source}]


def _format_text_and_images(text: str, images: Sequence[Image]) -> list[WireMessage]:
    blocks = [_text_block(text)] if text.strip() else []
    for image in images:
        source = {"type": "base64", "media_type": image.media_type, "data": image.text}
        kind = "document" if image.media_type == PDF else "image"
        label = _text_block(f"[{image.noun}: {image.words}]")
        blocks += [label, {"type": kind, "source": source}]
    return blocks


def _document_block(attachment: Attachment, source: WireMessage) -> WireMessage:
    title = format_attachment_name(attachment)
    if len(title) > _MAX_TITLE:
        title = "…" + title[1 - _MAX_TITLE :]
    return {"type": "document", "source": source, "title": title}


def _format_tools(tools: Sequence[ToolDefinition], *, strict: bool) -> list[WireMessage]:
    parameters = [ParameterNames.of(tool, ANTHROPIC_CALLS).format_schema() for tool in tools]
    enforced = select_strict_tools(parameters) if strict else {}

    formatted: list[WireMessage] = []
    for index, tool in enumerate(tools):
        fields: WireMessage = {
            "name": tool.name,
            "description": tool.description,
            "input_schema": enforced.get(index, parameters[index]),
        }
        if index in enforced:
            fields["strict"] = True
        formatted.append(fields)
    return formatted


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
) -> WireMessage:
    parameters = request.parameters
    sampling: WireMessage = {}

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
) -> tuple[WireMessage | None, str | None]:
    reasoning = parse_reasoning(request.parameters.reasoning)
    if reasoning is None:
        return None, None
    if reasoning.is_off:
        thinking = _NO_THINKING if "disabled" in abilities.thinking else None
        return thinking, None

    display = "omitted" if reasoning.exclude else "summarized"
    shared: WireMessage = {"display": display}
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


def _format_tool_choice(choice: ToolChoice, tools: int) -> WireMessage:
    name = choice.removeprefix("tool:")
    if name == choice:
        kind = "any" if choice == "required" else choice
        return {"type": kind}
    # Models ignore the named form if there is only one tool. `any` has the same meaning.
    return {"type": "any"} if tools == 1 else {"type": "tool", "name": name}


def _text_block(text: str) -> WireMessage:
    return {"type": "text", "text": text}


class AnthropicRendering(Rendering):
    """Anthropic messages of a context.

    Roles alternate, thinking precedes calls, and results precede text. The reasoning of
    `unsigned_items`, which are positions in the context, is sent as text: the API has rejected its
    signatures.
    """

    continue_request: ClassVar[WireMessage] = {
        "role": "user",
        "content": [_text_block(CONTINUE_PROMPT)],
    }
    appended = frozenset({"system", "tools", "attachments", "tool_choice"})

    def __init__(self, unsigned_items: frozenset[int] = frozenset()) -> None:
        super().__init__(ANTHROPIC_NAME, ANTHROPIC_CALLS)
        self.unsigned_items = unsigned_items
        self.signed_items: dict[str, int] = {}  # first position by signature
        self.last_message_id: str | None = None  # of the last response to this conversation

    def make_empty(self) -> Self:
        """Return an empty rendering with the same unsigned items, and the same last message."""
        return self.copy_without_messages(self.unsigned_items)

    def copy_without_messages(self, unsigned_items: frozenset[int]) -> Self:
        """Return an empty rendering of the same conversation with other `unsigned_items`."""
        copy = type(self)(unsigned_items)
        copy.last_message_id = self.last_message_id
        return copy

    def _render_change(self, change: HeadChange) -> list[WireMessage]:
        sent, _ = split_attachments(change.added, IMAGE_AND_PDF_TYPES)
        blocks = list(chain.from_iterable(map(_format_attachment, sent)))
        texts = (change.instructions(), change.attachments(), change.forced_call())
        content = [_text_block(text) for text in texts if text.strip()]
        content += _format_tool_changes(change)

        messages = []
        if not blocks and self._ends_in_answer:
            messages.append(self.continue_request)  # a system message must follow a user message
        if blocks:
            messages.append({"role": "user", "content": blocks})

        return [*messages, {"role": "system", "content": content}] if content else messages

    def _strip_reasoning(self, message: WireMessage) -> WireMessage | None:
        content = message["content"]
        while content and content[-1]["type"] in _THINKING:
            content = content[:-1]
        return {**message, "content": content} if content else None

    def _open_content(self, role: str) -> list[WireMessage]:
        content: list[WireMessage] = self._open_message(role, [])["content"]
        return content

    def _add_request(self, text: str, images: Sequence[Image]) -> None:
        if text.strip() or images:
            self._drop_empty_answer()
            self._open_content("user").extend(_format_text_and_images(text, images))

    def _add_text(self, text: str) -> None:
        if text:
            self._open_content("assistant").append(_text_block(text))

    def _add_reasoning(self, response: ChatResponse) -> bool:
        if self.items in self.unsigned_items or not self.is_bound:
            return False
        signature = read_own_text(response.metadata, THINKING_SIGNATURE_KEY)
        redacted = read_own_text(response.metadata, REDACTED_THINKING_KEY)

        if redacted:
            block: WireMessage = {"type": "redacted_thinking", "data": redacted}
        elif signature:
            thinking = response.reasoning
            block = {"type": "thinking", "thinking": thinking, "signature": signature}
        else:
            return False

        self.signed_items.setdefault(redacted or signature, self.items)
        self._open_content("assistant").append(block)
        return True

    def _add_call(self, call: ToolCallRequest) -> None:
        content = self._open_content("assistant")
        id_ = self._ids.assign(call.id, len(self.messages) - 1)
        name = self._rules.format_name(call.name)
        arguments = format_arguments(call.arguments)
        if names := self._find_names(call.name):
            arguments = names.format_arguments(arguments)
        content.append({"type": "tool_use", "id": id_, "name": name, "input": arguments})

    def _find_names(self, tool: str) -> ParameterNames | None:
        # The tools that were offered for this call, so later requests have the same bytes.
        for offered in self.tools:
            if offered.name == tool:
                return ParameterNames.of(offered, self._rules)
        return None

    def _add_result(
        self, call_id: str, call_index: int, text: str, images: Sequence[Image], *, is_error: bool
    ) -> None:
        block: WireMessage = {"type": "tool_result", "tool_use_id": call_id}

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


def _format_tool_changes(change: HeadChange) -> list[WireMessage]:
    before = change.before.tools
    after = change.after.tools
    blocks: list[WireMessage] = [
        {"type": "tool_removal", "tool": {"type": "tool_reference", "name": tool.name}}
        for tool in before
        if tool not in after
    ]

    added = _format_tools([tool for tool in after if tool not in before], strict=False)
    return blocks + [
        {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": tool}}
        for tool in added
    ]


MESSAGES_PATH: Final = "/v1/messages"
ANTHROPIC_VERSION: Final = "2023-06-01"


class AnthropicProvider(HttpProvider[AnthropicRendering]):
    """Provider for servers with the Anthropic Messages API."""

    def __init__(self, endpoint: Endpoint, *, strict_tools: bool = True) -> None:
        super().__init__(endpoint, AnthropicRendering, format_attachments)
        self._strict_tools = strict_tools
        self._listed: Mapping[str, ModelInfo] = {}
        self._corrected: dict[str, Abilities] = {}  # by errors of the server
        self._diagnostics = CacheDiagnostics(_LOGGER, self._http.redactor)

    def _adapt_schema(self, schema: Schema) -> AnswerSchema:
        return adapt_for_anthropic(schema)

    def _encode_body(
        self,
        request: ModelRequest,
        rendering: AnthropicRendering,
        attached: FormattedAttachments,
        answer: AnswerSchema | None,
        omitted: Omitted,
    ) -> RequestBody:
        appends = "tool_choice" in rendering.appended
        fields = self._build_fields(request, answer, omitted, appends=appends)

        if self._diagnostics.are_wanted:
            fields["diagnostics"] = {"previous_message_id": rendering.last_message_id}

        messages = rendering.encode(request.context, user_parts=attached.user_parts)
        headers = {}

        late = (message for message in messages if message.startswith(_SYSTEM_MESSAGE))
        if any(b'"type":"tool_' in message for message in late):
            given = self._http.endpoint.headers.get("anthropic-beta")
            headers["anthropic-beta"] = ",".join(filter(None, (given, *_TOOL_CHANGE_BETAS)))

        return RequestBody(fields, messages, headers=headers)

    def _build_fields(
        self,
        request: ModelRequest,
        answer: AnswerSchema | None,
        omitted: Omitted,
        *,
        appends: bool = False,
    ) -> WireMessage:
        betas = self._http.endpoint.headers.get("anthropic-beta", "")
        abilities = self._abilities_of(request.model)
        return build_request_fields(
            request,
            answer=answer,
            betas=betas,
            abilities=abilities,
            appends=appends,
            omitted=omitted,
        )

    def _appended_parts(self, model: str, parts: frozenset[str]) -> frozenset[str]:
        if _NO_SYSTEM_MESSAGES.match(model):
            parts = frozenset({"attachments"})
        return super()._appended_parts(model, parts)

    def _max_pdf_pages(self, model: str) -> int | None:
        betas = self._http.endpoint.headers.get("anthropic-beta", "")
        return find_max_pdf_pages(model, self._listed.get(model), betas)

    def _abilities_of(self, model: str) -> Abilities:
        known = self._corrected.get(model) or Abilities.of(model, self._listed.get(model))
        return known if self._strict_tools else replace(known, strict=False)

    def _make_decoder(
        self, request: ModelRequest, answer: AnswerSchema | None, body: bytes
    ) -> AnthropicDecoder:
        rendering = next(reversed(self._renderings.values()))  # of the current request
        asked = self._diagnostics.are_wanted

        def on_message(message: WireObject) -> None:
            rendering.last_message_id = read_response_id(message.get("id"))
            if asked:
                self._diagnostics.log(message.get("diagnostics"))

        return AnthropicDecoder(
            answer,
            request=body,
            on_message=on_message,
            parameter_names={x.name: ParameterNames.of(x, ANTHROPIC_CALLS) for x in request.tools},
            find_signatures=lambda paths: _find_signatures(paths, body),
        )

    def _recover(
        self, error: ProviderError, request: ModelRequest, rendering: AnthropicRendering
    ) -> ProviderEvent | None:
        if error.status != 400:
            return super()._recover(error, request, rendering)

        text = str(error).lower()
        is_stale = "thinking" in text and ("signature" in text or "cannot be modified" in text)
        if is_stale and rendering.signed_items:
            first = self._find_rejected_item(text, request, rendering)
            unsigned = rendering.unsigned_items.union(range(first, len(request.context)))
            self._keep_rendering(request.context, rendering.copy_without_messages(unsigned))
            return Retry(error.without_address, drop_metadata=THINKING_SIGNATURE_KEY)

        if "diagnostics" in text and self._diagnostics.are_wanted:
            self._diagnostics.is_accepted = False
            return Retry(error.without_address)

        abilities = self._abilities_of(request.model)
        sent = self._build_fields(request, self._make_answer_schema(request), {})
        corrected = abilities.correct(text, sent)

        if corrected == abilities:
            return super()._recover(error, request, rendering)
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
        if len(request.context) - 1 in rendering.unsigned_items:
            return 0
        sent = self._build_body(request, rendering, self._make_answer_schema(request)).body
        signatures = _iter_signatures(error, list(map(json.loads, sent.messages)))
        return rendering.signed_items.get(next(filter(None, signatures), ""), 0)

    def _make_count_query(self, request: ModelRequest, body: RequestBody) -> CountQuery | None:
        return CountQuery(f"{self._http.endpoint.url}/count_tokens", body.select(_COUNTED))

    async def models(self, *, seconds: float) -> ModelList:
        """List the models of the server. Later requests use their abilities."""
        found = await list_anthropic_models(self._http, seconds)
        self._listed = {model.id: model for model in found.models}
        return found

    def check_schema(self, schema: Mapping[str, JsonValue]) -> None:
        """Check that the API can enforce `schema`.

        Raises:
            UsageError: It cannot.
        """
        check_anthropic(schema)


def _find_signatures(paths: Sequence[str], body: bytes) -> list[str]:
    """Return the signature of the thinking in `body` at each of the `paths`, else ""."""
    messages = json.loads(body)["messages"]
    return [next(_iter_signatures(path, messages), "") for path in paths]


def _iter_signatures(path: str, messages: Sequence[WireMessage]) -> Iterator[str]:
    """Yield the signature, or "", of the block at `path` and of each later one.

    `path` is part of a text, such as an error.
    """
    place = _THINKING_PLACE.search(path)
    if place is None:
        return

    message = int(place[1])
    block = int(place[2] or 0)
    for sent in messages[message:]:
        content = sent["content"]
        if isinstance(content, list):
            yield from map(_get_signature, content[block:])
        block = 0


def _get_signature(block: WireMessage) -> str:
    name = {"thinking": "signature", "redacted_thinking": "data"}.get(block["type"], "")
    return str(block.get(name, ""))


def create_server(name: str, config: Server) -> AnthropicProvider:
    """Return the provider for the configured server `name`.

    Raises:
        ConfigError: The address is not valid.
    """
    headers = {"anthropic-version": ANTHROPIC_VERSION}
    endpoint = make_endpoint(name, config, MESSAGES_PATH, headers=headers, key_header="x-api-key")
    return AnthropicProvider(endpoint)


def create(name: str, config: Anthropic) -> AnthropicProvider:
    """Return the provider that `config` describes.

    Raises:
        ConfigError: The address is not valid.
    """
    headers = {"anthropic-version": ANTHROPIC_VERSION}
    if config.beta_headers:
        headers["anthropic-beta"] = ",".join(config.beta_headers)
    endpoint = make_endpoint(name, config, MESSAGES_PATH, headers=headers, key_header="x-api-key")
    return AnthropicProvider(endpoint, strict_tools=config.strict_tools)
