"""Convert events to the messages of a request, and encode attachments.

A turn of a hundred cycles sends the same history and the same attachments a hundred times.
Rendered messages and encoded attachments are kept, and a request joins them.

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
from typing import Any, Final, Generic, Self, TypeVar

from pydantic import JsonValue

from jp_nb.agent.provider import Attachment, ToolDefinition
from jp_nb.images import MEDIA_TYPES, Image
from jp_nb.json_values import compact_json, to_utf8
from jp_nb.providers.endpoint import Warnings
from jp_nb.record.context import ContextItem, RequestContext
from jp_nb.record.events import ChatResponse

Message = dict[str, Any]
"""A message, or a part of one, in the form of a provider's API."""

CONTINUE: Final = "Continue exactly where you stopped, without repeating anything."
KEPT_THREADS: Final = 4  # the conversation's, and those of inquiries beside it


_USER_PARTS: Final = b'{"role":"user","content":['


def encode(value: object) -> bytes:
    """JSON as it is sent: compact, in the order given, the same bytes every time."""
    return to_utf8(compact_json(value))


def encode_body(head: Mapping[str, object], messages: bytes) -> bytes:
    """The JSON object `head` with the encoded list `messages` as its last member."""
    return encode(head)[:-1] + b',"messages":' + messages + b"}"


class MessageList:
    """Messages, each with its encoded form until it is edited."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._encoded: list[bytes | None] = []

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, index: int) -> Message:
        """A message to look at."""
        return self._messages[index]

    def edit(self, index: int) -> Message:
        """A message to change now."""
        self._encoded[index] = None
        return self._messages[index]

    def append(self, message: Message) -> Message:
        """Add `message` at the end."""
        self.insert(len(self), message)
        return message

    def insert(self, index: int, message: Message) -> None:
        """Add `message` before number `index`."""
        self._messages.insert(index, message)
        self._encoded.insert(index, None)

    def drop_last(self) -> None:
        """Take the last message away."""
        del self._messages[-1], self._encoded[-1]

    @property
    def last_role(self) -> str | None:
        """Role of the last message; None if there is none."""
        return self._messages[-1]["role"] if self._messages else None

    def encode(
        self,
        *,
        before: Sequence[Message | bytes] = (),
        front: bytes = b"",
        after: Sequence[Message] = (),
    ) -> bytes:
        """The JSON list of `before`, encoded or not, these messages, and `after`.

        `front`, encoded parts with commas between, goes to the front of the first message, if
        that is the user's and has parts, and in a message of the user's before it otherwise.
        """
        pieces = [piece if isinstance(piece, bytes) else encode(piece) for piece in before]
        first = len(pieces)
        for index, piece in enumerate(self._encoded):
            if piece is None:
                piece = self._encoded[index] = encode(self._messages[index])
            pieces.append(piece)
        pieces.extend(encode(message) for message in after)
        if front:
            if len(pieces) > first and pieces[first].startswith(_USER_PARTS):
                pieces[first] = _USER_PARTS + front + b"," + pieces[first][len(_USER_PARTS) :]
            else:
                pieces.insert(first, _USER_PARTS + front + b"]}")
        return b"[" + b",".join(pieces) + b"]"


class Rendering(ABC):
    """A thread in a provider's form, growing with the thread."""

    def __init__(self) -> None:
        self.messages = MessageList()
        self.items = 0

    def follow(self, thread: RequestContext) -> None:
        """Render what was appended to `thread` since the last call."""
        for item in thread.since(self.items):
            self.add(item)
            self.items += 1

    @abstractmethod
    def anew(self) -> Self:
        """Return an empty rendering of what begins as this thread does.

        It has whatever was learnt of how the API takes that.
        """

    @abstractmethod
    def add(self, item: ContextItem) -> None:
        """Render the next item."""


R = TypeVar("R", bound=Rendering)


