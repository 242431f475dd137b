"""Report of a headless run as text, JSON and JUnit XML.

Source: `docs/ci.md`, https://github.com/testmoapp/junitxml.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from jp_nb.config.masked_settings import mask_secrets
from jp_nb.errors import StorageError
from jp_nb.headless.files import format_one_line, format_text
from jp_nb.headless.kernels.execution import CellFailure, CellStatus
from jp_nb.headless.run_events_reading import CassetteUse, ReportedDecision, RunEvents
from jp_nb.headless.runner import RunResult
from jp_nb.json_values import JsonObject, as_object, make_storable
from jp_nb.record.documents import carrier
from jp_nb.record.documents.document import Document, get_conversation_id, get_others
from jp_nb.record.entries.clock import parse_timestamp, utc_now
from jp_nb.record.entries.events import InquiryRequest
from jp_nb.record.entries.token_usage import USAGE_FIELDS, Usage, read_usage
from jp_nb.record.entries.turn_entries import TurnEntries
from jp_nb.record.entries.turn_numbers import to_shown_turn
from jp_nb.record.reading.turn_reader import read_turn
from jp_nb.record.reading.turn_view import (
    ConfigChange,
    Inquiry,
    StructuredData,
    ToolCall,
    Turn,
    TurnText,
)
from jp_nb.record.stream import ConversationStream
from jp_nb.rendering.prompt_texts.outcome_text import format_cause
from jp_nb.rendering.reports.cassette_miss import describe_exchange, format_exchange_count
from jp_nb.rendering.transcripts.call_text import format_content_for_user
from jp_nb.storage.cassettes.cassette_content import StoredExchange
from jp_nb.storage.cassettes.cassette_file import read_cassette
from jp_nb.text import MAX_LISTED_LINES, one_line, plain

MAX_SOURCE: Final = 60  # maximum length of the source text that identifies a cell


@dataclass(frozen=True, slots=True)
class ReportedQuestion:
    """A question of a tool, or of the `assistant`, and its outcome."""

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
        end = self.end
        asked = format_one_line(self.inquiry.question)
        if not self.is_answered:
            end = "chosen automatically" if end == "automatic" else format_cause(self.inquiry.ended)
        return f"question {one_line(self.inquiry.id)} of {one_line(self.tool)}: {asked!r}: {end}"


@dataclass(frozen=True, slots=True)
class ReportedTurn:
    """A turn of the run, and the number of its cell, from 0; None if it is unknown.

    The status of the turn is `answered` or `unfinished` if the record contains no other status.
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
    """A code cell. `error` is name and message of its error; "" without one."""

    number: int
    source: str
    status: CellStatus
    seconds: float
    error: str
    traceback: str
    turns: tuple[ReportedTurn, ...]


@dataclass(frozen=True, slots=True)
class RunReport:
    """Report of one run. `record_error` is why its record cannot be read; "" if it can."""

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
        return _sum_usage(chain.from_iterable(turn.usage.items() for turn in self.turns))


def make_report(result: RunResult, notebook: str) -> RunReport:
    """Return the report of a run. If the record is unreadable, it has the error and no turns."""
    try:
        turns = tuple(_read_turns(result))
        error = ""
    except StorageError as exc:
        turns = ()
        error = format_text(str(exc))

    by_cell: dict[int | None, list[ReportedTurn]] = {}
    for turn in turns:
        by_cell.setdefault(turn.cell, []).append(turn)

    cells = []
    for end in result.cells:
        cell = result.notebook.cells[end.cell]
        source = " ".join(format_one_line(cell.source).split())
        if len(source) > MAX_SOURCE:
            source = f"{source[:MAX_SOURCE]}…"
        failed = _format_error(cell, result.failure) if end.status == "failed" else ("", "")
        begun = tuple(by_cell.get(end.cell, ()))
        cells.append(ReportedCell(end.cell, source, end.status, end.seconds, *failed, begun))

    return RunReport(notebook, result.failure, tuple(cells), turns, error, result.events)


def _format_error(cell: Any, failure: CellFailure | None) -> tuple[str, str]:
    errors = [output for output in cell.outputs if output.output_type == "error"]
    traceback = errors[-1].get("traceback", ()) if errors else ()
    error = f"{failure.name}: {failure.message}" if failure else "it did not finish"
    return format_text(error), format_text("\n".join(map(str, traceback)))


