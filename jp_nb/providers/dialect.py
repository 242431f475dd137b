"""Base classes of a dialect: a provider over HTTP, and the messages of a request.

Rendered messages and encoded attachments are cached, because a turn with many cycles sends the
same history with each request.

Source: `docs/providers.md`, `docs/extending.md`.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import logging
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

from pydantic import JsonValue

from jp_nb.agent.provider import (
    Attachment,
    BodyPart,
    ModelRequest,
    PrefixLoss,
    ProviderEvent,
    Retry,
    SentRequest,
    ToolDefinition,
    compare_parts,
)
from jp_nb.errors import ProviderError
from jp_nb.images import MEDIA_TYPES, Image
from jp_nb.json_values import compact_json, encode_utf8
from jp_nb.providers.endpoint import Endpoint
from jp_nb.providers.http import HttpClient
from jp_nb.providers.schemas import AnswerSchema
from jp_nb.providers.streaming import Decoder, StreamDecoder, stream_events
from jp_nb.record.context import ContextItem, RequestContext
from jp_nb.record.events import ChatRequest, ChatResponse, ToolCallRequest, ToolCallResponse
from jp_nb.record.head import AttachmentMark, RequestHead

Message = dict[str, Any]
"""A message, or a part of one, as a provider's API defines it."""
Omitted = dict[str, str]
"""The reason for each setting that a request does not contain."""

CONTINUE: Final = "Continue exactly where you stopped, without repeating anything."
RESULT_IMAGES_INTRO: Final = "The results of these tool calls came with images:"
MAX_RENDERINGS: Final = 4  # of the conversation, and of inquiries that run meanwhile
MAX_ATTACHMENT_LISTS: Final = 2  # of the conversation, and of another one
PDF: Final = "application/pdf"
IMAGES: Final = frozenset(MEDIA_TYPES)

REFUSALS: Final = (400, 404, 422, 500)  # llama.cpp answers 500 to a failing chat template
REFUSED_CHANGE: Final = re.compile(
    r"\broles?\b|system (?:message|prompt)|template|tool_addition|tool_removal|anthropic-beta|"
    r"additional_tools|configuration_update",
    re.IGNORECASE,
)
NOTABLE_LOSS: Final = 0.05  # of the previous request
MIN_CACHED_CHARS: Final = 4096  # providers cache prefixes of 1,024 tokens and more
REPLACED_INSTRUCTIONS: Final = "These instructions replace all earlier ones:"

REMOVED_TOOLS: Final = "removed_tools"

"""Name in `Rendering.appended`: only the removal of tools is appended."""

_HEAD_PARTS: Final = frozenset(each.name for each in fields(RequestHead))
_LOGGER: Final = logging.getLogger(__name__)
_USER_PARTS: Final = b'{"role":"user","content":['


def encode_json(value: object) -> bytes:
    """Encode `value` as compact UTF-8 JSON, with the keys in their order.

    A repeated value gives the same bytes, so that the provider can cache the prompt.
    """
    return encode_utf8(compact_json(value))


@dataclass(frozen=True, slots=True)
class RequestBody:
    """The members of a request body, and its encoded messages, which are the last member.

    The provider caches the beginning of the members `prefix`, then the messages.
    """

    fields: Mapping[str, Any]
    messages: Sequence[bytes]
    name: str = "messages"  # member of the messages
    prefix: tuple[str, ...] = ("tools", "system")
    headers: Mapping[str, str] = field(default_factory=dict)  # of this request only

    def encode(self) -> bytes:
        """Return the JSON body."""
        beginning = encode_json({**self.fields, self.name: []})
        return beginning[: -len(b"]}")] + b",".join(self.messages) + b"]}"

    def parts(self) -> list[BodyPart]:
        """Return the parts of the beginning in their order."""
        named: list[BodyPart] = []
        for name in self.prefix:
            listed = self.fields.get(name, ())
            for each in listed if isinstance(listed, list | tuple) else (listed,):
                named.append((f"`{name}`", encode_json(without_cache_marks(each))))
        named += ((f"message {n}", content) for n, content in enumerate(self.messages, start=1))
        return named


