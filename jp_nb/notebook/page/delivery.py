"""Deliver appended events to the page.

One message is sent at a time, and again until the page acknowledges it. The state of a page is
known from its `hello` and its replies. No threads here: `live_store.py` has them.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pydantic import JsonValue

from jp_nb.json_values import JsonObject, storable
from jp_nb.notebook.page.protocol import Numbering, as_ascii, is_short, split, take_batch
from jp_nb.record.document import VERSION, Document, all_conversations, conversation_id, events_of
from jp_nb.record.merge import starts_with


@dataclass(frozen=True, slots=True)
class Kept:
    """The conversations beside the active one, as a page is told them.

    Attributes:
        sent: Those that it lacks.
        places: `[place, id, number of entries]` of each one that it holds, by its place among all.
    """

    sent: list[JsonValue]
    places: list[JsonValue]

    @classmethod
    def of(cls, others: Iterable[JsonValue], held: Callable[[JsonValue], bool]) -> Kept:
        """Return `others` with those that are `held` named alone. One without an id is sent."""
        kept = cls([], [])
        seen: set[str] = set()
        for place, other in enumerate(others):
            name = conversation_id(other)
            if name and name not in seen and held(other):
                kept.places.append([place, name, len(events_of(other))])
            else:
                kept.sent.append(other)
            seen.add(name)
        return kept


def held_of(others: Sequence[JsonValue], stored: JsonObject) -> list[JsonValue]:
    """Return those of `others` that a page holds in `stored`, whether active there or not."""
    theirs = {conversation_id(entry): entry for entry in all_conversations(stored)}
    return [other for other in others if theirs.get(conversation_id(other)) == other]


SLOWEST_PING_S = 60.0
BEAT_S = 0.1
"""Shortest time between two messages with new entries."""


class _Head:
    """What a document says besides its entries at one moment; written when somebody asks.

    The signature is another one with each entry, and a page is told ten times in a second.
    """

    def __init__(self, document: Document) -> None:
        stream = document.conversation
        self._base_config = stream.base_config  # never changed: another one takes its place
        self._stored, self._extra = dict(stream.head), dict(document.extra)

    def is_of(self, document: Document) -> bool:
        """Return True if `document` says the same now."""
        stream = document.conversation
        same_base = stream.base_config is self._base_config
        return same_base and (stream.head, document.extra) == (self._stored, self._extra)

    @cached_property
    def text(self) -> str:
        """What `_head_text` returns of the document."""
        document = {"conversation": self._stored, "base_config": self._base_config, **self._extra}
        return _head_text(document)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The document at one moment, taken in the thread that changes it.

    `entries` is the list that grows; only its first `length` entries belong to the snapshot.
    """

    stream: str
    entries: Sequence[JsonObject]
    length: int
    others: list[JsonValue]
    of_head: _Head

    @classmethod
    def of(cls, document: Document, before: Snapshot | None = None) -> Snapshot:
        """Return the document now; the head of `before` is kept while it is the same."""
        stream = document.conversation
        head = before.of_head if before is not None else _Head(document)
        if not head.is_of(document):
            head = _Head(document)
        return cls(stream.id, stream.raw, len(stream.raw), list(document.others), head)

    @property
    def head_text(self) -> str:
        """Its head as JSON, the same text for the same head."""
        return self.of_head.text

    @property
    def head(self) -> JsonObject:
        """Its head, which shares nothing with the document."""
        head: JsonObject = json.loads(self.head_text)
        return head

    @property
    def is_empty(self) -> bool:
        """True if nothing was said, in no conversation."""
        return not self.length and not self.others

    def whole(self) -> JsonObject:
        """Return the `jp` object."""
        document: JsonObject = {"version": VERSION, **self.head}
        document["events"] = [dict(entry) for entry in self.entries[: self.length]]
        if self.others:
            document["others"] = self.others
        return document


def _head_text(document: JsonObject) -> str:
    head = {k: v for k, v in document.items() if k not in ("version", "events", "others")}
    head.setdefault("base_config", {})
    return json.dumps(storable(head), sort_keys=True)


@dataclass(slots=True)
class _PageCopy:
    """The part of the record that the page is known to hold.

    Attributes:
        others: Those of our conversations beside the active one that it holds, as they are.
    """

    stream: str
    length: int
    head_text: str
    others: list[JsonValue] = field(default_factory=list)

    def was_active(self, other: JsonValue) -> bool:
        """Return whether `other` is, as it is now, what is active there."""
        same = conversation_id(other) == self.stream and len(events_of(other)) == self.length
        return same and isinstance(other, dict) and _head_text(other) == self.head_text


