"""Measure the times of a turn, and attach them to the entries of the record.

Nothing is measured in a reproducible record, or with a cassette, whose replay leaves the same
record.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from jp_nb.record.entries.events import Entry, EntryT, ToolCallResponse
from jp_nb.record.entries.measured_times import (
    MAX_MEASURED_SPANS,
    MeasuredSpan,
    MeasuredTimes,
    with_times,
)

_MS: Final = 1000


@dataclass(slots=True)
class TimedSpan:
    """A part of a turn that is measured: times are seconds of the turn's clock.

    Attributes:
        start: Time at which the part began.
        end: None while the part still runs.
        first_token: Time of the first token of a response, if the span is a request.
        failed: Kind of the error with which the span ended; "" without one.
    """

    start: float
    first_token: float | None = None
    end: float | None = None
    failed: str = ""


@dataclass(slots=True)
class TurnTimes:
    """Times of a turn that no entry has yet. Used on the agent's thread.

    Attributes:
        may_measure: False for a run that is not recorded.
        is_on: True if times are measured: if `may_measure`, and neither the record nor the model
            exclude it. The turn sets it when its model is known.
        clock: Seconds that never go back.
    """

    may_measure: bool = False
    is_on: bool = False
    clock: Callable[[], float] = monotonic
    _requests: list[TimedSpan] = field(default_factory=list)
    _waits: list[TimedSpan] = field(default_factory=list)

    def begin_request(self) -> TimedSpan:
        """Return the beginning of a request, which `end` ends."""
        span = TimedSpan(self.clock())
        if self.is_on:
            self._requests.append(span)
        return span

    def note_first_token(self, span: TimedSpan) -> None:
        """Note the time of the first token, unless it is known."""
        if span.first_token is None:
            span.first_token = self.clock()

    def end(self, span: TimedSpan, failed: str = "") -> None:
        """Note the end of `span`. `failed` is the kind of its error; "" without one."""
        span.end = self.clock()
        span.failed = failed

    def make_span(self, seconds: float) -> TimedSpan:
        """Return a span of `seconds` that ends now."""
        now = self.clock()
        return TimedSpan(now - seconds, end=now)

    @contextmanager
    def waiting_for_user(self) -> Iterator[None]:
        """Measure the block as a wait for the user."""
        span = TimedSpan(self.clock())
        try:
            yield
        finally:
            self.end(span)
            if self.is_on:
                self._waits.append(span)

    def attach_to_last(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the `entries` of a response, with the times of its requests in the last one."""
        return [*entries[:-1], *map(self.attach, entries[-1:])]

    def attach(self, entry: EntryT) -> EntryT:
        """Return `entry` with all times of requests and waits that are not attached yet.

        It is unchanged if there are none.
        """
        requests = self._to_measured(self._requests)
        waits = self._to_measured(self._waits)
        self._requests.clear()
        self._waits.clear()
        return with_times(entry, MeasuredTimes(requests=requests, waits=waits))

    def attach_runs(
        self, responses: Sequence[tuple[ToolCallResponse, Sequence[TimedSpan]]]
    ) -> list[ToolCallResponse]:
        """Return the responses to calls with the times of their runs.

        The last one also has all waits for the user that are not attached yet.
        """
        if not self.is_on or not responses:
            return [response for response, _ in responses]

        waits = self._to_measured(self._waits)
        self._waits.clear()

        attached: list[ToolCallResponse] = []
        for index, (response, spans) in enumerate(responses):
            is_last = index == len(responses) - 1
            shown_waits = waits if is_last else ()
            times = MeasuredTimes(runs=self._to_measured(spans), waits=shown_waits)
            attached.append(with_times(response, times))
        return attached

    def _to_measured(self, spans: Sequence[TimedSpan]) -> tuple[MeasuredSpan, ...]:
        """Return the last `spans` as the record has them: in milliseconds, relative to now.

        Each time is rounded on its own, so a part is limited to the whole.
        """
        now = self.clock()
        measured: list[MeasuredSpan] = []

        for span in spans[-MAX_MEASURED_SPANS:]:
            began_ms_ago = _count_ms(now - span.start)
            end = now if span.end is None else span.end
            duration_ms = min(_count_ms(end - span.start), began_ms_ago)

            first_token_ms = None
            if span.first_token is not None:
                first_token_ms = min(_count_ms(span.first_token - span.start), duration_ms)

            measured.append(MeasuredSpan(began_ms_ago, duration_ms, first_token_ms, span.failed))

        return tuple(measured)


def _count_ms(seconds: float) -> int:
    return max(round(seconds * _MS), 0)
