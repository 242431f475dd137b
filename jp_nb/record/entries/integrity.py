"""Check and repair pairs of calls and responses.

Providers reject a call without a result, and a result without a call. A tool call with its response
is a *pair*, and so is a question with its answer. Each of the two entries is a *half*.

Ids may repeat, even within a turn. So they pair by count inside their turn: the n-th response of an
id answers its n-th request. Repairing twice changes nothing.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Literal, NamedTuple

from jp_nb.errors import StorageError
from jp_nb.record.entries.events import (
    CONVERSATION_KINDS,
    ChatRequest,
    Entry,
    InquiryRequest,
    InquiryResponse,
    RawEntry,
    ToolCallRequest,
    ToolCallResponse,
    TurnStart,
)

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


class Pairs:
    """Numbers of requests and responses of each id in one turn."""

    def __init__(self) -> None:
        self._asked: dict[tuple[Family, str], int] = {}
        self._done: dict[tuple[Family, str], int] = {}

    def add(self, half: Half) -> None:
        """Count one half."""
        counts = self._done if half.is_response else self._asked
        key = half[:2]
        counts[key] = counts.get(key, 0) + 1

    def are_balanced(self, family: Family | None = None) -> bool:
        """Return True if every id, or those of `family`, have as many responses as requests."""
        if self._asked == self._done:
            return True
        ids = {*self._asked, *self._done}
        kept = (x for x in ids if family in (None, x[0]))
        return all(self._asked.get(x) == self._done.get(x) for x in kept)

    def check(self, entries: Iterable[Entry]) -> None:
        """Check that `entries` may follow the counted part of a turn.

        Raises:
            StorageError: A response has no request, or its request is already answered.
        """
        before = self
        batch = Pairs()  # separate counts: if one entry is invalid, none is appended

        for entry in entries:
            if isinstance(entry, TurnStart):
                before = Pairs()
                batch = Pairs()

            if (half := find_half(entry)) is None:
                continue

            if half.is_response:
                key = half[:2]
                asked = before._asked.get(key, 0) + batch._asked.get(key, 0)
                done = before._done.get(key, 0) + batch._done.get(key, 0)
                kind = "ToolCallResponse" if half.family == "tool" else "InquiryResponse"
                if not asked:
                    raise StorageError(f"{kind} references unknown request ID `{half.id}`")
                if done >= asked:
                    raise StorageError(f"Duplicate {kind} for ID `{half.id}`")
            batch.add(half)


def match_pairs(turn: Iterable[tuple[int, Entry]]) -> tuple[dict[int, int], set[int], set[int]]:
    """Pair the requests and responses of one turn, given as entries with their indexes.

    Return response indexes by request index, indexes of unanswered requests, and indexes of
    responses without a request.
    """
    waiting: dict[tuple[Family, str], deque[int]] = {}
    pairs: dict[int, int] = {}
    loose: set[int] = set()

    for index, entry in turn:
        if (half := find_half(entry)) is None:
            continue
        family, identifier, is_response = half
        if not is_response:
            waiting.setdefault((family, identifier), deque()).append(index)
        elif waiting.get((family, identifier)):
            pairs[waiting[family, identifier].popleft()] = index
        else:
            loose.add(index)

    unanswered = set(chain.from_iterable(waiting.values()))
    return pairs, unanswered, loose


INTERRUPTED_CALL = "Tool call was interrupted."
EPOCH_TIMESTAMP = "1970-01-01 00:00:00.0"


class Item(NamedTuple):
    """An entry with its stored object and its id.

    The stream creates the stored object and the id if `raw` is None.
    """

    entry: Entry
    raw: RawEntry | None = None
    event_id: str | None = None

    @property
    def is_event(self) -> bool:
        """True if the entry belongs to a turn. A repair never changes other entries."""
        return self.entry.type in CONVERSATION_KINDS


def repair_items(items: Sequence[Item], *, resumes: bool = False) -> list[Item]:
    """Return the items of a well-formed record. Unchanged items are the same objects.

    If the last turn `resumes`, its tool calls without a response stay open.
    """
    # Providers accept no response before the first request.
    first = _find_first_request(items) or 0
    before = [x for x in items[:first] if isinstance(x.entry, TurnStart) or not x.is_event]
    kept: list[Item] = []
    turn: list[Item] = []  # ids may repeat in a later turn, so each turn is paired separately

    for item in (*before, *items[first:]):
        if isinstance(item.entry, TurnStart):
            kept += _pair_turn(turn)
            turn = []
        turn.append(item)

    kept += _pair_turn(turn, resumes=resumes)

    end = len(kept)  # after the last event that is no `turn_start`
    while end and (isinstance(kept[end - 1].entry, TurnStart) or not kept[end - 1].is_event):
        end -= 1

    kept[end:] = [item for item in kept[end:] if not isinstance(item.entry, TurnStart)]

    return _put_one_turn_start_first(kept)


def _find_first_request(items: Sequence[Item]) -> int | None:
    return next((i for i, x in enumerate(items) if isinstance(x.entry, ChatRequest)), None)


def _pair_turn(turn: Sequence[Item], *, resumes: bool = False) -> list[Item]:
    pairs, unanswered, loose = match_pairs((index, item.entry) for index, item in enumerate(turn))
    request_of = {response: request for request, response in pairs.items()}
    result: list[Item] = []
    missing: dict[int, Item] = {}  # new responses, by the index of the request

    for index, item in enumerate(turn):
        if index in loose:
            continue

        entry = item.entry
        if isinstance(entry, ToolCallResponse):  # responses are in call order
            before = [request for request in missing if request < request_of[index]]
            result += [missing.pop(request) for request in before]
        elif not isinstance(entry, ToolCallRequest) and entry.type in _MESSAGES:
            result += missing.values()
            missing = {}

        if index not in unanswered or (resumes and isinstance(entry, ToolCallRequest)):
            result.append(item)
        elif isinstance(entry, ToolCallRequest):  # an open inquiry is dropped
            answer = ToolCallResponse(
                timestamp=entry.timestamp, id=entry.id, content=INTERRUPTED_CALL, is_error=True
            )
            result.append(item)
            if _has_answered_sibling(turn, index, loose):
                missing[index] = Item(answer)
            else:
                result.append(Item(answer))

    return [*result, *missing.values()]


_MESSAGES = ("chat_request", "chat_response")


def _has_answered_sibling(turn: Sequence[Item], call: int, loose: set[int]) -> bool:
    # A response has to follow all calls of its message: providers take the results together.
    for index in range(call + 1, len(turn)):
        if turn[index].entry.type in _MESSAGES:
            return False
        if isinstance(turn[index].entry, ToolCallResponse) and index not in loose:
            return True
    return False


def _put_one_turn_start_first(items: list[Item]) -> list[Item]:
    if not any(item.is_event and not isinstance(item.entry, TurnStart) for item in items):
        return items

    request = _find_first_request(items)
    starts = [i for i, item in enumerate(items[:request]) if isinstance(item.entry, TurnStart)]

    if starts:
        extra = set() if request is None else set(starts[:-1])
        return [item for i, item in enumerate(items) if i not in extra]

    place = request or 0
    moment = EPOCH_TIMESTAMP if request is None else items[place].entry.timestamp
    return [*items[:place], Item(TurnStart(timestamp=moment)), *items[place:]]
