"""The report of a batch: its runs, their totals, errors, and open decisions as JSON.

`write_reports` makes the report of the log `OUT/runs.jsonl`. `OUT/report.json` is for programs.
`OUT/report.html` shows the same JSON to people (`report_page.py`). `clean_text` hides the secrets
in texts of models and files, and cuts long ones.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from jp_nb.batch.results.open_decisions import group_open_decisions
from jp_nb.batch.results.report_page import format_page
from jp_nb.batch.results.report_text import MAX_ERROR_CHARS, clean_text
from jp_nb.batch.results.run_log import RunLog, RunState
from jp_nb.batch.results.run_log_lines import BatchLine
from jp_nb.headless.files import replace_file_at
from jp_nb.json_values import JsonObject
from jp_nb.json_writing import compact_json
from jp_nb.storable_json import make_storable

HTML_NAME: Final = "report.html"
JSON_NAME: Final = "report.json"
MAX_DETAILED_RUNS: Final = 2_000
"""With more runs that failed or wait, their errors and decisions are cut sooner."""
MAX_SHORT_ERROR_CHARS: Final = 200
"""Maximum length of an error, or of a decision, in the report of more runs."""


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
    detailed_count = sum(bool(run.failed_cells or run.open_decisions) for run in log.runs)
    limit = MAX_ERROR_CHARS
    if detailed_count > MAX_DETAILED_RUNS:
        limit = MAX_SHORT_ERROR_CHARS

    batches = _to_line([_batch_to_json(batch) for batch in log.batches])
    totals = _to_line(make_totals(log.runs))
    runs = ",\n".join(_to_line(_run_to_json(run, limit)) for run in log.runs)
    return f'{{"version":1,\n"batches":{batches},\n"totals":{totals},\n"runs":[\n{runs}\n]}}\n'


def _to_line(value: object) -> str:
    """Return `value` as JSON in one line, in ASCII."""
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
    return {"time": batch.time, "host": clean_text(batch.host), "versions": versions}


def _run_to_json(run: RunState, limit: int) -> JsonObject:
    """Return a run as JSON, with errors and decisions of at most `limit` characters."""
    parameters = {
        clean_text(name): _clean_parameter(value) for name, value in run.parameters.items()
    }
    overrides: JsonObject = {
        clean_text(key): clean_text(value) for key, value in run.overrides.items()
    }
    failed: list[JsonValue] = [
        {
            "cell": clean_text(cell.cell or ""),
            "index": cell.index,
            "error": clean_text(cell.error, limit),
        }
        for cell in run.failed_cells
    ]
    decisions: list[JsonValue] = [
        clean_text(group.description, limit) for group in group_open_decisions([run]).groups
    ]

    return {
        "run": clean_text(run.run),
        "notebook": clean_text(run.notebook),
        "parameters": parameters,
        "overrides": overrides,
        "outcome": run.outcome,
        "seconds": round(run.seconds, 3),
        "requests": run.requests,
        "tokens": {"input": run.tokens.input, "output": run.tokens.output},
        "failed_cells": failed,
        "open_decisions": decisions,
        "output": make_storable(run.output),  # half a surrogate pair is replaced
        "reason": clean_text(run.reason, limit),
        "warnings": [clean_text(text, limit) for text in run.warnings],
    }


def _clean_parameter(value: JsonValue) -> JsonValue:
    if isinstance(value, bool | int | float) or value is None:
        return value
    text = value if isinstance(value, str) else compact_json(value)
    return clean_text(text)
