"""The record that a page holds, as the kernel knows it: an outline, and what can be copied in it.

The page names its present content with a *state*. A write is applied only in the state that it
expects. So the kernel may refer to the content by place, without sending it again: a conversation
that the page holds already is *copied* within the page. `stored_keys.py` has the keys of the
metadata with the content.

Source: `docs/protocol.md`, `docs/record.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from jp_nb.json_values import JsonObject, as_object
from jp_nb.notebook.page.stored_keys import StoredKeys
from jp_nb.record.documents.record_shape import (
    CONVERSATION_KEYS,
    as_other,
    get_conversation_id,
    get_events,
    get_others,
)
from jp_nb.storable_json import make_storable

ACTIVE: Final = -1
"""Place of the active conversation of a page, which is not among its `others`."""


def format_head(document: JsonObject) -> str:
    """Return the head of a document as JSON: all but its entries and other conversations.

    The text is the same for the same head.
    """
    head = {k: v for k, v in document.items() if k not in ("version", "events", "others")}
    head.setdefault("base_config", {})  # a missing one is an empty one
    return json.dumps(make_storable(head), sort_keys=True)


@dataclass(slots=True)
class PageCopy:
    """The record that a page holds.

    Attributes:
        state: The page's name for the content.
        keys: The metadata keys and carriers (states of widgets) with the content.
        stream: The id of the active conversation; "" without one.
        length: Number of its entries, from the first, that equal those of the kernel's document.
        head_text: `format_head` of the record; "" if it is unknown.
        held: Inactive conversations of the kernel's document that the page holds unchanged, with
            their places in its `others`, or `ACTIVE`.
    """

    state: str
    keys: StoredKeys
    stream: str = ""
    length: int = 0
    head_text: str = ""
    held: list[tuple[JsonValue, int]] = field(default_factory=list)

    def split_conversations(
        self, others: Sequence[JsonValue]
    ) -> tuple[list[JsonValue], list[JsonValue]]:
        """Split `others` into those to send, and the places of those that the page copies.

        `others` are the inactive conversations of the kernel's document. The page need not receive
        again those that it holds: it copies them from their place in its present content.

        A place is `[position in others, place in the page]`, or `[position, -1, keys]` for the
        conversation that is active in the page, of which the page copies these keys.
        """
        sent: list[JsonValue] = []
        copies: list[JsonValue] = []
        places = self._find_places(others)

        for position, other in enumerate(others):
            place = places.get(id(other))
            if place is None:
                sent.append(other)
            elif place == ACTIVE:
                names = [key for key in CONVERSATION_KEYS if key in as_object(other)]
                copies.append([position, place, list(names)])
            else:
                copies.append([position, place])

        return sent, copies

    def _find_places(self, others: Iterable[JsonValue]) -> dict[int, int]:
        """Return the places in the page of those of `others` that it holds, by their `id()`.

        The kernel replaces a conversation that changes by a new object, so objects are compared.
        """
        # A page copies within the metadata key `jp`. It cannot copy what is in other keys
        # (segments) or in states of widgets (carriers).
        if not self.keys.are_plain:
            return {}

        places = {id(other): place for other, place in self.held}
        # Since `held` was set, the kernel's active conversation may have become an inactive one.
        for other in others:
            if isinstance(other, dict) and self._is_active_conversation(other):
                places[id(other)] = ACTIVE

        return places

    def _is_active_conversation(self, other: JsonObject) -> bool:
        """Return True if `other`, inactive in the kernel, is the page's active conversation."""
        if not self.stream or get_conversation_id(other) != self.stream:
            return False

        # If all entries in the page's `jp` equal those of the kernel, equal numbers are equal
        # entries.
        has_only_equal_entries = self.length == self.keys.jp_length
        has_same_entries = has_only_equal_entries and len(get_events(other)) == self.length
        return has_same_entries and format_head(other) == self.head_text


def find_held(others: Sequence[JsonValue], stored: JsonObject) -> list[tuple[JsonValue, int]]:
    """Return the conversations in `others` that a page holds in `stored`, with their places.

    The active conversation of the page counts too, in the form of an inactive one (`as_other`).
    """
    stored_by_place = {ACTIVE: as_other(stored), **dict(enumerate(get_others(stored)))}
    places: dict[str, int] = {}  # by the id of the conversation
    for place, entry in stored_by_place.items():
        places.setdefault(get_conversation_id(entry), place)

    held = []
    for other in others:
        place_of_id = places.get(get_conversation_id(other))
        if place_of_id is not None and stored_by_place[place_of_id] == other:
            held.append((other, place_of_id))

    return held
