"""The request of a cassette that is the nearest to one which is not on it.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol, TypeVar

from jp_nb.agent.asked_request import NO_MESSAGE, AskedRequest, RequestPart
from jp_nb.json_values import JsonObject

FAR: Final = ("provider", "model", "schema", "tool_choice")
"""What tells requests apart more than a word in a message does."""


class Stored(Protocol):
    """A request on a cassette."""

    @property
    def summary(self) -> JsonObject:
        """Its settings, and the ids of its parts."""
        ...


S = TypeVar("S", bound=Stored)


def nearest(
    asked: AskedRequest, stored: Iterable[S], parts: Mapping[tuple[str, str], RequestPart]
) -> S | None:
    """Return the one of `stored` that differs from `asked` in the fewest parts; the first of those.

    Args:
        asked: The request.
        stored: Those to choose from.
        parts: All their parts by kind and id; a message stands behind the one before it.
    """
    places = {part.id: place for place, part in enumerate(asked.messages, 1)}
    lengths, shared = {NO_MESSAGE: 0}, {NO_MESSAGE: 0}
    for (kind, message), part in parts.items():
        if kind == "message":
            lengths[message] = lengths[part.after] + 1
            shared[message] = places.get(message, shared[part.after])

    def distance(other: S) -> int:
        last = str(other.summary["messages"])
        apart = len(asked.messages) + lengths[last] - 2 * shared[last]
        keys = asked.summary.keys() | other.summary.keys()
        differing = [key for key in keys if asked.summary.get(key) != other.summary.get(key)]
        far = sum(key in FAR for key in differing)
        return apart + 2 * far + len(differing)

    return min(stored, key=distance, default=None)
