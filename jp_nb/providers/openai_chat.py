"""Chat completions of OpenAI and compatible servers: build requests, list models.

Source: `docs/providers.md`, https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import ClassVar, Self

from pydantic import JsonValue

from jp_nb.agent.provider import Attachment, ModelList, ModelRequest, Provider
from jp_nb.config.tree.named_servers import Server
from jp_nb.config.tree.provider_settings import ChatCompletionsProvider, OpenRouter
from jp_nb.images import MAX_IMAGE_NAME_CHARS, PDF, Image
from jp_nb.json_schema import Schema, check_references
from jp_nb.json_values import replace_surrogates, spaced_json
from jp_nb.providers.answer_schemas import AnswerSchema, adapt_for_json_mode
from jp_nb.providers.attachment_parts import (
    IMAGE_TYPES,
    FormattedAttachments,
    advise_images,
    encode_content,
    format_attachment_name,
    format_documents_xml,
    format_file_name,
    split_attachments,
)
from jp_nb.providers.call_rules import format_arguments
from jp_nb.providers.chat_profiles import PROFILES, Profile, make_profile
from jp_nb.providers.endpoint import Endpoint, find_dialect, make_endpoint, parse_reasoning
from jp_nb.providers.head_changes import REMOVED_TOOLS, HeadChange
from jp_nb.providers.http_provider import HttpProvider
from jp_nb.providers.messages import (
    CONTINUE_PROMPT,
    RESULT_IMAGES_INTRO,
    RESULT_PDFS_INTRO,
    Rendering,
)
from jp_nb.providers.model_lists import list_chat_completions_models
from jp_nb.providers.openai_chat_decoder import REASONING_DETAILS_KEY, ChatDecoder
from jp_nb.providers.own_metadata import rebuild_details
from jp_nb.providers.request_body import (
    Omitted,
    RequestBody,
    WireMessage,
    encode_json,
    omit_parameter,
)
from jp_nb.providers.token_counts import CountQuery
from jp_nb.providers.tool_parameters import get_parameter_schema
from jp_nb.record.events import ChatResponse, ToolCallRequest
from jp_nb.text import one_line


def build_request_fields(
    request: ModelRequest,
    profile: Profile,
    *,
    answer: AnswerSchema | None = None,
    omitted: Omitted | None = None,
) -> WireMessage:
    """Return all members of the request body except `messages`.

    Parameters that are not sent are added to `omitted`, each with the reason.
    """
    fields: WireMessage = {"model": request.model, "stream": True}
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

    omitted = {} if omitted is None else omitted
    fields.update(_format_sampling(request, profile, omitted))
    return fields


def format_system_messages(
    request: ModelRequest, profile: Profile, *, documents: str = ""
) -> list[WireMessage]:
    """Return the system texts as one message, because many chat templates reject a second one.

    The texts of attachments (`documents`) follow the system texts. The schema of the answer is last
    if the server cannot enforce it. Without any text, there is no message.
    """
    texts = [text for text in (*request.system, documents) if text.strip()]
    if profile.answer is None and request.schema is not None:
        texts.append(_describe_answer(adapt_for_json_mode(request.schema)))

    if not texts:
        return []

    if request.model.startswith(profile.cached_by_mark):
        parts = [_text_part(text) for text in texts]
        parts[-1]["cache_control"] = {"type": "ephemeral"}
        return [{"role": "system", "content": parts}]
    return [{"role": "system", "content": "\n\n".join(texts)}]


def _describe_answer(answer: AnswerSchema) -> str:
    schema = json.dumps(answer.schema, ensure_ascii=False)
    return f"Answer with one JSON object that fits this JSON schema, and nothing else:\n{schema}"


def format_attachments(attachments: Sequence[Attachment], profile: Profile) -> FormattedAttachments:
    """Format attachments as a user message or as a part of the system message; see `Profile`."""
    sent, omitted = split_attachments(attachments, profile.media_types)
    xml = format_documents_xml(sent)
    parts = list(chain.from_iterable(map(_format_binary_parts, sent)))

    system = xml if profile.documents == "system" else ""
    text = "" if system else xml
    content: str | list[WireMessage] = text or parts
    if text and parts:
        content = [_text_part(text), *parts]

    messages = (encode_json({"role": "user", "content": content}),) if content else ()
    return FormattedAttachments(messages, system, omitted)


def _format_binary_parts(attachment: Attachment) -> list[WireMessage]:
    content = attachment.content
    name = format_attachment_name(attachment)
    if isinstance(content, str):
        return []

    media_type = attachment.media_type
    data = encode_content(content)
    if media_type == PDF:
        return [_pdf_part(name, data)]
    return [_text_part(name), _image_part(media_type, data)]


def _pdf_part(name: str, base64_data: str) -> WireMessage:
    url = f"data:{PDF};base64,{base64_data}"
    return {"type": "file", "file": {"filename": name, "file_data": url}}


def _image_part(media_type: str, base64_data: str) -> WireMessage:
    url = f"data:{media_type};base64,{base64_data}"
    return {"type": "image_url", "image_url": {"url": url}}


def _text_part(text: str) -> WireMessage:
    return {"type": "text", "text": text}


def _format_tools(request: ModelRequest, profile: Profile) -> WireMessage:
    tools = request.tools
    choice = request.tool_choice
    name = choice.removeprefix("tool:") if choice.startswith("tool:") else None

    # A server that ignores `tool_choice` calls tools unless the list is empty.
    if not tools or (choice == "none" and profile.tool_choices == "nothing"):
        return {}

    if name is not None and profile.tool_choices != "named":  # send only the forced tool
        tools = tuple(tool for tool in tools if tool.name == name) or tools
        name = None
        choice = "required"

    if choice == "required":
        choice = profile.any_tool

    wire_choice: str | WireMessage = choice
    if name is not None:
        wire_choice = {"type": "function", "function": {"name": name}}
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
        "tool_choice": wire_choice,
    }


def _format_response_format(answer: AnswerSchema, profile: Profile) -> WireMessage:
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


def _format_sampling(request: ModelRequest, profile: Profile, omitted: Omitted) -> WireMessage:
    parameters = request.parameters
    top_k = parameters.top_k if profile.top_k else None
    sampling: WireMessage = {
        name: value
        for name, value in (
            (profile.max_tokens, parameters.max_tokens),
            ("temperature", parameters.temperature),
            ("top_p", parameters.top_p),
            ("top_k", top_k),
            ("stop", list(parameters.stop_words) or None),
        )
        if value is not None
    }

    ignored = {name for name in parameters.other if name not in profile.extras}
    if parameters.top_k is not None and not profile.top_k:
        ignored.add("top_k")

    for name in sorted(ignored):
        omit_parameter(omitted, name, "not a parameter of this API")

    for name, value in parameters.other.items():
        if name in profile.extras:
            wire_name = profile.seed if name == "seed" else name
            sampling[wire_name] = value

    return sampling


class ChatRendering(Rendering):
    """Chat messages of a context: one message for each response, followed by its tool results."""

    continue_request: ClassVar[WireMessage] = {"role": "user", "content": CONTINUE_PROMPT}
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

    def _render_change(self, change: HeadChange) -> list[WireMessage]:
        attached = format_attachments(change.added, self._profile)
        schema = change.after.schema
        texts = [change.instructions(), change.tools()]
        texts += [change.attachments(), attached.system]
        if self._profile.answer is None and schema is not None:
            texts.append(_describe_answer(adapt_for_json_mode(schema)))
        elif self._profile.answer is None and change.before.schema is not None:
            texts.append("Answer with text again.")

        text = "\n\n".join(text for text in texts if text.strip())
        messages = [json.loads(message) for message in attached.messages]
        return [*messages, {"role": "system", "content": text}] if text else messages

    def _strip_reasoning(self, message: WireMessage) -> WireMessage | None:
        has_content = message["content"] is not None or "tool_calls" in message
        return message if has_content else None

    def _open_answer(self) -> WireMessage:
        return self._open_message("assistant", None)

    def _add_request(self, text: str, images: Sequence[Image]) -> None:
        self._drop_turn_reasoning()
        self._drop_empty_answer()
        content: list[WireMessage] | str = text

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

        if details := rebuild_details(response.metadata.get(REASONING_DETAILS_KEY)):
            self._open_answer().setdefault("reasoning_details", []).extend(details)
        elif response.reasoning:
            message = self._open_answer()
            message[field] = message.get(field, "") + replace_surrogates(response.reasoning)
        return True

    def _add_call(self, call: ToolCallRequest) -> None:
        calls = self._open_answer().setdefault("tool_calls", [])
        id_ = self._ids.assign(call.id, len(self.messages) - 1)
        name = self._tool_names[id_] = self._rules.format_name(call.name)
        arguments = spaced_json(format_arguments(call.arguments))
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

        name = one_line(self._tool_names[call_id], limit=MAX_IMAGE_NAME_CHARS)
        for image in images:
            words = f"{image.noun}: {image.words}, of {name}, call {call_id}"
            parts += _format_image(image, f"[{words}]")


def _format_image(image: Image, words: str) -> list[WireMessage]:
    is_pdf = image.media_type == PDF
    pdf = _pdf_part(format_file_name(image), image.text) if is_pdf else None
    return [_text_part(words), pdf or _image_part(image.media_type, image.text)]


class ChatProvider(HttpProvider[ChatRendering]):
    """Provider for servers with the Chat Completions API."""

    counts_whole_prompt = True

    def __init__(self, endpoint: Endpoint, profile: Profile) -> None:
        super().__init__(
            endpoint,
            lambda: ChatRendering(profile),
            lambda attachments: format_attachments(attachments, profile),
        )
        self._profile = profile

    def _adapt_schema(self, schema: Schema) -> AnswerSchema:
        return (self._profile.answer or adapt_for_json_mode)(schema)

    def _advise_images(self) -> str:
        return advise_images(self._http.endpoint, self._profile.media_types)

    def _appended_parts(self, model: str, parts: frozenset[str]) -> frozenset[str]:
        if self._profile.answer is not None:  # a member of the body has the schema
            parts -= {"schema"}
        return super()._appended_parts(model, parts)

    def _encode_body(
        self,
        request: ModelRequest,
        rendering: ChatRendering,
        attached: FormattedAttachments,
        answer: AnswerSchema | None,
        omitted: Omitted,
    ) -> RequestBody:
        profile = self._profile
        fields = build_request_fields(request, profile, answer=answer, omitted=omitted)
        system = format_system_messages(request, profile, documents=attached.system)
        before = (*map(encode_json, system), *attached.messages)
        messages = rendering.encode(request.context, before=before)
        return RequestBody(fields, messages, prefix=("tools",))

    def _make_decoder(
        self, request: ModelRequest, answer: AnswerSchema | None, body: bytes
    ) -> ChatDecoder:
        return ChatDecoder(
            self._profile, answer, request=body, tools=[tool.name for tool in request.tools]
        )

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
        check_references(schema)


def create_server(name: str, config: Server) -> Provider:
    """Return the provider for the configured server `name`.

    Raises:
        ConfigError: A setting is not valid.
    """
    profile = _with_images(make_profile(name, config.profile), config.images)
    endpoint = make_endpoint(name, config, profile.path, headers={})
    endpoint = replace(endpoint, local=profile.local or "")
    if config.dialect == "responses":
        return _create_responses(endpoint, profile)
    return ChatProvider(endpoint, profile)


def _with_images(profile: Profile, takes_images: bool | None) -> Profile:
    if takes_images is None or takes_images == profile.takes_images:
        return profile
    return replace(profile, media_types=profile.media_types ^ IMAGE_TYPES)


def _create_responses(endpoint: Endpoint, profile: Profile) -> Provider:
    from jp_nb.providers.openai_responses import ResponsesProvider  # few conversations need it

    path = profile.path.replace("/chat/completions", "/responses")
    return ResponsesProvider(
        replace(endpoint, path=path), media_types=profile.media_types, local=profile.local
    )


def create(name: str, config: ChatCompletionsProvider) -> Provider:
    """Return the provider that `config` describes, in its dialect.

    Raises:
        ConfigError: A setting is not valid.
    """
    profile = _with_images(PROFILES[name], config.images)
    headers = {}
    if isinstance(config, OpenRouter):
        attribution = {"x-title": config.app_name, "http-referer": config.app_referrer}
        headers = {key: value for key, value in attribution.items() if value}

    endpoint = make_endpoint(name, config, profile.path, headers=headers)
    endpoint = replace(endpoint, local=profile.local or "")

    if find_dialect(name, config) == "responses":
        return _create_responses(endpoint, profile)
    return ChatProvider(endpoint, profile)