def without_cache_marks(part: object) -> object:
    """Return `part` without `cache_control`, which moves and is not part of what is cached."""
    if isinstance(part, dict) and "cache_control" in part:
        return {key: value for key, value in part.items() if key != "cache_control"}
    return part


def omit_parameter(omitted: Omitted, name: str, reason: str) -> None:
    """Add to `omitted` the reason why the model parameter `name` is not sent."""
    omitted.setdefault(f"assistant.model.parameters.{name}", reason)


class CallIds:
    """Unique ids for the tool calls of a context, whatever ids the model gave.

    An id depends only on the calls before it, so messages that were sent stay the same. The n-th
    result of an id belongs to its n-th call. Ids have at most `limit` characters; 0 is no limit. If
    `clean`, they contain only letters, digits, `_`, and `-`.
    """

    def __init__(self, *, limit: int = 0, clean: bool = False) -> None:
        self._limit = limit
        self._clean = clean
        self._sent: set[str] = set()
        self._next: dict[str, int] = {}
        self._waiting: dict[str, deque[tuple[str, int]]] = {}

    def assign(self, raw: str, message_index: int) -> str:
        """Return the id of a call that the model named `raw`, in the message with that index."""
        base = raw
        if self._clean or (self._limit and len(raw) > self._limit):
            base = self._make_safe(raw)
        name, number = base, self._next.get(base, 2)
        while name in self._sent:
            suffix = f"_{number}"
            name = base[: self._limit - len(suffix) if self._limit else None] + suffix
            number += 1
        self._next[base] = number
        self._sent.add(name)
        self._waiting.setdefault(raw, deque()).append((name, message_index))
        return name

    def _make_safe(self, raw: str) -> str:
        cleaned = re.sub("[^a-zA-Z0-9_-]", "_", raw)
        if cleaned == raw and 0 < len(raw) <= self._limit:
            return raw
        digest = hashlib.sha256(raw.encode(errors="replace")).hexdigest()[:8]
        return f"{cleaned[: self._limit - 9]}_{digest}"

    def match_result(self, raw: str) -> tuple[str, int] | None:
        """Return the id for the next result of `raw`, and the message index of its call."""
        waiting = self._waiting.get(raw)
        return waiting.popleft() if waiting else None


@dataclass(frozen=True, slots=True)
class HeadChange:
    """A change of the request's head that is appended to the messages.

    `before` and `after` differ only in parts that the rendering appends. `added` are attachments
    that `before` does not have, or not with this content.
    """

    before: RequestHead
    after: RequestHead
    added: tuple[Attachment, ...]

    def instructions(self) -> str:
        """Return what the model must know about changed instructions; "" if they are the same."""
        before, after = self.before.system, self.after.system
        if before == after:
            return ""
        if after[: len(before)] == before:
            return "\n\n".join(after[len(before) :])
        if not any(text.strip() for text in after):
            return "The instructions at the beginning of this conversation no longer apply."
        return "\n\n".join((REPLACED_INSTRUCTIONS, *after))

    def tools(self) -> str:
        """Return what the model must know about the availability of tools in its list."""
        before, after = ({tool.name for tool in x.tools} for x in (self.before, self.after))
        lines = []
        if removed := sorted(before - after):
            lines.append(f"These tools are no longer available: {_join_names(removed)}.")
        if before and (added := sorted(after - before)):
            lines.append(f"These tools are available from now on: {_join_names(added)}.")
        return "\n".join(lines)

    def attachments(self) -> str:
        """Return what the model must know about attachments that were replaced or removed."""
        before = {mark.source for mark in self.before.attachments}
        after = {mark.source for mark in self.after.attachments}
        lines = []
        if replaced := sorted(before & {each.source for each in self.added}):
            lines.append(f"New contents of {_join_names(replaced)}. The earlier ones are outdated.")
        if removed := sorted(before - after):
            lines.append(f"The user removed these attachments: {_join_names(removed)}.")
        return "\n".join(lines)

    def forced_call(self) -> str:
        """Return the demand to call a tool, if the request makes one; else ""."""
        choice = self.after.tool_choice
        if choice == self.before.tool_choice or choice in ("auto", "none"):
            return ""
        return describe_forced_call(choice)


