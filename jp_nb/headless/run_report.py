"""What happened in a run: one value, made of the executed notebook's cells and its record.

Source: `docs/ci.md`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Literal

from jp_nb.errors import StorageError
from jp_nb.headless.cell_ends import CellEnd, CellEnds, CellStatus
from jp_nb.headless.open_decisions import Undecided, read_decisions
from jp_nb.headless.runner import CellFailure, RunResult
from jp_nb.headless.shown_text import shown_line, shown_text
from jp_nb.json_values import as_object
from jp_nb.record import carrier
from jp_nb.record.answer_words import DOES_NOT_FIT, NO_MODEL, NO_USER, USER_ONLY
from jp_nb.record.document import Document
from jp_nb.record.events import InquiryRequest
from jp_nb.record.jp_object import conversation_id, others_of
from jp_nb.record.stream import ConversationStream
from jp_nb.record.timestamps import parse_timestamp, utc_now
from jp_nb.record.turn_entries import TurnEntries
from jp_nb.record.turn_view import (
    ConfigChange,
    Inquiry,
    StructuredData,
    Text,
    Turn,
    read_turn,
)
from jp_nb.record.usage import TurnUsage, usage_in
from jp_nb.safe_text import one_line

MAX_SOURCE: Final = 60
"""Characters of a cell that name it."""
ReportedEnd = Literal[
    "answered",
    "secret",
    "automatic",
    "unavailable",
    "declined",
    "cancelled",
    "timed_out",
    "interrupted",
    "denied",
    "invalid",
    "failed",
    "open",
]
NOT_ANSWERED: Final[Mapping[ReportedEnd, str]] = {
    "automatic": "chosen automatically",
    "unavailable": NO_USER,
    "declined": "left unanswered on purpose",
    "cancelled": "cancelled",
    "timed_out": "timed out",
    "interrupted": "interrupted",
    "denied": USER_ONLY,
    "invalid": DOES_NOT_FIT,
    "failed": NO_MODEL,
    "open": "no response in the record",
}
"""In words, the ends of a question that nobody answered."""
_ENDS: Final[Mapping[str, ReportedEnd]] = {
    "declined": "declined",
    "timed_out": "timed_out",
    "interrupted": "interrupted",
    "unavailable": "unavailable",
}
_REASONS: Final[Mapping[str, ReportedEnd]] = {
    "backend_error": "failed",
    "no_prompt_backend": "unavailable",
    "assistant_routing_denied": "denied",
    "invalid_static_answer": "invalid",
}


@dataclass(frozen=True, slots=True)
class ReportedQuestion:
    """A question of a tool, and how it ended.

    Attributes:
        inquiry: The question as the record has it.
        tool: The tool that asked, or `assistant`.
        end: How it ended; `automatic` if nobody chose the answer it has.
    """

    inquiry: Inquiry
    tool: str
    end: ReportedEnd

    @property
    def is_answered(self) -> bool:
        """True if somebody, a model or the configuration answered it."""
        return self.end not in NOT_ANSWERED

    def __str__(self) -> str:
        end = NOT_ANSWERED.get(self.end, self.end)
        asked = shown_line(self.inquiry.question)
        return f"question {one_line(self.inquiry.id)} of {one_line(self.tool)}: {asked!r}: {end}"


@dataclass(frozen=True, slots=True)
class ReportedTurn:
    """A turn of the run.

    Attributes:
        conversation: The id of its conversation.
        turn: What the record has of it; its `status` is `answered` or `unfinished`, or that of a
            turn without an answer.
        cell: The number of the cell that ran it, from 0; None if that is not known.
        questions: Its questions, in the order they were asked.
        usage: Tokens by model.
    """

    conversation: str
    turn: Turn
    cell: int | None
    questions: tuple[ReportedQuestion, ...]
    usage: Mapping[str, TurnUsage]

    @property
    def unanswered(self) -> tuple[ReportedQuestion, ...]:
        """The questions that got no answer, or one that nobody chose."""
        return tuple(question for question in self.questions if not question.is_answered)

    def __str__(self) -> str:
        request = shown_line(self.turn.request)
        return f"turn {self.turn.number} of {one_line(self.conversation)}: {request!r}"


@dataclass(frozen=True, slots=True)
class ReportedCell:
    """A cell of code, and what it failed with.

    Attributes:
        number: Its number among all cells, from 0.
        source: Its first words, in one line.
        status: How it ended.
        seconds: How long it ran.
        error: Name and message of what it failed with; "" if it did not.
        traceback: What was shown of it, as plain text.
        turns: Those that began in it.
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
    """What happened in a run.

    Attributes:
        notebook: Its path, as it was given.
        failure: What ended the run before its end; None if nothing did.
        cells: Its cells of code, but for blank ones.
        turns: The turns of this run, by conversation.
        record_error: Why the record cannot be read; "" if it can.
        undecided: What nobody decided, each thing once: permissions and the like, too.
    """

    notebook: str
    failure: CellFailure | None
    cells: tuple[ReportedCell, ...]
    turns: tuple[ReportedTurn, ...]
    record_error: str = ""
    undecided: tuple[Undecided, ...] = ()

    @property
    def seconds(self) -> float:
        """The time that all cells took."""
        return sum(cell.seconds for cell in self.cells)

    @property
    def unanswered(self) -> tuple[ReportedQuestion, ...]:
        """All questions that got no answer, or one that nobody chose."""
        return tuple(question for turn in self.turns for question in turn.unanswered)

    @property
    def usage(self) -> dict[str, TurnUsage]:
        """The tokens of all turns, by model."""
        return _summed(item for turn in self.turns for item in turn.usage.items())


