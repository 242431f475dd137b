"""Headless runs: the notebooks that they wrote, their events, and their reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jp_nb.headless import (
    answers_template,
    pytest_notebooks,
    records,
    run,
    run_events_reading,
    run_report,
    strip,
)

REPORT_TEXTS: Mapping[str, Callable[..., Any]] = {
    "json": run_report.to_json,
    "junit": lambda report: run_report.format_junit([report]).decode(),
    "cassettes": run_report.format_cassettes,
    "cell_errors": run_report.format_cell_errors,
    "turn": run_report.format_turn,
    "open_decisions": run_report.format_open_decisions,
    "end_of_run": lambda events: run.format_decisions(events, None),
    "answers_template": lambda events: answers_template.format_template(
        [*events.undecided.values()], "a.ipynb"
    ),
    "test_failure": pytest_notebooks.format_failures,
}


def report_run(result: Any, notebook: str) -> Any:
    """Return the report of a run that `run_notebook` has returned."""
    return run_report.make_report(result, notebook)


def report_text(form: str, value: Any, **options: Any) -> Any:
    """Return a report or a part of one as the user gets it: a text, or a list of lines."""
    text = REPORT_TEXTS[form](value, **options)
    if isinstance(text, (str, dict)):
        return text
    return list(text)


def read_run_events(path: Path, settings: Mapping[str, str] | None = None) -> Any:
    """Return the events of a run in the file at `path`."""
    return run_events_reading.read_events(path, settings)


def load_notebook(path: Path) -> Any:
    """Return the document of the notebook at `path`, also of one that carries it in a widget."""
    return records.load_conversation(path)


def strip_bytes(data: bytes, **parts: bool) -> bytes:
    """Return the notebook file `data` as `jp-nb strip` writes it: `record=False` keeps it."""
    return strip.strip_notebook(data, strip.Parts(**parts))