def describe_forced_call(choice: str) -> str:
    """Return the demand to call a tool for a `choice` other than `auto` and `none`."""
    name = choice.removeprefix("tool:")
    tool = "one of your tools" if name == choice else f"the tool `{name}`"
    return f"Your next response must call {tool}."


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


class Rendering(ABC):
    """Messages of a request context in a provider's format. It grows with the context.

    Reasoning of the same `provider` is sent back as reasoning. If the API does not take images, a
    line of text replaces each. `items` is the number of rendered items of the context.

    The head of the first request stays at the beginning. Changes of the parts in `appended`, which
    are names of attributes of `RequestHead`, become messages (`_render_change`). Other changes
    replace the beginning, and the cached prefix is lost. With `REMOVED_TOOLS`, only the removal of
    tools becomes a message: they stay in the list, and new ones are added to it.
    """

    continue_request: ClassVar[Message]
    """User message that asks the model to continue its answer."""
    appended: frozenset[str] = frozenset()

    def __init__(self, provider: str, ids: CallIds, *, takes_images: bool = True) -> None:
        self.messages: list[Message] = []
        self.items = 0
        self.is_bound = True  # False while an item is rendered whose signatures are not valid
        self.has_changes = False  # of the head, that were appended
        self._heads = 0
        self._had_tools = False
        self._pending: list[Message] = []
        self._provider = provider
        self._ids = ids
        self._takes_images = takes_images
        self._encoded: list[bytes] = []  # of the first messages

    def update(self, context: RequestContext) -> None:
        """Render the items that were added to `context` since the last call."""
        for item in context.since(self.items):
            self._add_changes(context)
            self._add(item)
            self.items += 1

    def _add_changes(self, context: RequestContext) -> None:
        for position in context.heads[self._heads :]:
            if position.items > self.items:
                break
            before = context.heads[self._heads - 1].head if self._heads else None
            self.messages += self._changes(before, position.head, context.contents)
            self._heads += 1
            self._had_tools = self._had_tools or bool(position.head.tools)

    def settle(self, request: ModelRequest) -> ModelRequest:
        """Return `request` with the head at the beginning of the conversation's requests.

        Appended changes that no response has confirmed yet follow the messages of `encode`.
        """
        heads, wanted = request.thread.heads, request.head
        first = self._first_head(heads[0].head if heads else wanted)
        last = heads[-1].head if heads else None
        self._pending = self._changes(last, wanted, request.thread.contents)
        settled: dict[str, Any] = {}
        if "system" in self.appended:
            settled["system"] = first.system
        if "attachments" in self.appended and first.attachments != wanted.attachments:
            contents = request.thread.contents
            known = (mark for mark in first.attachments if mark in contents)
            settled["attachments"] = tuple(contents[mark] for mark in known)
        if "schema" in self.appended:
            settled["schema"] = None
        if "reasoning" in self.appended:
            settled["parameters"] = replace(request.parameters, reasoning=first.reasoning)
        if "tools" in self.appended:
            with_tools = (head.tools for _, head in heads if head.tools)
            settled["tools"] = next(with_tools, wanted.tools)
        elif REMOVED_TOOLS in self.appended:
            offered = {tool.name: tool for _, head in heads for tool in head.tools}
            # A tool keeps its place, and has its latest definition.
            settled["tools"] = tuple((offered | {x.name: x for x in wanted.tools}).values())
        return replace(request, **settled) if settled else request

    def _first_head(self, head: RequestHead) -> RequestHead:
        # These parts are for one turn, so they never are at the beginning if they can be appended.
        return replace(head, schema=None, tool_choice="auto")

    def _changes(
        self,
        before: RequestHead | None,
        after: RequestHead,
        contents: Mapping[AttachmentMark, Attachment],
    ) -> list[Message]:
        before = self._first_head(after) if before is None else before
        parts = {name: getattr(after, name) for name in _HEAD_PARTS - self.appended}
        if REMOVED_TOOLS in self.appended:
            del parts["tools"]
        elif not self._had_tools:  # the first tools are at the beginning
            parts["tools"] = after.tools
        added = [x for x in after.attachments if x not in before.attachments and x in contents]
        before = replace(before, **parts)
        if before == after:
            return []
        self.has_changes = True
        return self._render_change(HeadChange(before, after, tuple(contents[x] for x in added)))

    def _render_change(self, change: HeadChange) -> list[Message]:
        """Return the messages that tell the model about `change`."""
        return []

    def encode(
        self, context: RequestContext, *, before: Sequence[bytes] = (), user_parts: bytes = b""
    ) -> list[bytes]:
        """Return the rendered messages of `context`, each as JSON.

        `context` is that of the last `update`. A request to continue follows if the model's last
        answer was cut, then the changes of `settle`. `before` are encoded messages at the beginning
        of the list. `user_parts` are encoded content parts, joined by commas. They are added to the
        start of the first rendered message if it is a user message with parts. Otherwise, they are
        a new message before it.
        """
        pieces = self.encode_messages()
        is_cut = len(context) > 0 and isinstance(context.items[-1].entry, ChatResponse)
        if is_cut and self._ends_in_answer:
            self._continue_answer(pieces)
        if pieces and user_parts and pieces[0].startswith(_USER_PARTS):
            pieces[0] = _USER_PARTS + user_parts + b"," + pieces[0][len(_USER_PARTS) :]
        elif user_parts:
            pieces.insert(0, _USER_PARTS + user_parts + b"]}")
        return [*before, *pieces, *map(encode_json, self._pending)]

    def _continue_answer(self, pieces: list[bytes]) -> None:
        # Few models continue an assistant message that comes last, so they are asked to.
        last = self._strip_reasoning(self.messages[-1])
        del pieces[-1]
        if last is not None:
            pieces += [encode_json(last), encode_json(self.continue_request)]

    def encode_messages(self) -> list[bytes]:
        """Return each rendered message as JSON."""
        self._encoded += map(encode_json, self.messages[len(self._encoded) :])
        return [*self._encoded]

    def _add(self, item: ContextItem) -> None:
        entry, self.is_bound = item.entry, item.is_bound
        match entry:
            case ChatRequest():
                self._add_request(*self._replace_images(entry.content, item.images))
            case ChatResponse(kind="reasoning"):
                is_own = item.provider == self._provider
                if not (is_own and self._add_reasoning(entry)):
                    self._add_text(format_reasoning_text(entry))
            case ChatResponse():
                self._add_text(format_response_text(entry))
            case ToolCallRequest():
                self._add_call(entry)
            case ToolCallResponse():
                call = self._ids.match_result(entry.id)
                if call is not None:  # APIs reject a result that has no call
                    text, images = self._replace_images(entry.content, item.images)
                    self._add_result(*call, text, images, is_error=entry.is_error)

    def _replace_images(self, text: str, images: Sequence[Image]) -> tuple[str, Sequence[Image]]:
        if self._takes_images or not images:
            return text, images
        notes = [f"[image: {x.words}, not sent: this provider takes no images]" for x in images]
        return "\n".join([text, *notes] if text.strip() else notes), ()

    def _edit(self, index: int) -> Message:
        # Return a message that the caller changes at once.
        del self._encoded[index % len(self.messages) :]
        return self.messages[index]

    def _insert(self, index: int, message: Message) -> None:
        self.messages.insert(index, message)
        del self._encoded[index:]

    def _open_message(self, role: str, content: list[Message] | None) -> Message:
        # Return the last message if it has that `role`, else a new one.
        if not self.messages or self.messages[-1]["role"] != role:
            self.messages.append({"role": role, "content": content})
        return self._edit(-1)

    @property
    def _ends_in_answer(self) -> bool:
        return bool(self.messages) and self.messages[-1]["role"] == "assistant"

    def _drop_empty_answer(self) -> None:
        # APIs reject an assistant message that ends with reasoning.
        if self._ends_in_answer:
            kept = self._strip_reasoning(self._edit(-1))
            self.messages[-1:] = [] if kept is None else [kept]

    @abstractmethod
    def _strip_reasoning(self, message: Message) -> Message | None:
        """Return an assistant message without reasoning at its end; None if nothing remains."""

    @abstractmethod
    def make_empty(self) -> Self:
        """Return an empty rendering that keeps what the API has rejected in this one."""

    @abstractmethod
    def _add_request(self, text: str, images: Sequence[Image]) -> None: ...

    @abstractmethod
    def _add_text(self, text: str) -> None:
        """Add `text` of the model, which may be empty."""

    @abstractmethod
    def _add_reasoning(self, response: ChatResponse) -> bool:
        """Add reasoning of this provider; return False if it has to be sent as text."""

    @abstractmethod
    def _add_call(self, call: ToolCallRequest) -> None: ...

    @abstractmethod
    def _add_result(
        self, call_id: str, call_index: int, text: str, images: Sequence[Image], *, is_error: bool
    ) -> None:
        """Add the result of the call in the message `call_index`."""


