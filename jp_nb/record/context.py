"""Request context: the events that one request sends.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, islice
from typing import NamedTuple

from jp_nb.images import Image, count_images
from jp_nb.record.change_marks import is_unanswered
from jp_nb.record.compaction import make_replacements
from jp_nb.record.entry_images import (
    MAX_ENTRY_IMAGES,
    NO_ENTRY_IMAGES,
    RecordedImages,
    format_omission_note,
)
from jp_nb.record.events import (
    ChatRequest,
    ChatResponse,
    Compaction,
    ConfigDelta,
    Entry,
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.record.integrity import match_pairs
from jp_nb.record.marks import HOST
from jp_nb.record.request_head import (
    Attachment,
    AttachmentDigest,
    RequestHead,
    begins_head,
    digest_attachment,
    read_request_head,
)
from jp_nb.record.stream import ConversationStream

VISIBLE = (ChatRequest, ChatResponse, ToolCallRequest, ToolCallResponse)
ContextEntry = ChatRequest | ChatResponse | ToolCallRequest | ToolCallResponse

MAX_CONTEXT_IMAGE_BYTES = 20_000_000
"""Maximum size of all images in a context. Anthropic accepts requests of 32 MB, with Base64 and
text."""
IMAGE_LIMIT_REACHED = (
    f"a conversation can show {MAX_ENTRY_IMAGES} images, "
    f"{MAX_CONTEXT_IMAGE_BYTES // 1_000_000} MB in all. "
    "The user can start a new one with `%jp new`, or fork it before the images with "
    "`%jp fork TURN`"
)


@dataclass(frozen=True, slots=True)
class ContextItem:
    """A visible entry, and the provider that was configured when it was recorded.

    Metadata of the entry, such as signatures, is from that `provider`. Another provider receives
    reasoning as text. The text of the entry has notes about missing images. If not `is_bound`, what
    was sent before the entry has changed, so its signatures are not valid.

    Attributes:
        host: Mark of the server that the metadata is from (`LastHost`); "" if it is unknown.
        is_vouched: False if someone else may have written the metadata. It is never sent.
    """

    entry: ContextEntry
    provider: str
    images: tuple[Image, ...] = ()
    is_bound: bool = True
    host: str = ""
    is_vouched: bool = True


class UntrustedProviders(tuple[str, ...]):
    """The providers of a record that someone else may have written."""

    __slots__ = ()


class HeadPosition(NamedTuple):
    """The head of requests with more than `items` items, until the next position."""

    items: int
    head: RequestHead


@dataclass(slots=True, eq=False)
class RequestContext:
    """The visible entries of one conversation, oldest first. It only grows.

    Items never change, so a provider may keep its rendering of the first items. A repair or a fork
    makes another `RequestContext`.

    Attributes:
        heads: The head of the first request that had a response, and each later one that differs.
        contents: Attachments that this kernel has read.
    """

    items: list[ContextItem] = field(default_factory=list)
    heads: list[HeadPosition] = field(default_factory=list)
    contents: dict[AttachmentDigest, Attachment] = field(default_factory=dict)
    _shown: int = field(default=0, init=False)
    _shown_bytes: int = field(default=0, init=False)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[ContextItem]:
        return iter(self.items)

    def since(self, index: int) -> Iterator[ContextItem]:
        """Yield the items from `index` on."""
        return islice(self.items, index, None)

    @property
    def head(self) -> RequestHead | None:
        """The head of the last request that had a response, if it is known."""
        return self.heads[-1].head if self.heads else None

    def note_contents(self, attachments: Iterable[Attachment]) -> None:
        """Note the contents of the current `attachments`, and forget those that are not needed."""
        for mark in self.contents.keys() - self._list_sent_attachments().keys():
            del self.contents[mark]
        self.contents.update((digest_attachment(each), each) for each in attachments)

    def missing_attachments(self) -> list[AttachmentDigest]:
        """Return the attachments of earlier requests that this kernel has not read."""
        return [mark for mark in self._list_sent_attachments() if mark not in self.contents]

    def _list_sent_attachments(self) -> dict[AttachmentDigest, None]:
        # Most heads have the same attachments as the one before.
        lists = {id(head.attachments): head.attachments for _, head in self.heads}
        return dict.fromkeys(chain.from_iterable(lists.values()))

    def until(self, count: int) -> RequestContext:
        """Return a context with the first `count` items."""
        heads = [position for position in self.heads if position.items < count]
        return RequestContext(self.items[:count], heads, self.contents)

    def continues(self, before: RequestContext, count: int) -> bool:
        """Return True if this context begins with the first `count` items of `before`."""
        return self is before or self.items[:count] == before.items[:count]

    def without_heads(self) -> RequestContext:
        """Return a context whose next request begins a new head. Signatures are not valid in it."""
        items = [replace(item, is_bound=False) for item in self.items]
        return RequestContext(items, contents=self.contents)

    def read_head(self, entry: Entry) -> None:
        """Note the head of the request whose response begins with `entry`, if it is recorded."""
        head = read_request_head(entry, self.head)
        if head is not None and head is not self.head:
            self.heads.append(HeadPosition(len(self.items), head))

    def add(
        self,
        entry: Entry,
        provider: str,
        images: RecordedImages | None = None,
        *,
        is_bound: bool = True,
        host: str = "",
        is_vouched: bool = True,
    ) -> None:
        """Append `entry` if its kind is visible to providers.

        `images` are those of the conversation. `host` is that of its turn, if the entry has none.
        """
        if isinstance(entry, ChatRequest | ToolCallResponse) and images is not None:
            self.items.append(self._make_item_with_images(entry, provider, images))
        elif isinstance(entry, VISIBLE):
            own_host = entry.metadata.get(HOST)
            if isinstance(own_host, str):
                host = own_host
            item = ContextItem(entry, provider, is_bound=is_bound, host=host, is_vouched=is_vouched)
            self.items.append(item)

    def _make_item_with_images(
        self, entry: ChatRequest | ToolCallResponse, provider: str, images: RecordedImages
    ) -> ContextItem:
        shown = images.images_of(entry)
        if shown is NO_ENTRY_IMAGES:
            return ContextItem(entry, provider)

        kept = list[Image]()
        omitted = list[Image]()
        for image in shown.images:  # an image that was sent once stays in the context
            size = self._shown_bytes + len(image.content)
            if self._shown < MAX_ENTRY_IMAGES and size <= MAX_CONTEXT_IMAGE_BYTES:
                self._shown = self._shown + 1
                self._shown_bytes = size
                kept.append(image)
            else:
                omitted.append(image)

        notes = list(shown.notes)
        if omitted:
            notes.append(
                format_omission_note(" and ".join(count_images(omitted)), IMAGE_LIMIT_REACHED)
            )

        if notes:
            content = "\n".join([entry.content, *notes])
            entry = entry.model_copy(update={"content": content})

        return ContextItem(entry, provider, tuple(kept))


def build_context(
    stream: ConversationStream, providers: Sequence[str] = ("",), *, in_turn: bool = False
) -> RequestContext:
    """Return the context of `stream`. Each item has the provider that its entry was recorded with.

    `providers` are the provider at the beginning, and the one after each configuration change
    (`Projection.providers`). The last one applies to all later entries.

    The metadata of an untrusted record (`UntrustedProviders`) is not sent, except that of entries
    that this process has appended.

    Turns without a response are omitted, except the current one (`in_turn`). So are entries with an
    unknown `request_id`. If such an entry is half of a tool call, the other half is omitted too.
    Compactions apply, except to the current turn.
    """
    current = stream.turn_count - 1 if in_turn else -1
    hidden = _find_unresolved(stream) | _find_unanswered(stream, except_turn=current)
    return _build(stream, providers, hidden, make_replacements(stream, hidden, whole=current))


def build_turns_context(
    stream: ConversationStream, providers: Sequence[str], turns: Container[int]
) -> RequestContext:
    """Return the context of some `turns` of `stream` without compactions."""
    other_turns = {event.position for event in stream.events() if event.turn not in turns}
    hidden = _find_unresolved(stream) | _find_unanswered(stream, except_turn=-1) | other_turns
    return _build(stream, providers, hidden, {})


def _build(
    stream: ConversationStream,
    providers: Sequence[str],
    hidden: Container[int],
    replaced: Mapping[int, tuple[Entry, ...]],
) -> RequestContext:
    context = RequestContext()
    is_trusted = not isinstance(providers, UntrustedProviders)
    changes = 0
    start = _find_last_restart(stream.entries)
    host = ""

    for index, entry in enumerate(stream.entries):
        if isinstance(entry, ConfigDelta):
            changes += 1
            continue

        if index >= start:
            context.read_head(entry)

        if isinstance(entry, ChatRequest):
            host = str(entry.metadata.get(HOST, ""))

        if index not in hidden:
            for shown in replaced.get(index, (entry,)):
                context.add(
                    shown,
                    providers[min(changes, len(providers) - 1)],
                    stream.images,
                    is_bound=index >= start,
                    host=host,
                    is_vouched=is_trusted or stream.is_made_here(index),
                )

    return context


def _find_last_restart(entries: Sequence[Entry]) -> int:
    # Requests from this entry on do not begin with the earlier ones.
    start = 0
    has_head = False

    for index, entry in enumerate(entries):
        if isinstance(entry, Compaction):
            start = index
            has_head = False
        elif begins_head(entry):
            start = index if has_head else start
            has_head = True

    return start


def _find_unanswered(stream: ConversationStream, *, except_turn: int) -> set[int]:
    # The model would answer a failed request if a later request contained it.
    hidden: set[int] = set()
    for turn, grouped in groupby(stream.events(), key=lambda event: event.turn):
        events = list(grouped)
        if turn != except_turn and is_unanswered(event.entry for event in events):
            hidden.update(event.position for event in events)
    return hidden


def _find_unresolved(stream: ConversationStream) -> set[int]:
    hidden = set(stream.unresolved())
    if not hidden:
        return hidden
    # Providers reject half a pair, so both halves are hidden.
    for _, events in groupby(stream.events(), key=lambda event: event.turn):
        for pair in match_pairs((event.position, event.entry) for event in events)[0].items():
            if not hidden.isdisjoint(pair):
                hidden.update(pair)
    return hidden
