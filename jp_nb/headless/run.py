"""Command `jp-nb run`: execute a notebook without a user.

Source: `docs/guide.md`, `docs/answers.md`, `docs/cassettes.md`, `docs/ci.md`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from jp_nb.errors import UsageError
from jp_nb.headless.files import refuse_unsafe_link, replace_file_at, require_notebook
from jp_nb.headless.open_decisions import (
    find_misspelled_answers,
    format_decisions,
    format_exists_error,
    write_template,
)
from jp_nb.headless.report import (
    RunReport,
    format_cassettes,
    format_failure,
    format_json_report,
    format_junit,
    make_report,
)
from jp_nb.headless.runner import run_notebook
from jp_nb.storage import cassette
from jp_nb.storage.answers_file import AnswersFile, read_answers_file
from jp_nb.text import plain

CASSETTE: Final = "providers.cassette"
"""Path of the settings for cassettes."""
CASSETTE_MODES: Final = ("record", "replay", "replay-or-record")


def run(options: argparse.Namespace) -> int:
    """Execute the notebook, and print its failure and its open decisions."""
    notebook = require_notebook(options.notebook)
    _check_report_paths(options.junit, options.json)
    settings = make_cassette_settings(options, notebook)
    answers = read_answers_file(options.answers) if options.answers is not None else None
    if options.answers_template is not None and os.path.lexists(options.answers_template):
        raise UsageError(format_exists_error(options.answers_template))
    result = run_notebook(
        notebook,
        out=options.out,
        strict=options.strict,
        continue_=options.go_on,
        overrides=options.cfg,
        settings=settings,
        answers=options.answers,
    )
    report = make_report(result, os.fspath(options.notebook))
    _print_lines(format_failure(report))
    _write_reports(report, options)
    _print_lines(format_cassettes(report))
    _print_lines(format_decisions(report.events, answers))
    _write_template(report, options)
    is_misspelled = options.strict and _has_misspelled_answers(report, answers)
    return 0 if result.ok and not is_misspelled else 1


def make_cassette_settings(options: argparse.Namespace, notebook: Path) -> dict[str, str]:
    """Return the settings for a run of `notebook`, by path.

    Raises:
        UsageError: `--tools` is given without a replay.
        StorageError: The cassette is a link to a file that must not be written.
    """
    files = {mode: getattr(options, mode.replace("-", "_")) for mode in CASSETTE_MODES}
    chosen = [mode for mode, file in files.items() if file is not None]
    if options.tools is not None and chosen in ([], ["record"]):
        raise UsageError("--tools selects where a replay takes tool results from: add `--replay`")
    if not chosen:
        return {}
    mode = chosen[0]
    path = (
        Path(os.path.abspath(files[mode]))
        if files[mode]
        else cassette.default_cassette_path(notebook.resolve())
    )
    if mode != "replay":
        cassette.refuse_unsafe_link(path)
    settings = {f"{CASSETTE}.mode": mode, f"{CASSETTE}.path": str(path)}
    if options.tools is not None:
        settings[f"{CASSETTE}.tools"] = options.tools
    return settings


def _check_report_paths(*reports: Path | None) -> None:
    for path in reports:
        if path is not None and path.suffix == ".ipynb":
            raise UsageError(f"{path} is named like a notebook: choose another name for the report")
        if path is not None:
            refuse_unsafe_link(path)


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(f"jp-nb: {plain(line)}", file=sys.stderr)


def _write_reports(report: RunReport, options: argparse.Namespace) -> None:
    if options.junit is not None:
        replace_file_at(options.junit, format_junit([report]), folders=True)
    if options.json is not None:
        replace_file_at(options.json, format_json_report(report).encode(), folders=True)


def _write_template(report: RunReport, options: argparse.Namespace) -> None:
    template: Path | None = options.answers_template
    if template is None:
        return
    undecided = [*report.events.undecided.values()]
    if undecided:
        write_template(template, undecided, options.notebook.name)
        _print_lines([f"{template} written: fill it in and pass it with `--answers`"])
    else:
        _print_lines([f"there are no open decisions: {template} was not written"])


def _has_misspelled_answers(report: RunReport, answers: AnswersFile | None) -> bool:
    return answers is not None and bool(find_misspelled_answers(report.events, answers))