def _read_turns(result: RunResult) -> Iterator[ReportedTurn]:
    """Yield the turns of this run, those of the active conversation last."""
    stored = carrier.read_carrier(result.notebook.metadata)
    if stored is None:
        return

    active = Document.load(stored, clock=utc_now, tolerant=True).conversation
    ran = {end.conversation for end in result.cells}

    for other in reversed(get_others(stored)):
        identifier = get_conversation_id(other)
        if identifier in ran and identifier != active.id:
            shelved = Document.load(other, clock=utc_now, tolerant=True)
            yield from _read_stream_turns(shelved.conversation, result)
    yield from _read_stream_turns(active, result)


def _read_stream_turns(stream: ConversationStream, result: RunResult) -> Iterator[ReportedTurn]:
    places = [(end.entries, end.cell) for end in result.cells if end.conversation == stream.id]
    counts = list(accumulate((count for count, _ in places), max))
    parent_turn = as_object(stream.properties.get("parent")).get("turn")
    shared = parent_turn + 1 if isinstance(parent_turn, int) else 0
    old = _count_old_entries(stream, result)

    begins: dict[int, int] = {}
    for event in stream.events():
        begins.setdefault(event.turn, event.position)

    for entries in stream.turns():
        begin = begins.get(entries.number, 0)
        if begin >= old and entries.number >= shared:
            place = bisect_right(counts, begin)
            cell = places[place][1] if place < len(places) else None
            yield _make_turn(stream, entries, cell)


def _count_old_entries(stream: ConversationStream, result: RunResult) -> int:
    count = result.taken_over.get(stream.id, 0)
    if not count or result.continued:
        return count

    # A reproducible run replaces its old conversation by a new one with the same id, so all entries
    # are new. Only such a run stores times as whole seconds.
    times = (parse_timestamp(entry.timestamp) for entry in stream.entries if entry.timestamp)
    first = next(times, None)
    return 0 if first is not None and not first.microsecond else count


def _make_turn(stream: ConversationStream, entries: TurnEntries, cell: int | None) -> ReportedTurn:
    turn = read_turn(entries.number, entries.entries, status="", images=stream.images)
    asked = (each for each in entries.entries if isinstance(each, InquiryRequest))
    askers = {each.id: each.source.name or each.source.source for each in asked}
    questions = tuple(ReportedQuestion(each, askers.get(each.id, "")) for each in turn.inquiries)

    used = chain.from_iterable(read_usage(entry.metadata) for entry in entries.entries)
    usage = _sum_usage((each.model, each.tokens) for each in used)

    status = "unfinished"
    match [part for part in turn.parts if not isinstance(part, ConfigChange)]:
        case [*_, TurnText(by_person=False) | StructuredData()]:
            status = "answered"
    turn = replace(turn, status=turn.status or status)
    return ReportedTurn(stream.id, turn, cell, questions, usage)


def _sum_usage(used: Iterable[tuple[str, Usage]]) -> dict[str, Usage]:
    found: dict[str, Usage] = {}
    for model, tokens in used:
        found[model] = found.get(model, Usage()) + tokens
    return dict(sorted(found.items()))


def format_cassettes(report: RunReport) -> list[str]:
    """Return lines about recorded exchanges and, after a run without a failure, replayed ones.

    Raises:
        StorageError: A cassette cannot be read.
    """
    uses = report.events.cassettes
    lines = []

    for path, use in uses.items():
        place = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        if use.is_new and not use.added:
            stays = "; the file is unchanged" if path.exists() else ""
            lines.append(f"no model answered: nothing was recorded in {place}{stays}")
        elif use.added:
            count = format_exchange_count(use.added)
            action = "recorded in" if use.is_new else "added to"
            lines.append(f"{count} {action} {place}")

    if report.failure is not None:  # a failed run may not need the rest
        return lines

    for path, use in uses.items():
        if use.used and len(use.used) == (total := len(_list_replayable(path, use))):
            lines.append(f"{total} of {format_exchange_count(total)} of {path.name} used")
    return [*lines, *format_unused_exchanges(uses)]


