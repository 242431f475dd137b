"""Segments: earlier entries of a record that a shared document keeps apart from the latest ones.

A document that several pages share keeps its history, so a long value that is written with each
entry would make it grow fast. There, earlier entries are moved to keys of their own, and only the
rest is written again. `split_record` makes the segments, and `read_segments` joins them.

    {"jp":   {"version": 2, "sealed": [{"segment": 1, "length": 3, "check": "5f2a9c01"}],
              "conversation": {…}, "events": [the entries after the segments], …},
     "jp.1": {"conversation": "jp-c1", "from": 0, "events": [3 entries]}}

An item of `sealed` is a *seal*: it names a segment, and has the number and a checksum of its
entries.

Source: `docs/record.md`, `docs/decisions.md` D132 and D133.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final
from zlib import crc32

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject, as_object, canonical_json, compact_json
from jp_nb.record.documents.document import (
    RECORD_KEY,
    RECORD_VERSION,
    SEGMENTED_VERSION,
    find_shape,
    get_conversation_id,
    get_events,
    get_others,
    has_segments,
)

_SEGMENT_KEY: Final = re.compile(r"jp\.[1-9][0-9]{0,6}")

SEGMENT_CHARS: Final = 16 * 1024
"""The size of a full segment."""

Seals = Mapping[str, Sequence[JsonObject]]
"""The seals of each conversation, by its id."""


def is_segment(key: str) -> bool:
    """Return True if `key` of a notebook's metadata is that of a segment."""
    return _SEGMENT_KEY.fullmatch(key) is not None


def has_segment_keys(metadata: Mapping[str, Any]) -> bool:
    """Return True if the record in `metadata` has entries in segments."""
    return has_segments(metadata.get(RECORD_KEY))


def read_segments(metadata: Mapping[str, Any]) -> JsonValue:
    """Return the record stored under `jp`, with the entries of its segments.

    A conversation with a missing or changed segment becomes `{"segments": {key: value}, "broken":
    number}`. Readers report it as damaged.
    """
    stored = copy_plain_record(metadata[RECORD_KEY])
    if not has_segments(stored):
        return stored

    segments = {
        str(key): copy_plain_record(metadata[key]) for key in metadata if is_segment(str(key))
    }
    active = {key: item for key, item in as_object(stored).items() if key != "others"}
    found = as_object(_join_segments(active | {"version": RECORD_VERSION}, segments))
    others = [_join_segments(other, segments) for other in get_others(stored)]

    if "broken" in found:  # an unreferenced segment may be the missing one
        found["segments"] = as_object(found["segments"]) | segments

    return found | {"others": others} if others else found


def store_segments(metadata: MutableMapping[str, Any], document: JsonValue) -> None:
    """Store `document` as a whole under `jp`, and remove all segments."""
    metadata[RECORD_KEY] = document
    for key in [key for key in metadata if is_segment(str(key))]:
        del metadata[key]


def compute_checksum(events: list[JsonValue]) -> str:
    """Return a checksum of the entries of a segment, or "" if they are nested too deeply.

    It detects mistakes. Only the signature of a record detects forgery.
    """
    try:
        return f"{crc32(canonical_json(events).encode('ascii')):08x}"
    except StorageError:
        return ""


def _join_segments(entry: JsonValue, segments: dict[str, JsonValue]) -> JsonValue:
    """Return a conversation with all of its entries, or its parts if one is missing.

    Segments are removed from `segments`: each belongs to one conversation, which bounds the work.
    """
    if not isinstance(entry, dict) or "sealed" not in entry:
        return entry

    sealed = entry["sealed"]
    events = list[JsonValue]()
    broken_number = None  # of the first segment that is missing or was changed
    taken: dict[str, JsonValue] = {}

    for seal in sealed if isinstance(sealed, list) else [None]:
        number = as_object(seal).get("segment")
        key = f"{RECORD_KEY}.{number}"
        if key in segments:
            taken[key] = segments.pop(key)

        fits = _is_segment_of(seal, taken.get(key), entry, len(events))
        if broken_number is None and not fits:
            broken_number = number if isinstance(number, int) else 0
        events += get_events(taken.get(key))

    if broken_number is not None:
        return {"segments": {RECORD_KEY: entry, **taken}, "broken": broken_number}

    rest = {key: item for key, item in entry.items() if key != "sealed"}
    return rest | {"events": events + get_events(entry)}


