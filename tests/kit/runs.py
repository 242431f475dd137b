"""The report of a headless run: its events, its values, and its texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jp_nb.headless import run_events_reading
from jp_nb.headless.commands import answers_template
from jp_nb.headless.run_reports import (
    cassette_lines,
    decision_lines,
    failure_lines,
    json_report,
    junit_report,
    report_lines,
    report_reading,
)
from jp_nb.storage.configuration.answers_file import (
    parse_answers,
)

_TEXTS: Mapping[str, Callable[..., Any]] = {
    "json": json_report.to_json,
    "junit": lambda report: junit_report.format_junit([report]).decode(),
    "cassettes": cassette_lines.format_cassettes,
    "cell_errors": report_lines.format_cell_errors,
    "turn": report_lines.format_turn,
    "open_decisions": report_lines.format_open_decisions,
    "end_of_run": lambda events, answers=None: decision_lines.format_decisions(
        events, None if answers is None else parse_answers(answers, "a.toml")
    ),
    "answers_template": lambda events: answers_template.format_template(
        [*events.undecided.values()], "a.ipynb"
    ),
    "test_failure": failure_lines.format_failures,
}


class RunReport:
    """The report of a headless run, from its result or its events to the texts for the user."""

    @staticmethod
    def of(result: Any, notebook: str) -> Any:
        """Return the report of a run that `run_notebook` has returned."""
        return report_reading.make_report(result, notebook)

    @staticmethod
    def read_events(path: Path, settings: Mapping[str, str] | None = None) -> Any:
        """Return the events of a run in the file at `path`."""
        return run_events_reading.read_events(path, settings)

    @staticmethod
    def text(form: str, value: Any, **options: Any) -> Any:
        """Return a report or a part of one as the user gets it: a text, or a list of lines.

        The forms are `json`, `junit`, and `test_failure` for a report; `turn`, `cell_errors`, and
        `cassettes` for its parts; `open_decisions`, `end_of_run`, and `answers_template` for the
        decisions that no user made. `end_of_run` takes the text of an answers file, `answers`.
        """
        text = _TEXTS[form](value, **options)
        if isinstance(text, (str, dict)):
            return text
        return list(text)
