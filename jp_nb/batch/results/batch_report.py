"""The report of a batch: one page for people, and JSON and JUnit XML for programs.

`write_reports` makes `OUT/report.html` and `OUT/report.json` of the log `OUT/runs.jsonl`. The page
is one file that loads nothing: `report_page.html` with the rows of all runs, which are compressed
so that 100,000 runs stay a few megabytes. The page decompresses them, and shows, sorts, and filters
them. It sets them as text only, never as HTML.

`format_batch_junit` has a suite for each notebook, and a case for each run.

Texts of models, notebooks, and files are in one line, bounded, without secrets, and with invisible
characters spelled out.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element, SubElement

from pydantic import JsonValue

from jp_nb.batch.results.open_decisions import group_open_decisions
from jp_nb.batch.results.run_log import BatchLine, RunLog, RunState
from jp_nb.headless.files import format_one_line, replace_file_at
from jp_nb.headless.run_reports.junit_report import encode_junit
from jp_nb.json_values import JsonObject, compact_json, make_storable
from jp_nb.text import pluralize, spell_invisible

HTML_NAME: Final = "report.html"
JSON_NAME: Final = "report.json"
MAX_ERROR_CHARS: Final = 2_000
"""Maximum length of an error, or of a decision, in a report."""
MAX_DETAILED_RUNS: Final = 2_000
"""Number of runs with details from which on the details are short."""
MAX_SHORT_ERROR_CHARS: Final = 200
"""Maximum length of an error, or of a decision, in the report of more runs."""
MAX_VALUE_CHARS: Final = 200
"""Maximum length of a name, or of the value of a parameter, in a report."""
_SCRIPT: Final = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_DATA: Final = "__DATA__"
_HEADING: Final = "__HEADING__"
_POLICY: Final = "__POLICY__"


def write_reports(folder: Path, log: RunLog) -> None:
    """Write `report.html` and `report.json` to the `folder` of the batch.

    Raises:
        StorageError: A report cannot be written.
    """
    report = format_batch_report(log)
    page = format_page(report, folder.name, len(log.runs))
    replace_file_at(folder / JSON_NAME, report.encode())
    replace_file_at(folder / HTML_NAME, page.encode("utf-8", "replace"))


def format_batch_report(log: RunLog) -> str:
    """Return the report as JSON in ASCII, with one run in a line.

    `docs/many-notebooks.md` has its shape.
    """
    detailed = sum(bool(run.failed_cells or run.open_decisions) for run in log.runs)
    limit = MAX_ERROR_CHARS
    if detailed > MAX_DETAILED_RUNS:
        limit = MAX_SHORT_ERROR_CHARS

    batches = _to_line([_batch_to_json(batch) for batch in log.batches])
    totals = _to_line(make_totals(log.runs))
    runs = ",\n".join(_to_line(_run_to_json(run, limit)) for run in log.runs)
    return f'{{"version":1,\n"batches":{batches},\n"totals":{totals},\n"runs":[\n{runs}\n]}}\n'


def _to_line(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def make_totals(runs: Sequence[RunState]) -> JsonObject:
    """Return the number of runs of each outcome, and sums."""
    outcomes = Counter(run.outcome for run in runs)
    return {
        "runs": len(runs),
        "outcomes": dict(sorted(outcomes.items())),
        "seconds": round(sum(run.seconds for run in runs), 3),
        "requests": sum(run.requests for run in runs),
        "tokens": {
            "input": sum(run.tokens.input for run in runs),
            "output": sum(run.tokens.output for run in runs),
        },
    }


def _batch_to_json(batch: BatchLine) -> JsonObject:
    versions: JsonObject = {**batch.versions}
    return {"time": batch.time, "host": _clean(batch.host), "versions": versions}


def _run_to_json(run: RunState, limit: int) -> JsonObject:
    parameters = {_clean(name): _clean_value(value) for name, value in run.parameters.items()}
    overrides: JsonObject = {_clean(key): _clean(value) for key, value in run.overrides.items()}
    failed: list[JsonValue] = [
        {"cell": _clean(cell.cell or ""), "index": cell.index, "error": _clean(cell.error, limit)}
        for cell in run.failed_cells
    ]
    decisions: list[JsonValue] = [
        _clean(group.description, limit) for group in group_open_decisions([run]).groups
    ]

    return {
        "run": _clean(run.run),
        "notebook": _clean(run.notebook),
        "parameters": parameters,
        "overrides": overrides,
        "outcome": run.outcome,
        "seconds": round(run.seconds, 3),
        "requests": run.requests,
        "tokens": {"input": run.tokens.input, "output": run.tokens.output},
        "failed_cells": failed,
        "open_decisions": decisions,
        "output": make_storable(run.output),
        "reason": _clean(run.reason, limit),
        "warnings": [_clean(text, limit) for text in run.warnings],
    }


def _clean_value(value: JsonValue) -> JsonValue:
    if isinstance(value, bool | int | float) or value is None:
        return value
    text = value if isinstance(value, str) else compact_json(value)
    return _clean(text)


@lru_cache(maxsize=10_000)  # names of notebooks and parameters repeat
def _clean(text: str, limit: int = MAX_VALUE_CHARS) -> str:
    return format_one_line(spell_invisible(text), limit=limit)


# --- the page ------------------------------------------------------------------------------------


def format_page(report: str, name: str, count: int) -> str:
    """Return the JSON `report` as one HTML file without external parts.

    Its heading has the `name` of the folder, and the number of runs.
    """
    page = files(__package__).joinpath("report_page.html").read_text(encoding="utf-8")
    heading = f"{_clean(name)}: {count:,} {pluralize('run', count)}"
    data = base64.b64encode(zlib.compress(report.encode(), 9)).decode("ascii")

    page = page.replace(_POLICY, _make_policy(page))
    page = page.replace(_HEADING, escape(heading))
    return page.replace(_DATA, data)


def _make_policy(page: str) -> str:
    """Return the content policy of the page: its own script and styles, and nothing else."""
    script = _SCRIPT.search(page)
    assert script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode("ascii")
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


# --- JUnit ---------------------------------------------------------------------------------------


def format_batch_junit(runs: Iterable[RunState], *, strict: bool = False) -> bytes:
    """Return JUnit XML in UTF-8: a suite for each notebook, and a case for each run.

    A run that waits for a decision is skipped; with `strict`, it has failed.
    """
    by_notebook: dict[str, list[RunState]] = {}
    for run in runs:
        by_notebook.setdefault(run.notebook, []).append(run)

    root = Element("testsuites", name="jp-nb")
    for notebook, its_runs in by_notebook.items():
        suite = SubElement(root, "testsuite", name=_clean(notebook))
        seconds = sum(run.seconds for run in its_runs)
        suite.set("time", f"{seconds:.3f}")
        for run in its_runs:
            _add_run(suite, run, strict)
    return encode_junit(root)


def _add_run(suite: Element, run: RunState, strict: bool) -> None:
    time = f"{run.seconds:.3f}"
    case = SubElement(
        suite, "testcase", classname=_clean(run.notebook), name=_clean(run.run), time=time
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
            SubElement(case, "skipped", message=_clean(run.reason) or "the budget was reached")
        case "interrupted" | "unknown":
            SubElement(case, "error", message=f"the run did not end: {run.outcome}")

    if run.parameters:
        values = [f"{name} = {compact_json(value)}" for name, value in run.parameters.items()]
        SubElement(case, "system-out").text = "\n".join(_clean(line) for line in values)


def _list_problems(run: RunState) -> Iterator[str]:
    for cell in run.failed_cells:
        place = "" if cell.index is None else f"cell {cell.index + 1}: "
        yield f"{place}{_clean(cell.error, MAX_ERROR_CHARS)}"
    for group in group_open_decisions([run]).groups:
        yield f"open decision: {_clean(group.description, MAX_ERROR_CHARS)}"
