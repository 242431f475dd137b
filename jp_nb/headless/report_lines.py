"""The report of a run in lines of text, for people.

Source: `docs/ci.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from jp_nb.headless.run_report import ReportedCell, ReportedTurn, RunReport
from jp_nb.headless.shown_text import shown_line
from jp_nb.record.turn_view import ToolCall
from jp_nb.record.usage import KEYS
from jp_nb.rendering.conversation_log import was_skipped
from jp_nb.rendering.tool_calls import for_user
from jp_nb.safe_text import one_line

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
