"""Chat completions of OpenAI and compatible servers: build requests, decode streams, list models.

Source: `docs/providers.md`, https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final, Self

from pydantic import JsonValue

from jp_nb.agent.provider import (
    Attachment,
    Finished,
    FinishReason,
    Flush,
    ModelList,
    ModelRequest,
    ProviderEvent,
    SentRequest,
    TextPart,
    ToolCallArguments,
    ToolCallStart,
    ToolDefinition,
    Usage,
)
from jp_nb.config.tree.models import DIALECTS_NOT_BUILT
from jp_nb.errors import ConfigError, ProviderError
from jp_nb.images import MAX_NAME_CHARS, Image
from jp_nb.providers import schemas
from jp_nb.providers.chat_profiles import PROFILES, Profile
from jp_nb.providers.endpoint import Endpoint, LeftOut, ProviderSettings, Warnings, parse_reasoning
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
    documents_xml,
    encode,
    encode_body,
    name_of,
    plain_schema,
    reasoning_as_text,
    response_text,
    sort_out,
    with_images_in_words,
)
from jp_nb.providers.models import list_chat
from jp_nb.providers.schemas import AnswerText, ThinkSplitter, is_json_object
from jp_nb.providers.streaming import StreamDecoder, WireObject, events
from jp_nb.record.context import ContextItem, RequestContext
from jp_nb.record.events import ChatRequest, ChatResponse, ToolCallRequest, ToolCallResponse
from jp_nb.text import one_line

DETAILS: Final = "openrouter_reasoning_details"
"""Where OpenRouter's reasoning is kept in a response's metadata, to be sent back."""


IMAGES_OF_RESULTS: Final = "The results of these tool calls came with images:"


def answer_schema(request: ModelRequest, profile: Profile) -> schemas.AnswerSchema | None:
    """The schema of a structured answer as `profile` takes it; None for text."""
    if request.schema is None:
        return None
    return (profile.answer or schemas.for_json_mode)(request.schema)


def build_head(
    request: ModelRequest,
    profile: Profile,
    *,
    answer: schemas.AnswerSchema | None = None,
    warnings: Warnings | None = None,
) -> Message:
    """Everything in the body of `request` but its messages."""
    warnings = warnings or Warnings(profile.name)
    head: Message = {"model": request.model, "stream": True}
    if profile.stream_options:
        head["stream_options"] = {"include_usage": True}
    head.update(_tools(request, profile))
    if answer is not None:
        head["response_format"] = _response_format(answer, profile)
        if profile.require_parameters:  # else the answer may come from who never saw the schema
            head["provider"] = {"require_parameters": True}
    reasoning = parse_reasoning(request.parameters.reasoning)
    if reasoning is not None:
        head.update(profile.reasoning(reasoning))
    head.update(_sampling(request, profile, warnings))
    return head


def system_messages(
    request: ModelRequest, profile: Profile, *, documents: str = ""
) -> list[Message]:
    """The system texts as one message: many chat templates refuse a second one.

    `documents` stand behind them, and before what not every request says.
    """
    texts = [text for text in (*request.system, documents) if text.strip()]
    answer = answer_schema(request, profile) if profile.answer is None else None
    if answer is not None:
        texts.append(
            "Answer with one JSON object that fits this JSON schema, and nothing else:\n"
            + json.dumps(answer.schema, ensure_ascii=False)
        )
    if not texts:
        return []
    if request.model.startswith(profile.cached_by_mark):
        parts = [_text_part(text) for text in texts]
        parts[-1]["cache_control"] = {"type": "ephemeral"}
        return [{"role": "system", "content": parts}]
    return [{"role": "system", "content": "\n\n".join(texts)}]


def attach(attachments: Sequence[Attachment], profile: Profile) -> Attached:
    """`attachments` as `profile` has them: as a user message, or as a system text."""
    sent, skipped = sort_out(attachments, profile.media_types)
    xml = documents_xml(sent)
    parts = [part for attachment in sent for part in _binary_parts(attachment)]
    system, text = (xml, "") if profile.documents == "system" else ("", xml)
    content = [_text_part(text), *parts] if text and parts else text or parts
    messages = (encode({"role": "user", "content": content}),) if content else ()
    return Attached(messages, system, skipped)


def _binary_parts(attachment: Attachment) -> list[Message]:
    content, name = attachment.content, name_of(attachment)
    if isinstance(content, str):
        return []
    url = f"data:{attachment.media_type};base64,{base64_text(content)}"
    if attachment.media_type == PDF:
        return [{"type": "file", "file": {"filename": name, "file_data": url}}]
    return [_text_part(name), {"type": "image_url", "image_url": {"url": url}}]


def _image_part(image: Image) -> Message:
    url = f"data:{image.media_type};base64,{image.text}"
    return {"type": "image_url", "image_url": {"url": url}}


def _text_part(text: str) -> Message:
    return {"type": "text", "text": text}


def _tools(request: ModelRequest, profile: Profile) -> Message:
    """`tools` and `tool_choice`, as far as the server understands choices."""
    tools, choice = request.tools, request.tool_choice
    name = choice.removeprefix("tool:") if choice.startswith("tool:") else None
    # Who does not read `tool_choice` calls no tool only if it is shown none.
    if not tools or (choice == "none" and profile.tool_choices == "nothing"):
        return {}
    if name is not None and profile.tool_choices != "named":  # forced: the only one there is
        tools = tuple(tool for tool in tools if tool.name == name) or tools
        name, choice = None, "required"
    return {
        "tools": [_tool(tool) for tool in tools],
        "tool_choice": choice if name is None else _named(name),
    }


def _tool(tool: ToolDefinition) -> Message:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": plain_schema(tool),
        },
    }


def _named(name: str) -> Message:
    return {"type": "function", "function": {"name": name}}


def _response_format(answer: schemas.AnswerSchema, profile: Profile) -> Message:
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


def _sampling(request: ModelRequest, profile: Profile, warnings: Warnings) -> Message:
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
        warnings.ignored(
            name, "not a parameter of this API", conversation_id=request.conversation_id
        )
    sampling.update(
        (name, value) for name, value in parameters.other.items() if name in profile.extras
    )
    return sampling


class ChatRendering(Rendering):
    """A thread as chat messages: what one response held is one message, results follow it."""

    def __init__(self, profile: Profile) -> None:
        super().__init__()
        self._profile = profile
        self._ids = CallIds(limit=profile.max_id_length)
        self._turn_start = 0
        self._called: dict[str, str] = {}
        self._with_images: set[int] = set()  # messages that call tools: the images come behind

    def anew(self) -> Self:
        """Return an empty rendering of what begins as this thread does."""
        return type(self)(self._profile)

    def add(self, item: ContextItem) -> None:
        """Render the next item."""
        match item.entry:
            case ChatRequest(content=text):
                self._end_turn()
                self._drop_empty_answer()
                self._request(text, item.images)
            case ChatResponse() as response:
                self._response(response, own=item.provider == self._profile.name)
            case ToolCallRequest() as call:
                calls = self._assistant().setdefault("tool_calls", [])
                id_ = self._ids.called(call.id, len(self.messages) - 1)
                self._called[id_] = call.name
                calls.append(
                    {
                        "id": id_,
                        "type": "function",
                        "function": {
                            "name": call.name,
                            "arguments": json.dumps(call.arguments, ensure_ascii=False),
                        },
                    }
                )
            case ToolCallResponse() as result:
                self._result(result, item.images)

    def encode(self, thread: RequestContext, *, before: Sequence[Message | bytes] = ()) -> bytes:
        """Return the messages of `thread`, which is rendered here, behind those `before`, as JSON.

        An answer that was cut is asked to go on.
        """
        if not continues_answer(thread):
            return self.messages.encode(before=before)
        ended = self.anew() if self._has_empty_answer() else self
        if ended is not self:
            ended.follow(thread)
            ended._drop_empty_answer()
        goes_on = ended.messages.last_role == "assistant"
        after = ({"role": "user", "content": CONTINUE},) if goes_on else ()
        return ended.messages.encode(before=before, after=after)

    def _has_empty_answer(self) -> bool:
        """Return True if the last message is an answer of reasoning alone."""
        if self.messages.last_role != "assistant":
            return False
        last = self.messages[-1]
        return last["content"] is None and "tool_calls" not in last

    def _drop_empty_answer(self) -> None:
        """Take away an answer that nothing came of: servers refuse one that says nothing."""
        if self._has_empty_answer():
            self.messages.drop_last()

    def _request(self, text: str, images: Sequence[Image]) -> None:
        if images and not self._profile.takes_images:
            text, images = with_images_in_words(text, images), ()
        if images:
            parts = [_text_part(text)] if text.strip() else []
            for image in images:
                parts += [_text_part(f"[image: {image.words}]"), _image_part(image)]
            self.messages.append({"role": "user", "content": parts})
        elif text.strip():
            self.messages.append({"role": "user", "content": text})

    def _response(self, response: ChatResponse, *, own: bool) -> None:
        field = self._profile.reasoning_field
        if response.kind != "reasoning":
            text = response_text(response)
        elif own and field is not None:
            self._own_reasoning(response, field)
            return
        else:
            text = reasoning_as_text(response)
        if text:
            message = self._assistant()
            message["content"] = (message["content"] or "") + text

    def _own_reasoning(self, response: ChatResponse, field: str) -> None:
        details = response.metadata.get(DETAILS)
        if isinstance(details, list) and details:
            self._assistant().setdefault("reasoning_details", []).extend(details)
        elif response.reasoning:
            message = self._assistant()
            message[field] = message.get(field, "") + response.reasoning

    def _result(self, result: ToolCallResponse, images: Sequence[Image]) -> None:
        asked = self._ids.answered(result.id)
        if asked is None:
            return  # nobody asked: servers refuse such a message
        id_, asked_in = asked
        place = asked_in + 1
        while place < len(self.messages) and self.messages[place]["role"] == "tool":
            place += 1
        content = result.content
        if images and not self._profile.takes_images:
            content, images = with_images_in_words(content, images), ()
        self.messages.insert(place, {"role": "tool", "tool_call_id": id_, "content": content})
        if images:
            self._images(images, id_, asked_in, place + 1)

    def _images(self, images: Sequence[Image], call_id: str, asked_in: int, place: int) -> None:
        """Show `images` of a result behind all results of its batch.

        A message with the role `tool` holds text alone.
        """
        if asked_in not in self._with_images:
            self._with_images.add(asked_in)
            content = [_text_part(IMAGES_OF_RESULTS)]
            self.messages.insert(place, {"role": "user", "content": content})
        parts = self.messages.edit(place)["content"]
        name = one_line(self._called[call_id], limit=MAX_NAME_CHARS)
        for image in images:
            words = f"[image: {image.words}, of {name}, call {call_id}]"
            parts += [_text_part(words), _image_part(image)]

    def _assistant(self) -> Message:
        """The assistant message to add to: the last one, or a new one."""
        if self.messages.last_role == "assistant":
            return self.messages.edit(-1)
        return self.messages.append({"role": "assistant", "content": None})

    def _end_turn(self) -> None:
        """Forget reasoning that the server does not want to see in a later turn."""
        field = self._profile.reasoning_field
        if field is None or self._profile.reasoning_lasts:
            return
        for index in range(self._turn_start, len(self.messages)):
            if field in self.messages[index]:
                del self.messages.edit(index)[field]
        self._turn_start = len(self.messages)


_REASONING, _ANSWER, _FIRST_CALL = range(3)  # indexes of a response's items
MAX_LOOKS: Final = 100
"""How often the arguments of one call are read to see whether another one begins."""
_FINISH: Final[Mapping[str, FinishReason]] = {
    "stop": "completed",
    "tool_calls": "completed",
    "function_call": "completed",
    "length": "max_tokens",
    "content_filter": "refused",
}
_FAILURES: Final = frozenset({"error", "insufficient_system_resource"})


class ChatDecoder:
    """Decodes the chunks of one response.

    Calls that a server gives no id have one that the `request`, its body, makes: unique in the
    conversation, since each request of it says more, and the same where it is asked again.
    """

    def __init__(
        self, profile: Profile, schema: schemas.AnswerSchema | None = None, *, request: bytes = b""
    ) -> None:
        self._request = request
        self._name = profile.name
        self._answer = AnswerText(schema)
        self._splitter = ThinkSplitter() if profile.think_tags else None
        self._open: set[int] = set()  # of reasoning and answer: those not flushed
        self._calls: list[_Call] = []
        self._by_wire_index: dict[int, _Call] = {}
        self._details: list[dict[str, Any]] = []
        self._refusal: list[str] = []
        self._finish_reason: str | None = None
        self._native_reason: str | None = None
        self._beside = 0

    @property
    def held(self) -> int:
        """Characters that were taken and are in no event yet."""
        return self._answer.held + self._beside

    @property
    def complete(self) -> bool:
        """True if the answer is complete: nothing but counts and the end mark is missing."""
        return self._finish_reason is not None

    def feed(self, message: WireObject) -> list[ProviderEvent]:
        """The events that `message`, a chunk, gives; see `streaming.Decoder`."""
        if message.get("error"):
            raise classify_in_stream(message["error"], provider=self._name)
        out: list[ProviderEvent] = []
        if choices := message.get("choices"):
            self._choice(choices[0], out)
        if usage := message.get("usage"):
            out.append(_usage(usage))
        return out

    def finish(self) -> list[ProviderEvent]:
        """The last events; a response is complete if it has a finish reason."""
        if self._finish_reason is None:
            raise ProviderError(
                f"the response of {self._name} ended before it was complete", kind="transient"
            )
        reason = _FINISH.get(self._finish_reason, "other")
        if self._refusal:
            return [Finished("refused", "".join(self._refusal))]
        word = self._native_reason or self._finish_reason
        return [Finished(reason, word if reason in ("other", "refused") else None)]

    def _choice(self, choice: WireObject, out: list[ProviderEvent]) -> None:
        delta = choice.get("delta") or choice.get("message") or {}
        if thought := delta.get("reasoning_content") or delta.get("reasoning"):
            self._reasoning(thought, out)
        if details := delta.get("reasoning_details"):
            self._reasoning_details(details, out)
        if text := delta.get("content"):
            if self._splitter is None:
                self._text(text, out)
            else:
                self._pieces(self._splitter.feed(text), out)
        if refusal := delta.get("refusal"):
            self._refusal.append(refusal)
            self._beside += len(refusal)
        if calls := delta.get("tool_calls"):
            for call in calls:
                self._call(call, out)
        if call := delta.get("function_call"):
            self._call({"index": 0, "function": call}, out)
        if reason := choice.get("finish_reason"):
            self._native_reason = choice.get("native_finish_reason")
            self._end(reason, choice, out)

    def _reasoning(self, text: str, out: list[ProviderEvent]) -> None:
        if _REASONING not in self._open:
            self._close(out)
            self._open.add(_REASONING)
        out.append(TextPart(_REASONING, "reasoning", text))

    def _text(self, text: str, out: list[ProviderEvent]) -> None:
        if _ANSWER not in self._open:
            self._close(out)
            self._open.add(_ANSWER)
        out.extend(self._answer.part(_ANSWER, text))

    def _pieces(self, pieces: Sequence[tuple[str, str]], out: list[ProviderEvent]) -> None:
        for kind, text in pieces:
            if kind == "reasoning":
                self._reasoning(text, out)
            else:
                self._text(text, out)

    def _reasoning_details(
        self, details: Sequence[dict[str, Any]], out: list[ProviderEvent]
    ) -> None:
        """Keep OpenRouter's details, pieces of one item joined, to be sent back with the call."""
        if _REASONING not in self._open:
            self._reasoning("", out)  # encrypted reasoning has no text: give it a place
        for detail in details:
            self._beside += sum(len(v) for v in detail.values() if isinstance(v, str))
            last = self._details[-1] if self._details else {}
            if (last.get("type"), last.get("index")) != (detail.get("type"), detail.get("index")):
                self._details.append(dict(detail))
                continue
            for key, value in detail.items():
                if key in ("text", "summary", "data") and isinstance(value, str):
                    last[key] = (last.get(key) or "") + value
                elif value is not None:
                    last[key] = value

    def _close(self, out: list[ProviderEvent]) -> None:
        """Complete the reasoning or text that came before something else."""
        if _REASONING in self._open:
            metadata: dict[str, JsonValue] = {DETAILS: [*self._details]} if self._details else {}
            self._details = []
            out.append(Flush(_REASONING, metadata))
        if _ANSWER in self._open:
            out.extend(self._answer.complete(_ANSWER))
            out.append(Flush(_ANSWER))
        self._open.clear()

    def _own_id(self, index: int) -> str:
        digest = sha256(b"%d " % index + self._request)
        return f"call_{digest.hexdigest()[:32]}"

    def _call(self, delta: WireObject, out: list[ProviderEvent]) -> None:
        """A part of a tool call, found by its `index` or, without one, by its id."""
        function = delta.get("function") or {}
        id_, name = delta.get("id") or "", function.get("name") or ""
        wire_index = delta.get("index")
        if wire_index is not None:
            call = self._by_wire_index.get(wire_index)
        else:
            call = self._calls[-1] if self._calls else None
        if call is None or self._is_another(call, id_, name, has_index=wire_index is not None):
            self._close(out)
            call = _Call(_FIRST_CALL + len(self._calls), self._own_id)
            self._calls.append(call)
            if wire_index is not None:
                self._by_wire_index[wire_index] = call
        arguments = function.get("arguments") or ""
        if isinstance(arguments, dict):
            arguments = json.dumps(arguments, ensure_ascii=False)
        given = call.receive(id_, name, arguments)
        if not given:
            self._beside += len(arguments)
        out.extend(given)

    @staticmethod
    def _is_another(call: _Call, id_: str, name: str, *, has_index: bool) -> bool:
        if not id_ or id_ == call.id:
            return False
        # Some servers give every call index 0: a named one behind a complete one is new.
        return not has_index or (bool(name) and call.is_complete())

    def _end(self, reason: str, choice: WireObject, out: list[ProviderEvent]) -> None:
        if self._splitter is not None:
            self._pieces(self._splitter.finish(), out)
        self._close(out)
        if reason in _FAILURES:
            error = choice.get("error") or {"code": 503, "message": f"finish reason {reason}"}
            raise classify_in_stream(error, provider=self._name)
        cut = _FINISH.get(reason) == "max_tokens"
        for call in self._calls:
            if not call.name:
                raise ProviderError(f"{self._name} called a tool without a name", kind="transient")
            if not cut or is_json_object("".join(call.arguments)):
                out.append(Flush(call.index))
        self._calls.clear()
        self._finish_reason = reason


