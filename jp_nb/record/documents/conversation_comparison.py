"""Compare copies of conversations: find out if one has all entries of another.

A copy is plain JSON that anyone may have written. Entries are only appended, so an older copy is
the beginning of a newer one.

Source: `docs/record.md`, `docs/decisions.md` D18.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import chain

from pydantic import JsonValue

from jp_nb.json_values import JsonObject
from jp_nb.json_writing import canonical_json
from jp_nb.record.documents.record_shape import (
    get_conversation_id,
    get_conversations,
    get_events,
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
    """Return the conversations of `entries` that are not the beginning of one of `document`."""
    beginnings = set(chain.from_iterable(map(_iter_beginnings, get_conversations(document))))
    return [entry for entry in entries if _digest_conversation(entry) not in beginnings]


def _digest_conversation(entry: JsonValue) -> bytes:
    *_, whole = _iter_beginnings(entry)
    return whole


def _iter_beginnings(entry: JsonValue) -> Iterator[bytes]:
    """Yield a digest of each beginning of the conversation `entry`, the whole conversation last.

    A beginning is the id with the first entries. Two conversations with a common digest have the
    same beginning. An untrusted notebook may have many conversations with one id, so they are not
    compared in pairs.
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
