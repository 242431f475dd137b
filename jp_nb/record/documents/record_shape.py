"""The `jp` object in the metadata of a notebook as plain JSON, and the shapes of its parts.

    {"version": 1, "conversation": {"id", "title"?, "made", "parent"?, "origin"?},
     "base_config": {…}, "events": [{…}, …], "signature"?: "…", "others"?: [{…}, …]}

Each of `others` is an inactive conversation in the same shape, without `version` and `others`. The
object may be from someone else, so each function accepts any JSON. The argument `entry` is the `jp`
object or one of `others`. `Document` (`document.py`) has the object as typed conversations.

On disk, an object of version 2 has entries in segments. `read_segments` (`segments.py`) joins them.

Source: `docs/guide.md`, `docs/decisions.md` D18, D19, D33, `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.json_values import JsonObject, as_object

RECORD_VERSION: Final = 1
SEGMENTED_VERSION: Final = 2
"""Version of a stored object with segments."""
RECORD_KEY: Final = "jp"
"""Key in the notebook's metadata."""

CONVERSATION_KEYS: Final = ("conversation", "base_config", "events", "signature")
DOCUMENT_KEYS: Final = frozenset({"version", "others", *CONVERSATION_KEYS})

RecordShape = Literal["readable", "damaged", "newer"]
"""`newer` is an object of a later release, which must not be changed."""


def find_shape(value: JsonValue) -> RecordShape:
    """Return the state of a stored `jp` object. Its entries are not checked."""
    if not isinstance(value, dict):
        return "damaged"
    if value.get("version", RECORD_VERSION) != RECORD_VERSION:
        return "newer"  # version 2 too: the caller joins segments first

    # A record with a damaged entry can still be displayed.
    lists = (value.get("events", []), value.get("others", []))
    has_lists = all(isinstance(item, list) for item in lists)
    return "readable" if get_conversation_id(value) and has_lists else "damaged"


def has_segments(value: JsonValue) -> bool:
    """Return True if entries of `value` are in segments. `read_segments` joins them."""
    return (
        isinstance(value, dict) and value.get("version") == SEGMENTED_VERSION and "sealed" in value
    )


def get_properties(entry: JsonValue) -> JsonObject:
    """Return the `conversation` object of `entry`, or `{}`."""
    return as_object(as_object(entry).get("conversation"))


def get_conversation_id(entry: JsonValue) -> str:
    """Return the id of the conversation in `entry`, or ""."""
    found = get_properties(entry).get("id")
    return found if isinstance(found, str) else ""


def get_events(entry: JsonValue) -> list[JsonValue]:
    """Return the events of the conversation in `entry`, or `[]`."""
    found = as_object(entry).get("events")
    return found if isinstance(found, list) else []


def get_others(document: JsonValue) -> list[JsonValue]:
    """Return the other conversations of `document`."""
    found = as_object(document).get("others")
    return found if isinstance(found, list) else []


def split_damaged(damaged: JsonValue) -> list[JsonValue]:
    """Return the damaged object without `others`, then each of `others`, which may be intact."""
    if not isinstance(damaged, dict) or not get_others(damaged):
        return [damaged]
    without_others = {key: item for key, item in damaged.items() if key != "others"}
    return [without_others, *get_others(damaged)]


def as_other(document: Mapping[str, JsonValue]) -> JsonObject:
    """Return the active conversation of `document` in the form of `others`."""
    return {key: document[key] for key in CONVERSATION_KEYS if key in document}


def get_conversations(document: JsonObject) -> list[JsonValue]:
    """Return all conversations of `document`, the active one first unless it is empty."""
    active: list[JsonValue] = [as_other(document)] if get_events(document) else []
    return active + get_others(document)


def is_headless_conversation(entry: JsonValue) -> bool:
    """Return True if a headless run made the conversation. The next run replaces it (D18)."""
    return get_properties(entry).get("made") == "headless"


def count_entries(document: JsonValue, *, with_headless: bool = False) -> dict[str, int]:
    """Return the number of entries of each conversation, by id; of equal ids, the larger number.

    By default, conversations of headless runs are omitted, because each run replaces them.
    """
    if not isinstance(document, dict):
        return {}

    counts: dict[str, int] = {}
    for entry in [as_other(document), *get_others(document)]:
        identifier = get_conversation_id(entry)
        is_counted = with_headless or not is_headless_conversation(entry)
        if is_counted and identifier:
            counts[identifier] = max(len(get_events(entry)), counts.get(identifier, 0))

    return counts
