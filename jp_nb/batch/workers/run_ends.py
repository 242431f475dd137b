"""Describe the end of a run: its outcome, its failed cells, and the line of the log about it.

`run_execution.py` executes the run. A run that never began has an end too, for example because the
batch was interrupted.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import errno
import time
from pathlib import Path
from typing import Final

from jp_nb.batch.plans.planned_notebook import digest_file
from jp_nb.batch.plans.run_spec import RunEnd, RunSpec
from jp_nb.batch.results.run_log_lines import EndedLine, FailedCell, RunOutcome, TokenCounts
from jp_nb.headless.run_reports.report_reading import make_report
from jp_nb.headless.run_reports.run_report import RunReport
from jp_nb.headless.runner import RunResult
from jp_nb.headless.terminal_text import format_text

FULL_DISK: Final = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
"""Errors after which no run could write its notebook."""
_HARD_FAILURES: Final = ("DeadKernelError", "TimeoutError", "StorageError")
"""Failures that are not a consequence of an open decision: such a run failed, and does not wait."""


def make_interrupted_line(spec: RunSpec, start: float, *, is_written: bool) -> EndedLine:
    """Return the line about a run that Ctrl+C ended, perhaps after its notebook was written."""
    return EndedLine(
        run=spec.run,
        outcome="interrupted",
        seconds=round(time.monotonic() - start, 3),
        notebook=Path(spec.output).name if is_written else "",
    )


def make_interrupted_end(spec: RunSpec) -> RunEnd:
    """Return the end of a run that was interrupted before it began."""
    return RunEnd(line=EndedLine(run=spec.run, outcome="interrupted"))


def make_failed_end(
    spec: RunSpec, reason: str, *, start: float | None = None, fatal: str = ""
) -> RunEnd:
    """Return the end of a run that failed for `reason`.

    `fatal` is the reason why no other run can succeed; "" if others may.
    """
    seconds = 0.0 if start is None else round(time.monotonic() - start, 3)
    cell = FailedCell(error=format_text(reason))
    line = EndedLine(run=spec.run, outcome="failed", seconds=seconds, failed_cells=(cell,))
    return RunEnd(line=line, fatal=fatal)


def find_fatal_cause(error: BaseException) -> str:
    """Return the reason why no other run can succeed; "" if others may."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in FULL_DISK:
            return format_text(str(error))
        cause = cause.__cause__
    return ""


def make_ended_line(spec: RunSpec, result: RunResult, start: float) -> EndedLine:
    """Return the line about a run whose notebook was executed, perhaps up to a failed cell."""
    report = make_report(result, spec.notebook)
    events = report.events

    # A resumed batch does not try these answers again: the decisions are open in spite of them.
    tried_answers: list[str] = []
    if report.undecided:
        tried_answers = sorted(events.answer_digests)

    return EndedLine(
        run=spec.run,
        outcome=_choose_outcome(spec, report),
        seconds=round(time.monotonic() - start, 3),
        requests=events.requests,
        tokens=TokenCounts(input=events.input_tokens, output=events.output_tokens),
        failed_cells=tuple(_list_failed_cells(result, report)),
        open_decisions=tuple(decision.to_json() for decision in report.undecided),
        used_answers=tuple(sorted(events.used_answers)),
        tried_answers=tuple(tried_answers),
        notebook=Path(spec.output).name,
        warnings=(*result.warnings, *_find_changed_input(spec)),
    )


def _find_changed_input(spec: RunSpec) -> list[str]:
    """Return a warning if the notebook's file is not the one that the batch has planned."""
    if digest_file(Path(spec.path)) == spec.notebook_digest:
        return []
    return ["the notebook's file changed during the run: its later runs fail, resume the batch"]


def _choose_outcome(spec: RunSpec, report: RunReport) -> RunOutcome:
    """Return the outcome. A run with open decisions waits, unless `--strict` makes it fail."""
    failure = report.failure
    is_hard = failure is not None and failure.name in _HARD_FAILURES
    if report.undecided and not spec.strict and not is_hard:
        return "waiting"
    if failure is not None or (report.undecided and spec.strict):
        return "failed"
    return "passed"


def _list_failed_cells(result: RunResult, report: RunReport) -> list[FailedCell]:
    """Return the failed cells; an entry without a cell if the run failed by another cause."""
    cells = result.notebook.cells
    failed = [
        FailedCell(cell=cells[cell.number].get("id"), index=cell.number, error=cell.error)
        for cell in report.cells
        if cell.status == "failed"
    ]
    failure = report.failure
    if failure is not None and not failed:
        failed.append(FailedCell(error=format_text(f"{failure.name}: {failure.message}")))
    return failed
