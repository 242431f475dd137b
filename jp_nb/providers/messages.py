"""Convert events to the messages of a request, and encode attachments.

Rendered messages and encoded attachments are cached, because a turn with many cycles sends the
same history with each request.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

from pydantic import JsonValue

from jp_nb.agent.provider import Attachment, ToolDefinition
from jp_nb.images import MEDIA_TYPES, Image
from jp_nb.json_values import compact_json, encode_utf8
from jp_nb.providers.endpoint import OmissionLog
from jp_nb.record.context import ContextItem, RequestContext
from jp_nb.record.events import ChatResponse

Message = dict[str, Any]
"""A message, or a part of one, as a provider's API defines it."""

CONTINUE: Final = "Continue exactly where you stopped, without repeating anything."
MAX_RENDERINGS: Final = 4  # of the conversation, and of inquiries that run meanwhile
MAX_ATTACHMENT_LISTS: Final = 2  # of the conversation, and of another one
PDF: Final = "application/pdf"
IMAGES: Final = frozenset(MEDIA_TYPES)

_USER_PARTS: Final = b'{"role":"user","content":['


def encode_json(value: object) -> bytes:
    """Encode `value` as compact UTF-8 JSON. Equal values give equal bytes, for prompt caching."""
    return encode_utf8(compact_json(value))


def encode_messages_body(fields: Mapping[str, object], messages: bytes) -> bytes:
    """Encode a request body whose list of messages is the member `messages`, as its last member.

    Anthropic Messages and chat completions use this shape, the Responses API of OpenAI does not.
    `messages` is the encoded JSON list.
    """
    return encode_json(fields)[:-1] + b',"messages":' + messages + b"}"


