"""Compaction events: the turns they cover, and their effect.

A second compaction with the same turns that is marked (`REVERTS`) reverts the newest active one
before it, and has no other effect. Compactions that were recorded in one step are reverted in one
step: all but the first are marked (`WITH_PREVIOUS`).

Source: `docs/record.md`, `docs/configuration.md` (RFD 064), `docs/decisions.md` D129.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Final

from jp_nb.config.tree.compaction_settings import TurnBound
from jp_nb.record.clock import parse_timestamp
from jp_nb.record.entry_images import IMAGES_KEY
from jp_nb.record.events import (
    CONVERSATION_KINDS,
    ChatRequest,
    ChatResponse,
    Compaction,
    Entry,
    ToolCallPolicy,
    ToolCallRequest,
    ToolCallResponse,
    TurnStart,
    is_reasoning,
)
from jp_nb.record.integrity import match_pairs
from jp_nb.record.stream import ConversationStream, TurnEvent, is_unanswered
from jp_nb.record.turn_numbers import to_shown_turn
from jp_nb.record.turn_view import find_interrupted_turn
from jp_nb.text import MAX_ITEMS_IN_LINE

REVERTS: Final = "takes_back"
WITH_PREVIOUS: Final = "with_previous"
"""Keys in the metadata of a compaction."""


@dataclass(frozen=True, slots=True)
class PlacedCompaction:
    """A compaction at its place in the record.

    Attributes:
        position: Index among all entries.
        after: Number of the last turn that began before it; -1 if there is none.
        turn_continued: True if the turn `after` has later events, as after a resume.
    """

    position: int
    after: int
    entry: Compaction
    is_reverted: bool = False
    turn_continued: bool = False

    @property
    def effective(self) -> Compaction:
        """The compaction without turns that ended after it."""
        last = self.after - 1 if self.turn_continued else self.after
        return self.entry.model_copy(update={"to_turn": min(self.entry.to_turn, last)})


def is_revert(entry: Entry) -> bool:
    """Return True if `entry` reverts a compaction."""
    return isinstance(entry, Compaction) and entry.metadata.get(REVERTS) is True


def make_revert(entry: Compaction) -> Compaction:
    """Return an entry that reverts `entry`."""
    return Compaction(from_turn=entry.from_turn, to_turn=entry.to_turn, metadata={REVERTS: True})


def find_compactions(entries: Iterable[Entry]) -> list[PlacedCompaction]:
    """Return the compactions in `entries`, oldest first, without entries that revert one."""
    found: list[PlacedCompaction] = []
    unreverted: dict[tuple[int, int], list[int]] = {}
    turn = -1
    seen = 0  # `seen` is the number of compactions before the last event

    for position, entry in enumerate(entries):
        if isinstance(entry, TurnStart) or (turn < 0 and entry.type in CONVERSATION_KINDS):
            turn = turn + 1
            seen = len(found)
        elif entry.type in CONVERSATION_KINDS:
            for index in range(seen, len(found)):
                found[index] = replace(found[index], turn_continued=True)
            seen = len(found)
        elif isinstance(entry, Compaction):
            same = unreverted.setdefault((entry.from_turn, entry.to_turn), [])
            if not is_revert(entry):
                same.append(len(found))
                found.append(PlacedCompaction(position, turn, entry))
            elif same:
                index = same.pop()
                found[index] = replace(found[index], is_reverted=True)

    return found


def list_active_compactions(entries: Iterable[Entry]) -> list[PlacedCompaction]:
    """Return the compactions in `entries` that are not reverted, oldest first."""
    return [placed for placed in find_compactions(entries) if not placed.is_reverted]


def mark_as_one_step(entries: Sequence[Compaction]) -> list[Compaction]:
    """Return `entries` with marks that they were recorded in one step."""
    return [*entries[:1], *(entry.with_metadata(**{WITH_PREVIOUS: True}) for entry in entries[1:])]


def find_last_step(placed: Sequence[PlacedCompaction]) -> list[PlacedCompaction]:
    """Return the last compactions of `placed` that were recorded in one step, oldest first."""
    found: list[PlacedCompaction] = []

    for each in reversed(placed):
        later = found[-1] if found else None
        if later is not None and not (
            later.entry.metadata.get(WITH_PREVIOUS) is True and later.position == each.position + 1
        ):
            break
        found.append(each)

    return found[::-1]


SUMMARIZED_REQUEST = "[Summary of previous conversation]"
MAX_REPEATED: Final = 100_000
"""Maximum number of characters of repeated summaries in a context."""
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TurnTreatment:
    """Treatment of a turn in the context: `summary` has the summary that replaces the turn."""

    summary: Compaction | None = None
    without_reasoning: bool = False
    tool_calls: ToolCallPolicy | None = None


def make_replacements(
    stream: ConversationStream, hidden: Collection[int], *, whole: int = -1
) -> dict[int, tuple[Entry, ...]]:
    """Return the replacements of entries by their index. Other entries are sent unchanged.

    Entries in `hidden` are skipped, and the turn `whole` is sent unchanged. In each turn the newest
    compaction applies, separately for summary, reasoning, and tool calls. Of compactions of the
    same time, the later one in the record applies.
    """
    treatments = list_turn_treatments(stream)
    if not treatments:
        return {}

    found: dict[int, tuple[Entry, ...]] = {}
    before: Compaction | None = None  # summary of the previous visible turn
    repeats = _SummaryLimit()

    seen = (event for event in stream.events() if event.position not in hidden)
    for turn, grouped in groupby(seen, key=lambda event: event.turn):
        events = list(grouped)

        treatment = TurnTreatment() if turn == whole else treatments[turn]
        if (summary := treatment.summary) is not None:
            found |= dict.fromkeys((event.position for event in events), ())
            if summary is not before and repeats.allow(summary):
                assert summary.summary is not None
                found[events[0].position] = (
                    ChatRequest(timestamp=summary.timestamp, content=SUMMARIZED_REQUEST),
                    ChatResponse(timestamp=summary.timestamp, message=summary.summary.summary),
                )

            before = summary
            continue

        before = None
        if treatment.without_reasoning:
            found |= {e.position: () for e in events if is_reasoning(e.entry)}
        if treatment.tool_calls is not None:
            found |= _tool_calls(events, treatment.tool_calls)

    return found


class _SummaryLimit:
    # A short record with many compactions could otherwise make a very long request.
    def __init__(self) -> None:
        self._sent: set[int] = set()
        self._room = MAX_REPEATED

    def allow(self, entry: Compaction) -> bool:
        assert entry.summary is not None
        if id(entry) in self._sent:
            self._room -= len(entry.summary.summary) + len(SUMMARIZED_REQUEST)
            return self._room >= 0
        self._sent.add(id(entry))
        return True


def list_turn_treatments(stream: ConversationStream) -> list[TurnTreatment]:
    """Return the treatment of each turn, or `[]` if all turns are sent whole."""
    compactions = [placed.effective for placed in list_active_compactions(stream.entries)]
    if not compactions:
        return []

    compactions.reverse()  # the later one of the same time comes first
    compactions.sort(key=lambda x: parse_timestamp(x.timestamp) or _NEVER, reverse=True)

    count = stream.turn_count
    summaries = _select_per_turn([x for x in compactions if x.summary is not None], count)
    reasoning = _select_per_turn([x for x in compactions if x.reasoning is not None], count)
    tools = _select_per_turn([x for x in compactions if x.tool_calls is not None], count)

    treatments = []
    for summary, strips, calls in zip(summaries, reasoning, tools, strict=True):
        policy = None if calls is None else calls.tool_calls
        treatments.append(TurnTreatment(summary, strips is not None, policy))
    return treatments


def _select_per_turn(newest: Iterable[Compaction], count: int) -> list[Compaction | None]:
    selected: list[Compaction | None] = [None] * count
    open_from = list(range(count + 1))  # from a turn to the next undecided one

    def undecided(turn: int) -> int:
        while open_from[turn] != turn:
            open_from[turn] = turn = open_from[open_from[turn]]
        return turn

    for entry in newest:
        turn = undecided(min(entry.from_turn, count))
        while turn < count and turn <= entry.to_turn:
            selected[turn] = entry
            open_from[turn] = turn + 1
            turn = undecided(turn)

    return selected


def _tool_calls(
    events: Sequence[TurnEvent], policy: ToolCallPolicy
) -> dict[int, tuple[Entry, ...]]:
    found: dict[int, tuple[Entry, ...]] = {}
    by_position = {event.position: event.entry for event in events}
    pairs, _, _ = match_pairs(by_position.items())
    called = {answer: by_position[request] for request, answer in pairs.items()}

    for position, entry in by_position.items():
        if not isinstance(entry, ToolCallRequest | ToolCallResponse):
            continue

        if policy.policy == "omit":
            found[position] = ()
        elif isinstance(entry, ToolCallRequest):
            if policy.request:
                found[position] = (entry.model_copy(update={"arguments": {}}),)
        elif policy.response:
            request = called.get(position)
            name = request.name if isinstance(request, ToolCallRequest) else "tool"
            state = "error" if entry.is_error else "success"
            content = f"[compacted] {name}: {state}"
            metadata = {key: item for key, item in entry.metadata.items() if key != IMAGES_KEY}
            update = {"content": content, "metadata": metadata}
            found[position] = (entry.model_copy(update=update),)

    return found


@dataclass(frozen=True, slots=True)
class TurnRange:
    """The turns from `first` to `last`, both included and counted from 0."""

    first: int
    last: int

    def __contains__(self, turn: object) -> bool:
        return isinstance(turn, int) and self.first <= turn <= self.last

    def __str__(self) -> str:
        """Return `turn 1` or `turns 1 to 4`, counted from 1."""
        if self.first == self.last:
            return f"turn {to_shown_turn(self.first)}"
        return f"turns {to_shown_turn(self.first)} to {to_shown_turn(self.last)}"


class CompactionBounds:
    """Finds the turns between two bounds.

    Failed turns at the end, an interrupted last turn, and the current turn (`in_turn`) are outside
    of all ranges. Durations are relative to `now`.
    """

    def __init__(self, stream: ConversationStream, now: datetime, *, in_turn: bool = False) -> None:
        self._now = now
        self._active = list_active_compactions(stream.entries)
        self._began: list[datetime | None] = []

        answered: list[bool] = []

        for _, grouped in groupby(stream.events(), key=lambda event: event.turn):
            entries = [event.entry for event in grouped]
            self._began.append(parse_timestamp(entries[0].timestamp))
            answered.append(not is_unanswered(entries))

        if not in_turn and answered and find_interrupted_turn(stream) is not None:
            answered[-1] = False

        last = len(answered) - 1
        while last >= 0 and not answered[last] and not (in_turn and last == len(answered) - 1):
            last -= 1

        self._last = last
        self._end = last - 1 if in_turn else last

    def between_kept(self, first: TurnBound, last: TurnBound) -> TurnRange | None:
        """Return the turns to compact, or None if there are none.

        `first` and `last` are the bounds of the turns that are kept at the beginning and the end.
        """
        if last.kind in ("turn", "duration"):
            end = self._given_last(last)
        else:  # a number of kept turns
            end = self._last - int(last.amount)

        if first.kind != "duration":
            return self._range(self._first(first), end)

        opened = next(filter(None, self._began), None)
        begun = None if opened is None else self._turn_at(opened, first.amount)
        return None if begun is None else self._range(begun + 1, end)

    def between(
        self, first: TurnBound | None, last: TurnBound | None, kept: TurnRange | None = None
    ) -> TurnRange | None:
        """Return the turns from `first` to `last`, or None if there are none.

        A bound of None means that of `kept`, or the end of the conversation. A duration is relative
        to now.
        """
        begin = kept.first if kept is not None else 0
        end = kept.last if kept is not None else self._end

        if first is not None and first.kind == "duration":
            begun = self._turn_at(self._now, -first.amount)
            begin = 0 if begun is None else begun + 1
        elif first is not None:
            begin = self._first(first)

        if last is None:
            return self._range(begin, end)
        return self._range(begin, self._given_last(last))

    def _range(self, first: int, last: int | None) -> TurnRange | None:
        if last is None:
            return None
        last = min(last, self._end)
        return TurnRange(first, last) if 0 <= first <= last else None

    # --- one end -----------------------------------------------------------------------------

    def _given_last(self, bound: TurnBound) -> int | None:
        if bound.kind == "duration":
            return self._turn_at(self._now, -bound.amount)
        if bound.kind == "last":
            return self._first(bound)
        back = bound.kind == "from_end"
        return self._last - int(bound.amount) if back else int(bound.amount)

    def _first(self, bound: TurnBound) -> int:
        match bound.kind:
            case "last":
                ends = (placed.effective.to_turn for placed in self._active)
                return max(ends, default=-1) + 1
            case "from_end":
                return max(self._last - int(bound.amount), 0)
            case _:
                return int(bound.amount)

    def _turn_at(self, moment: datetime, seconds: float) -> int | None:
        try:
            moment += timedelta(seconds=seconds)
        except OverflowError:  # outside of the range of dates
            return self._last if seconds > 0 else None
        begun = (n for n, began in enumerate(self._began) if began is not None and began <= moment)
        return max(begun, default=None)


def list_summary_ranges(placed: Iterable[PlacedCompaction]) -> list[TurnRange]:
    """Return the turns of each summary."""
    entries = (each.effective for each in placed)
    return [TurnRange(x.from_turn, x.to_turn) for x in entries if x.summary is not None]


def widen_to_summaries(turns: TurnRange, summaries: Iterable[TurnRange]) -> TurnRange:
    """Return `turns`, extended to whole summaries.

    A summary cannot be divided, so all of its turns are summarized again.
    """
    by_first = sorted(summaries, key=lambda each: each.first)
    first = turns.first
    last = turns.last

    for each in by_first:  # one pass in each direction is enough
        if each.first <= last and each.last >= first:
            last = max(last, each.last)
    for each in sorted(by_first, key=lambda each: -each.last):
        if each.first <= last and each.last >= first:
            first = min(first, each.first)

    return TurnRange(first, last)


SENT_WHOLE = "whole"


def format_compactions(entries: Sequence[Compaction]) -> str:
    """Return a text such as `turns 1 to 4 are sent as a summary`."""
    more = len(entries) - MAX_ITEMS_IN_LINE
    texts = [*map(_format_compaction, entries[:MAX_ITEMS_IN_LINE])]
    if more > 0:
        texts.append(f"and {more} more")
    return ", ".join(texts)


def format_compaction_line(entries: Sequence[Compaction]) -> str:
    """Return a line such as `⊟ Turns 1 to 4 are sent as a summary from here on`."""
    text = format_compactions(entries)
    return f"⊟ {text[:1].upper()}{text[1:]} from here on"


def _format_compaction(entry: Compaction) -> str:
    turns = TurnRange(entry.from_turn, entry.to_turn)
    effect = "as a summary"
    if entry.summary is None:
        effect = _format_omissions(entry.reasoning is not None, entry.tool_calls)

    is_one = turns.first == turns.last
    verb = "is" if is_one else "are"
    form = "as before" if effect == SENT_WHOLE else effect
    return f"{turns} {verb} sent {form}"


def format_treatment(treatment: TurnTreatment) -> str:
    """Return a text such as `whole`, `as a summary`, or `without reasoning`."""
    if treatment.summary is not None:
        return "as a summary"
    return _format_omissions(treatment.without_reasoning, treatment.tool_calls)


def _format_omissions(reasoning: bool, policy: ToolCallPolicy | None) -> str:
    omitted = ["reasoning"] if reasoning else []

    if policy is not None and policy.policy == "omit":
        omitted.append("tool calls")
    elif policy is not None:
        halves = (("arguments of tool calls", policy.request), ("tool results", policy.response))
        omitted += [text for text, is_omitted in halves if is_omitted]

    *others, last = omitted or [""]
    listed = f"{', '.join(others)} and {last}" if others else last
    return f"without {listed}" if last else SENT_WHOLE