def _is_segment_of(seal: JsonValue, segment: JsonValue, entry: JsonObject, start: int) -> bool:
    """Return True if `segment` has the entries of `entry` from `start` on that `seal` describes."""
    events = get_events(segment)
    expected = {"length": len(events), "check": compute_checksum(events)}
    contents: JsonObject = {
        "conversation": get_conversation_id(entry),
        "from": start,
        "events": events,
    }
    is_complete = {**as_object(segment), **contents} == segment
    return is_complete and {**as_object(seal), **expected} == seal


def copy_plain_record(value: Any) -> JsonValue:
    """Return a copy of a JSON value with plain dicts instead of nbformat's subclass."""
    if isinstance(value, Mapping):
        return {str(key): copy_plain_record(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copy_plain_record(item) for item in value]
    return value  # type: ignore[no-any-return]


# --- writing -------------------------------------------------------------------------------------


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


def read_seals(metadata: Mapping[str, Any], document: JsonValue) -> Seals:
    """Return the seals in `metadata`, whose record with all entries is `document`."""
    stored = metadata.get(RECORD_KEY)
    if not has_segments(stored) or find_shape(document) != "readable":
        return {}

    entries = [stored, *get_others(stored)]
    read = [document, *get_others(document)]
    found: dict[str, Sequence[JsonObject]] = {}

    for entry, whole in zip(entries, read, strict=True):
        identifier = get_conversation_id(entry)
        seals = as_object(entry).get("sealed")
        if not isinstance(seals, list) or not seals or identifier in found:
            continue
        if find_shape(whole) == "readable":  # then all seals fit
            found[identifier] = [as_object(seal) for seal in seals]

    return found


def count_sealed(seals: Seals, conversation: str) -> int:
    """Return the number of entries of `conversation` that are in segments."""
    return sum(int(str(seal["length"])) for seal in seals.get(conversation, ()))


def list_segment_keys(seals: Seals) -> set[str]:
    """Return the keys of the segments that `seals` names."""
    return {f"{RECORD_KEY}.{seal['segment']}" for found in seals.values() for seal in found}


def split_record(
    document: JsonObject, *, known: Seals, taken: Collection[str], is_appended: bool
) -> SegmentedRecord:
    """Split `document` into segments and the rest.

    Args:
        document: The record with all entries.
        known: The seals of the segments that were written before. They are not written again.
        taken: Keys of the metadata. Another program may have one that looks like a segment's.
        is_appended: True if entries were only appended since then. Otherwise, the known segments
            are compared with the entries.
    """
    splitting = _Splitting(known, is_appended, _iter_free_numbers(taken))
    active = splitting.split(document, is_active=True)
    others = [
        splitting.split(as_object(entry)) if find_shape(entry) == "readable" else entry
        for entry in get_others(document)
    ]

    if not splitting.seals:
        return SegmentedRecord(document, {}, {})

    rest = {"sealed": [], **active, "version": SEGMENTED_VERSION}
    if others:
        rest["others"] = others

    return SegmentedRecord(rest, splitting.added, splitting.seals)


def _iter_free_numbers(taken: Collection[str]) -> Iterator[int]:
    # From the lowest: a segment of another program may have the highest possible number.
    return (number for number in count(1) if f"{RECORD_KEY}.{number}" not in taken)


@dataclass(slots=True)
class _Splitting:
    """The segments that `split_record` has made so far."""

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
        start = sum(int(str(seal["length"])) for seal in seals)

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
            end = start + int(str(seal["length"]))
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


def count_chars(events: Sequence[JsonValue]) -> int:
    """Return the size of `events` as the size of a segment is counted."""
    return sum(len(compact_json(event)) for event in events)


def _cut_into_parts(events: list[JsonValue], *, is_active: bool) -> Iterator[list[JsonValue]]:
    """Yield the entries of each new segment."""
    part: list[JsonValue] = []
    size = 0

    for event in events:
        part.append(event)
        size += count_chars([event])
        if size >= SEGMENT_CHARS:
            yield part
            part = []
            size = 0

    if part and not is_active:
        yield part