class MessageList:
    """List of messages that caches the encoded form of each message until it is edited."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._encoded: list[bytes | None] = []

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, index: int) -> Message:
        return self._messages[index]

    def edit(self, index: int) -> Message:
        """Return a message that the caller changes at once."""
        self._encoded[index] = None
        return self._messages[index]

    def append(self, message: Message) -> Message:
        """Add `message` at the end, and return it."""
        self.insert(len(self), message)
        return message

    def insert(self, index: int, message: Message) -> None:
        """Insert `message` before the index."""
        self._messages.insert(index, message)
        self._encoded.insert(index, None)

    def drop_last(self) -> None:
        """Remove the last message."""
        del self._messages[-1], self._encoded[-1]

    @property
    def last_role(self) -> str | None:
        """Role of the last message; None if there is none."""
        return self._messages[-1]["role"] if self._messages else None

    def encode(
        self,
        *,
        before: Sequence[Message | bytes] = (),
        user_parts: bytes = b"",
        after: Sequence[Message] = (),
    ) -> bytes:
        """Encode `before`, these messages, and `after` as one JSON list.

        Args:
            before: Messages, encoded or not.
            user_parts: Encoded content parts, joined by commas. They start the first message if
                that is a user message with parts, else they become a user message before it.
            after: Messages.
        """
        pieces = [piece if isinstance(piece, bytes) else encode_json(piece) for piece in before]
        first = len(pieces)
        for index, piece in enumerate(self._encoded):
            if piece is None:
                piece = self._encoded[index] = encode_json(self._messages[index])
            pieces.append(piece)
        pieces.extend(encode_json(message) for message in after)
        if user_parts:
            if len(pieces) > first and pieces[first].startswith(_USER_PARTS):
                pieces[first] = _USER_PARTS + user_parts + b"," + pieces[first][len(_USER_PARTS) :]
            else:
                pieces.insert(first, _USER_PARTS + user_parts + b"]}")
        return b"[" + b",".join(pieces) + b"]"


class Rendering(ABC):
    """Messages of a request context in a provider's format. It grows with the context.

    Attributes:
        continue_request: User message that asks the model to continue its answer.
    """

    continue_request: ClassVar[Message]

    def __init__(self) -> None:
        self.messages = MessageList()
        self.items = 0

    def update(self, context: RequestContext) -> None:
        """Render the items that were added to `context` since the last call."""
        for item in context.since(self.items):
            self.add(item)
            self.items += 1

    def encode(
        self,
        context: RequestContext,
        *,
        before: Sequence[Message | bytes] = (),
        user_parts: bytes = b"",
    ) -> bytes:
        """Return the rendered messages of `context` as JSON; see `MessageList.encode`.

        A request to continue follows if the last answer was cut.
        """
        if not ends_in_response(context):
            return self.messages.encode(before=before, user_parts=user_parts)
        rendering = self
        if self._has_empty_answer():
            rendering = self.make_empty()
            rendering.update(context)
            rendering._drop_empty_answer()
        is_cut = rendering.messages.last_role == "assistant"
        after = (self.continue_request,) if is_cut else ()
        return rendering.messages.encode(before=before, user_parts=user_parts, after=after)

    @abstractmethod
    def _has_empty_answer(self) -> bool:
        """Return True if the last message ends with reasoning, which APIs reject."""

    @abstractmethod
    def _drop_empty_answer(self) -> None: ...

    @abstractmethod
    def make_empty(self) -> Self:
        """Return an empty rendering that keeps what the API has rejected in this one."""

    @abstractmethod
    def add(self, item: ContextItem) -> None:
        """Render the next item."""


R = TypeVar("R", bound=Rendering)


class RenderingCache(Generic[R]):
    """The most recently used renderings, found by the identity of their context."""

    def __init__(self, make: Callable[[], R]) -> None:
        self._make = make
        self._entries: list[tuple[RequestContext, R]] = []

    def get(self, context: RequestContext) -> R:
        """Return the rendering of `context`, brought up to date."""
        known = next((rendering for key, rendering in self._entries if key is context), None)
        if known is None or known.items > len(context):
            known = self._make()
        return self.replace(context, known)

    def make_temporary(self, context: RequestContext) -> R:
        """Return a rendering of `context` without a change to the cache."""
        for cached_context, cached in self._entries:
            if _is_prefix(context, of=cached_context):
                rendering = cached.make_empty()
                break
        else:
            rendering = self._make()
        rendering.update(context)
        return rendering

    def replace(self, context: RequestContext, rendering: R) -> R:
        """Cache the new `rendering` of `context`, and return it, brought up to date."""
        others = [entry for entry in self._entries if entry[0] is not context]
        self._entries = [*others, (context, rendering)][-MAX_RENDERINGS:]
        rendering.update(context)
        return rendering


def _is_prefix(context: RequestContext, *, of: RequestContext) -> bool:
    last = len(context) - 1
    return 0 <= last < len(of) and of.items[last].entry is context.items[last].entry


def ends_in_response(context: RequestContext) -> bool:
    # Few models continue an assistant message that comes last, so they are asked to.
    """Return True if the model's last answer was cut, so that it has to continue."""
    return len(context) > 0 and isinstance(context.items[-1].entry, ChatResponse)


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


def make_safe_id(raw: str, *, charset: str, limit: int) -> str:
    """Return a tool call id that matches `charset` and `limit`; equal inputs give equal ids."""
    cleaned = re.sub(f"[^{charset}]", "_", raw)
    if cleaned == raw and 0 < len(raw) <= limit:
        return raw
    digest = hashlib.sha256(raw.encode(errors="replace")).hexdigest()[:8]
    return f"{cleaned[: limit - 9]}_{digest}"