@dataclass(slots=True)
class _Transfer:
    """One batch: its messages, and what the page holds once it took the last of them."""

    messages: deque[JsonObject]
    then: _PageCopy
    whole: bool = False


@dataclass(slots=True)
class _Flight:
    """The message under way."""

    message: JsonObject
    due: float
    tries: int = 0


class PageDelivery:
    """Brings the page to what the newest snapshot says. Not safe from several threads at once.

    Args:
        numbering: Numbers the messages.
        resend: Seconds until a message that was not acknowledged is sent again.

    Attributes:
        keeps: Whether the page keeps conversations that a message names alone.
        writer: The page that is to write, of several that share the document; "": each that
            hears it.
        silent: True if the last message was not answered in time.
        latency: Seconds from the last message to its acknowledgement; None before the first.
    """

    def __init__(self, numbering: Numbering, *, resend: float) -> None:
        self._numbering = numbering
        self._resend = resend
        self._target: Snapshot | None = None
        self._page: _PageCopy | None = None
        self._whole = False
        self._stirred = False
        self._flight: _Flight | None = None
        self._transfer: _Transfer | None = None
        self._sent_at = 0.0
        self._beat = 0.0
        self._hurries = False
        self._exchanged = 0
        self._never_names = False
        self.keeps = False
        self.writer = ""
        self.silent = False
        self.latency: float | None = None

    # --- what we have, and what the page has -------------------------------------------------

    @property
    def stream(self) -> str | None:
        """The id of the conversation to keep; None if there is none yet."""
        return self._target.stream if self._target else None

    def keep(self, document: Document) -> None:
        """Keep `document`. It is not sent before it changes."""
        self._target = Snapshot.of(document)

    def changed(self, document: Document) -> None:
        """Send what was appended to `document`, and its head if that is another one."""
        self._target = Snapshot.of(document, self._target)
        self._stirred = True

    def replaced(self, document: Document) -> None:
        """Send the whole of `document`, but for what the page is known to keep."""
        self._target = Snapshot.of(document)
        if self._page is not None and self._page.stream == self._target.stream:
            self._page.head_text = ""  # it was repaired: what the page holds is another one
        self._stirred = self._whole = True
        self.start_over()

    def page_holds_other(self, stream: str, stored: JsonObject | None = None) -> None:
        """Note that the page holds another conversation, in `stored`, which is to be replaced."""
        self._page = _PageCopy(stream, len(events_of(stored or {})), "")
        if stored is not None and self._target is not None:
            self._page.others = held_of(self._target.others, stored)

    def page_holds(self, stored: JsonObject) -> bool:
        """Note that the page holds `stored`, of our conversation; return False if it diverged."""
        target, events = self._target, events_of(stored)
        assert target is not None
        if starts_with(target.entries[: target.length], events):
            # Pages store what they lack of a batch, so the least that one of them has is right.
            same = self._page is not None and self._page.stream == target.stream
            length = min(len(events), self._page.length) if same and self._page else len(events)
            head_text = _head_text(stored) if self._stirred else target.head_text
            others = held_of(target.others, stored)
            self._page = _PageCopy(target.stream, length, head_text, others)
        elif self._whole:  # it was repaired, and the page does not know yet
            self._page = _PageCopy(target.stream, 0, "")
        else:
            return False
        return True

    def hurry(self) -> None:
        """Send what there is at once until the page has everything: somebody waits for it."""
        self._hurries = not self.is_settled

    # --- messages ----------------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """True if the page has everything."""
        return self._transfer is None and not self._lacks_something()

    @property
    def replaces(self) -> bool:
        """True if the page may still hold what is to be replaced."""
        return self._whole

    @property
    def delivered(self) -> tuple[str, int]:
        """A conversation, and how many entries of it the page is known to hold."""
        return (self._page.stream, self._page.length) if self._page else ("", 0)

    @property
    def next_due(self) -> float | None:
        """The time at which the message under way is sent again, or the next one may be."""
        if self._flight is not None:
            return self._flight.due
        return self._beat if self._lacks_something() else None

    def due(self, now: float) -> JsonObject | None:
        """Return the message to send now, if there is one."""
        flight = self._flight
        if flight is None:
            self._transfer = self._transfer or self._compose(now)
            if self._transfer is None:
                return None
            self._sent_at = now
            message = self._transfer.messages.popleft()
            self._flight = _Flight(message, now + self._resend)
            return message
        if now < flight.due:
            return None
        self._sent_at = now
        flight.tries += 1
        self.silent = True
        flight.due = now + min(self._resend * 2**flight.tries, SLOWEST_PING_S)
        if self.writer:  # it may be gone: any page that answers is to write
            return self._numbering.message("pull")
        # Lost on the way, or no page is there. In that case the server keeps what is sent, so
        # only a short question is repeated; a page that comes back says hello by itself, too.
        return flight.message if flight.tries == 1 else self._numbering.message("pull")

    def acknowledged(self, answer: Mapping[str, Any], now: float) -> None:
        """Take a page's word that it took a message."""
        flight, transfer = self._flight, self._transfer
        if flight is None or transfer is None or answer.get("seq") != flight.message["seq"]:
            return  # of a second page, or of a message that was sent twice
        if flight.message.get("to", "") not in ("", answer.get("page")):
            return  # of one that has a copy of its own
        self._flight = None
        self.latency = now - self._sent_at
        if not transfer.messages:
            self._page, self._transfer = transfer.then, None
            self._whole = self._whole and not transfer.whole
            self._hurries = self._hurries and not self.is_settled

    def rejected(self, answer: Mapping[str, Any]) -> None:
        """Take the page's word that it could not take a message: it has less, or something else."""
        if self._exchanged and answer.get("seq") == self._exchanged:
            self._never_names = self._whole = True  # it does not hold what we thought
            self.start_over()
            return
        length, page = answer.get("n"), self._page
        same = page is not None and answer.get("stream") == page.stream
        if page and same and isinstance(length, int) and 0 <= length < page.length:
            page.length = length  # a second page lacks more than the first one
            self.start_over()
            return
        if self._flight and answer.get("seq") == self._flight.message["seq"]:
            # It holds something else than we thought: look at it before anything is sent.
            self._flight.due, self._flight.tries = 0.0, 1

    def start_over(self) -> None:
        """Forget what is under way: it is composed anew."""
        self._flight = self._transfer = None

    def _lacks_something(self) -> bool:
        target, page = self._target, self._page
        if target is None or page is None or not self._stirred:
            return False
        if page.stream != target.stream:
            return bool(page.stream) or not target.is_empty
        return self._whole or page.length < target.length or page.head_text != target.head_text

    def _compose(self, now: float) -> _Transfer | None:
        """Return the next batch that the page lacks, if it is to be sent `now`."""
        target, page = self._target, self._page
        if target is None or page is None or not self._lacks_something():
            return None
        if self._whole or page.stream != target.stream:
            then = _PageCopy(target.stream, target.length, target.head_text, target.others)
            return _Transfer(deque(self._exchange(target, page)), then, whole=True)
        if now < self._beat and not self._hurries:
            return None
        batch, _ = take_batch(target.entries[page.length : target.length])
        fields: JsonObject = {"stream": target.stream, "base": page.length, "events": batch}
        if page.head_text != target.head_text:
            # A signature that is gone is named, so that the page drops it.
            fields["head"] = {"signature": None, **target.head}
        length = page.length + len(batch)
        then = _PageCopy(target.stream, length, target.head_text, page.others)
        if then.length == target.length:  # or there is more, which need not wait
            self._beat = now + BEAT_S
        return _Transfer(deque([self._numbering.message("append", **self._to, **fields)]), then)

    def _exchange(self, target: Snapshot, page: _PageCopy) -> list[JsonObject]:
        """Return what makes `target` of what `page` holds: without that, if it keeps that."""
        if not self.keeps or self._never_names or page.stream == target.stream:
            return self._switch(target.whole())
        there = set(map(id, page.others))
        kept = Kept.of(target.others, lambda x: id(x) in there or page.was_active(x))
        document = {**target.whole(), "others": kept.sent}
        if not kept.places or not is_short(document):
            return self._switch(target.whole())
        fields: JsonObject = {"doc": storable(document), "kept": kept.places}
        message = self._numbering.message("exchange", **self._to, **fields)
        self._exchanged = self._numbering.last
        return [message]

    def _switch(self, document: JsonObject) -> list[JsonObject]:
        message = self._numbering.message
        pieces = split(as_ascii(document))
        if len(pieces) == 1:
            return [message("switch", **self._to, doc=storable(document))]
        part_of = self._numbering.last + 1
        return [
            message("chunk", **self._to, id=part_of, i=i, of=len(pieces), text=piece)
            for i, piece in enumerate(pieces)
        ]

    @property
    def _to(self) -> JsonObject:
        return {"to": self.writer} if self.writer else {}
