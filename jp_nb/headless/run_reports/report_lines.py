"""Write a report of a headless run as lines of text: counts, turns, errors, and open decisions.

Texts of models and tools are shown without secrets (`format_one_line`).

Source: `docs/ci.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from jp_nb.headless.run_reports.run_report import ReportedCell, ReportedTurn, RunReport
from jp_nb.headless.terminal_text import format_one_line
from jp_nb.record.entries.token_usage import USAGE_FIELDS
from jp_nb.record.reading.turn_view import ToolCall
from jp_nb.rendering.transcripts.call_text import format_content_for_user
from jp_nb.text import one_line

_CALL_ENDS: Final[Mapping[bool | None, str]] = {
    False: "ok",
    True: "error",
    None: "no result",
}
"""The end of a call, by its `is_error`."""


def format_cell_errors(cell: ReportedCell) -> list[str]:
    """Return lines about the last turn of a failed cell: failed calls and unanswered questions."""
    if not cell.turns:
        return []

    reported = cell.turns[-1]
    lines = [f"in {reported}"]
    for call in reported.turn.tool_calls:
        if call.is_error is not False:  # None: the call has no result
            result = format_content_for_user(call.name, call.content or "no result")
            lines.append(f"  call {_format_name(call)}: {format_one_line(result, limit=500)}")

    return [*lines, *(f"  {question}" for question in reported.unanswered)]


def format_turn(reported: ReportedTurn) -> Iterator[str]:
    """Yield a line for the turn and for each of its calls and questions."""
    turn = reported.turn
    yield f"{reported}: {turn.status}"
    for call in turn.tool_calls:
        end = _CALL_ENDS[call.is_error]
        if call.skipped:  # such a call has a result without an error
            end = "skipped"
        yield f"  call {_format_name(call)}: {end}"
    for question in reported.questions:
        yield f"  {question}"
    if turn.config_changes:
        yield f"  configuration changes: {len(turn.config_changes)}"


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
        f"open decision: {decision.description}: {format_one_line(decision.why, limit=300)}"
        for decision in report.undecided
    ]