def report_of(result: RunResult, notebook: str, decisions: Path | None = None) -> RunReport:
    """Return what happened in the run that left `result`.

    A record that cannot be read is no error here: the report says so.

    Args:
        result: What the run left.
        notebook: What the report calls it.
        decisions: The file that the run noted in what nobody decided, if it was given one.
    """
    try:
        turns, error = tuple(_turns(result)), ""
    except StorageError as exc:
        turns, error = (), shown_text(str(exc))
    by_cell: dict[int | None, list[ReportedTurn]] = {}
    for turn in turns:
        by_cell.setdefault(turn.cell, []).append(turn)
    cells = tuple(_cell(end, result, tuple(by_cell.get(end.cell, ()))) for end in result.ends.cells)
    open_ = read_decisions(decisions).undecided if decisions is not None else ()
    return RunReport(notebook, result.failure, cells, turns, error, tuple(open_))


# --- cells -----------------------------------------------------------------------------------


def _cell(end: CellEnd, result: RunResult, turns: tuple[ReportedTurn, ...]) -> ReportedCell:
    cell = result.notebook.cells[end.cell]
    error = traceback = ""
    if end.status == "failed":
        error, traceback = _error_of(cell, result.failure)
    return ReportedCell(
        end.cell, _first_words(cell.source), end.status, end.seconds, error, traceback, turns
    )


def _first_words(source: str) -> str:
    text = " ".join(shown_line(source).split())
    return text if len(text) <= MAX_SOURCE else f"{text[:MAX_SOURCE]}…"


def _error_of(cell: Any, failure: CellFailure | None) -> tuple[str, str]:
    """Return what a failed cell failed with, and its traceback: the kernel may have shown none."""
    errors = [output for output in cell.outputs if output.output_type == "error"]
    traceback = errors[-1].get("traceback", ()) if errors else ()
    error = f"{failure.name}: {failure.message}" if failure else "it did not finish"
    return shown_text(error), shown_text("\n".join(map(str, traceback)))


# --- turns -----------------------------------------------------------------------------------