class _Call:
    """A tool call that is being received. The first id and name count."""

    def __init__(self, index: int, own_id: Callable[[int], str]) -> None:
        self.index = index
        self._own_id = own_id
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        self._looks = 0

    def is_complete(self) -> bool:
        """Return True if the arguments are an object; False after too many looks in vain."""
        self._looks += 1
        return self._looks <= MAX_LOOKS and is_json_object("".join(self.arguments))

    def receive(self, id_: str, name: str, arguments: str) -> list[ProviderEvent]:
        """The events of a part; none before the name is known."""
        self.id = self.id or id_
        if arguments:
            self.arguments.append(arguments)
        if self.name:
            return [ToolCallArguments(self.index, arguments)] if arguments else []
        if not name:
            return []
        self.name = name
        self.id = self.id or self._own_id(self.index)
        before = "".join(self.arguments)
        start = ToolCallStart(self.index, self.id, name)
        return [start, ToolCallArguments(self.index, before)] if before else [start]


def _usage(usage: WireObject) -> Usage:
    prompt = usage.get("prompt_tokens_details") or {}
    completion = usage.get("completion_tokens_details") or {}
    return Usage(
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
        reasoning_tokens=completion.get("reasoning_tokens"),
        cache_read_tokens=prompt.get("cached_tokens", usage.get("prompt_cache_hit_tokens")),
        cache_write_tokens=prompt.get("cache_write_tokens"),
    )


