"""The timeline of a turn: its requests, runs of tools, and waits for the user, with their times.

`turn_timeline.py` reads it from the record. Pictures and reports show it.

Source: `docs/record.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from jp_nb.record.entries.token_usage import Usage

MAX_TIMELINE_STEPS: Final = 2000
"""Maximum number of steps that are read of a turn. The others are counted."""
FAILED_STATES: Final = ("failed", "interrupted", "skipped")
"""States of a step that did not end as it should."""

StepKind = Literal["request", "tool", "user"]
StepState = Literal["done", "failed", "interrupted", "skipped", "open"]
"""`skipped`: the call did not run. `open`: the record has no end of the step."""
Timing = Literal["measured", "rough", "order"]
"""Source of the times of a turn.

- `measured`: the kernel measured them while the turn ran, and kept them in the metadata of entries.
- `rough`: they are the timestamps of entries, as in a record of JP.
- `order`: only the order of the steps is shown. The record is reproducible, so that its times mean
  nothing, or the run is headless, so that its output must not change.
"""


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """A request, a run of a tool, or a wait for the user.

    Attributes:
        label: Name of the step, such as that of the tool. A record may have any text.
        start: When it began, in seconds since the turn began.
        end: When it ended, likewise.
        first_token: Time of the first token of a response; None if it is unknown.
        reason: Words for the end of a step that is not `done`.
        usage: Tokens of a request.
        is_rough: True if the times are only timestamps of entries. This may be so for some steps of
            a turn whose `timing` is `measured`.
    """

    kind: StepKind
    label: str
    start: float
    end: float
    first_token: float | None = None
    state: StepState = "done"
    reason: str = ""
    usage: Usage | None = None
    is_rough: bool = False

    @property
    def seconds(self) -> float:
        """Duration."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class TurnTimeline:
    """The steps of one turn, by their start.

    Attributes:
        number: Number of the turn, counted from 0.
        seconds: Duration of the turn.
        timing: Source of the times of its steps.
        omitted: Number of steps beyond `MAX_TIMELINE_STEPS`.
        went_back: True if a timestamp is earlier than the one before it.
        ended: `failed` or `interrupted` for a turn without an answer; else "".
    """

    number: int
    steps: tuple[TimelineStep, ...] = ()
    seconds: float = 0.0
    timing: Timing = "measured"
    omitted: int = 0
    went_back: bool = False
    ended: str = ""

    def without_times(self) -> TurnTimeline:
        """Return the timeline with only the order of its steps, each drawn as if it took a second.

        It is the same in each run, and for entries whose timestamps are made up.
        """
        steps = tuple(
            replace(step, start=float(index), end=index + 1.0, first_token=None, is_rough=False)
            for index, step in enumerate(self.steps)
        )
        return replace(
            self, steps=steps, seconds=float(len(steps)), timing="order", went_back=False
        )
