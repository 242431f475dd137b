"""Merge copies of a record: the one in the notebook, and the carrier of a headless run.

A *carrier* is the copy that a headless run leaves in the state of a widget, because it cannot write
the notebook's metadata. A copy is plain JSON that anyone may have written, so its shape is checked.
`carrier.py` reads and moves the carrier, and `segments.py` the segments of a shared document.

Source: `docs/record.md`, `docs/decisions.md` D18 and D33.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from jp_nb.json_values import JsonObject
from jp_nb.record.documents.conversation_comparison import contains_conversation, find_uncovered
from jp_nb.record.documents.record_shape import (
    DOCUMENT_KEYS,
    as_other,
    find_shape,
    get_conversation_id,
    get_conversations,
    get_events,
    get_others,
    is_headless_conversation,
)


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
            # The kernel of the run may have kept the damaged record among the others already.
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
        is_longer = len(get_events(stored)) > len(get_events(carried))
        return (
            is_longer
            and not is_headless_conversation(stored)
            and contains_conversation(stored, carried)
        )

    if _has_seen(seen, stored):
        return False

    # A page has made another conversation active, and the carried one is among the others.
    return any(contains_conversation(other, as_other(carried)) for other in get_others(stored))


def _has_seen(seen: Mapping[str, JsonValue], entry: JsonValue) -> bool:
    """Return True if the kernel of the run had read all entries of the conversation `entry`."""
    length = seen.get(get_conversation_id(entry))
    return isinstance(length, int) and length >= len(get_events(entry))


def _add_others(document: JsonObject, added: list[JsonValue]) -> JsonObject:
    return {**document, "others": get_others(document) + added} if added else document