class ChatProvider:
    """A server that speaks chat completions. Keeps its rendering of the threads it is sent."""

    def __init__(self, endpoint: Endpoint, profile: Profile) -> None:
        self._http = HttpClient(endpoint)
        self._profile = profile
        self._renderings = Renderings(lambda: ChatRendering(profile))
        self._attached = AttachedOnce(lambda attachments: attach(attachments, profile))
        self._warnings = Warnings(profile.name)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Stream one response; see `Provider`."""
        profile = self._profile
        answer = answer_schema(request, profile)
        body = self._body(request, self._renderings.of(request.thread), answer, self._warnings)
        return events(
            self._http.post(body),
            StreamDecoder(
                ChatDecoder(profile, answer, request=body),
                provider=profile.name,
                max_response_bytes=request.max_response_bytes,
                redaction=self._http.redaction(),
            ),
            provider=profile.name,
            idle_timeout=request.idle_timeout,
            told=self._http.told,
        )

    def preview(self, request: ModelRequest) -> SentRequest:
        """Return what `stream` would send; see `Provider`."""
        profile = self._profile
        rendering, left_out = self._renderings.beside(request.thread), LeftOut(profile.name)
        body = self._body(request, rendering, answer_schema(request, profile), left_out)
        return self._http.preview(body, left_out=left_out.lines)

    def _body(
        self,
        request: ModelRequest,
        rendering: ChatRendering,
        answer: schemas.AnswerSchema | None,
        warnings: Warnings,
    ) -> bytes:
        profile = self._profile
        attached = self._attached.of(request.attachments)
        attached.warn(warnings, conversation_id=request.conversation_id)
        system = system_messages(request, profile, documents=attached.system)
        return encode_body(
            build_head(request, profile, answer=answer, warnings=warnings),
            rendering.encode(request.thread, before=(*system, *attached.messages)),
        )

    @property
    def address(self) -> str:
        """Return the address of the server; see `Provider`."""
        return self._http.endpoint.url

    def check_ready(self, model: str, text: str) -> None:
        """Refuse a request without its key; see `Provider`."""
        self._http.check_ready()

    async def models(self, *, seconds: float) -> ModelList:
        """Ask what there is; see `Provider`."""
        return await list_chat(self._http, seconds, self._profile.local)

    def check_schema(self, schema: Mapping[str, JsonValue]) -> None:
        """Every schema is taken, as strict as it can be; see `Provider`."""
        schemas.check_references(schema)

    async def aclose(self) -> None:
        """Close connections."""
        await self._http.aclose()


def create(settings: ProviderSettings) -> ChatProvider:
    """Return the provider that `settings` describe.

    Raises:
        ConfigError: If a setting cannot be.
    """
    if (dialect := settings.text("dialect")) in DIALECTS_NOT_BUILT:
        raise ConfigError(
            f"the dialect `{dialect}` is not available yet, expected `chat` or no value",
            path=f"providers.llm.{settings.provider}.dialect",
        )
    profile = PROFILES[settings.provider]
    if settings.flag("images", default=profile.takes_images) != profile.takes_images:
        profile = replace(profile, media_types=profile.media_types ^ IMAGES)
    attribution = {
        "x-title": settings.text("app_name"),
        "http-referer": settings.text("app_referrer"),
    }
    headers = {key: value for key, value in attribution.items() if value}
    return ChatProvider(settings.endpoint(profile.path, headers=headers), profile)
