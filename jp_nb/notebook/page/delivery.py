"""Compose the messages that deliver appended entries to the page.

One message is sent at a time, and repeated until the page acknowledges it. The state of a page is
known from its `hello` and its replies. This module has no threads: `live_store.py` has them.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from pydantic import JsonValue

from jp_nb.json_values import JsonObject, make_storable
from jp_nb.notebook.page.pieces import (
    MAX_DELIVERY_BYTES,
    select_batch,
    split_text,
    to_ascii_json,
)
from jp_nb.notebook.page.protocol import MessageNumbering
from jp_nb.record.documents.document import (
    RECORD_VERSION,
    Document,
    get_conversation_id,
    get_conversations,
    get_events,
)
from jp_nb.record.documents.merge import starts_with

MAX_RESEND_S = 60.0
MIN_BATCH_INTERVAL_S = 0.1


class _Snapshot:
    """The document at one moment, taken in the thread that changes it.

    `entries` is the document's own list, which grows. Its first `length` entries belong to it.
    """

    def __init__(self, document: Document) -> None:
        stream = document.conversation
        self.stream = stream.id
        self.entries: Sequence[JsonObject] = stream.raw
        self.length = len(stream.raw)
        self.others = list(document.others)
        # The base configuration is replaced when it changes, never mutated.
        base: JsonObject = {
            "conversation": dict(stream.properties),
            "base_config": stream.base_config,
        }
        self._head = {**base, **document.extra}

    @cached_property
    def head_text(self) -> str:
        # The document without entries as JSON, the same text for the same head. On demand: each
        # entry changes the signature, but a page gets ten messages a second.
        return _format_head(self._head)

    @property
    def head(self) -> JsonObject:
        # A copy, which shares nothing with the document.
        return cast(JsonObject, json.loads(self.head_text))

    def to_document(self) -> JsonObject:
        document: JsonObject = {"version": RECORD_VERSION, **self.head}
        document["events"] = [dict(entry) for entry in self.entries[: self.length]]
        return {**document, "others": self.others} if self.others else document


def _format_head(document: JsonObject) -> str:
    head = {k: v for k, v in document.items() if k not in ("version", "events", "others")}
    head.setdefault("base_config", {})
    return json.dumps(make_storable(head), sort_keys=True)


@dataclass(slots=True)
class _PageCopy:
    """The part of the record that the page is known to hold, unchanged."""

    stream: str
    length: int
    head_text: str
    others: list[JsonValue] = field(default_factory=list)

    def split(self, others: Sequence[JsonValue]) -> tuple[list[JsonValue], list[JsonValue]]:
        """Split inactive conversations into `doc.others` and `kept` of an `exchange`.

        `kept` has `[position, id, number of entries]` of each conversation that the page holds. One
        without an id of its own is sent.
        """
        sent: list[JsonValue] = []
        kept: list[JsonValue] = []
        seen = set[str]()
        held = set(map(id, self.others))

        for position, other in enumerate(others):
            stream = get_conversation_id(other)
            # The conversation that is active in the page may be inactive here.
            was_active = stream == self.stream and len(get_events(other)) == self.length
            if was_active and isinstance(other, dict) and _format_head(other) == self.head_text:
                held.add(id(other))

            if stream and stream not in seen and id(other) in held:
                kept.append([position, stream, len(get_events(other))])
            else:
                sent.append(other)

            seen.add(stream)

        return sent, kept


def _find_held(others: Sequence[JsonValue], stored: JsonObject) -> list[JsonValue]:
    """Return the conversations in `others` that a page holds in `stored`, active or not."""
    theirs = {get_conversation_id(entry): entry for entry in get_conversations(stored)}
    return [other for other in others if theirs.get(get_conversation_id(other)) == other]


@dataclass(slots=True)
class _Transfer:
    """Messages for the page, sent one after the other, and its state after the last one.

    `replaces` is True if the page replaces its document. The first message `is_sent` until it is
    acknowledged. It was repeated `tries` times, and is repeated at the monotonic time `due_at`.
    """

    messages: deque[JsonObject]
    result: _PageCopy
    replaces: bool = False
    is_sent: bool = False
    due_at: float = 0.0
    tries: int = 0

    def fits(self, answer: Mapping[str, Any]) -> bool:
        """Return True if the page can hold the entries, according to its answer."""
        stream = answer.get("stream", self.result.stream)
        count = answer.get("n")
        return stream == self.result.stream and (count is None or count >= self.result.length)

    def is_awaiting(self, seq: object) -> bool:
        return self.is_sent and seq == self.messages[0]["seq"]


class PageDelivery:
    """Composes the messages that update the page to the newest snapshot of the document.

    If a message is not acknowledged within `resend` seconds, `next_message` returns it or a `pull`
    again, at intervals that double up to `MAX_RESEND_S`. Not thread-safe: `LiveStore` has the lock.

    Attributes:
        replaces: True if the page may still hold a document that will be replaced.
        writer: Id of the page that must write, if pages share the document; "" if each page writes.
        is_silent: True if the last message was not answered in time.
        latency: Seconds from the last message to its acknowledgement; None before the first.
    """

    def __init__(self, numbering: MessageNumbering, *, resend: float) -> None:
        self._numbering = numbering
        self._resend = resend
        self._target: _Snapshot | None = None
        self._page: _PageCopy | None = None
        self._has_changes = False
        self._transfer: _Transfer | None = None
        self._sent_at = 0.0
        self._next_batch_at = 0.0
        self._skips_interval = False
        self._exchange_seq = 0
        self._exchange_failed = False
        self.supports_exchange = self.replaces = False
        self.writer = ""
        self.is_silent = False
        self.latency: float | None = None

    @property
    def stream(self) -> str | None:
        """The id of the active conversation; None without a document."""
        return self._target.stream if self._target else None

    def set_document(self, document: Document) -> None:
        """Set the document. Nothing is sent before `send_changes` or `send_all` is called."""
        self._target = _Snapshot(document)

    def send_changes(self, document: Document) -> None:
        """Send the entries appended to `document`, and its head if that changed."""
        self._target = _Snapshot(document)
        self._has_changes = True

    def send_all(self, document: Document) -> None:
        """Send all of `document`, except conversations that the page holds."""
        self._target = _Snapshot(document)
        if self._page is not None and self._page.stream == self._target.stream:
            self._page.head_text = ""  # repaired: the copy in the page is outdated
        self._has_changes = self.replaces = True
        self.discard_transfer()

    def set_other_record(self, stream: str, stored: JsonObject | None = None) -> None:
        """Note that another conversation is active in the page; it will be replaced."""
        self._page = _PageCopy(stream, len(get_events(stored or {})), "")
        if stored is not None and self._target is not None:
            self._page.others = _find_held(self._target.others, stored)

    def match_record(self, stored: JsonObject) -> bool:
        """Note that the page holds `stored`; return False if its entries differ from ours."""
        target = self._target
        events = get_events(stored)
        assert target is not None
        if starts_with(target.entries[: target.length], events):
            # A page skips entries that it has, so the smallest length of all pages is safe.
            same = self._page is not None and self._page.stream == target.stream
            length = min(len(events), self._page.length) if same and self._page else len(events)
            head_text = _format_head(stored) if self._has_changes else target.head_text
            others = _find_held(target.others, stored)
            self._page = _PageCopy(target.stream, length, head_text, others)
        elif self.replaces:  # repaired, and not yet sent
            self._page = _PageCopy(target.stream, 0, "")
        else:
            return False

        return True

    def skip_interval(self) -> None:
        """Send the pending entries now, without the interval between messages."""
        self._skips_interval = not self.is_settled

    @property
    def is_settled(self) -> bool:
        """True if the page has everything."""
        return self._transfer is None and not self._lacks_something()

    @property
    def delivered(self) -> tuple[str, int]:
        """The id of the page's active conversation, and its number of entries there."""
        return (self._page.stream, self._page.length) if self._page else ("", 0)

    @property
    def next_due(self) -> float | None:
        """The monotonic time of the next message or repetition; None if there is none."""
        if self._transfer is not None and self._transfer.is_sent:
            return self._transfer.due_at
        return self._next_batch_at if self._lacks_something() else None

    def next_message(self, now: float) -> JsonObject | None:
        """Return the message to send at the monotonic time `now`, if there is one."""
        transfer = self._transfer = self._transfer or self._compose(now)
        if transfer is None or (transfer.is_sent and now < transfer.due_at):
            return None

        self._sent_at = now
        if not transfer.is_sent:
            transfer.is_sent = True
            transfer.due_at = now + self._resend
            transfer.tries = 0
            return transfer.messages[0]

        transfer.tries += 1
        self.is_silent = True
        transfer.due_at = now + min(self._resend * 2**transfer.tries, MAX_RESEND_S)
        # If no page is open, the server queues messages: only the short `pull` is repeated.
        # If the writing page does not answer, the first page that answers `pull` takes over.
        if self.writer or transfer.tries > 1:
            return self._numbering.make_message("pull")

        return transfer.messages[0]

    def handle_ack(self, answer: Mapping[str, Any], now: float) -> None:
        """Handle an `ack` of the page, received at the monotonic time `now`."""
        transfer = self._transfer
        if transfer is None or not transfer.is_awaiting(answer.get("seq")):
            return  # from a second page, or for a message that was sent twice
        if transfer.messages[0].get("to", "") not in ("", answer.get("page")):
            return  # from a page that does not write

        is_last = len(transfer.messages) == 1
        if is_last and not transfer.fits(answer):
            transfer.due_at = 0.0
            transfer.tries = 1  # the next message is `pull`
            return

        transfer.messages.popleft()
        transfer.is_sent = False
        self.latency = now - self._sent_at
        if not transfer.messages:
            self._page = transfer.result
            self._transfer = None
            self.replaces = self.replaces and not transfer.replaces
            self._skips_interval = self._skips_interval and not self.is_settled

    def handle_nack(self, answer: Mapping[str, Any]) -> None:
        """Handle a `nack`: the page has fewer entries, or another document."""
        if self._exchange_seq and answer.get("seq") == self._exchange_seq:
            self._exchange_failed = self.replaces = True  # a kept conversation is missing
            self.discard_transfer()
            return

        length = answer.get("n")
        page = self._page
        same = page is not None and answer.get("stream") == page.stream
        if page and same and isinstance(length, int) and 0 <= length < page.length:
            page.length = length  # a second page has fewer entries than the first one
            self.discard_transfer()
            return

        if self._transfer is not None and self._transfer.is_awaiting(answer.get("seq")):
            # The page holds another document: the next message is `pull`.
            self._transfer.due_at = 0.0
            self._transfer.tries = 1

    def discard_transfer(self) -> None:
        """Discard the current batch: it is composed again."""
        self._transfer = None

    def _lacks_something(self) -> bool:
        target = self._target
        page = self._page
        if target is None or page is None or not self._has_changes:
            return False
        if page.stream != target.stream:
            return bool(page.stream or target.length or target.others)

        return self.replaces or page.length < target.length or page.head_text != target.head_text

    def _compose(self, now: float) -> _Transfer | None:
        target = self._target
        page = self._page
        if target is None or page is None or not self._lacks_something():
            return None
        if self.replaces or page.stream != target.stream:
            copy = _PageCopy(target.stream, target.length, target.head_text, target.others)
            return _Transfer(deque(self._make_exchange(target, page)), copy, replaces=True)
        if now < self._next_batch_at and not self._skips_interval:
            return None

        batch, _ = select_batch(target.entries[page.length : target.length])
        fields: JsonObject = {"stream": target.stream, "base": page.length, "events": batch}
        if page.head_text != target.head_text:
            # Null removes a signature that the page has.
            fields["head"] = {"signature": None, **target.head}

        length = page.length + len(batch)
        if length == target.length:  # if more entries remain, they are sent at once
            self._next_batch_at = now + MIN_BATCH_INTERVAL_S

        message = self._numbering.make_message("append", **self._to, **fields)
        copy = _PageCopy(target.stream, length, target.head_text, page.others)
        return _Transfer(deque([message]), copy)

    def _make_exchange(self, target: _Snapshot, page: _PageCopy) -> list[JsonObject]:
        """Return an `exchange` if the page holds other conversations of `target`, or a `switch`."""
        document = target.to_document()
        if not self.supports_exchange or self._exchange_failed or page.stream == target.stream:
            return self._make_switch(document)

        sent, kept = page.split(target.others)
        shorter = {**document, "others": sent}
        if not kept or len(to_ascii_json(shorter)) > MAX_DELIVERY_BYTES:
            return self._make_switch(document)

        fields: JsonObject = {"doc": make_storable(shorter), "kept": kept}
        message = self._numbering.make_message("exchange", **self._to, **fields)
        self._exchange_seq = self._numbering.last

        return [message]

    def _make_switch(self, document: JsonObject) -> list[JsonObject]:
        make_message = self._numbering.make_message
        pieces = split_text(to_ascii_json(document))
        if len(pieces) == 1:
            return [make_message("switch", **self._to, doc=make_storable(document))]

        part_of = self._numbering.last + 1
        return [
            make_message("chunk", **self._to, id=part_of, i=i, of=len(pieces), text=piece)
            for i, piece in enumerate(pieces)
        ]

    @property
    def _to(self) -> JsonObject:
        return {"to": self.writer} if self.writer else {}
