"""The `jp` object in a notebook's metadata as plain JSON, whatever is in it.

Shape:
    {"version": 1, "conversation": {"id", "title"?, "made", "parent"?, "origin"?},
     "base_config": {…}, "events": [{…}, …], "signature"?: "…", "others"?: [{…}, …]}

Each of `others` is an earlier conversation in the same shape, without `version` and `others`.
Anybody may have written it: nothing here trusts its shape. `document.py` reads it as a record.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.json_values import JsonObject, as_object

VERSION: Final = 1
SEALED_VERSION: Final = 2
"""Of a stored object whose entries are in segments."""
KEY: Final = "jp"
"""The key in the notebook's metadata."""

OF_A_CONVERSATION: Final = ("conversation", "base_config", "events", "signature")
OF_THE_OBJECT: Final = frozenset({"version", "others", *OF_A_CONVERSATION})

Shape = Literal["readable", "damaged", "newer"]


def shape_of(value: JsonValue) -> Shape:
    """Return whether `value` has the shape of a `jp` object. Its entries are not looked at."""
    if not isinstance(value, dict):
        return "damaged"
    if value.get("version", VERSION) != VERSION:
        return "newer"
    lists = (value.get("events", []), value.get("others", []))
    # No deeper: a damaged entry may be looked at, a damaged object can only be put aside.
    fit = conversation_id(value) and all(isinstance(item, list) for item in lists)
    return "readable" if fit else "damaged"


def is_sealed(value: JsonValue) -> bool:
    """Return whether entries of `value` are in segments: `segments.read` puts them together."""
    return isinstance(value, dict) and value.get("version") == SEALED_VERSION and "sealed" in value


def head_of(entry: JsonValue) -> JsonObject:
    """Return what `entry` says about the conversation at its top itself; `{}` if nothing."""
    return as_object(as_object(entry).get("conversation"))


def conversation_id(entry: JsonValue) -> str:
    """Return the id of the conversation at the top of `entry`; "" if it has none."""
    found = head_of(entry).get("id")
    return found if isinstance(found, str) else ""


def events_of(entry: JsonValue) -> list[JsonValue]:
    """Return the events of the conversation at the top of `entry`; `[]` if there are none."""
    found = as_object(entry).get("events")
    return found if isinstance(found, list) else []


def others_of(document: JsonValue) -> list[JsonValue]:
    """Return what `document` keeps besides its active conversation."""
    found = as_object(document).get("others")
    return found if isinstance(found, list) else []


def apart(damaged: JsonValue) -> list[JsonValue]:
    """Return a damaged object, and what it holds of other conversations: those may be sound."""
    if not isinstance(damaged, dict) or not others_of(damaged):
        return [damaged]
    return [{k: v for k, v in damaged.items() if k != "others"}, *others_of(damaged)]


def shelved(document: Mapping[str, JsonValue]) -> JsonObject:
    """Return the active conversation of `document` in the form it has among the others."""
    return {key: document[key] for key in OF_A_CONVERSATION if key in document}


def all_conversations(document: JsonObject) -> list[JsonValue]:
    """Return all conversations of `document`, the active one first (unless it is empty)."""
    active: list[JsonValue] = [shelved(document)] if events_of(document) else []
    return active + others_of(document)


def made_headless(entry: JsonValue) -> bool:
    """Return True if a headless run made the conversation: the next run replaces it (D18)."""
    return head_of(entry).get("made") == "headless"


def entry_counts(document: JsonValue) -> dict[str, int]:
    """Return the number of entries of each conversation in `document`, by id.

    Those of headless runs are left out: each run replaces them, whatever they hold.
    """
    if not isinstance(document, dict):
        return {}
    found: dict[str, int] = {}
    for entry in [shelved(document), *others_of(document)]:
        if (identifier := conversation_id(entry)) and not made_headless(entry):
            found[identifier] = max(len(events_of(entry)), found.get(identifier, 0))
    return found