class CallIds:
    """Unique ids for the tool calls of a context, whatever ids the model gave.

    An id depends only on the calls before it, so messages that were sent stay the same. The n-th
    result of an id belongs to its n-th call.

    Args:
        limit: Maximum number of characters; 0 is no limit.
        clean: Allow only letters, digits, `_`, and `-`.
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
            base = make_safe_id(raw, charset="a-zA-Z0-9_-", limit=self._limit)
        name, number = base, self._next.get(base, 2)
        while name in self._sent:
            suffix = f"_{number}"
            name = base[: self._limit - len(suffix) if self._limit else None] + suffix
            number += 1
        self._next[base] = number
        self._sent.add(name)
        self._waiting.setdefault(raw, deque()).append((name, message_index))
        return name

    def match_result(self, raw: str) -> tuple[str, int] | None:
        """Return the id for the next result of `raw`, and the message index of its call."""
        waiting = self._waiting.get(raw)
        return waiting.popleft() if waiting else None


def append_image_notes(text: str, images: Iterable[Image]) -> str:
    """Return `text` with a line for each image, for a provider that accepts no images."""
    return "\n".join(
        [
            *([text] if text.strip() else []),
            *(f"[image: {x.words}, not sent: this provider takes no images]" for x in images),
        ]
    )


def get_parameter_schema(tool: ToolDefinition) -> dict[str, JsonValue]:
    """Return the parameters of `tool` as a schema of type object."""
    return {"type": "object", "properties": {}, **tool.parameters}


_MARKUP: Final = re.compile("[<>&]")
_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class FormattedAttachments:
    """Attachments in a provider's format.

    Attributes:
        messages: The encoded message before the context, if there is one.
        system: The end of the system prompt; "" if it has no attachment.
        skipped: Attachments that are not sent, each with the reason.
        user_parts: Encoded content parts for the first user message, joined by commas.
    """

    messages: tuple[bytes, ...] = ()
    system: str = ""
    skipped: tuple[tuple[Attachment, str], ...] = ()
    user_parts: bytes = b""

    def warn(self, omissions: OmissionLog, *, conversation_id: str) -> None:
        """Report the skipped attachments."""
        for attachment, reason in self.skipped:
            setting = f"conversation.attachments[{attachment.source!r}] ({attachment.media_type})"
            omissions.report(setting, reason, conversation_id=conversation_id)


class AttachmentCache:
    """The most recently formatted lists of attachments, found by identity."""

    def __init__(self, make: Callable[[tuple[Attachment, ...]], FormattedAttachments]) -> None:
        self._make = make
        self._entries: list[tuple[tuple[Attachment, ...], FormattedAttachments]] = []

    def get(self, attachments: tuple[Attachment, ...]) -> FormattedAttachments:
        """Return the formatted attachments."""
        known = next((formatted for key, formatted in self._entries if key is attachments), None)
        formatted = known or self._make(attachments)
        others = [entry for entry in self._entries if entry[0] is not attachments]
        self._entries = [*others, (attachments, formatted)][-MAX_ATTACHMENT_LISTS:]
        return formatted


def split_attachments(
    attachments: Sequence[Attachment], media_types: frozenset[str]
) -> tuple[list[Attachment], tuple[tuple[Attachment, str], ...]]:
    """Separate attachments that the provider accepts from the others.

    Returns:
        The accepted attachments (texts and `media_types`), and the others with a reason each.
    """
    sent: list[Attachment] = []
    skipped: list[tuple[Attachment, str]] = []
    for attachment in attachments:
        if isinstance(attachment.content, bytes) and attachment.media_type not in media_types:
            accepted = ", ".join(("text", *sorted(media_types)))
            skipped.append((attachment, f"this provider accepts only {accepted}"))
        elif attachment.content == b"":
            skipped.append((attachment, "it is empty"))
        else:
            sent.append(attachment)
    return sent, tuple(skipped)


def format_attachment_name(attachment: Attachment) -> str:
    """Return the source, or a placeholder because APIs reject blank names."""
    return attachment.source if attachment.source.strip() else "(no name)"


def base64_text(content: bytes) -> str:
    """Return `content` in Base64."""
    return base64.b64encode(content).decode("ascii")


def format_documents_xml(attachments: Sequence[Attachment]) -> str:
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
    texts = [(a.source, a.content) for a in attachments if isinstance(a.content, str)]
    if not texts:
        return ""
    documents = "".join(
        f"<document>\n<index>{index}</index>\n"
        f"<source>{html.escape(_replace_invalid_xml(source), quote=False)}</source>\n"
        f"<content>{_escape_content(_replace_invalid_xml(text))}</content>\n</document>\n"
        for index, (source, text) in enumerate(texts, start=1)
    )
    return f"<documents>\n{documents}</documents>"


def _replace_invalid_xml(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)


def _escape_content(text: str) -> str:
    if not _MARKUP.search(text):
        return text
    return "<![CDATA[" + text.replace("]]>", "]]]]><![CDATA[>") + "]]>"
