"""Write the lines about a notebook test that failed: its cells, and the decisions it left open.

In a test, no user can answer. A *decision* is a consent or an answer that a tool call needs:

- Without a prepared answer it is *open*; the report lists it as `undecided`.
- An optional question gets its default without a user (its end is "automatic"). It also counts as
  `unanswered`, because no user has answered it.

Source: `docs/ci.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from jp_nb.headless.run_reports.report_lines import format_cell_errors, format_open_decisions
from jp_nb.headless.run_reports.run_report import ReportedCell, RunReport
from jp_nb.storage.configuration.answers_file import ANSWERS_SUFFIX


def format_failures(report: RunReport, *, strict: bool) -> Iterator[str]:
    """Yield the lines of the failure; none if the test passes.

    These are the failed cells, with advice if an answers file could have prepared their decisions.
    With `strict`, a run without a failed cell fails if it needed the user. If a cell failed, the
    lines about it have its open decisions.
    """
    failed = [cell for cell in report.cells if cell.status == "failed"]
    for cell in failed:
        yield f"{report.notebook}: cell {cell.number + 1} failed: {cell.source}"
        yield from format_cell_errors(cell)
        if not cell.traceback.endswith(cell.error):  # most tracebacks end with the error
            yield cell.error
        if cell.traceback:
            yield cell.traceback

    if failed:
        yield from format_open_decisions(report)
        if report.undecided or any(_has_unanswered(cell) for cell in failed):
            yield _format_advice(report)

    if report.failure is not None and not failed:
        yield f"{report.notebook}: {report.failure.name}: {report.failure.message}"
    if report.record_error:
        yield f"{report.notebook}: the record of the run cannot be read: {report.record_error}"
    if strict and not failed:
        yield from _format_undecided(report)


def _has_unanswered(cell: ReportedCell) -> bool:
    return any(turn.unanswered for turn in cell.turns)


def _format_undecided(report: RunReport) -> Iterator[str]:
    """Yield the decisions that no user made: open ones, and answers chosen automatically."""
    lines = format_open_decisions(report)

    for turn in report.turns:
        automatic = [f"  {each}" for each in turn.questions if each.end == "automatic"]
        if automatic:
            cell = "" if turn.cell is None else f"cell {turn.cell + 1}, "
            lines += [f"{report.notebook}: {cell}{turn}", *automatic]

    if lines:
        yield from lines
        yield _format_advice(report)


def _format_advice(report: RunReport) -> str:
    name = Path(report.notebook).with_suffix(ANSWERS_SUFFIX).name
    return f"Prepare these decisions in an answers file {name} next to the notebook."