def _list_replayable(path: Path, use: CassetteUse) -> list[StoredExchange]:
    if use.is_new or not path.exists():
        return []
    stored = read_cassette(path).exchanges
    return list(stored[: len(stored) - use.added])


def format_unused_exchanges(uses: Mapping[Path, CassetteUse]) -> Iterator[str]:
    """Yield lines about exchanges that were not replayed.

    Raises:
        StorageError: A cassette cannot be read.
    """
    for path, use in uses.items():
        before = _list_replayable(path, use)
        rest = [each for each in before if each.number not in use.used]
        if rest:
            content = read_cassette(path)
            yield f"{len(rest)} of {format_exchange_count(len(before))} of {path.name} not used:"
            yield from (f"  {describe_exchange(content, each)}" for each in rest[:MAX_LISTED_LINES])
        if len(rest) > MAX_LISTED_LINES:
            yield f"  … and {len(rest) - MAX_LISTED_LINES} more"


def format_cell_errors(cell: ReportedCell) -> list[str]:
    """Return lines about the last turn of a failed cell: failed calls and unanswered questions."""
    if not cell.turns:
        return []

    turn = cell.turns[-1]
    lines = [f"in {turn}"]
    for call in turn.turn.tool_calls:
        if call.is_error is not False:
            result = format_content_for_user(call.name, call.content or "no result")
            lines.append(f"  call {_format_name(call)}: {format_one_line(result, limit=500)}")

    return [*lines, *(f"  {question}" for question in turn.unanswered)]


_CALL_ENDS: Final[Mapping[bool | None, str]] = {
    False: "ok",
    True: "error",
    None: "no result",
}


def format_turn(turn: ReportedTurn) -> Iterator[str]:
    """Yield a line for the turn and for each of its calls and questions."""
    yield f"{turn}: {turn.turn.status}"
    for call in turn.turn.tool_calls:
        end = _CALL_ENDS[call.is_error]
        if call.skipped:
            end = "skipped"
        yield f"  call {_format_name(call)}: {end}"
    for question in turn.questions:
        yield f"  {question}"
    if turn.turn.config_changes:
        yield f"  configuration changes: {len(turn.turn.config_changes)}"


def _format_name(call: ToolCall) -> str:
    return one_line(call.name, limit=80)


def list_counts(report: RunReport) -> Iterator[tuple[str, str]]:
    """Yield name and value of each count of a report."""
    turns = report.turns
    yield "turns", str(len(turns))
    yield "tool_calls", str(sum(len(turn.turn.tool_calls) for turn in turns))
    yield "questions", str(sum(len(turn.questions) for turn in turns))
    yield "unanswered_questions", str(len(report.unanswered))
    yield "undecided", str(len(report.undecided))
    yield "config_changes", str(sum(len(turn.turn.config_changes) for turn in turns))
    for model, tokens in report.usage.items():
        for name in USAGE_FIELDS:
            if (count := getattr(tokens, name)) is not None:
                yield f"{name} {model}", str(count)


def format_open_decisions(report: RunReport) -> list[str]:
    """Return a line for each open decision."""
    return [
        f"open decision: {one.description}: {format_one_line(one.why, limit=300)}"
        for one in report.undecided
    ]


_NOT_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


def format_junit(reports: Iterable[RunReport]) -> bytes:
    """Return JUnit XML in UTF-8: a suite for each report, and a test case for each cell."""
    root = Element("testsuites", name="jp-nb")
    for report in reports:
        _add_suite(root, report)

    return encode_junit(root)


def encode_junit(root: Element) -> bytes:
    """Return the document in UTF-8, with the counts of its suites, and without invalid characters.

    Each suite is a `testsuite` with its cases.
    """
    for suite in root:
        cases = suite.findall("testcase")
        suite.set("tests", str(len(cases)))
        for plural, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(plural, str(sum(case.find(kind) is not None for case in cases)))

    for name in ("tests", "failures", "errors"):  # the only attributes that all schemas allow
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    for element in root.iter():
        element.attrib.update({name: _clean_xml(x) for name, x in element.attrib.items()})
        element.text = element.text and _clean_xml(element.text)

    indent(root)
    text: str = tostring(root, encoding="unicode")
    return f"<?xml version='1.0' encoding='utf-8'?>\n{text}\n".encode()


