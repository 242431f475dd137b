"""Split a record into segments and the rest, as a shared document stores it.

The form of the segments is that of `segments.py`. A segment is written once and never changes. Its
*seal* is in the record: the number of the segment, the number of its entries, and a checksum of
them. `Seals` maps the id of each conversation to the seals of its segments.

Source: `docs/record.md`, `docs/decisions.md` D132 and D133.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from pydantic import JsonValue

from jp_nb.json_values import JsonObject, as_object
from jp_nb.json_writing import compact_json
from jp_nb.record.documents.record_shape import (
    RECORD_KEY,
    SEGMENTED_VERSION,
    find_shape,
    get_conversation_id,
    get_events,
    get_others,
)
from jp_nb.record.documents.segments import Seals, compute_checksum

SEGMENT_CHARS: Final = 16 * 1024
"""The size of a full segment."""


@dataclass(frozen=True, slots=True)
class SegmentedRecord:
    """A record as a shared document stores it.

    Attributes:
        rest: The value of `jp`.
        added: New segments, by key.
        seals: The seals of all segments, the new ones included.
    """

    rest: JsonObject
    added: JsonObject
    seals: Seals


def split_record(
    document: JsonObject, *, known: Seals, taken: Collection[str], is_appended: bool
) -> SegmentedRecord:
    """Split `document` into segments and the rest.

    Args:
        document: The record with all entries.
        known: The seals of the segments that were written before. They are not written again.
        taken: Keys of the metadata. Another program may have one that looks like a segment's.
        is_appended: True if entries were only appended since those segments were written. They then
            hold the first entries. Otherwise, their checksums are compared.
    """
    splitter = _Splitter(known, is_appended, _iter_free_numbers(taken))
    active = splitter.split(document, is_active=True)

    others: list[JsonValue] = []
    for entry in get_others(document):
        if find_shape(entry) == "readable":
            others.append(splitter.split(as_object(entry)))
        else:  # a damaged conversation, or one of a newer version, is kept as it is
            others.append(entry)

    if not splitter.seals:
        return SegmentedRecord(document, {}, {})

    # Only inactive conversations may have segments. `jp` of a segmented record always has seals.
    rest = {"sealed": [], **active, "version": SEGMENTED_VERSION}
    if others:
        rest["others"] = others

    return SegmentedRecord(rest, splitter.added, splitter.seals)


def _iter_free_numbers(taken: Collection[str]) -> Iterator[int]:
    """Yield the numbers of keys that are not `taken`.

    They begin with 1, because a segment of another program may have the highest possible number.
    """
    return (number for number in count(1) if f"{RECORD_KEY}.{number}" not in taken)


@dataclass(slots=True)
class _Splitter:
    """Splits the conversations of one record.

    Attributes:
        known, is_appended: As in `split_record`.
        numbers: The numbers for new segments.
        added: The new segments so far, by key.
        seals: The seals of all segments so far, by the conversation's id.
    """

    known: Seals
    is_appended: bool
    numbers: Iterator[int]
    added: JsonObject = field(default_factory=dict)
    seals: dict[str, Sequence[JsonObject]] = field(default_factory=dict)

    def split(self, entry: JsonObject, *, is_active: bool = False) -> JsonObject:
        """Return a conversation without the entries in segments.

        Only the active one keeps entries for which a segment is not full.
        """
        identifier = get_conversation_id(entry)
        if identifier in self.seals:
            return entry  # damage: a second conversation with this id

        events = get_events(entry)
        seals = self._find_present(identifier, events)
        start = sum(map(_get_length, seals))

        for part in _cut_into_parts(events[start:], is_active=is_active):
            seals.append(self._add_segment(identifier, start, part))
            start += len(part)

        if not seals:
            return entry

        self.seals[identifier] = seals
        sealed: list[JsonValue] = list(seals)
        return {**entry, "sealed": sealed, "events": events[start:]}

    def _find_present(self, identifier: str, events: list[JsonValue]) -> list[JsonObject]:
        """Return the first seals of the conversation whose segments hold the first `events`."""
        found: list[JsonObject] = []
        start = 0

        for seal in self.known.get(identifier, ()):
            end = start + _get_length(seal)
            if end > len(events):
                break
            if not self.is_appended and compute_checksum(events[start:end]) != seal["check"]:
                break
            found.append(seal)
            start = end

        return found

    def _add_segment(self, identifier: str, start: int, part: list[JsonValue]) -> JsonObject:
        """Add a segment with the entries `part`, and return its seal."""
        number = next(self.numbers)
        segment: JsonObject = {"conversation": identifier, "from": start, "events": part}
        self.added[f"{RECORD_KEY}.{number}"] = segment
        return {"segment": number, "length": len(part), "check": compute_checksum(part)}


def _get_length(seal: JsonObject) -> int:
    """Return the number of entries in the segment of `seal`."""
    return int(str(seal["length"]))


def count_record_chars(events: Sequence[JsonValue]) -> int:
    """Return the size of `events` as the size of a segment is counted."""
    return sum(len(compact_json(event)) for event in events)


def _cut_into_parts(events: list[JsonValue], *, is_active: bool) -> Iterator[list[JsonValue]]:
    """Yield the entries of each new segment."""
    part: list[JsonValue] = []
    size = 0

    for event in events:
        part.append(event)
        size += count_record_chars([event])
        if size >= SEGMENT_CHARS:
            yield part
            part = []
            size = 0

    if part and not is_active:
        yield part