def format_response_text(response: ChatResponse) -> str:
    """Return the text that replays a message or structured data; "" for a blank message."""
    if response.kind == "structured":
        return json.dumps(response.data, ensure_ascii=False)
    text = response.message or ""
    return text if text.strip() else ""


def format_reasoning_text(response: ChatResponse) -> str:
    """Return reasoning as `<think>` text, for an API that does not accept it as reasoning."""
    text = (response.reasoning or "").strip()
    return f"<think>\n{text}\n</think>\n\n" if text else ""


def get_parameter_schema(tool: ToolDefinition) -> dict[str, JsonValue]:
    """Return the parameters of `tool` as a schema of type object."""
    return {"type": "object", "properties": {}, **tool.parameters}


@dataclass(frozen=True, slots=True)
class FormattedAttachments:
    """Attachments in a provider's format."""

    messages: tuple[bytes, ...] = ()  # encoded, before the context
    system: str = ""  # the end of the system prompt
    omitted: Omitted = field(default_factory=dict)
    user_parts: bytes = b""  # encoded, for the first user message, joined by commas


def split_attachments(
    attachments: Sequence[Attachment], media_types: frozenset[str]
) -> tuple[list[Attachment], Omitted]:
    """Separate attachments that the provider accepts (texts and `media_types`) from the others."""
    sent: list[Attachment] = []
    omitted: Omitted = {}
    for attachment in attachments:
        setting = f"conversation.attachments[{attachment.source!r}] ({attachment.media_type})"
        if isinstance(attachment.content, bytes) and attachment.media_type not in media_types:
            accepted = ", ".join(("text", *sorted(media_types)))
            omitted.setdefault(setting, f"this provider accepts only {accepted}")
        elif attachment.content == b"":
            omitted.setdefault(setting, "it is empty")
        else:
            sent.append(attachment)
    return sent, omitted


