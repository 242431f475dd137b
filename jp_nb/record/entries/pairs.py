"""Match requests with their responses, and check that a response has a request.

A tool call with its response is a *pair*, and so is a question with its answer. Each of the two
entries is a *half*.

Ids may repeat, even within a turn. So they pair by count inside their turn: the n-th response of an
id answers its n-th request.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import chain
from typing import Literal, NamedTuple

from jp_nb.errors import StorageError
from jp_nb.record.entries.events import Entry, ToolCallRequest, ToolCallResponse, TurnStart
from jp_nb.record.entries.inquiry_events import InquiryRequest, InquiryResponse

Family = Literal["tool", "inquiry"]


class Half(NamedTuple):
    """One half of a pair."""

    family: Family
    id: str
    is_response: bool


def find_half(entry: Entry) -> Half | None:
    """Return the half of a pair that `entry` is, or None."""
    match entry:
        case ToolCallRequest() | ToolCallResponse():
            return Half("tool", entry.id, isinstance(entry, ToolCallResponse))
        case InquiryRequest() | InquiryResponse():
            return Half("inquiry", entry.id, isinstance(entry, InquiryResponse))
    return None


class PairCounts:
    """Numbers of requests and responses of each id in one turn."""

    def __init__(self) -> None:
        self._requests: dict[tuple[Family, str], int] = {}
        self._responses: dict[tuple[Family, str], int] = {}

    def add(self, half: Half) -> None:
        """Count one half."""
        counts = self._responses if half.is_response else self._requests
        key = half[:2]
        counts[key] = counts.get(key, 0) + 1

    def are_balanced(self, family: Family | None = None) -> bool:
        """Return True if every id, or those of `family`, have as many responses as requests."""
        if self._requests == self._responses:
            return True

        keys = {*self._requests, *self._responses}
        if family is not None:
            keys = {key for key in keys if key[0] == family}
        return all(self._requests.get(key) == self._responses.get(key) for key in keys)

    def check(self, entries: Iterable[Entry]) -> None:
        """Check that `entries` may follow the counted part of a turn. Nothing is counted.

        Raises:
            StorageError: A response has no request, or its request is already answered.
        """
        counted = self
        new = PairCounts()  # of `entries`: if one of them is invalid, `self` is as before

        for entry in entries:
            if isinstance(entry, TurnStart):
                counted = PairCounts()
                new = PairCounts()

            half = find_half(entry)
            if half is None:
                continue

            if half.is_response:
                key = half[:2]
                requests = counted._requests.get(key, 0) + new._requests.get(key, 0)
                responses = counted._responses.get(key, 0) + new._responses.get(key, 0)
                kind = "ToolCallResponse" if half.family == "tool" else "InquiryResponse"
                if not requests:
                    raise StorageError(f"{kind} references unknown request ID `{half.id}`")
                if responses >= requests:
                    raise StorageError(f"Duplicate {kind} for ID `{half.id}`")

            new.add(half)


class MatchedPairs(NamedTuple):
    """The pairs of one turn, and the halves that are alone, all by index.

    Attributes:
        responses: Index of the response, by the index of its request.
        unanswered: Requests without a response.
        loose: Responses without a request.
    """

    responses: dict[int, int]
    unanswered: set[int]
    loose: set[int]


def match_pairs(turn: Iterable[tuple[int, Entry]]) -> MatchedPairs:
    """Match the requests and responses of one turn, given as entries with their indexes."""
    waiting: dict[tuple[Family, str], deque[int]] = {}  # requests without a response so far
    responses: dict[int, int] = {}
    loose: set[int] = set()

    for index, entry in turn:
        half = find_half(entry)
        if half is None:
            continue

        key = half[:2]
        if not half.is_response:
            waiting.setdefault(key, deque()).append(index)
        elif waiting.get(key):
            request = waiting[key].popleft()
            responses[request] = index
        else:
            loose.add(index)

    unanswered = set(chain.from_iterable(waiting.values()))
    return MatchedPairs(responses, unanswered, loose)
