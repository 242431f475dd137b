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
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

from pydantic import JsonValue

from jp_nb.agent.provider import (
    Attachment,
    ModelRequest,
    ProviderEvent,
    SentRequest,
    ToolDefinition,
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

_LOGGER: Final = logging.getLogger(__name__)
_USER_PARTS: Final = b'{"role":"user","content":['


def encode_json(value: object) -> bytes:
    """Encode `value` as compact UTF-8 JSON, with the keys in their order.

    A repeated value gives the same bytes, so that the provider can cache the prompt.
    """
    return encode_utf8(compact_json(value))


def encode_messages_body(
    fields: Mapping[str, object], messages: bytes, *, member: str = "messages"
) -> bytes:
    """Encode a request body whose last member is the list of messages, under the name `member`.

    `messages` is the encoded JSON list.
    """
    head = encode_json({**fields, member: []})
    return head[: -len(b"[]}")] + messages + b"}"


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


class Rendering(ABC):
    """Messages of a request context in a provider's format. It grows with the context.

    Reasoning of the same `provider` is sent back as reasoning. If the API does not take images, a
    line of text replaces each. `items` is the number of rendered items of the context.
    """

    continue_request: ClassVar[Message]
    """User message that asks the model to continue its answer."""

    def __init__(self, provider: str, ids: CallIds, *, takes_images: bool = True) -> None:
        self.messages: list[Message] = []
        self.items = 0
        self._provider = provider
        self._ids = ids
        self._takes_images = takes_images
        self._encoded: list[bytes] = []  # of the first messages

    def update(self, context: RequestContext) -> None:
        """Render the items that were added to `context` since the last call."""
        for item in context.since(self.items):
            self._add(item)
            self.items += 1

    def encode(
        self, context: RequestContext, *, before: Sequence[bytes] = (), user_parts: bytes = b""
    ) -> bytes:
        """Return the rendered messages of `context` as a JSON list.

        `context` is that of the last `update`. A request to continue follows if the model's last
        answer was cut. `before` are encoded messages at the beginning of the list. `user_parts` are
        encoded content parts, joined by commas. They are added to the start of the first rendered
        message if it is a user message with parts. Otherwise, they are a new message before it.
        """
        pieces = self.encode_messages()
        is_cut = len(context) > 0 and isinstance(context.items[-1].entry, ChatResponse)
        if is_cut and self._ends_in_answer:
            self._continue_answer(pieces)
        if pieces and user_parts and pieces[0].startswith(_USER_PARTS):
            pieces[0] = _USER_PARTS + user_parts + b"," + pieces[0][len(_USER_PARTS) :]
        elif user_parts:
            pieces.insert(0, _USER_PARTS + user_parts + b"]}")
        return b"[" + b",".join([*before, *pieces]) + b"]"

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
        entry = item.entry
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
    ) -> bytes:
        """Return the body of a request, and add the settings that it omits to `omitted`."""

    @abstractmethod
    def _make_decoder(self, answer: AnswerSchema | None, body: bytes) -> Decoder:
        """Return the decoder of the response to the request with this `body`."""

    def _recover(
        self, error: ProviderError, request: ModelRequest, rendering: R
    ) -> ProviderEvent | None:
        """Return a `Retry` if another form of the request can succeed after `error`."""
        return None

    def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Stream one response."""
        rendering = self._renderings.get(request.thread)
        if rendering is None or rendering.items > len(request.thread):
            rendering = self._make_rendering()
        self._keep_rendering(request.thread, rendering)
        answer = self._answer_schema(request)
        body, omitted = self._build_body(request, rendering, answer)
        provider = self._http.endpoint.provider
        for setting, reason in omitted.items():
            if (key := (request.conversation_id, setting)) not in self._reported:
                self._reported.add(key)
                _LOGGER.warning("%s: %s is not sent: %s", provider, setting, reason)
        decoder = self._make_decoder(answer, body)
        return stream_events(
            self._send(request, body, decoder),
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

    def _send(
        self, request: ModelRequest, body: bytes, decoder: Decoder
    ) -> AsyncGenerator[bytes, None]:
        # Yield the bytes of the response, which go to `decoder`.
        return self._http.post(body, url=self._get_url(request))

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
        rendering.update(request.thread)
        body, omitted = self._build_body(request, rendering, self._answer_schema(request))
        lines = [f"{setting}: {reason}" for setting, reason in omitted.items()]
        return self._http.preview(body, url=self._get_url(request), omitted=lines)

    def _build_body(
        self, request: ModelRequest, rendering: R, answer: AnswerSchema | None
    ) -> tuple[bytes, Omitted]:
        attached = self._format_attachments(request.attachments)
        omitted = dict(attached.omitted)
        return self._encode_body(request, rendering, attached, answer, omitted), omitted

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


def _is_prefix(context: RequestContext, *, of: RequestContext) -> bool:
    last = len(context) - 1
    return 0 <= last < len(of) and of.items[last].entry is context.items[last].entry