class Renderings(Generic[R]):
    """The renderings of the threads used last, found by identity."""

    def __init__(self, make: Callable[[], R]) -> None:
        self._make = make
        self._kept: list[tuple[RequestContext, R]] = []

    def of(self, thread: RequestContext) -> R:
        """The rendering of `thread` as it is now."""
        for entry in self._kept:
            if entry[0] is thread and entry[1].items <= len(thread):
                self._kept.remove(entry)
                self._kept.append(entry)
                entry[1].follow(thread)
                return entry[1]
        return self.replace(thread, self._make())

    def beside(self, thread: RequestContext) -> R:
        """A rendering of `thread` that is not kept: those that are stay as they are.

        What was learnt of a kept thread counts for its beginnings, too.
        """
        alike = (kept for known, kept in self._kept if _begins(known, thread))
        known = next(alike, None)
        rendering = self._make() if known is None else known.anew()
        rendering.follow(thread)
        return rendering

    def replace(self, thread: RequestContext, rendering: R) -> R:
        """Keep `rendering`, a fresh one, for `thread`."""
        others = [entry for entry in self._kept if entry[0] is not thread]
        self._kept = [*others, (thread, rendering)][-KEPT_THREADS:]
        rendering.follow(thread)
        return rendering


def _begins(thread: RequestContext, beginning: RequestContext) -> bool:
    """Return True if `thread` begins with the very entries of `beginning`."""
    last = len(beginning) - 1
    if last < 0 or len(thread) <= last:
        return False
    return thread.items[last].entry is beginning.items[last].entry


def continues_answer(thread: RequestContext) -> bool:
    """Return True if the thread ends in assistant text, so that the model has to go on with it.

    Few models take up an assistant message that they are sent last, so they are asked to.
    """
    return len(thread) > 0 and isinstance(thread.items[-1].entry, ChatResponse)


def response_text(response: ChatResponse) -> str:
    """The text to replay for a message or structured data; "" if there is nothing to send."""
    if response.kind == "structured":
        return json.dumps(response.data, ensure_ascii=False)
    text = response.message or ""
    return text if text.strip() else ""


def reasoning_as_text(response: ChatResponse) -> str:
    """The text to replay for reasoning that the API would not take back as such."""
    text = (response.reasoning or "").strip()
    return f"<think>\n{text}\n</think>\n\n" if text else ""


def safe_id(raw: str, *, charset: str, limit: int) -> str:
    """A tool call id of another provider as this one accepts it; always the same for `raw`."""
    cleaned = re.sub(f"[^{charset}]", "_", raw)
    if cleaned == raw and 0 < len(raw) <= limit:
        return raw
    digest = hashlib.sha256(raw.encode(errors="replace")).hexdigest()[:8]
    return f"{cleaned[: limit - 9]}_{digest}"


class CallIds:
    """The ids of a thread's tool calls as they are sent: each once, whatever the model gave.

    An id depends on the calls before it alone, so that what was sent of a thread stays the same
    as it grows. The n-th result of an id belongs to its n-th call.

    Args:
        limit: Of characters; 0 if there is none.
        clean: Whether an id is made of letters, digits, `_` and `-`, however short it is.
    """

    def __init__(self, *, limit: int = 0, clean: bool = False) -> None:
        self._limit = limit
        self._clean = clean
        self._sent: set[str] = set()
        self._next: dict[str, int] = {}
        self._waiting: dict[str, deque[tuple[str, int]]] = {}

    def called(self, raw: str, place: int) -> str:
        """The id of a call that the model named `raw`, in message number `place`."""
        base = raw
        if self._clean or (self._limit and len(raw) > self._limit):
            base = safe_id(raw, charset="a-zA-Z0-9_-", limit=self._limit)
        name, number = base, self._next.get(base, 2)
        while name in self._sent:
            suffix = f"_{number}"
            name = base[: self._limit - len(suffix) if self._limit else None] + suffix
            number += 1
        self._next[base] = number
        self._sent.add(name)
        self._waiting.setdefault(raw, deque()).append((name, place))
        return name

    def answered(self, raw: str) -> tuple[str, int] | None:
        """The id for the next result of `raw`, and the message of its call; None: no call waits."""
        waiting = self._waiting.get(raw)
        return waiting.popleft() if waiting else None


def with_images_in_words(text: str, images: Iterable[Image]) -> str:
    """Return `text` for who is sent no images: each in a line of words."""
    return "\n".join([*([text] if text.strip() else []), *map(_in_words, images)])


