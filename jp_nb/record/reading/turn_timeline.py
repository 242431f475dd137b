"""Read the timeline (`timeline_steps.py`) of a recorded turn.

Entries have measured times (`measured_times.py`), except in older records, with a cassette, and in
reproducible records. Without them, the timestamps of entries give rough times. A reproducible
record has no real times at all, so its timeline has only the order of the steps.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise
from typing import Final

from jp_nb.errors import UsageError
from jp_nb.record.entries.clock import REPRODUCIBLE_STEP
from jp_nb.record.entries.events import (
    ChatResponse,
    ConfigDelta,
    Entry,
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.record.entries.inquiry_events import InquiryRequest, InquiryResponse
from jp_nb.record.entries.measured_times import (
    FAILURE_WORDS,
    INTERRUPTED,
    TIMES_KEY,
    MeasuredSpan,
    read_times,
)
from jp_nb.record.entries.outcomes import read_question_outcome
from jp_nb.record.entries.timestamps import parse_timestamp
from jp_nb.record.entries.token_usage import Usage, read_usage
from jp_nb.record.entries.turn_entries import TurnEntries
from jp_nb.record.entries.turn_numbers import to_stored_turn
from jp_nb.record.entries.unanswered_turns import read_no_answer
from jp_nb.record.reading.call_marks import is_skipped
from jp_nb.record.reading.timeline_steps import (
    MAX_TIMELINE_STEPS,
    StepState,
    TimelineStep,
    TurnTimeline,
)
from jp_nb.record.stream import ConversationStream

_USER_CHANNELS: Final = frozenset(("form", "stdin", "terminal"))
"""Where a user answers a question, as the record names it."""
_MODEL_CHANNEL: Final = "model"
"""The same of a question that a model answers."""


def find_shown_turn(stream: ConversationStream, number: int | None) -> TurnEntries:
    """Return the turn that the user sees as turn `number`, or the last one.

    Raises:
        UsageError: There is no such turn.
    """
    if not stream.turn_count:
        raise UsageError("This conversation has no turn yet.")
    if number is not None and not 1 <= number <= stream.turn_count:
        raise UsageError(f"There is no turn {number}. The last turn is {stream.turn_count}.")

    turns = list(stream.turns())
    return turns[-1 if number is None else to_stored_turn(number)]


def read_timeline(turn: TurnEntries) -> TurnTimeline:
    """Return the timeline of a recorded turn."""
    reader = _TimelineReader(turn.entries)
    reader.read()

    is_measured = reader.is_measured
    timeline = TurnTimeline(
        number=turn.number,
        steps=tuple(reader.list_steps()),
        seconds=reader.find_end(),
        timing="measured" if is_measured else "rough",
        omitted=reader.omitted,
        went_back=reader.went_back,
        ended=reader.ended,
    )
    # The times of a reproducible record depend on the position of entries, so they mean nothing.
    is_reproducible = not is_measured and _has_reproducible_times(turn.entries)
    return timeline.without_times() if is_reproducible else timeline


def _has_reproducible_times(entries: Sequence[Entry]) -> bool:
    """Return True if the timestamps are those of a reproducible record: whole seconds apart.

    Real entries are never that far apart, because several are appended at once.
    """
    stamps = [parse_timestamp(entry.timestamp) for entry in entries if entry.timestamp]
    gaps: list[timedelta] = []
    for before, after in pairwise(stamps):
        if before is None or after is None:
            return False
        gaps.append(after - before)

    return bool(gaps) and all(
        gap >= REPRODUCIBLE_STEP and not gap % REPRODUCIBLE_STEP for gap in gaps
    )


@dataclass(slots=True)
class _OpenStep:
    """A call without a result, or a question without an end. Times are seconds of the turn."""

    label: str
    start: float


@dataclass(slots=True)
class _OpenAnswer:
    """A response of the model whose further entries may follow.

    Attributes:
        start: The moment of the entry before, when the request may have begun.
        end: The moment of its last entry.
        usage: Its tokens.
        is_measured: True if an entry has the measured times of its requests. They are then steps
            already, and the times of entries do not count.
    """

    start: float
    end: float = 0.0
    usage: Usage = field(default_factory=Usage)
    is_measured: bool = False


class _TimelineReader:
    """Reads the entries of a turn into steps, in their order.

    A *moment* is the time of an entry in seconds since the first one. A *span* is a measured time
    of an entry (`MeasuredSpan`): it has a start and a duration relative to the entry's moment.

    Attributes:
        omitted, ended, went_back: As in `TurnTimeline`.
        is_measured: True if any entry has measured times.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.omitted = 0
        self.ended = ""
        self.went_back = False
        self.is_measured = any(TIMES_KEY in entry.metadata for entry in entries)
        self._entries = entries
        self._moments = self._read_moments(entries)
        self._steps: list[TimelineStep] = []

        # Steps that have not ended. Calls and questions are listed by their ids.
        self._last_moment = 0.0  # of the entry before
        self._answer: _OpenAnswer | None = None
        self._calls: dict[str, list[_OpenStep]] = {}
        self._questions: dict[str, list[_OpenStep]] = {}

        self._labels = _RequestLabels()

    def _read_moments(self, entries: Sequence[Entry]) -> list[float]:
        """Return the times of `entries` in seconds since the first one; they never go back."""
        moments: list[float] = []
        begin = None
        latest = 0.0
        for entry in entries:
            stamp = parse_timestamp(entry.timestamp)
            if stamp is not None:
                begin = stamp if begin is None else begin
                seconds = (stamp - begin).total_seconds()
                self.went_back = self.went_back or seconds < latest
                latest = max(latest, seconds)
            moments.append(latest)
        return moments

    def read(self) -> None:
        """Read all entries, and end the steps that have no end in the record."""
        for entry, moment in zip(self._entries, self._moments, strict=True):
            self._read_entry(entry, moment)
            self._add_waits(entry, moment)
            self._last_moment = moment

        self._end_answer()
        self._end_open_calls()

    def _read_entry(self, entry: Entry, moment: float) -> None:
        continues_answer = isinstance(entry, ChatResponse | ToolCallRequest)
        if not continues_answer:
            self._end_answer()

        match entry:
            case ChatResponse():
                self._read_answer(entry, moment)
            case ToolCallRequest():
                self._read_answer(entry, moment)
                self._calls.setdefault(entry.id, []).append(_OpenStep(entry.name, moment))
            case ToolCallResponse():
                self._end_call(entry, moment)
            case InquiryRequest():
                label = entry.source.name or "question"
                self._questions.setdefault(entry.id, []).append(_OpenStep(label, moment))
            case InquiryResponse():
                self._end_question(entry, moment)
            case ConfigDelta():
                self._read_end_of_turn(entry, moment)

    def _end_open_calls(self) -> None:
        """Add a step for each call without a result, up to the end of the turn."""
        end = self._moments[-1] if self._moments else 0.0
        for calls in self._calls.values():
            for call in calls:
                step = TimelineStep("tool", call.label, call.start, end, state="open")
                self._add(replace(step, reason="no result", is_rough=True))

    def list_steps(self) -> list[TimelineStep]:
        """Return the steps by their start. Those of one start keep their order."""
        return sorted(self._steps, key=lambda step: step.start)

    def find_end(self) -> float:
        """Return the duration of the turn."""
        last = self._moments[-1] if self._moments else 0.0
        return max([last, *(step.end for step in self._steps)])

    def _add(self, step: TimelineStep) -> None:
        if len(self._steps) < MAX_TIMELINE_STEPS:
            self._steps.append(step)
        else:
            self.omitted += 1

    def _read_answer(self, entry: Entry, moment: float) -> None:
        """Add an entry of the model to the open answer, which it may begin."""
        if self._answer is None:
            self._answer = _OpenAnswer(self._last_moment)
        self._answer.end = moment

        usage = _sum_tokens(entry)
        spans = read_times(entry).requests
        if spans:
            self._answer.is_measured = True
            self._add_requests(spans, moment, usage)
        else:
            self._answer.usage += usage

    def _end_answer(self) -> None:
        """End the open answer, and add its request if that was not measured."""
        answer = self._answer
        self._answer = None
        if answer is None or answer.is_measured:
            return

        label = self._labels.make_unmeasured()
        step = TimelineStep("request", label, answer.start, answer.end, usage=answer.usage)
        self._add(replace(step, is_rough=True))

    def _add_requests(
        self, spans: Iterable[MeasuredSpan], moment: float, usage: Usage | None
    ) -> None:
        """Add the requests up to one response. The last one has the tokens of all of them."""
        requests = list(spans)
        for index, span in enumerate(requests):
            label = self._labels.make(has_failed=bool(span.failed))
            state: StepState = "done"
            if span.failed:
                state = "interrupted" if span.failed == INTERRUPTED else "failed"

            start, end = _locate_span(span, moment)
            first_token = None
            if span.first_ms is not None:
                first_token = min(start + span.first_ms / 1000, end)
            is_last = index == len(requests) - 1
            step = TimelineStep("request", label, start, end, first_token, state)
            reason = FAILURE_WORDS.get(span.failed, "")
            tokens = usage if is_last else None
            self._add(replace(step, reason=reason, usage=tokens))

    def _end_call(self, entry: ToolCallResponse, moment: float) -> None:
        """Add a step for each measured run of the earliest open call with the id of `entry`."""
        waiting = self._calls.get(entry.id)
        if not waiting:
            return
        call = waiting.pop(0)

        state: StepState = "failed" if entry.is_error else "done"
        reason = "error" if entry.is_error else ""
        if is_skipped(entry):
            state = "skipped"
            reason = "skipped"

        runs = read_times(entry).runs
        for run in runs:
            start, end = _locate_span(run, moment)
            self._add(TimelineStep("tool", call.label, start, end, state=state, reason=reason))
        if runs:
            return

        # A skipped call never ran. In a measured turn, a call without a measured run did not
        # either, such as one of a missing tool. Then the step has no duration.
        may_have_run = not self.is_measured and state != "skipped"
        start = call.start if may_have_run else moment
        step = TimelineStep("tool", call.label, start, moment, state=state, reason=reason)
        self._add(replace(step, is_rough=may_have_run))

    def _end_question(self, entry: InquiryResponse, moment: float) -> None:
        """Add the step of a question: a request if a model answered, else a wait for the user.

        In a measured turn, waits for the user have their own times (`_add_waits`).
        """
        waiting = self._questions.get(entry.id)
        if not waiting:
            return
        asked = waiting.pop(0)

        channel = read_question_outcome(entry).channel
        if channel == _MODEL_CHANNEL:
            label = f"question of {asked.label}"
            step = TimelineStep("request", label, asked.start, moment)
            self._add(replace(step, usage=_sum_tokens(entry), is_rough=not self.is_measured))
        elif channel in _USER_CHANNELS and not self.is_measured:
            step = TimelineStep("user", "you", asked.start, moment)
            self._add(replace(step, is_rough=True))

    def _read_end_of_turn(self, entry: ConfigDelta, moment: float) -> None:
        """Read a change that may mark a turn without an answer, with the times of its requests."""
        mark = read_no_answer(entry)
        if mark is not None:
            self.ended = mark.ended

        spans = read_times(entry).requests
        if spans:
            self._add_requests(spans, moment, _sum_tokens(entry))

    def _add_waits(self, entry: Entry, moment: float) -> None:
        for wait in read_times(entry).waits:
            start, end = _locate_span(wait, moment)
            self._add(TimelineStep("user", "you", start, end))


