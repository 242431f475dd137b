"""The report of a batch as JUnit XML, for CI: a suite for each notebook, and a case for each run.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from xml.etree.ElementTree import Element, SubElement

from jp_nb.batch.results.open_decisions import group_open_decisions
from jp_nb.batch.results.report_text import MAX_ERROR_CHARS, clean_text
from jp_nb.batch.results.run_log import RunState
from jp_nb.headless.run_reports.junit_report import encode_junit
from jp_nb.json_writing import compact_json


def format_batch_junit(runs: Iterable[RunState], *, strict: bool = False) -> bytes:
    """Return JUnit XML in UTF-8: a suite for each notebook, and a case for each run.

    A run that waits for a decision is skipped; with `strict`, it has failed.
    """
    runs_by_notebook: dict[str, list[RunState]] = {}
    for run in runs:
        runs_by_notebook.setdefault(run.notebook, []).append(run)

    root = Element("testsuites", name="jp-nb")
    for notebook, notebook_runs in runs_by_notebook.items():
        suite = SubElement(root, "testsuite", name=clean_text(notebook))
        seconds = sum(run.seconds for run in notebook_runs)
        suite.set("time", f"{seconds:.3f}")
        for run in notebook_runs:
            _add_run(suite, run, strict=strict)
    return encode_junit(root)  # it adds the numbers of cases and failures


def _add_run(suite: Element, run: RunState, *, strict: bool) -> None:
    """Add the case of a run. One that passed has no element but its parameters."""
    time = f"{run.seconds:.3f}"
    case = SubElement(
        suite, "testcase", classname=clean_text(run.notebook), name=clean_text(run.run), time=time
    )

    lines = list(_list_problems(run))
    match run.outcome:
        case "failed":
            message = lines[0] if lines else "the run failed"
            SubElement(case, "failure", message=message).text = "\n".join(lines)
        case "waiting" if strict:
            SubElement(case, "failure", message="a decision needs the user").text = "\n".join(lines)
        case "waiting":
            SubElement(case, "skipped", message="; ".join(["a decision needs the user", *lines]))
        case "over_budget":
            SubElement(case, "skipped", message=clean_text(run.reason) or "the budget was reached")
        case "interrupted" | "unknown":
            SubElement(case, "error", message=f"the run did not end: {run.outcome}")

    if run.parameters:
        values = [f"{name} = {compact_json(value)}" for name, value in run.parameters.items()]
        SubElement(case, "system-out").text = "\n".join(clean_text(line) for line in values)


def _list_problems(run: RunState) -> Iterator[str]:
    """Yield the errors and the open decisions of a run."""
    for cell in run.failed_cells:
        place = "" if cell.index is None else f"cell {cell.index + 1}: "
        yield f"{place}{clean_text(cell.error, MAX_ERROR_CHARS)}"
    for group in group_open_decisions([run]).groups:
        yield f"open decision: {clean_text(group.description, MAX_ERROR_CHARS)}"
