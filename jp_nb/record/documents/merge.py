"""Merge copies of a record: the one in the notebook, the carrier of a headless run, and segments.

A copy is plain JSON that anyone may have written, so its shape is checked. The lab extension has
the same rules in JavaScript, and the cases in `tests/record/merge_cases.json` hold for both.

**Carrier.** Headless executors answer no comm, but nbclient (also in nbconvert, papermill and
`jupyter execute`) stores the state of every widget in the metadata of the notebook. So the kernel
opens one, and the next reader of the notebook moves the record from there into `metadata.jp`:
`read_carrier` reads, `lift_carrier` moves.

**Segments.** A document that several pages share keeps its history, so a long value that is
written with each entry would make it grow fast. There the page moves earlier entries to keys of
their own, and writes only the rest again. Only the lab extension writes segments.

Source: `docs/record.md`, `docs/decisions.md` D18 and D33, `docs/decisions.md` D132 and D133.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from hashlib import sha256
from itertools import chain, count
from typing import Any, Final
from zlib import crc32

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject, as_object, canonical_json
from jp_nb.record.documents.document import (
    DOCUMENT_KEYS,
    RECORD_KEY,
    RECORD_VERSION,
    as_other,
    find_shape,
    get_conversation_id,
    get_conversations,
    get_events,
    get_others,
    has_segments,
    is_headless_conversation,
)


def starts_with(events: Sequence[JsonValue], beginning: Sequence[JsonValue]) -> bool:
    """Return True if `events` begins with the same entries as `beginning`.

    Only the type, timestamp, and id of entries are compared. Pages change details of other values
    (2**53 + 1 becomes 2**53), and the content of an entry never changes otherwise.
    """
    return len(events) >= len(beginning) and all(
        _make_identity(a) == _make_identity(b) for a, b in zip(events, beginning, strict=False)
    )


def _make_identity(event: JsonValue) -> list[JsonValue]:
    if not isinstance(event, dict):
        return []
    return [event.get(key) for key in ("type", "timestamp", "id")]


def contains_conversation(entry: JsonValue, other: JsonValue) -> bool:
    """Return True if `entry` is the same conversation as `other` and has all of its entries."""
    identifier = get_conversation_id(other)
    if not identifier:
        return entry == other
    return get_conversation_id(entry) == identifier and starts_with(
        get_events(entry), get_events(other)
    )


def find_uncovered(document: JsonObject, entries: Iterable[JsonValue]) -> list[JsonValue]:
    """Return the conversations of `entries` that no conversation of `document` covers."""
    known = set(chain.from_iterable(map(_iter_beginnings, get_conversations(document))))
    return [entry for entry in entries if deque(_iter_beginnings(entry), 1).pop() not in known]


def _iter_beginnings(entry: JsonValue) -> Iterator[bytes]:
    """Yield a digest of each beginning of the conversation `entry`, the whole conversation last.

    Two conversations with a common digest have the same beginning. An untrusted notebook may have
    many conversations with one id, so they are not compared in pairs.
    """
    identifier = get_conversation_id(entry)
    if not identifier:
        yield _compute_digest(entry)
        return

    so_far = _compute_digest(identifier)
    yield so_far

    for event in get_events(entry):
        so_far = sha256(so_far + _compute_digest(_make_identity(event))).digest()
        yield so_far


def _compute_digest(value: JsonValue) -> bytes:
    return sha256(canonical_json(value).encode("ascii")).digest()


def merge_records(
    stored: JsonValue, carried: JsonObject, seen: Mapping[str, JsonValue] | None = None
) -> JsonValue:
    """Merge the stored record of a notebook (None: nothing) and a readable copy from its carrier.

    `seen` has the number of entries of each conversation that the kernel of the run read when it
    started. The copy replaces these conversations and those of earlier headless runs. All others
    are kept. `stored` is returned unchanged if a newer release wrote it, or if it has grown since
    the copy was moved into it.
    """
    if stored is None:
        return carried

    match find_shape(stored):
        case "newer":
            return stored
        case "damaged":
            lost: list[JsonValue] = [] if stored in get_others(carried) else [stored]
            return _add_others(carried, lost)

    assert isinstance(stored, dict)
    seen_counts = seen or {}

    if _is_stale(carried, stored, seen_counts):
        return stored

    kept = [
        entry
        for entry in find_uncovered(carried, get_conversations(stored))
        if not is_headless_conversation(entry) and not _has_seen(seen_counts, entry)
    ]

    # A later release may add keys without a new version.
    unknown_keys = {key: item for key, item in stored.items() if key not in DOCUMENT_KEYS}

    return _add_others(unknown_keys | carried, kept)


def _is_stale(carried: JsonObject, stored: JsonObject, seen: Mapping[str, JsonValue]) -> bool:
    """Return True if `stored` has grown after `carried` was moved into it.

    This happens if a page adds entries and the file is opened again. In contrast, a later headless
    run may have the id and the entries of an earlier one (D119). Its carrier is not stale if the
    run had read `stored`, or if an earlier run made `stored`.
    """
    if get_conversation_id(carried) == get_conversation_id(stored):
        longer = len(get_events(stored)) > len(get_events(carried))
        return (
            longer
            and not is_headless_conversation(stored)
            and contains_conversation(stored, carried)
        )

    if _has_seen(seen, stored):
        return False

    return any(contains_conversation(other, as_other(carried)) for other in get_others(stored))


def _has_seen(seen: Mapping[str, JsonValue], entry: JsonValue) -> bool:
    length = seen.get(get_conversation_id(entry))
    return isinstance(length, int) and length >= len(get_events(entry))


def _add_others(document: JsonObject, added: list[JsonValue]) -> JsonObject:
    return {**document, "others": get_others(document) + added} if added else document


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


CARRIER_MODULE = "jp-nb"
CARRIER_MODEL = "RecordModel"
WIDGETS = "widgets"
WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
DAMAGED = "the copy of the record from a headless run is damaged"


def read_carrier(metadata: Mapping[str, Any]) -> JsonValue:
    """Return the notebook's record merged with its carriers, or None if there is neither.

    A record of a newer version is returned unchanged. A damaged record is returned unchanged if
    there is no carrier, and is added to `others` of the carrier's record otherwise. `Document.load`
    reports both.
    """
    merged = read_segments(metadata) if RECORD_KEY in metadata else None
    for _, state in _iter_carriers(metadata):
        if (document := _read_document(state)) is not None:
            seen = state.get("seen")
            seen_counts = seen if isinstance(seen, dict) else None
            merged = merge_records(merged, document, seen_counts)
    return merged


def find_unreadable_carriers(metadata: Mapping[str, Any]) -> list[JsonValue]:
    """Return the states of damaged carriers, which `lift_carrier` does not move."""
    return [state for _, state in _iter_carriers(metadata) if _read_document(state) is None]


def lift_carrier(metadata: MutableMapping[str, Any]) -> bool:
    """Move the record from the carriers to `metadata["jp"]`. Return True if there were any.

    Other widgets and damaged carriers are kept. If `metadata["jp"]` is from a newer release, all
    carriers are kept.
    """
    if RECORD_KEY in metadata and find_shape(read_segments(metadata)) == "newer":
        return False

    found = [key for key, state in _iter_carriers(metadata) if _read_document(state) is not None]
    if not found:
        return False

    store_segments(metadata, read_carrier(metadata))
    states = metadata[WIDGETS][WIDGET_STATE]["state"]
    for key in found:
        del states[key]

    if not states:
        del metadata[WIDGETS][WIDGET_STATE]
        if not metadata[WIDGETS]:
            del metadata[WIDGETS]

    return True


def _iter_carriers(metadata: Mapping[str, Any]) -> Iterator[tuple[str, JsonObject]]:
    value: Any = metadata
    for key in (WIDGETS, WIDGET_STATE, "state"):
        value = value.get(key) if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping):
        return

    for key, model in value.items():
        if isinstance(model, Mapping) and model.get("model_module") == CARRIER_MODULE:
            state = copy_plain_record(model.get("state"))
            if not isinstance(state, dict):
                state = {"state": state}
            yield str(key), state


def _read_document(state: JsonObject) -> JsonObject | None:
    head = state.get("jp")
    if not isinstance(head, dict):
        return None

    events: list[JsonValue] = []
    for number in count():
        name = f"events.{number}"
        if name not in state:
            break
        chunk = state[name]
        if not isinstance(chunk, list):
            return None
        events += chunk

    if sum(key.startswith("events.") for key in state) > number:
        return None  # a chunk is missing
    if state.get("length", len(events)) != len(events):
        return None  # the end of a chunk is missing

    document: JsonObject = {**head, "events": events}
    return document if find_shape(document) == "readable" else None
