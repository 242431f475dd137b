"""The part of a page's notebook in which it keeps the record, as the kernel knows it.

A page owns the metadata keys `jp` and `jp.N` (segments), and the *carriers*: states of widgets in
which a headless run has kept the record. The page names their present content with a *state*. A
write is applied only in the state that it expects, so the kernel may refer to the content by place,
without sending it again.

Source: `docs/protocol.md`, `docs/record.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from jp_nb.json_values import JsonObject, as_object, make_storable
from jp_nb.record.documents.carrier import (
    WIDGET_STATE,
    WIDGETS,
    find_readable_carriers,
    read_carrier,
)
from jp_nb.record.documents.record_shape import (
    CONVERSATION_KEYS,
    RECORD_KEY,
    as_other,
    find_shape,
    get_conversation_id,
    get_events,
    get_others,
)
from jp_nb.record.documents.segments import (
    Seals,
    has_segment_keys,
    is_segment,
    list_segment_keys,
    read_seals,
    read_segments,
)

ACTIVE: Final = -1
"""Place of the active conversation of a page, which is not among its `others`."""


@dataclass(frozen=True, slots=True)
class StoredKeys:
    """The keys and carriers of a page, without their entries.

    Attributes:
        length: Number of entries in the value of `jp`; None if nothing can be appended to it.
        seals: The places of the entries in segments.
        segments: The keys `jp.N`.
        carriers: The ids of the carriers that the next write moves into `jp`.
    """

    length: int | None = None
    seals: Seals = field(default_factory=dict)
    segments: frozenset[str] = frozenset()
    carriers: tuple[str, ...] = ()

    @classmethod
    def read(cls, keys: Mapping[str, JsonValue], carriers: JsonObject) -> StoredKeys:
        """Read what a page says."""
        segments = frozenset(filter(is_segment, keys))
        carrier_ids = tuple(find_readable_carriers(_as_metadata({}, carriers)))
        document = read_segments(keys) if RECORD_KEY in keys else None

        length = None
        events = as_object(keys.get(RECORD_KEY)).get("events")
        if find_shape(document) == "readable" and isinstance(events, list):
            length = len(events)

        return cls(length, read_seals(keys, document), segments, carrier_ids)

    @classmethod
    def of_written(cls, rest: JsonObject, seals: Seals) -> StoredKeys:
        """Return the keys after a write of all of them."""
        segments = frozenset(list_segment_keys(seals))
        return cls(len(get_events(rest)), seals, segments)

    @property
    def are_plain(self) -> bool:
        """True if the value of `jp` is the whole record."""
        return not self.segments and not self.carriers


def read_stored_record(keys: Mapping[str, JsonValue], carriers: JsonObject) -> JsonValue:
    """Return the record of a page, merged with its segments and carriers; None without one."""
    has_segments = any(map(is_segment, keys)) or has_segment_keys(keys)
    if not carriers and not has_segments:
        return keys.get(RECORD_KEY)  # a long record is not copied
    return read_carrier(_as_metadata(keys, carriers))


def _as_metadata(keys: Mapping[str, JsonValue], carriers: JsonObject) -> JsonObject:
    """Return keys and carriers of a page as the metadata of a notebook without anything else."""
    owned = {key: keys[key] for key in keys if key == RECORD_KEY or is_segment(key)}
    return {**owned, WIDGETS: {WIDGET_STATE: {"state": carriers}}}


def format_head(document: JsonObject) -> str:
    """Return the head of a document as JSON: all but its entries and other conversations.

    The text is the same for the same head.
    """
    head = {k: v for k, v in document.items() if k not in ("version", "events", "others")}
    head.setdefault("base_config", {})
    return json.dumps(make_storable(head), sort_keys=True)


@dataclass(slots=True)
class PageCopy:
    """The record that a page holds.

    Attributes:
        state: The page's name for the content.
        keys: The metadata keys with the content.
        stream: The id of the active conversation; "" without one.
        length: Number of its entries that are those of the kernel.
        head_text: `format_head` of the record; "" if it is unknown.
        held: Conversations of the kernel's document that the page holds unchanged, with their
            places in its `others`.
    """

    state: str
    keys: StoredKeys
    stream: str = ""
    length: int = 0
    head_text: str = ""
    held: list[tuple[JsonValue, int]] = field(default_factory=list)

    def split_conversations(
        self, others: Sequence[JsonValue]
    ) -> tuple[list[JsonValue], list[JsonValue]]:
        """Split `others` into those to send, and the places of those that the page copies.

        A place is `[position in others, place in the page]`, or `[position, -1, keys]` for the
        conversation that is active in the page, of which the page copies these keys.
        """
        sent: list[JsonValue] = []
        copies: list[JsonValue] = []
        places = self._find_places(others)

        for position, other in enumerate(others):
            place = places.get(id(other))
            if place is None:
                sent.append(other)
            elif place == ACTIVE:
                names = [key for key in CONVERSATION_KEYS if key in as_object(other)]
                copies.append([position, place, list(names)])
            else:
                copies.append([position, place])

        return sent, copies

    def _find_places(self, others: Iterable[JsonValue]) -> dict[int, int]:
        """Return the places in the page of those of `others` that it holds, by their `id()`."""
        if not self.keys.are_plain:
            return {}

        places = {id(other): place for other, place in self.held}
        for other in others:
            # The conversation that is active in the page may be inactive here.
            is_active_there = bool(self.stream) and get_conversation_id(other) == self.stream
            if not is_active_there or not isinstance(other, dict):
                continue
            is_same = len(get_events(other)) == self.length == self.keys.length
            if is_same and format_head(other) == self.head_text:
                places[id(other)] = ACTIVE

        return places


def find_held(others: Sequence[JsonValue], stored: JsonObject) -> list[tuple[JsonValue, int]]:
    """Return the conversations in `others` that a page holds in `stored`, with their places."""
    stored_by_place = {ACTIVE: as_other(stored), **dict(enumerate(get_others(stored)))}
    places: dict[str, int] = {}  # by the id of the conversation
    for place, entry in stored_by_place.items():
        places.setdefault(get_conversation_id(entry), place)

    held = []
    for other in others:
        place_of_id = places.get(get_conversation_id(other))
        if place_of_id is not None and stored_by_place[place_of_id] == other:
            held.append((other, place_of_id))

    return held
