"""Report of a run as text, JSON and JUnit XML.

Source: `docs/ci.md`, https://github.com/testmoapp/junitxml.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from jp_nb.config.masking import mask_secrets
from jp_nb.errors import StorageError
from jp_nb.headless.files import shown_line, shown_text
from jp_nb.headless.open_decisions import Undecided, read_decisions
from jp_nb.headless.runner import CellEnd, CellEnds, CellFailure, CellStatus, RunResult
from jp_nb.json_values import JsonObject, as_object, make_storable
from jp_nb.record import merge
from jp_nb.record.clock import parse_timestamp, utc_now
from jp_nb.record.document import Document, conversation_id, others_of
from jp_nb.record.events import InquiryRequest
from jp_nb.record.marks import KEYS, TurnUsage, read_usage
from jp_nb.record.question_log import DOES_NOT_FIT, NO_MODEL, NO_USER, USER_ONLY
from jp_nb.record.stream import ConversationStream, TurnEntries
from jp_nb.record.turns import (
    ConfigChange,
    Inquiry,
    StructuredData,
    Text,
    ToolCall,
    Turn,
    read_turn,
)
from jp_nb.rendering.tool_calls import for_user
from jp_nb.rendering.turn import was_skipped
from jp_nb.text import one_line, plain

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
    cells = tuple(
        _reported_cell(end, result, tuple(by_cell.get(end.cell, ()))) for end in result.ends.cells
    )
    open_ = read_decisions(decisions).undecided if decisions is not None else ()
    return RunReport(notebook, result.failure, cells, turns, error, tuple(open_))


# --- cells -----------------------------------------------------------------------------------


def _reported_cell(
    end: CellEnd, result: RunResult, turns: tuple[ReportedTurn, ...]
) -> ReportedCell:
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
    stored = merge.read_carrier(result.notebook.metadata)
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
    used = (each for entry in entries.entries for each in read_usage(entry.metadata))
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


MAX_RESULT: Final = 500
MAX_REASON: Final = 300


def went_wrong(cell: ReportedCell) -> list[str]:
    """Return the last turn of a cell that failed and what went wrong in it, a line each."""
    if not cell.turns:
        return []
    turn = cell.turns[-1]
    failed = [call for call in turn.turn.tool_calls if call.is_error is not False]
    return [
        f"in {turn}",
        *(f"  call {_name(call)}: {_result(call)}" for call in failed),
        *(f"  {question}" for question in turn.unanswered),
    ]


def _result(call: ToolCall) -> str:
    return shown_line(for_user(call.name, call.content or "no result"), limit=MAX_RESULT)


def turn_lines(turn: ReportedTurn) -> Iterator[str]:
    """Yield a line for the turn and for each of its calls and questions."""
    yield f"{turn}: {turn.turn.status}"
    for call in turn.turn.tool_calls:
        yield f"  call {_name(call)}: {_end(call)}"
    for question in turn.questions:
        yield f"  {question}"
    if turn.turn.config_changes:
        yield f"  configuration changes: {len(turn.turn.config_changes)}"


def _end(call: ToolCall) -> str:
    if was_skipped(call):
        return "skipped"
    return {False: "ok", True: "error", None: "no result"}[call.is_error]


def _name(call: ToolCall) -> str:
    return one_line(call.name, limit=80)


def facts(report: RunReport) -> Iterator[tuple[str, str]]:
    """Yield name and value of each count: turns, calls, questions, changes, tokens by model."""
    turns = report.turns
    yield "turns", str(len(turns))
    yield "tool_calls", str(sum(len(turn.turn.tool_calls) for turn in turns))
    yield "questions", str(sum(len(turn.questions) for turn in turns))
    yield "unanswered_questions", str(len(report.unanswered))
    yield "undecided", str(len(report.undecided))
    yield "config_changes", str(sum(len(turn.turn.config_changes) for turn in turns))
    for model, tokens in report.usage.items():
        for name in KEYS:
            if (count := getattr(tokens, name)) is not None:
                yield f"{name} {model}", str(count)


def undecided_lines(report: RunReport) -> list[str]:
    """Return a line for each thing that nobody decided."""
    return [
        f"open decision: {one.words}: {shown_line(one.why, limit=MAX_REASON)}"
        for one in report.undecided
    ]


_NOT_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


def junit_xml(reports: Iterable[RunReport]) -> bytes:
    """Return the reports as one document in UTF-8: a suite for each, a test case for each cell."""
    root = Element("testsuites", name="jp-nb")
    for report in reports:
        _add_suite(root, report)
    for name in ("tests", "failures", "errors"):  # some schemas know no more here
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    indent(root)
    text: str = tostring(root, encoding="unicode")
    return f"<?xml version='1.0' encoding='utf-8'?>\n{text}\n".encode()


def _add_suite(root: Element, report: RunReport) -> None:
    suite = SubElement(root, "testsuite", name=_clean(report.notebook))
    properties = SubElement(suite, "properties")
    for name, value in facts(report):
        SubElement(properties, "property", name=_clean(name), value=_clean(value))
    for cell in report.cells:
        _add_case(suite, report.notebook, cell)
    if lost := _lost(report):
        case = SubElement(suite, "testcase", classname=_clean(report.notebook), name="the run")
        SubElement(case, "error", message=_clean(lost))
    if open_ := undecided_lines(report):
        SubElement(suite, "system-out").text = _clean("\n".join(open_))
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for plural, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(plural, str(sum(case.find(kind) is not None for case in cases)))
    suite.set("time", f"{report.seconds:.3f}")


def _add_case(suite: Element, notebook: str, cell: ReportedCell) -> None:
    case = SubElement(
        suite,
        "testcase",
        classname=_clean(notebook),
        name=_clean(f"cell {cell.number + 1}: {cell.source}"),
        time=f"{cell.seconds:.3f}",
    )
    if cell.status == "failed":
        failure = SubElement(case, "failure", message=_clean(cell.error))
        failure.text = _clean("\n".join([*went_wrong(cell), cell.traceback or cell.error]))
    elif cell.status == "not run":
        SubElement(case, "skipped", message="this cell was not run")
    if cell.turns:
        said = SubElement(case, "system-out")
        said.text = _clean("\n".join(line for turn in cell.turns for line in turn_lines(turn)))


def _lost(report: RunReport) -> str:
    """Return what went wrong besides cells; "" if nothing did."""
    failure = report.failure
    if failure is not None and not any(cell.status == "failed" for cell in report.cells):
        return shown_text(f"{failure.name}: {failure.message}")
    return report.record_error


def _clean(text: str) -> str:
    """Return `text` without what XML has no place for, and what a terminal would obey."""
    return _NOT_XML.sub("\ufffd", plain(text))


VERSION: Final = 1


def json_report(report: RunReport) -> str:
    """Return `report` as JSON text in ASCII, which ends with a line break."""
    return json.dumps(make_storable(to_json(report)), indent=2) + "\n"


def to_json(report: RunReport) -> JsonObject:
    """Return `report` as a JSON object; `docs/ci.md` has its shape."""
    failure = report.failure
    return {
        "version": VERSION,
        "notebook": report.notebook,
        "ok": failure is None,
        "failure": None
        if failure is None
        else {"cell": failure.cell, "name": failure.name, "message": shown_text(failure.message)},
        "record_error": report.record_error or None,
        "seconds": round(report.seconds, 3),
        "cells": [_cell_json(cell) for cell in report.cells],
        "turns": [_turn(turn) for turn in report.turns],
        "tokens": _tokens(report.usage),
        "unanswered": len(report.unanswered),
        "undecided": [_undecided(each) for each in report.undecided],
    }


def _cell_json(cell: ReportedCell) -> JsonObject:
    return {
        "cell": cell.number,
        "source": cell.source,
        "status": cell.status,
        "seconds": round(cell.seconds, 3),
        "error": cell.error or None,
    }


def _turn(reported: ReportedTurn) -> JsonObject:
    turn = reported.turn
    return {
        "conversation": reported.conversation,
        "turn": turn.number,
        "cell": reported.cell,
        "request": turn.request,
        "text": turn.text,
        "data": turn.data,
        "status": turn.status,
        "tool_calls": [_call(call) for call in turn.tool_calls],
        "questions": [_question(question) for question in reported.questions],
        "config_changes": [_change(change) for change in turn.config_changes],
        "tokens": _tokens(reported.usage),
    }


def _call(call: ToolCall) -> JsonObject:
    return {
        "id": call.id,
        "name": call.name,
        "arguments": dict(call.arguments),
        "is_error": call.is_error,
        "content": call.content,
    }


def _question(question: ReportedQuestion) -> JsonObject:
    inquiry = question.inquiry
    return {
        "id": inquiry.id,
        "tool": question.tool,
        "question": inquiry.question,
        "type": inquiry.answer_type.get("type"),
        "end": question.end,
        "answer": inquiry.answer,
        "channel": inquiry.channel,
    }


def _undecided(one: Undecided) -> JsonObject:
    return {"kind": one.kind, "what": one.words, "why": one.why, "times": one.times}


def _change(change: ConfigChange) -> JsonObject:
    """Return what was changed; what may be a secret is not shown."""
    return {
        "set": mask_secrets(dict(change.delta)),
        "unset": list(change.unsets),
        "begins_again": change.begins_again,
        "proposed_by": [each.tool for each in change.proposed_by],
    }


def _tokens(usage: Mapping[str, TurnUsage]) -> JsonObject:
    """Return the tokens by model; those that no provider reported are left out."""
    counted = {model: asdict(tokens) for model, tokens in usage.items()}
    return {
        model: {name: count for name, count in counts.items() if count is not None}
        for model, counts in counted.items()
    }