class _RequestLabels:
    """Labels of the requests of a turn: `request 2`, and `request 2, try 3` after two failures."""

    def __init__(self) -> None:
        self._request_count = 0
        self._try_count = 0  # of the current request

    def make(self, *, has_failed: bool) -> str:
        """Return the label of the next measured request, which may be another try of the last one.

        If it `has_failed`, so may be the one after.
        """
        if not self._try_count:
            self._request_count += 1
        self._try_count += 1

        label = f"request {self._request_count}"
        if self._try_count > 1:
            label = f"{label}, try {self._try_count}"
        if not has_failed:
            self._try_count = 0
        return label

    def make_unmeasured(self) -> str:
        """Return the label of a request without times, whose tries the record does not tell."""
        self._request_count += 1
        return f"request {self._request_count}"


def _locate_span(span: MeasuredSpan, moment: float) -> tuple[float, float]:
    """Return the start and the end of `span`, which is stored relative to the entry's `moment`."""
    # A forged or corrected clock may put a start before the turn.
    start = max(moment - span.before_ms / 1000, 0.0)
    end = max(moment - (span.before_ms - span.ms) / 1000, start)
    return start, end


def _sum_tokens(entry: Entry) -> Usage:
    return sum((used.tokens for used in read_usage(entry.metadata)), Usage())