def format_attachment_name(attachment: Attachment) -> str:
    """Return the source, or a placeholder because APIs reject blank names."""
    return attachment.source if attachment.source.strip() else "(no name)"


def base64_text(content: bytes) -> str:
    """Return `content` in Base64."""
    return base64.b64encode(content).decode("ascii")


_MARKUP: Final = re.compile("[<>&]")
_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def format_documents_xml(attachments: Iterable[Attachment]) -> str:
    """Return the text attachments as one XML text; "" if there are none.

    Shape:
        <documents>
        <document>
        <index>1</index>
        <source>notes.md</source>
        <content><![CDATA[a < b]]></content>
        </document>
        </documents>

    Contents are escaped, so a text cannot end its own document. U+FFFD replaces characters that XML
    does not allow, such as NUL.
    """
    documents = ""
    texts = ((a.source, a.content) for a in attachments if isinstance(a.content, str))
    for index, (source, text) in enumerate(texts, start=1):
        name = html.escape(_NO_XML.sub("\ufffd", source), quote=False)
        content = _NO_XML.sub("\ufffd", text)
        if _MARKUP.search(content):
            content = "<![CDATA[" + content.replace("]]>", "]]]]><![CDATA[>") + "]]>"
        documents += (
            f"<document>\n<index>{index}</index>\n"
            f"<source>{name}</source>\n"
            f"<content>{content}</content>\n</document>\n"
        )
    return f"<documents>\n{documents}</documents>" if documents else ""


