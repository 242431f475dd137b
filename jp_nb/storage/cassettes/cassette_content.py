"""Content of a cassette: requests to models, with their responses.

A request with its response is an *exchange*. Requests share most of their parts, such as tools and
earlier messages, so a cassette has each part once, by its id. An id is a digest: that of a message
covers all messages before it. A message has the id of the one before (`after`), so the last message
of a request leads to all others; `NO_MESSAGE` is before the first.

The lines of the file are in `cassette_parser.py` and `cassette_writer.py`.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.model_requests.normalized_request import NO_MESSAGE, NormalizedRequest, RequestPart
from jp_nb.agent.model_requests.recorded_exchange import End, FailedResponse, IncompleteResponse
from jp_nb.agent.provider_events import ProviderEvent
from jp_nb.json_values import JsonObject

CASSETTE_KIND: Final = "cassette"
CASSETTE_VERSION: Final = 1
CASSETTE_HEADER: Final[JsonObject] = {"jp_nb": CASSETTE_KIND, "version": CASSETTE_VERSION}
LISTED_KINDS: Final = {"system": "system", "attachments": "attachment", "tools": "tool"}
"""Kinds of parts that a request lists, by the key of the list."""
SETTING_KEYS: Final = ("provider", "model", "tool_choice", "parameters", "schema")
"""Keys of a request that are no parts."""
IMPORTANT_KEYS: Final = ("provider", "model", "schema", "tool_choice")
"""Keys with a larger weight in the comparison of requests."""


@dataclass(frozen=True, slots=True)
class StoredExchange:
    """An exchange in a file.

    Attributes:
        line: Line of the request, from 1.
        request: Id of the request.
        summary: Content of the line of the request, without the id: its settings, and the ids of
            its parts.
        events: The events of the response, as the provider streamed them.
        end: The end of the response: complete, incomplete, or failed.
        number: Number of the exchange in the file, from 0.
    """

    line: int
    request: str
    summary: JsonObject = field(repr=False)
    events: tuple[ProviderEvent, ...]
    end: End
    number: int

    @property
    def last_message(self) -> str:
        """Id of the last message of the request."""
        return str(self.summary["messages"])

    @property
    def has_failed(self) -> bool:
        """True if the response failed or is incomplete."""
        return isinstance(self.end, FailedResponse | IncompleteResponse)


@dataclass(slots=True)
class CassetteContent:
    """Content of a cassette, in the order of the file. `parts` have kind and id as keys."""

    parts: dict[tuple[str, str], RequestPart] = field(default_factory=dict)
    exchanges: list[StoredExchange] = field(default_factory=list)

    def rebuild_request(self, exchange: StoredExchange) -> NormalizedRequest:
        """Return the request of `exchange`, with its parts."""
        listed: dict[str, tuple[RequestPart, ...]] = {}
        for name, kind in LISTED_KINDS.items():
            ids = iter_ids(exchange.summary.get(name))
            listed[name] = tuple(self.parts[kind, part_id] for part_id in ids)

        # From the last message back to the first one.
        messages: list[RequestPart] = []
        message_id = exchange.last_message
        while message_id != NO_MESSAGE:
            message = self.parts["message", message_id]
            messages.append(message)
            message_id = message.after

        settings = {key: value for key, value in exchange.summary.items() if key in SETTING_KEYS}
        return NormalizedRequest(settings, **listed, messages=tuple(reversed(messages)))

    def is_inquiry(self, exchange: StoredExchange) -> bool:
        """Return True if the request is an inquiry: a tool's question for a model."""
        last = self.parts.get(("message", exchange.last_message))
        return last is not None and "inquiry" in last.value

    def find_nearest(
        self, request: NormalizedRequest, stored: Iterable[StoredExchange]
    ) -> StoredExchange | None:
        """Return the first of the `stored` exchanges with the fewest differences from `request`."""
        # By the id of each stored message: the number of messages up to it, and how many of these
        # `request` begins with.
        lengths = {NO_MESSAGE: 0}
        shared_lengths = {NO_MESSAGE: 0}

        numbers = {part.id: number for number, part in enumerate(request.messages, 1)}
        for (kind, message_id), part in self.parts.items():
            if kind == "message":  # in the file, it follows the message before it
                lengths[message_id] = lengths[part.after] + 1
                # An id covers all earlier messages. So if `request` has a message with this id, it
                # begins with all messages up to it; else with as many as up to the one before.
                number_in_request = numbers.get(message_id)
                shared_lengths[message_id] = number_in_request or shared_lengths[part.after]

        def measure_distance(other: StoredExchange) -> int:
            """Count the differing messages and keys. An important key counts three times."""
            last = other.last_message
            differing_messages = len(request.messages) + lengths[last] - 2 * shared_lengths[last]

            keys = request.summary.keys() | other.summary.keys()
            differing = [key for key in keys if request.summary.get(key) != other.summary.get(key)]
            important = sum(key in IMPORTANT_KEYS for key in differing)
            return differing_messages + 2 * important + len(differing)

        return min(stored, key=measure_distance, default=None)


def iter_ids(value: JsonValue) -> Iterator[str]:
    """Yield the ids in a list of a request; none if it has no such list."""
    if isinstance(value, list):
        yield from map(str, value)
