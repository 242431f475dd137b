"""`RequestContext`: the entries of a conversation that requests send, oldest first.

An item is an entry with the provider that it was recorded with, because signatures and ids in its
metadata are valid only there. The *head* of a request is all that is not a message, such as
instructions and tools (`request_head.py`). A context is built by `context_builder.py`.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import NamedTuple

from jp_nb.images import Image, count_images
from jp_nb.record.entries.entry_images import (
    MAX_ENTRY_IMAGES,
    NO_ENTRY_IMAGES,
    RecordedImages,
    format_omission_note,
)
from jp_nb.record.entries.events import (
    ChatRequest,
    ChatResponse,
    Entry,
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.record.request_context.head_marks import read_request_head
from jp_nb.record.request_context.host_marks import HOST
from jp_nb.record.request_context.request_head import (
    Attachment,
    AttachmentDigest,
    RequestHead,
    digest_attachment,
)

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

    Metadata of the entry, such as signatures, is from that provider. Another provider receives
    reasoning as text.

    Attributes:
        entry: The entry. Its text has notes about missing images.
        is_bound: False if the content that was sent before the entry has changed. The signatures of
            the entry are then not valid.
        host: Mark of the server that the metadata is from (`LastHost`); "" if it is unknown.
        is_vouched: False if someone else may have written the metadata, which is then never sent.
    """

    entry: ContextEntry
    provider: str
    images: tuple[Image, ...] = ()
    is_bound: bool = True
    host: str = ""
    is_vouched: bool = True


class HeadPosition(NamedTuple):
    """The head of the requests that contain the item at index `item_count`.

    It applies until the next position. `item_count` is the number of items before it.
    """

    item_count: int
    head: RequestHead


@dataclass(slots=True, eq=False)
class RequestContext:
    """The visible entries of one conversation, oldest first. It only grows.

    Items never change, so a provider may keep its rendering of the first items, by the context as
    the key: contexts are compared by identity. A repair or a fork makes another `RequestContext`.

    Attributes:
        heads: The head of the first request that had a response, and each later one that differs.
        contents: Attachments that this kernel has read, by their digests. A conversation with the
            same attachments needs them for its later requests.
    """

    items: list[ContextItem] = field(default_factory=list)
    heads: list[HeadPosition] = field(default_factory=list)
    contents: dict[AttachmentDigest, Attachment] = field(default_factory=dict)
    _image_count: int = field(default=0, init=False)
    _image_bytes: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        for item in self.items:
            for image in item.images:
                self._image_count += 1
                self._image_bytes += len(image.content)

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
        for digest in self.contents.keys() - set(self._list_sent_attachments()):
            del self.contents[digest]
        self.contents |= {digest_attachment(attachment): attachment for attachment in attachments}

    def list_missing_attachments(self) -> list[AttachmentDigest]:
        """Return the attachments of earlier requests that this kernel has not read."""
        return [digest for digest in self._list_sent_attachments() if digest not in self.contents]

    def _list_sent_attachments(self) -> list[AttachmentDigest]:
        """Return the attachments of all heads, each once, in order."""
        # Most heads share the attachments of the one before, which are then looked at once.
        lists = {id(head.attachments): head.attachments for _, head in self.heads}
        return list(dict.fromkeys(chain.from_iterable(lists.values())))

    def until(self, count: int) -> RequestContext:
        """Return a context with the first `count` items, to send them."""
        heads = [position for position in self.heads if position.item_count < count]
        return RequestContext(self.items[:count], heads, self.contents)

    def continues(self, before: RequestContext, count: int) -> bool:
        """Return True if this context begins with the first `count` items of `before`."""
        return self is before or self.items[:count] == before.items[:count]

    def without_heads(self) -> RequestContext:
        """Return a context whose next request begins a new head. Signatures are not valid in it."""
        items = [replace(item, is_bound=False) for item in self.items]
        return RequestContext(items, contents=self.contents)

    def note_head(self, entry: Entry) -> None:
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

        `images` are those of the conversation. Without them, no image is sent. `is_bound` and
        `is_vouched` are as in `ContextItem`, for the model's own output. `host` is that of the
        turn, which counts if the output has none of its own.
        """
        if isinstance(entry, ChatRequest | ToolCallResponse) and images is not None:
            # A server binds only its model's output to itself, so the other arguments, which are
            # about that, do not apply to a request or a result.
            self.items.append(self._make_item_with_images(entry, provider, images))
        elif isinstance(entry, ContextEntry):
            own_host = entry.metadata.get(HOST)
            if isinstance(own_host, str):
                host = own_host
            item = ContextItem(entry, provider, is_bound=is_bound, host=host, is_vouched=is_vouched)
            self.items.append(item)

    def _make_item_with_images(
        self, entry: ChatRequest | ToolCallResponse, provider: str, images: RecordedImages
    ) -> ContextItem:
        """Return the item of `entry` with its images within the limits, and notes about others."""
        shown = images.images_of(entry)
        if shown is NO_ENTRY_IMAGES:
            return ContextItem(entry, provider)

        kept = list[Image]()
        omitted = list[Image]()
        for image in shown.images:  # an image that was sent once stays in the context
            total_bytes = self._image_bytes + len(image.content)
            if self._image_count < MAX_ENTRY_IMAGES and total_bytes <= MAX_CONTEXT_IMAGE_BYTES:
                self._image_count += 1
                self._image_bytes = total_bytes
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