def _in_words(image: Image) -> str:
    return f"[image: {image.words}, not sent: this provider takes no images]"


def plain_schema(tool: ToolDefinition) -> dict[str, JsonValue]:
    """The parameters of `tool`, as a schema of an object in any case."""
    return {"type": "object", "properties": {}, **tool.parameters}


PDF: Final = "application/pdf"
IMAGES: Final = frozenset(MEDIA_TYPES)
KEPT: Final = 2  # those of the conversation, and of another one beside it

_MARKUP: Final = re.compile("[<>&]")
_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Attached:
    """Attachments in a provider's form.

    Attributes:
        messages: What is sent before the thread: one encoded message, or none.
        system: What ends the system texts; "" for nothing.
        skipped: What is not sent, each with the reason.
        front: What the first user message begins with: encoded parts with commas between.
    """

    messages: tuple[bytes, ...] = ()
    system: str = ""
    skipped: tuple[tuple[Attachment, str], ...] = ()
    front: bytes = b""

    def warn(self, warnings: Warnings, *, conversation_id: str) -> None:
        """Say what is not sent."""
        for attachment, reason in self.skipped:
            place = f"conversation.attachments[{attachment.source!r}] ({attachment.media_type})"
            warnings.not_sent(place, reason, conversation_id=conversation_id)


class AttachedOnce:
    """The attachments that were sent last, in a provider's form, found by identity."""

    def __init__(self, make: Callable[[tuple[Attachment, ...]], Attached]) -> None:
        self._make = make
        self._kept: list[tuple[tuple[Attachment, ...], Attached]] = []

    def of(self, attachments: tuple[Attachment, ...]) -> Attached:
        """`attachments` as they are sent."""
        known = next((entry for entry in self._kept if entry[0] is attachments), None)
        entry = known or (attachments, self._make(attachments))
        others = [other for other in self._kept if other is not entry]
        self._kept = [*others, entry][-KEPT:]
        return entry[1]


def sort_out(
    attachments: Sequence[Attachment], media_types: frozenset[str]
) -> tuple[list[Attachment], tuple[tuple[Attachment, str], ...]]:
    """Return what can be sent where texts and `media_types` can, and the rest with the reasons."""
    sent: list[Attachment] = []
    skipped: list[tuple[Attachment, str]] = []
    for attachment in attachments:
        if isinstance(attachment.content, bytes) and attachment.media_type not in media_types:
            words = ", ".join(("text", *sorted(media_types)))
            skipped.append((attachment, f"this provider accepts only {words}"))
        elif attachment.content == b"":
            skipped.append((attachment, "it is empty"))
        else:
            sent.append(attachment)
    return sent, tuple(skipped)


def name_of(attachment: Attachment) -> str:
    """The source as a text that no API refuses for being blank."""
    return attachment.source if attachment.source.strip() else "(no name)"


def base64_text(content: bytes) -> str:
    """`content` as it stands in JSON."""
    return base64.b64encode(content).decode("ascii")


def documents_xml(attachments: Sequence[Attachment]) -> str:
    """The texts among `attachments` as one XML text; "" if there are none.

    Shape:
        <documents>
        <document>
        <index>1</index>
        <source>notes.md</source>
        <content><![CDATA[a < b]]></content>
        </document>
        </documents>

    It is well-formed whatever the texts hold, so that none passes for several: what XML has no
    place for, such as NUL, becomes U+FFFD.
    """
    texts = [(a.source, a.content) for a in attachments if isinstance(a.content, str)]
    if not texts:
        return ""
    documents = "".join(
        f"<document>\n<index>{index}</index>\n"
        f"<source>{html.escape(_characters(source), quote=False)}</source>\n"
        f"<content>{_content(_characters(text))}</content>\n</document>\n"
        for index, (source, text) in enumerate(texts, start=1)
    )
    return f"<documents>\n{documents}</documents>"


def _characters(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)


def _content(text: str) -> str:
    if not _MARKUP.search(text):
        return text
    return "<![CDATA[" + text.replace("]]>", "]]]]><![CDATA[>") + "]]>"
