"""Conversations that a page holds already: another active one is sent without them. Pure.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from jp_nb.json_values import JsonObject
from jp_nb.record.jp_object import all_conversations, conversation_id, events_of


@dataclass(frozen=True, slots=True)
class Kept:
    """The conversations beside the active one, as a page is told them.

    Attributes:
        sent: Those that it lacks.
        places: `[place, id, number of entries]` of each one that it holds, by its place among all.
    """

    sent: list[JsonValue]
    places: list[JsonValue]

    @classmethod
    def of(cls, others: Iterable[JsonValue], held: Callable[[JsonValue], bool]) -> Kept:
        """Return `others` with those that are `held` named alone. One without an id is sent."""
        kept = cls([], [])
        seen: set[str] = set()
        for place, other in enumerate(others):
            name = conversation_id(other)
            if name and name not in seen and held(other):
                kept.places.append([place, name, len(events_of(other))])
            else:
                kept.sent.append(other)
            seen.add(name)
        return kept


def held_of(others: Sequence[JsonValue], stored: JsonObject) -> list[JsonValue]:
    """Return those of `others` that a page holds in `stored`, whether active there or not."""
    theirs = {conversation_id(entry): entry for entry in all_conversations(stored)}
    return [other for other in others if theirs.get(conversation_id(other)) == other]