def _add_suite(root: Element, report: RunReport) -> None:
    suite = SubElement(root, "testsuite", name=report.notebook)
    properties = SubElement(suite, "properties")

    for name, value in list_counts(report):
        SubElement(properties, "property", name=name, value=value)
    for cell in report.cells:
        _add_case(suite, report.notebook, cell)

    lost = report.record_error
    failure = report.failure
    if failure is not None and not any(cell.status == "failed" for cell in report.cells):
        lost = format_text(f"{failure.name}: {failure.message}")

    if lost:
        case = SubElement(suite, "testcase", classname=report.notebook, name="the run")
        SubElement(case, "error", message=lost)

    if open_ := format_open_decisions(report):
        SubElement(suite, "system-out").text = "\n".join(open_)

    suite.set("time", f"{report.seconds:.3f}")


def _add_case(suite: Element, notebook: str, cell: ReportedCell) -> None:
    name = f"cell {cell.number + 1}: {cell.source}"
    time = f"{cell.seconds:.3f}"
    case = SubElement(suite, "testcase", classname=notebook, name=name, time=time)

    if cell.status == "failed":
        lines = [*format_cell_errors(cell), cell.traceback or cell.error]
        SubElement(case, "failure", message=cell.error).text = "\n".join(lines)
    elif cell.status == "not run":
        SubElement(case, "skipped", message="this cell was not run")

    if cell.turns:
        lines = list(chain.from_iterable(map(format_turn, cell.turns)))
        SubElement(case, "system-out").text = "\n".join(lines)


def _clean_xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", plain(text))


def format_json_report(report: RunReport) -> str:
    """Return `report` as JSON text in ASCII."""
    return json.dumps(make_storable(to_json(report)), indent=2) + "\n"


def to_json(report: RunReport) -> JsonObject:
    """Return `report` as a JSON object with the shape in `docs/ci.md`."""
    failure = report.failure
    failed: JsonObject | None = None
    if failure is not None:
        message = format_text(failure.message)
        failed = {"cell": failure.cell, "name": failure.name, "message": message}

    return {
        "version": 1,
        "notebook": report.notebook,
        "ok": failure is None,
        "failure": failed,
        "record_error": report.record_error or None,
        "seconds": round(report.seconds, 3),
        "cells": [
            {
                "cell": cell.number,
                "source": cell.source,
                "status": cell.status,
                "seconds": round(cell.seconds, 3),
                "error": cell.error or None,
            }
            for cell in report.cells
        ],
        "turns": [_turn_to_json(turn) for turn in report.turns],
        "tokens": _format_usage_json(report.usage),
        "unanswered": len(report.unanswered),
        "undecided": [
            {"kind": each.kind, "what": each.description, "why": each.why, "times": each.times}
            for each in report.undecided
        ],
    }


def _turn_to_json(reported: ReportedTurn) -> JsonObject:
    turn = reported.turn
    return {
        "conversation": reported.conversation,
        "turn": turn.number,
        "cell": reported.cell,
        "request": turn.request,
        "text": turn.text,
        "data": turn.json,
        "status": turn.status,
        "tool_calls": [
            {
                "id": call.id,
                "name": call.name,
                "arguments": dict(call.arguments),
                "is_error": call.is_error,
                "content": call.content,
            }
            for call in turn.tool_calls
        ],
        "questions": [_format_question_json(question) for question in reported.questions],
        "config_changes": [_change_to_json(change) for change in turn.config_changes],
        "tokens": _format_usage_json(reported.usage),
    }


def _change_to_json(change: ConfigChange) -> JsonObject:
    return {
        "set": mask_secrets(dict(change.delta)),
        "unset": list(change.unsets),
        "begins_again": change.begins_again,
        "proposed_by": [each.tool for each in change.proposed_by],
    }


def _format_question_json(question: ReportedQuestion) -> JsonObject:
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


def _format_usage_json(usage: Mapping[str, Usage]) -> JsonObject:
    return {model: tokens.to_json() for model, tokens in usage.items()}
