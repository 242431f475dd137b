"""Put a record together that a shared document keeps in segments.

A document that several pages share keeps every change that was ever made, so that one long value
that is written with each entry would make it long very soon. There the page seals what was
written into keys of their own, and writes only the rest anew:

    metadata["jp"]   = {the `jp` object with "version": 2, and in each conversation
                        "sealed": [{"segment": 1, "length": entries, "check": "9f86d081"}, …],
                        the entries before those in its "events"}
    metadata["jp.1"] = {"conversation": its id, "from": entries before, "events": [{…}, …]}

The lab extension has the same rules, and is the only one that writes segments.

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
from jp_nb.record.jp_object import (
    KEY,
    VERSION,
    conversation_id,
    events_of,
    is_sealed,
    others_of,
)

_NAME: Final = re.compile(r"jp\.[1-9][0-9]{0,6}")


def is_segment(key: str) -> bool:
    """Return whether `key` of a notebook's metadata is that of a segment."""
    return _NAME.fullmatch(key) is not None


def read(metadata: Mapping[str, Any]) -> JsonValue:
    """Return what the notebook stores under `jp`, with the entries of its segments.

    A conversation of which a segment is missing, or was changed, has another shape: all that there
    is of it, as `{"segments": {key: value}, "broken": number}`. Readers report it as damage.
    """
    stored = plain(metadata[KEY])
    if not is_sealed(stored):
        return stored
    segments = {str(key): plain(metadata[key]) for key in metadata if is_segment(str(key))}
    active = {key: item for key, item in as_object(stored).items() if key != "others"}
    found = as_object(_whole(active | {"version": VERSION}, segments))
    others = [_whole(other, segments) for other in others_of(stored)]
    if "broken" in found:  # what nothing names may be what is missing
        found["segments"] = as_object(found["segments"]) | segments
    return found | {"others": others} if others else found


def store(metadata: MutableMapping[str, Any], document: JsonValue) -> None:
    """Keep `document` in one piece under `jp`; segments are left nowhere."""
    metadata[KEY] = document
    for key in [key for key in metadata if is_segment(str(key))]:
        del metadata[key]


def check_of(events: list[JsonValue]) -> str:
    """Return what tells the entries of a segment from others; "" if they are nested too deeply.

    It finds mistakes. Whose the record is, and that nobody changed it, says its signature.
    """
    try:
        return f"{crc32(canonical_json(events).encode('ascii')):08x}"
    except StorageError:
        return ""


def _whole(entry: JsonValue, segments: dict[str, JsonValue]) -> JsonValue:
    """Return a conversation with all of its entries, or what there is if that is not whole.

    Takes its segments from `segments`: each is of one conversation, and work within their size.
    """
    if not isinstance(entry, dict) or "sealed" not in entry:
        return entry
    sealed, events, broken = entry["sealed"], list[JsonValue](), None
    taken: dict[str, JsonValue] = {}
    for seal in sealed if isinstance(sealed, list) else [None]:
        number = as_object(seal).get("segment")
        name = f"{KEY}.{number}"
        if name in segments:
            taken[name] = segments.pop(name)
        if broken is None and not _fits(seal, taken.get(name), entry, len(events)):
            broken = number if isinstance(number, int) else 0
        events += events_of(taken.get(name))
    if broken is not None:
        return {"segments": {KEY: entry, **taken}, "broken": broken}
    rest = {key: item for key, item in entry.items() if key != "sealed"}
    return rest | {"events": events + events_of(entry)}


def _fits(seal: JsonValue, segment: JsonValue, entry: JsonObject, start: int) -> bool:
    """Return whether `segment` is what was sealed, of `entry`, behind `start` entries."""
    events = events_of(segment)
    said = {"length": len(events), "check": check_of(events)}
    held: JsonObject = {"conversation": conversation_id(entry), "from": start, "events": events}
    return {**as_object(segment), **held} == segment and {**as_object(seal), **said} == seal


def plain(value: Any) -> JsonValue:
    """Return JSON without nbformat's dict subclass, whose attributes are its keys."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value  # type: ignore[no-any-return]
