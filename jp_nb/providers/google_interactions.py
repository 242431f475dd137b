"""The Interactions API of Google Gemini: build requests, decode streams.

A response is a list of steps: thoughts, texts, and calls. Requests are stateless: they contain all
steps of the conversation, and the server stores nothing. A step that differs from the one that
would be made of its entry, for example because it has unknown fields, is kept in the metadata of
the entry and sent back as it came.

Source: `docs/providers.md`, https://ai.google.dev/api/interactions-api.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, Self

from jp_nb.agent.provider import Attachment, ModelRequest, ProviderEvent, Retry
from jp_nb.config.tree.named_servers import Server
from jp_nb.config.tree.provider_settings import Google, ProviderConfig
from jp_nb.errors import ProviderError
from jp_nb.images import PDF, Image
from jp_nb.json_values import compact_json
from jp_nb.providers.answer_schemas import AnswerSchema
from jp_nb.providers.attachment_parts import FormattedAttachments
from jp_nb.providers.call_rules import format_arguments
from jp_nb.providers.endpoint import Endpoint, make_endpoint
from jp_nb.providers.google import (
    THOUGHT_SIGNATURE_KEY,
    Content,
    GoogleProvider,
    GoogleRendering,
    describe_change,
    list_attachments,
    list_input_contents,
    name_model,
)
from jp_nb.providers.google_interactions_decoder import (
    STEPS_KEY,
    InteractionsDecoder,
    join_texts,
    make_call_step,
    make_output_step,
    make_text_content,
    make_thought_step,
)
from jp_nb.providers.head_changes import HeadChange
from jp_nb.providers.http_provider import HttpProvider
from jp_nb.providers.messages import CONTINUE_PROMPT
from jp_nb.providers.own_metadata import rebuild_steps
from jp_nb.providers.request_body import Omitted, WireMessage, encode_json, omit_parameter
from jp_nb.providers.tool_parameters import get_parameter_schema
from jp_nb.record.context import ContextEntry, ContextItem
from jp_nb.record.events import ChatRequest, ChatResponse, ToolCallRequest

_EXTRAS: Final = frozenset({"safety_settings", "service_tier"})
_FROM_USER: Final = frozenset({"user_input", "function_result"})

# --- requests ------------------------------------------------------------------------------------


def build_request_fields(
    request: ModelRequest,
    *,
    answer: AnswerSchema | None = None,
    thinking: tuple[str | None, bool] | None = None,
    allowed_tools: Sequence[str] | None = None,
    omitted: Omitted | None = None,
) -> WireMessage:
    """Return all members of the request body except `input`.

    `thinking` is the level, and True if the thoughts are not shown. `allowed_tools` are the names
    of the tools that the model may call; None for all of the request. Settings that are not sent
    are added to `omitted`, each with the reason.
    """
    fields: WireMessage = {"model": name_model(request), "store": False, "stream": True}
    if system := "\n\n".join(text for text in request.system if text.strip()):
        fields["system_instruction"] = system

    if request.tools:
        fields["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": get_parameter_schema(tool),
            }
            for tool in request.tools
        ]

    if answer is not None:
        fields["response_format"] = {
            "type": "text",
            "mime_type": "application/json",
            "schema": answer.schema,
        }

    level: str | None = None
    summaries: str | None = None
    if thinking is not None:
        level, is_hidden = thinking
        summaries = "none" if is_hidden else "auto"

    parameters = request.parameters
    config: WireMessage = {
        name: value
        for name, value in (
            ("max_output_tokens", parameters.max_tokens),
            ("temperature", parameters.temperature),
            ("top_p", parameters.top_p),
            ("stop_sequences", list(parameters.stop_words) or None),
            ("seed", parameters.other.get("seed")),
            ("tool_choice", _format_tool_choice(request, allowed_tools)),
            ("thinking_level", level),
            ("thinking_summaries", summaries),
        )
        if value is not None
    }

    if config:
        fields["generation_config"] = config

    omitted = {} if omitted is None else omitted
    if parameters.top_k is not None:
        omit_parameter(omitted, "top_k", "not a parameter of this API")

    for name, value in parameters.other.items():
        if name in _EXTRAS:
            fields[name] = value
        elif name != "seed":
            omit_parameter(omitted, name, "not a parameter of this API")

    return fields


def _format_tool_choice(
    request: ModelRequest, allowed: Sequence[str] | None
) -> str | WireMessage | None:
    choice = request.tool_choice
    name = choice.removeprefix("tool:")
    if not request.tools:
        return None
    if name != choice:
        return {"allowed_tools": {"mode": "any", "tools": [name]}}

    mode = "any" if choice == "required" else choice
    if allowed is None or mode == "none":
        return mode
    return {"allowed_tools": {"mode": mode, "tools": [*allowed]}} if allowed else "none"


def format_attachments(attachments: Sequence[Attachment]) -> FormattedAttachments:
    """Format attachments as a step of the user before the context."""
    contents, omitted = list_attachments(attachments)
    steps = (encode_json(_user_step(contents)),) if contents else ()
    return FormattedAttachments(steps, omitted=omitted)


def _format_content(content: Content) -> WireMessage:
    if isinstance(content, str):
        return make_text_content(content)
    media_type, data = content
    kind = "document" if media_type == PDF else "image"
    return {"type": kind, "mime_type": media_type, "data": data}


def _user_step(contents: Sequence[Content]) -> WireMessage:
    return {"type": "user_input", "content": [*map(_format_content, contents)]}


class InteractionsRendering(GoogleRendering):
    """Steps of a context.

    The calls of the items in `text_calls` are sent as text with their results, because the API
    requires a thought before a call of the current turn.
    """

    continue_request: ClassVar[WireMessage] = _user_step([CONTINUE_PROMPT])

    def __init__(self, unsigned_items: int = 0, text_calls: range = range(0)) -> None:
        super().__init__(unsigned_items)
        self.text_calls = text_calls
        self._calls: dict[str, ToolCallRequest] = {}  # by the id that is sent
        self._sent_as_text: set[str] = set()  # ids of calls

    def make_empty(self) -> Self:
        """Return an empty rendering with the same repairs."""
        return type(self)(self.unsigned_items, self.text_calls)

    @property
    def _ends_in_answer(self) -> bool:
        return bool(self.messages) and self.messages[-1]["type"] not in _FROM_USER

    def _render_change(self, change: HeadChange) -> list[WireMessage]:
        text = describe_change(change)
        steps = list(map(json.loads, format_attachments(change.added).messages))
        if text:
            steps.append(_user_step([text]))
        return steps

    def _strip_reasoning(self, message: WireMessage) -> WireMessage | None:
        return None if message["type"] == "thought" else message

    def _continue_answer(self, pieces: list[bytes]) -> None:
        last = len(self.messages) - 1
        while last >= 0 and self.messages[last]["type"] == "thought":
            last -= 1
        del pieces[last + 1 :]
        if last >= 0 and self.messages[last]["type"] not in _FROM_USER:
            pieces.append(encode_json(self.continue_request))

    def _add(self, item: ContextItem) -> None:
        entry = item.entry
        self.is_bound = item.is_bound
        steps = rebuild_steps(entry.metadata.get(STEPS_KEY)) if self.is_own else None
        if steps is None or not self._may_send_back(entry, steps):
            super()._add(item)
        elif isinstance(entry, ToolCallRequest):
            self._append_call(entry, steps[0])
        else:
            self.has_signatures |= any("signature" in step for step in steps)
            self.messages += steps

    def _may_send_back(self, entry: ContextEntry, steps: list[WireMessage]) -> bool:
        # The text of an entry can have changed: a compaction removes arguments.
        if any("signature" in step for step in steps) and not self._may_sign():
            return False
        kinds = [step["type"] for step in steps]

        match entry:
            case ToolCallRequest(name=name, arguments=arguments) if kinds == ["function_call"]:
                return (steps[0]["name"], steps[0]["arguments"]) == (name, arguments)
            case ChatResponse(kind="reasoning") if {*kinds} == {"thought"}:
                return join_texts(steps, "summary") == (entry.reasoning or "")
            case ChatResponse(kind="message") if {*kinds} == {"model_output"}:
                return join_texts(steps, "content") == entry.message
            case ChatResponse(kind="structured"):
                return {*kinds} == {"model_output"}
        return False

    def _add_request(self, text: str, images: Sequence[Image]) -> None:
        while self.messages and self.messages[-1]["type"] == "thought":
            self._drop_empty_answer()
        if contents := list_input_contents(text, images):
            self.messages.append(_user_step(contents))

    def _add_text(self, text: str) -> None:
        if text:
            self.messages.append(make_output_step(text))

    def _add_reasoning(self, response: ChatResponse) -> bool:
        signature = response.metadata.get(THOUGHT_SIGNATURE_KEY)
        if not isinstance(signature, str) or not self._may_sign():
            return False
        self.has_signatures = True
        self.messages.append(make_thought_step(response.reasoning or "", signature))
        return True

    def _add_call(self, call: ToolCallRequest) -> None:
        self._append_call(call, make_call_step(call.id, call.name, call.arguments))

    def _append_call(self, call: ToolCallRequest, step: WireMessage) -> None:
        id_ = self._ids.assign(call.id, len(self.messages))
        self._calls[id_] = call
        if self.items in self.text_calls:
            self._sent_as_text.add(id_)
        else:
            name = self._rules.format_name(call.name)
            arguments = format_arguments(step["arguments"])
            self.messages.append({**step, "id": id_, "name": name, "arguments": arguments})

    def _add_result(
        self, call_id: str, call_index: int, text: str, images: Sequence[Image], *, is_error: bool
    ) -> None:
        call = self._calls[call_id]
        name = self._rules.format_name(call.name)
        if call_id in self._sent_as_text:
            arguments = compact_json(format_arguments(call.arguments))
            said = f"Result of the tool {name} with {arguments}:\n{text}"
            self.messages.append(_user_step(list_input_contents(said, images)))
            return

        result: str | list[WireMessage] = text
        if images:
            result = list(map(_format_content, list_input_contents(text, images)))
        step: WireMessage = {
            "type": "function_result",
            "call_id": call_id,
            "name": name,
            "result": result,
        }

        if is_error:
            step["is_error"] = True
        self._insert(self._find_result_place(call_id), step)

    def _find_result_place(self, call_id: str) -> int:
        # Behind the response that contains the call, and the results of the calls before it.
        place = len(self.messages)
        while self.messages[place - 1].get("id") != call_id:
            place -= 1

        while place < len(self.messages) and self.messages[place]["type"] not in _FROM_USER:
            place += 1
        while place < len(self.messages) and self.messages[place]["type"] == "function_result":
            place += 1

        return place


class InteractionsProvider(GoogleProvider[InteractionsRendering]):
    """Provider for servers with the Interactions API."""

    continuation_member: ClassVar[str] = "continuation_token"
    instructions_member: ClassVar[str] = "system_instruction"
    messages_member: ClassVar[str] = "input"
    build_request_fields = staticmethod(build_request_fields)

    def __init__(self, endpoint: Endpoint, *, append_instructions: bool) -> None:
        super().__init__(
            endpoint,
            InteractionsRendering,
            format_attachments,
            append_instructions=append_instructions,
        )

    def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Stream one response."""
        for name in ("temperature", "top_p"):
            if getattr(request.parameters, name) is not None:
                setting = f"assistant.model.parameters.{name}"
                self._warn_once(request, setting, "is sent, but Google has deprecated it")
        return super().stream(request)

    async def count_tokens(self, request: ModelRequest, *, seconds: float) -> int:
        """Ask `generateContent` for the tokens, because this API cannot count; see `Provider`."""
        from jp_nb.providers.google_generate import GenerateProvider

        endpoint = self._http.endpoint
        path = endpoint.path.replace("/interactions", "/models")
        other = GenerateProvider(
            replace(endpoint, path=path), append_instructions=self._append_instructions
        )
        try:
            return await other.count_tokens(request, seconds=seconds)
        finally:
            await other.aclose()

    def _make_decoder(
        self, request: ModelRequest, answer: AnswerSchema | None, body: bytes
    ) -> InteractionsDecoder:
        return InteractionsDecoder(answer, request=body)

    def _repair(
        self, error: ProviderError, request: ModelRequest, rendering: InteractionsRendering
    ) -> ProviderEvent | None:
        end = len(request.context)
        text_calls = rendering.text_calls
        unsigned_items = rendering.unsigned_items
        if "missing" in str(error).lower() and text_calls.stop < end:
            asked = (
                index
                for index, item in enumerate(request.context)
                if isinstance(item.entry, ChatRequest)
            )
            text_calls = range(max(asked, default=0), end)
        elif rendering.has_signatures:
            unsigned_items = end
        else:
            return None

        self._keep_rendering(request.context, InteractionsRendering(unsigned_items, text_calls))
        return Retry(error.without_address)