R = TypeVar("R", bound=Rendering)


class HttpProvider(ABC, Generic[R]):
    """Provider over HTTP; see `Provider` for the public methods.

    A dialect adds the form of requests and responses, `models`, and `check_schema`.
    `make_rendering` returns an empty rendering of a conversation.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        make_rendering: Callable[[], R],
        format_attachments: Callable[[tuple[Attachment, ...]], FormattedAttachments],
    ) -> None:
        self._http = HttpClient(endpoint)
        self._make_rendering = make_rendering
        self._renderings: dict[RequestContext, R] = {}  # the last one was used last
        self._format_attachments = lru_cache(MAX_ATTACHMENT_LISTS)(format_attachments)
        self._reported: set[tuple[str, str]] = set()  # conversation and omitted setting
        self._sent: dict[str, tuple[str, RequestBody]] = {}  # by conversation, with the model
        self._replaces_head: set[str] = set()  # models that rejected appended changes

    @abstractmethod
    def _answer_schema(self, request: ModelRequest) -> AnswerSchema | None:
        """Return the schema of a structured answer as it is sent; None for text."""

    @abstractmethod
    def _encode_body(
        self,
        request: ModelRequest,
        rendering: R,
        attached: FormattedAttachments,
        answer: AnswerSchema | None,
        omitted: Omitted,
    ) -> RequestBody:
        """Return the body of a request, and add the settings that it omits to `omitted`."""

    @abstractmethod
    def _make_decoder(self, answer: AnswerSchema | None, body: bytes) -> Decoder:
        """Return the decoder of the response to the request with this `body`."""

    def _recover(
        self, error: ProviderError, request: ModelRequest, rendering: R
    ) -> ProviderEvent | None:
        """Return a `Retry` if another form of the request can succeed after `error`."""
        is_refusal = error.status in REFUSALS and REFUSED_CHANGE.search(str(error))
        if rendering.has_changes and request.model not in self._replaces_head and is_refusal:
            self._replaces_head.add(request.model)
            return Retry(error.without_address)
        return None

    def _appended_parts(self, model: str, parts: frozenset[str]) -> frozenset[str]:
        """Return those of the appended `parts` of a rendering that `model` supports."""
        return frozenset() if model in self._replaces_head else parts

    def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Stream one response."""
        rendering = self._renderings.get(request.thread)
        fresh = self._make_rendering() if rendering is None else rendering.make_empty()
        fresh.appended = self._appended_parts(request.model, type(fresh).appended)
        if (
            rendering is None
            or rendering.items > len(request.thread)
            or rendering.appended != fresh.appended
        ):
            rendering = fresh
        self._keep_rendering(request.thread, rendering)
        answer = self._answer_schema(request)
        encoded, omitted = self._build_body(request, rendering, answer)
        loss = self._note_sent(request, encoded) if request.is_turn else None
        body = encoded.encode()
        provider = self._http.endpoint.provider
        for setting, reason in omitted.items():
            self._warn_once(request, setting, f"is not sent: {reason}")
        decoder = self._make_decoder(answer, body)
        events = stream_events(
            self._send(request, body, decoder, encoded.headers),
            StreamDecoder(
                decoder,
                provider=provider,
                max_response_bytes=request.max_response_bytes,
                redactor=self._http.redactor(),
            ),
            idle_timeout=request.idle_timeout,
            sanitize_error=self._http.sanitize_error,
            recover=lambda error: self._recover(error, request, rendering),
        )
        return events if loss is None else _prepend(loss, events)

    def _warn_once(self, request: ModelRequest, setting: str, fact: str) -> None:
        if (key := (request.conversation_id, setting)) not in self._reported:
            self._reported.add(key)
            _LOGGER.warning("%s: %s %s", self._http.endpoint.provider, setting, fact)

    def _note_sent(self, request: ModelRequest, body: RequestBody) -> PrefixLoss | None:
        """Note the `body` that is sent; return what it lost of the previous one, if it is much."""
        key = request.conversation_id
        model, before = self._sent.pop(key, ("", None))
        self._sent[key] = request.model, body
        if len(self._sent) > MAX_RENDERINGS:
            del self._sent[next(iter(self._sent))]
        if before is None:
            return None
        if model != request.model:
            return find_prefix_loss(before, replace(body, messages=()), "the model")
        return find_prefix_loss(before, body)

    def _send(
        self, request: ModelRequest, body: bytes, decoder: Decoder, headers: Mapping[str, str]
    ) -> AsyncGenerator[bytes, None]:
        # Yield the bytes of the response, which go to `decoder`.
        return self._http.post(body, url=self._get_url(request), headers=headers)

    def _get_url(self, request: ModelRequest) -> str:
        return self._http.endpoint.url

    def _keep_rendering(self, context: RequestContext, rendering: R) -> None:
        self._renderings.pop(context, None)
        self._renderings[context] = rendering
        if len(self._renderings) > MAX_RENDERINGS:
            del self._renderings[next(iter(self._renderings))]
        rendering.update(context)

    def preview(self, request: ModelRequest) -> SentRequest:
        """Return the request that `stream` would send."""
        known = (
            rendering
            for context, rendering in self._renderings.items()
            if _is_prefix(request.thread, of=context)
        )
        cached = next(known, None)
        rendering = self._make_rendering() if cached is None else cached.make_empty()
        rendering.appended = self._appended_parts(request.model, type(rendering).appended)
        rendering.update(request.thread)
        body, omitted = self._build_body(request, rendering, self._answer_schema(request))
        lines = [f"{setting}: {reason}" for setting, reason in omitted.items()]
        sent = self._http.preview(
            body.encode(), url=self._get_url(request), headers=body.headers, omitted=lines
        )
        hidden = ((name, encode_utf8(sent.hide(part.decode()))) for name, part in body.parts())
        return replace(sent, parts=tuple(hidden))

    def _build_body(
        self, request: ModelRequest, rendering: R, answer: AnswerSchema | None
    ) -> tuple[RequestBody, Omitted]:
        settled = rendering.settle(request)
        attached = self._format_attachments(settled.attachments)
        omitted = dict(attached.omitted)
        return self._encode_body(settled, rendering, attached, answer, omitted), omitted

    @property
    def address(self) -> str:
        """Return the address of the server."""
        return self._http.endpoint.url

    def check_ready(self, model: str, text: str) -> None:
        """Check the key and the address.

        Raises:
            ProviderError: The key is missing.
            ConfigError: The address is not valid.
        """
        self._http.check_ready()

    async def aclose(self) -> None:
        """Close connections."""
        await self._http.aclose()


async def _prepend(
    first: ProviderEvent, events: AsyncGenerator[ProviderEvent, None]
) -> AsyncGenerator[ProviderEvent, None]:
    async with aclosing(events):
        yield first
        async for event in events:
            yield event


def find_prefix_loss(before: RequestBody, after: RequestBody, part: str = "") -> PrefixLoss | None:
    """Return what a request lost of the beginning of the previous one.

    None if it lost less than a twentieth, or less than the smallest prefix that is cached. `part`
    is the reason if nothing can be kept.
    """
    count = len(before.messages)
    alike = all(before.fields.get(name) == after.fields.get(name) for name in before.prefix)
    if not part and alike and before.messages == after.messages[:count]:
        return None
    shared = compare_parts(before.parts(), () if part else after.parts())
    lost = shared.total - shared.kept
    if lost <= NOTABLE_LOSS * shared.total or lost < MIN_CACHED_CHARS:
        return None
    return PrefixLoss(shared.percent, part or shared.part)


def _is_prefix(context: RequestContext, *, of: RequestContext) -> bool:
    last = len(context) - 1
    return 0 <= last < len(of) and of.items[last].entry is context.items[last].entry