def _turns(result: RunResult) -> Iterator[ReportedTurn]:
    """Yield the turns that this run made, those of the active conversation last.

    Raises:
        StorageError: If the record cannot be read.
    """
    stored = carrier.read(result.notebook.metadata)
    if stored is None:
        return
    active = Document.load(stored, clock=utc_now, tolerant=True).conversation
    ran = {end.conversation for end in result.ends.cells}
    for other in reversed(others_of(stored)):
        identifier = conversation_id(other)
        if identifier in ran and identifier != active.id:
            shelved = Document.load(other, clock=utc_now, tolerant=True)
            yield from _of_stream(shelved.conversation, result.ends)
    yield from _of_stream(active, result.ends)


def _of_stream(stream: ConversationStream, ends: CellEnds) -> Iterator[ReportedTurn]:
    """Yield the turns of `stream` that began in this run."""
    places = [(end.entries, end.cell) for end in ends.cells if end.conversation == stream.id]
    counts = list(accumulate((count for count, _ in places), max))
    old, shared = _taken_over(stream, ends), _shared_turns(stream)
    begins: dict[int, int] = {}
    for event in stream.events():
        begins.setdefault(event.turn, event.position)
    for entries in stream.turns():
        begin = begins.get(entries.number, 0)
        if begin >= old and entries.number >= shared:
            place = bisect_right(counts, begin)
            cell = places[place][1] if place < len(places) else None
            yield _reported(stream, entries, cell)


def _shared_turns(stream: ConversationStream) -> int:
    """Return how many turns a branch has of the conversation that it came from."""
    last = as_object(stream.head.get("parent")).get("turn")
    return last + 1 if isinstance(last, int) else 0


def _taken_over(stream: ConversationStream, ends: CellEnds) -> int:
    """Return how many entries of `stream` were in the notebook before the run."""
    known = ends.taken_over.get(stream.id, 0)
    if not known or ends.continued:
        return known
    # A reproducible run begins anew under the id that it had before: its times are whole seconds.
    moments = (parse_timestamp(entry.timestamp) for entry in stream.entries if entry.timestamp)
    first = next(moments, None)
    return 0 if first is not None and not first.microsecond else known


def _reported(stream: ConversationStream, entries: TurnEntries, cell: int | None) -> ReportedTurn:
    turn = read_turn(entries.number, entries.entries, status="", images=stream.images)
    askers = {
        e.id: e.source.name or e.source.source
        for e in entries.entries
        if isinstance(e, InquiryRequest)
    }
    questions = tuple(
        ReportedQuestion(each, askers.get(each.id, ""), _end_of(each)) for each in turn.inquiries
    )
    used = (each for entry in entries.entries for each in usage_in(entry.metadata))
    return ReportedTurn(
        stream.id,
        replace(turn, status=turn.status or _status_of(turn)),
        cell,
        questions,
        _summed((each.model, each.tokens) for each in used),
    )


def _status_of(turn: Turn) -> str:
    """Return whether the assistant had the last word."""
    said = [part for part in turn.parts if not isinstance(part, ConfigChange)]
    match said[-1] if said else None:
        case Text(by_person=False) | StructuredData():
            return "answered"
    return "unfinished"


def _end_of(inquiry: Inquiry) -> ReportedEnd:
    match inquiry.outcome:
        case "answered":
            return "automatic" if "auto" in inquiry.marks else "answered"
        case "redacted":
            return "secret"
        case None:
            return "open"
    return _ENDS.get(inquiry.end or "") or _REASONS.get(inquiry.reason or "", "cancelled")


def _summed(used: Iterable[tuple[str, TurnUsage]]) -> dict[str, TurnUsage]:
    """Return the tokens by model, models in alphabetical order."""
    found: dict[str, TurnUsage] = {}
    for model, tokens in used:
        found[model] = found.get(model, TurnUsage()) + tokens
    return dict(sorted(found.items()))
