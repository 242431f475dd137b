"""Two copies of a notebook's `jp` object become one, and nothing gets lost. Pure.

A copy is plain JSON that anybody may have written, so nothing here trusts its shape. The lab
extension has the same rules in JavaScript; the cases in `tests/record/merge_cases.json`
hold for both.

Source: `docs/record.md`, `docs/decisions.md` D18 and D33.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

from pydantic import JsonValue

from jp_nb.json_values import JsonObject, canonical_json
from jp_nb.record.jp_object import (
    OF_THE_OBJECT,
    all_conversations,
    conversation_id,
    events_of,
    made_headless,
    others_of,
    shape_of,
    shelved,
)


def starts_with(events: Sequence[JsonValue], beginning: Sequence[JsonValue]) -> bool:
    """Return True if `events` begins with the same entries as `beginning`.

    Entries are told apart by kind, time and id: a page changes the rest of what it stores in
    small ways (2**53 + 1 becomes 2**53), and their content never changes otherwise.
    """
    return len(events) >= len(beginning) and all(
        _identity(a) == _identity(b) for a, b in zip(events, beginning, strict=False)
    )


def _identity(event: JsonValue) -> list[JsonValue]:
    if not isinstance(event, dict):
        return []
    return [event.get(key) for key in ("type", "timestamp", "id")]


def covers(entry: JsonValue, other: JsonValue) -> bool:
    """Return True if `entry` is the same conversation as `other` and holds all of its entries."""
    identifier = conversation_id(other)
    if not identifier:
        return entry == other
    return conversation_id(entry) == identifier and starts_with(events_of(entry), events_of(other))


def unknown_to(document: JsonObject, entries: Iterable[JsonValue]) -> list[JsonValue]:
    """Return those of `entries` that no conversation of `document` covers."""
    known = {mark for entry in all_conversations(document) for mark in _beginnings(entry)}
    return [entry for entry in entries if deque(_beginnings(entry), 1).pop() not in known]


def _beginnings(entry: JsonValue) -> Iterator[bytes]:
    """Yield a digest of each beginning of `entry`, the whole of it last: see `covers`.

    Two entries that have one of these in common begin the same way up to there. Anybody may have
    written many conversations of one id, so they are not compared with each other.
    """
    identifier = conversation_id(entry)
    if not identifier:
        yield _digest(entry)
        return
    so_far = _digest(identifier)
    yield so_far
    for event in events_of(entry):
        so_far = sha256(so_far + _digest(_identity(event))).digest()
        yield so_far


def _digest(value: JsonValue) -> bytes:
    return sha256(canonical_json(value).encode("ascii")).digest()


def merge(
    stored: JsonValue, carried: JsonObject, seen: Mapping[str, JsonValue] | None = None
) -> JsonValue:
    """Bring what a notebook stores (None: nothing) and a readable copy from its carrier together.

    `seen` says what the kernel had read of the notebook when it began: number of entries by
    conversation. What it had read it has dealt with, what it had not read is kept.
    """
    if stored is None:
        return carried
    match shape_of(stored):
        case "newer":
            return stored
        case "damaged":
            return _with_others(carried, [] if stored in others_of(carried) else [stored])
    assert isinstance(stored, dict)
    dealt_with = seen or {}
    if _is_stale(carried, stored, dealt_with):
        return stored
    kept = [
        entry
        for entry in unknown_to(carried, all_conversations(stored))
        if not made_headless(entry) and not _has_seen(dealt_with, entry)
    ]
    # A later release of this version may have put them there.
    unknown_keys = {key: item for key, item in stored.items() if key not in OF_THE_OBJECT}
    return _with_others(unknown_keys | carried, kept)


def _is_stale(carried: JsonObject, stored: JsonObject, seen: Mapping[str, JsonValue]) -> bool:
    """Return True if `stored` went on after `carried` had been lifted into it.

    That is: a page went on, and then the file was opened again. A run may have the id and the
    entries of an earlier run (D119): where it had read what `stored` says, it is the newer one,
    and so it is where both are of runs, which replace what runs left.
    """
    if conversation_id(carried) == conversation_id(stored):
        longer = len(events_of(stored)) > len(events_of(carried))
        return longer and not made_headless(stored) and covers(stored, carried)
    if _has_seen(seen, stored):
        return False
    return any(covers(other, shelved(carried)) for other in others_of(stored))


def _has_seen(seen: Mapping[str, JsonValue], entry: JsonValue) -> bool:
    length = seen.get(conversation_id(entry))
    return isinstance(length, int) and length >= len(events_of(entry))


def _with_others(document: JsonObject, added: list[JsonValue]) -> JsonObject:
    return {**document, "others": others_of(document) + added} if added else document
