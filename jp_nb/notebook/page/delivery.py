"""Compose the writes that bring a page to the newest snapshot of the document.

One message is sent at a time, and repeated until the page acknowledges it. The content of a page is
known from its `hello`, and from the writes that it has acknowledged. This module has no threads:
`live_store.py` has them, and `page_deliveries.py` has the deliveries to several pages.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

from pydantic import JsonValue

from jp_nb.json_values import (
    JsonObject,
    as_object,
    make_storable,
    make_storable_with_size,
)
from jp_nb.notebook.page.page_copy import PageCopy, StoredKeys, find_held, format_head
from jp_nb.notebook.page.pieces import (
    MAX_DELIVERY_BYTES,
    select_batch,
    split_text,
    to_ascii_json,
)
from jp_nb.notebook.page.protocol import MessageNumbering
from jp_nb.record.documents.document import (
    RECORD_KEY,
    RECORD_VERSION,
    Document,
    get_events,
)
from jp_nb.record.documents.merge import starts_with
from jp_nb.record.documents.segments import (
    SEGMENT_CHARS,
    count_chars,
    count_sealed,
    split_record,
)

MAX_RESEND_S = 60.0
MIN_BATCH_INTERVAL_S = 0.1

MAX_BATCH_BYTES = MAX_DELIVERY_BYTES - 1_024
"""Limit of appended entries in a message: other fields need some room."""

MAX_KNOWN_STATES = 1_024
"""Limit of the states of a page that are remembered, for saves that take long."""


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
        return format_head(self._head)

    @property
    def head(self) -> JsonObject:
        # A copy, which shares nothing with the document.
        return cast(JsonObject, json.loads(self.head_text))

    def to_document(self, length: int) -> JsonObject:
        """Return the document with the first `length` entries of its active conversation."""
        document: JsonObject = {"version": RECORD_VERSION, **self.head}
        document["events"] = [dict(entry) for entry in self.entries[:length]]
        return {**document, "others": self.others} if self.others else document


@dataclass(slots=True)
class _Transfer:
    """Messages for the page, sent one after the other, and its state after the last one.

    `replaces` is True if the page replaces its document. The first message `is_sent` until it is
    acknowledged. It was repeated `tries` times, and is repeated at the monotonic time `due_at`.
    """

    messages: deque[JsonObject]
    result: PageCopy
    replaces: bool = False
    is_sent: bool = False
    due_at: float = 0.0
    tries: int = 0

    def ask_again(self) -> None:
        """Send `pull` next: the page holds something else."""
        self.due_at = 0.0
        self.tries = 1

    def is_awaiting(self, seq: object) -> bool:
        return self.is_sent and seq == self.messages[0]["seq"]


class PageDelivery:
    """Composes the messages that update a page to the newest snapshot of the document.

    If a message is not acknowledged within `resend` seconds, `next_message` returns it or a `pull`
    again, at intervals that double up to `MAX_RESEND_S`. Not thread-safe: `LiveStore` has the lock.

    Attributes:
        page: Id of the page, which alone acts on the writes.
        is_shared: True if pages share the document: then earlier entries are put into segments.
        replaces: True if the page may still hold a document that will be replaced.
        is_silent: True if the last message was not answered in time.
        latency: Seconds from the last message to its acknowledgement; None before the first.
    """

    def __init__(
        self, numbering: MessageNumbering, *, resend: float, page: str = "", is_shared: bool = False
    ) -> None:
        self._numbering = numbering
        self._resend = resend
        self._target: _Snapshot | None = None
        self._content: PageCopy | None = None  # from `hello`, not compared yet
        self._copy: PageCopy | None = None  # nothing is written before the comparison
        self._has_changes = False
        self._transfer: _Transfer | None = None
        self._sent_at = 0.0
        self._next_batch_at = 0.0
        self._skips_interval = False
        # States of the page that are known, the oldest first: conversation, number of entries.
        self._states: dict[str, tuple[str, int]] = {}
        self.page = page
        self.is_shared = is_shared
        self.replaces = False
        self.is_silent = False
        self.latency: float | None = None

    def continue_from(self, other: PageDelivery) -> None:
        """Deliver the same document as `other`."""
        self._target = other._target
        self._has_changes = other._has_changes
        self.replaces = other.replaces
        self.latency = other.latency

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
        if self._copy is not None and self._copy.stream == self._target.stream:
            self._copy.head_text = ""  # repaired: the copy in the page is outdated
        self._has_changes = self.replaces = True
        self._states.clear()
        self.discard_transfer()

    # --- the content of the page -------------------------------------------------------------

    def set_content(self, copy: PageCopy) -> None:
        """Set the content of the page. `match_record` or `set_other_record` tells what it is."""
        self._content = copy
        self._copy = None
        self.discard_transfer()

    @property
    def is_compared(self) -> bool:
        """True if the content of the page was compared, so that the page may be written."""
        return self._copy is not None

    def set_other_record(self, stream: str, stored: JsonObject | None = None) -> None:
        """Note that another conversation is active in the page; it will be replaced."""
        copy = self._copy = self._take_content()
        copy.stream = stream
        copy.length = len(get_events(stored or {}))
        copy.head_text = ""
        if stored is not None and self._target is not None:
            copy.held = find_held(self._target.others, stored)

        self._remember_state()

    def match_record(self, stored: JsonObject) -> bool:
        """Note that the page holds `stored`; return False if its entries differ from ours."""
        target = self._target
        events = get_events(stored)
        assert target is not None
        copy = self._take_content()

        if starts_with(target.entries[: target.length], events):
            copy.length = len(events)
            copy.head_text = format_head(stored) if self._has_changes else target.head_text
            copy.held = find_held(target.others, stored)
        elif self.replaces:  # repaired, and not yet sent
            copy.length = 0
            copy.head_text = ""
        else:
            return False

        copy.stream = target.stream
        self._copy = copy
        self._remember_state()
        return True

    def _take_content(self) -> PageCopy:
        return self._content or self._copy or PageCopy("", StoredKeys())

    def _remember_state(self) -> None:
        copy = self._copy
        if copy is None or self.replaces:
            return  # a save of the old document is not one of the new

        self._states.pop(copy.state, None)
        self._states[copy.state] = (copy.stream, copy.length)
        if len(self._states) > MAX_KNOWN_STATES:
            del self._states[next(iter(self._states))]

    def find_state(self, state: str) -> tuple[str, int] | None:
        """Return the active conversation and its number of entries in a state of the page.

        None if the page is not known to have had this state.
        """
        return self._states.get(state)

    @property
    def delivered(self) -> tuple[str, int]:
        """The id of the page's active conversation, and its number of entries there."""
        return (self._copy.stream, self._copy.length) if self._copy else ("", 0)

    # --- sending -----------------------------------------------------------------------------

    def skip_interval(self) -> None:
        """Send the pending entries now, without the interval between messages."""
        self._skips_interval = not self.is_settled

    @property
    def is_settled(self) -> bool:
        """True if the page has everything."""
        return self._transfer is None and not self._lacks_something()

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
        if self.is_shared or transfer.tries > 1:
            return self._numbering.make_message("pull")

        return transfer.messages[0]

    def handle_ack(self, answer: Mapping[str, Any], now: float) -> None:
        """Handle an `ack` of the page, received at the monotonic time `now`."""
        transfer = self._transfer
        if transfer is None or not transfer.is_awaiting(answer.get("seq")):
            return  # for a message that was sent twice
        if answer.get("page") != self.page:
            return

        is_last = len(transfer.messages) == 1
        if is_last and answer.get("state") != transfer.result.state:
            transfer.ask_again()
            return

        transfer.messages.popleft()
        transfer.is_sent = False
        self.latency = now - self._sent_at
        if not transfer.messages:
            self._copy = transfer.result
            self._content = None
            self._transfer = None
            self.replaces = self.replaces and not transfer.replaces
            self._skips_interval = self._skips_interval and not self.is_settled
            self._remember_state()

    def handle_nack(self, answer: Mapping[str, Any]) -> None:
        """Handle a `nack`: the page has not written anything."""
        if answer.get("page") != self.page or answer.get("why") == "stale":
            return  # `hello` follows, with what the page holds
        if self._transfer is not None and self._transfer.is_awaiting(answer.get("seq")):
            self._transfer.ask_again()

    def discard_transfer(self) -> None:
        """Discard the current batch: it is composed again."""
        self._transfer = None

    def _lacks_something(self) -> bool:
        target = self._target
        page = self._copy
        if target is None or page is None or not self._has_changes:
            return False
        if page.stream != target.stream:
            return bool(page.stream or target.length or target.others)

        return self.replaces or page.length < target.length or page.head_text != target.head_text

    def _compose(self, now: float) -> _Transfer | None:
        target = self._target
        page = self._copy
        if target is None or page is None or not self._lacks_something():
            return None
        if self.replaces or page.stream != target.stream:
            return self._compose_whole(target, page)
        if now < self._next_batch_at and not self._skips_interval:
            return None

        batch, _ = select_batch(target.entries[page.length : target.length], MAX_BATCH_BYTES)
        length = page.length + len(batch)
        if length == target.length:  # if more entries remain, they are sent at once
            self._next_batch_at = now + MIN_BATCH_INTERVAL_S

        if page.keys.length is None or page.keys.carriers:
            return self._compose_whole(target, page)
        if not self.is_shared:
            if page.keys.segments:
                return self._compose_whole(target, page)
            return self._compose_append(target, page, batch)

        sealed = count_sealed(page.keys.seals, target.stream)
        tail = target.entries[sealed : page.length]
        if count_chars([*tail, *batch]) < SEGMENT_CHARS:
            return self._compose_append(target, page, batch)

        document = target.to_document(length)
        return self._compose_segments(target, page, document, is_appended=True)

    def _compose_append(
        self, target: _Snapshot, page: PageCopy, batch: list[JsonValue]
    ) -> _Transfer:
        """Append `batch` to the entries in `jp`, and set its changed keys."""
        added: JsonObject = {"at": page.keys.length, "events": batch}
        if page.head_text != target.head_text:
            head = target.head
            added["head"] = head
            if "signature" not in head:  # the page may have one that is not valid any more
                added["removed"] = ["signature"]

        assert page.keys.length is not None
        keys = replace(page.keys, length=page.keys.length + len(batch))
        result = replace(
            page,
            keys=keys,
            length=page.length + len(batch),
            head_text=target.head_text,
        )
        return self._make_transfer(page, result, {"extend": added})

    def _compose_whole(self, target: _Snapshot, page: PageCopy) -> _Transfer:
        """Replace all keys. Conversations that the page holds are copied from there."""
        document = target.to_document(target.length)
        if self.is_shared:
            return self._compose_segments(target, page, document, is_appended=False)

        sent, copies = page.copy_conversations(target.others)
        fields: JsonObject = {"put": {RECORD_KEY: document}}
        if copies:
            fields["put"] = {RECORD_KEY: {**document, "others": sent}}
            fields["copies"] = copies

        keys = StoredKeys.of_written(document, {})
        return self._make_whole_transfer(target, page, fields, keys, target.length)

    def _compose_segments(
        self, target: _Snapshot, page: PageCopy, document: JsonObject, *, is_appended: bool
    ) -> _Transfer:
        """Write the new segments, and the rest of the record."""
        stored = as_object(make_storable(document))
        split = split_record(
            stored, known=page.keys.seals, taken=page.keys.segments, is_appended=is_appended
        )
        keys = StoredKeys.of_written(split.rest, split.seals)
        if is_appended:
            keys = replace(keys, segments=keys.segments | page.keys.segments)

        fields: JsonObject = {"put": {**split.added, RECORD_KEY: split.rest}}
        length = len(get_events(document))
        return self._make_whole_transfer(target, page, fields, keys, length)

    def _make_whole_transfer(
        self,
        target: _Snapshot,
        page: PageCopy,
        fields: JsonObject,
        keys: StoredKeys,
        length: int,
    ) -> _Transfer:
        """Add the keys and carriers to remove to `fields`."""
        dropped = sorted(page.keys.segments - keys.segments)
        if dropped:
            fields["drop"] = list(dropped)
        if page.keys.carriers:
            fields["carriers"] = list(page.keys.carriers)

        held = [(other, place) for place, other in enumerate(target.others)]
        result = PageCopy("", keys, target.stream, length, target.head_text, held)
        transfer = self._make_transfer(page, result, fields)
        transfer.replaces = length == target.length
        return transfer

    def _make_transfer(self, page: PageCopy, result: PageCopy, fields: JsonObject) -> _Transfer:
        """Make the message of a write, or its pieces."""
        make_message = self._numbering.make_message
        result.state = self._numbering.make_state()
        clean, size = make_storable_with_size(fields)
        write = {"expect": page.state, "state": result.state, **as_object(clean)}
        if size <= MAX_DELIVERY_BYTES:
            return _Transfer(deque([make_message("write", to=self.page, **write)]), result)

        pieces = split_text(to_ascii_json(write))
        part_of = self._numbering.last + 1
        messages = [
            make_message("chunk", to=self.page, id=part_of, i=i, of=len(pieces), text=piece)
            for i, piece in enumerate(pieces)
        ]
        return _Transfer(deque(messages), result)
