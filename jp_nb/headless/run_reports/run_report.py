"""The values of a report of a headless run: its cells, turns, and questions.

`report_reading.py` makes a report. The other modules of this folder write it.

Source: `docs/ci.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from jp_nb.headless.kernels.cell_ends import CellFailure, CellStatus
from jp_nb.headless.reported_decisions import ReportedDecision
from jp_nb.headless.run_events_reading import RunEvents
from jp_nb.headless.terminal_text import format_one_line
from jp_nb.record.entries.token_usage import Usage
from jp_nb.record.entries.turn_numbers import to_shown_turn
from jp_nb.record.reading.turn_view import Inquiry, Turn
from jp_nb.rendering.prompt_texts.outcome_text import format_cause
from jp_nb.text import one_line


@dataclass(frozen=True, slots=True)
class ReportedQuestion:
    """A question of a `tool`, which is `assistant` for one of the model, and its outcome."""

    inquiry: Inquiry
    tool: str

    @property
    def is_answered(self) -> bool:
        """True if the user, a model, or the configuration answered."""
        return self.end in ("answered", "secret")

    @property
    def end(self) -> str:
        """End of the question, `secret`, or `automatic` for an answer chosen automatically."""
        outcome = self.inquiry.ended
        if outcome.is_secret:
            return "secret"
        return "automatic" if "auto" in outcome.marks else outcome.end

    def __str__(self) -> str:
        text = format_one_line(self.inquiry.question)
        name = f"question {one_line(self.inquiry.id)} of {one_line(self.tool)}"
        return f"{name}: {text!r}: {self._format_end()}"

    def _format_end(self) -> str:
        if self.is_answered:
            return self.end
        if self.end == "automatic":
            return "chosen automatically"
        return format_cause(self.inquiry.ended)


@dataclass(frozen=True, slots=True)
class ReportedTurn:
    """A turn of the run.

    Attributes:
        conversation: Id of the conversation.
        turn: The turn. Its status is `answered` or `unfinished` if the record has no other status.
        cell: Index of the cell that began it, from 0; None if it is unknown.
        questions: The questions of its tools and of the model.
        usage: Its tokens by model.
    """

    conversation: str
    turn: Turn
    cell: int | None
    questions: tuple[ReportedQuestion, ...]
    usage: Mapping[str, Usage]

    @property
    def unanswered(self) -> tuple[ReportedQuestion, ...]:
        """Questions without an answer, or with one that was chosen automatically."""
        return tuple(question for question in self.questions if not question.is_answered)

    def __str__(self) -> str:
        request = format_one_line(self.turn.request)
        return (
            f"turn {to_shown_turn(self.turn.number)} of {one_line(self.conversation)}: {request!r}"
        )


@dataclass(frozen=True, slots=True)
class ReportedCell:
    """A code cell.

    Attributes:
        number: Its index, from 0.
        source: The beginning of its source, in one line.
        status: `passed`, `failed`, or `not run`.
        seconds: Its run time; 0 if it did not run.
        error: Name and message of its error; "" without one.
        traceback: The traceback of its error; "" without one.
        turns: The turns that began in it.
    """

    number: int
    source: str
    status: CellStatus
    seconds: float
    error: str
    traceback: str
    turns: tuple[ReportedTurn, ...]


@dataclass(frozen=True, slots=True)
class RunReport:
    """Report of one run.

    Attributes:
        notebook: The name of the notebook, for messages.
        failure: The failure that ended the run; None if all cells ran.
        cells: The code cells that are not empty.
        turns: The turns of the run, in all of its conversations.
        record_error: Why the record cannot be read; "" if it can.
        events: The events of the run, such as open decisions.
    """

    notebook: str
    failure: CellFailure | None
    cells: tuple[ReportedCell, ...]
    turns: tuple[ReportedTurn, ...]
    record_error: str = ""
    events: RunEvents = field(default_factory=RunEvents)

    @property
    def undecided(self) -> tuple[ReportedDecision, ...]:
        """Open decisions without repetitions: questions, permissions, and approvals."""
        return tuple(self.events.undecided.values())

    @property
    def seconds(self) -> float:
        """Sum of the run times of all cells."""
        return sum(cell.seconds for cell in self.cells)

    @property
    def unanswered(self) -> tuple[ReportedQuestion, ...]:
        """Questions of all turns without an answer, or with one that was chosen automatically."""
        return tuple(chain.from_iterable(turn.unanswered for turn in self.turns))

    @property
    def usage(self) -> dict[str, Usage]:
        """Tokens of all turns, by model."""
        return sum_run_usage(chain.from_iterable(turn.usage.items() for turn in self.turns))


def sum_run_usage(used: Iterable[tuple[str, Usage]]) -> dict[str, Usage]:
    """Return the sum of the tokens of each model, sorted by model."""
    sums: dict[str, Usage] = {}
    for model, tokens in used:
        sums[model] = sums.get(model, Usage()) + tokens
    return dict(sorted(sums.items()))
