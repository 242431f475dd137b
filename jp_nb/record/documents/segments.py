"""Segments: earlier entries of a record that a shared document keeps apart from the latest ones.

A document that several pages share keeps its history, so a long value that is written with each
entry would make it grow fast. There the page moves earlier entries to keys of their own, and writes
only the rest again. Only the lab extension writes segments.

Source: `docs/record.md`, `docs/decisions.md` D132 and D133.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from typing import Any, Final
from zlib import crc32

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject, as_object, canonical_json
from jp_nb.record.documents.document import (
    RECORD_KEY,
    RECORD_VERSION,
    get_conversation_id,
    get_events,
    get_others,
    has_segments,
)

_SEGMENT_KEY: Final = re.compile(r"jp\.[1-9][0-9]{0,6}")


def is_segment(key: str) -> bool:
    """Return True if `key` of a notebook's metadata is that of a segment."""
    return _SEGMENT_KEY.fullmatch(key) is not None


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
    broken = None
    taken: dict[str, JsonValue] = {}

    for seal in sealed if isinstance(sealed, list) else [None]:
        number = as_object(seal).get("segment")
        name = f"{RECORD_KEY}.{number}"
        if name in segments:
            taken[name] = segments.pop(name)

        if broken is None and not _is_segment_of(seal, taken.get(name), entry, len(events)):
            broken = number if isinstance(number, int) else 0
        events += get_events(taken.get(name))

    if broken is not None:
        return {"segments": {RECORD_KEY: entry, **taken}, "broken": broken}

    rest = {key: item for key, item in entry.items() if key != "sealed"}
    return rest | {"events": events + get_events(entry)}


def _is_segment_of(seal: JsonValue, segment: JsonValue, entry: JsonObject, start: int) -> bool:
    events = get_events(segment)
    expected = {"length": len(events), "check": compute_checksum(events)}
    held: JsonObject = {"conversation": get_conversation_id(entry), "from": start, "events": events}
    return {**as_object(segment), **held} == segment and {**as_object(seal), **expected} == seal


def copy_plain_record(value: Any) -> JsonValue:
    """Return a copy of a JSON value with plain dicts instead of nbformat's subclass."""
    if isinstance(value, Mapping):
        return {str(key): copy_plain_record(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copy_plain_record(item) for item in value]
    return value  # type: ignore[no-any-return]