def create_server(name: str, config: Server) -> HttpProvider[Any]:
    """Return the provider for the configured server `name`.

    Raises:
        ConfigError: The address is not valid.
    """
    return _create(name, config, config.dialect, append_instructions=True)


def create(name: str, config: Google) -> HttpProvider[Any]:
    """Return the provider that `config` describes.

    Raises:
        ConfigError: The address is not valid.
    """
    return _create(name, config, config.dialect, append_instructions=config.append_instructions)


def _create(
    name: str, config: ProviderConfig, dialect: str, *, append_instructions: bool
) -> HttpProvider[Any]:
    # An address can end in a version, as `https://generativelanguage.googleapis.com/v1beta`.
    version = re.search(r"/v\d\w*/?$", config.base_url or "")
    root = "" if version else "/v1"
    path = f"{root}/models"
    headers: dict[str, str] = {}
    if dialect == "interactions":
        path = f"{root}/interactions"
        # The revision of the API in its versions before 1. Later ones ignore it.
        headers = {"api-revision": "2026-05-20"}
    endpoint = make_endpoint(name, config, path, headers=headers, key_header="x-goog-api-key")

    if dialect == "generate":
        from jp_nb.providers.google_generate import GenerateProvider

        return GenerateProvider(endpoint, append_instructions=append_instructions)
    return InteractionsProvider(endpoint, append_instructions=append_instructions)
