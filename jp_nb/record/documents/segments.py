"""Segments: earlier entries of a record that a shared document keeps apart from the latest ones.

A document that several pages share keeps its history, so a long value that is written with each
entry would make it grow fast. There, earlier entries are moved to keys of their own, and only the
rest is written again. This module reads the segments, and `record_splitting.py` makes them.

    {"jp":   {"version": 2, "sealed": [{"segment": 1, "length": 3, "check": "5f2a9c01"}],
              "conversation": {…}, "events": [the entries after the segments], …},
     "jp.1": {"conversation": "jp-c1", "from": 0, "events": [3 entries]}}

An item of `sealed` is a *seal*: it names a segment, and has the number and a checksum of its
entries.

Source: `docs/record.md`, `docs/decisions.md` D132 and D133.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, Final
from zlib import crc32

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject, as_object
from jp_nb.json_writing import canonical_json
from jp_nb.record.documents.record_shape import (
    RECORD_KEY,
    RECORD_VERSION,
    find_shape,
    get_conversation_id,
    get_events,
    get_others,
    has_segments,
)

_SEGMENT_KEY: Final = re.compile(r"jp\.[1-9][0-9]{0,6}")

Seals = Mapping[str, Sequence[JsonObject]]
"""The seals of each conversation, by its id."""


def is_segment(key: str) -> bool:
    """Return True if `key` of a notebook's metadata is that of a segment."""
    return _SEGMENT_KEY.fullmatch(key) is not None


def refers_to_segments(metadata: Mapping[str, Any]) -> bool:
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
    # The version of a record with segments is `SEGMENTED_VERSION`, but the joined one has none.
    active = {key: item for key, item in as_object(stored).items() if key != "others"}
    found = as_object(_join_segments(active | {"version": RECORD_VERSION}, segments))
    others = [_join_segments(other, segments) for other in get_others(stored)]

    # Segments that no seal names are dropped. But in a damaged record, one of them may be the
    # missing one, so all are kept.
    if "broken" in found:
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
    """Return True if `segment` has the entries of `entry` from `start` on that `seal` describes.

    Each may also have other members, of a later release.
    """
    events = get_events(segment)
    expected = {"length": len(events), "check": compute_checksum(events)}
    contents: JsonObject = {
        "conversation": get_conversation_id(entry),
        "from": start,
        "events": events,
    }
    # Each has the expected members if putting them into it changes nothing.
    has_contents = {**as_object(segment), **contents} == segment
    has_seal = {**as_object(seal), **expected} == seal
    return has_contents and has_seal


def copy_plain_record(value: Any) -> JsonValue:
    """Return a copy of a JSON value with plain dicts instead of nbformat's subclass."""
    if isinstance(value, Mapping):
        return {str(key): copy_plain_record(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copy_plain_record(item) for item in value]
    return value  # type: ignore[no-any-return]


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
