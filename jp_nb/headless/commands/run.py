"""Command `jp-nb run`: execute a notebook without a user, and list its open decisions.

Source: `docs/guide.md`, `docs/answers.md`, `docs/cassettes.md`, `docs/ci.md`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from jp_nb.errors import UsageError
from jp_nb.file_writing import open_file
from jp_nb.headless.commands.answers_template import format_template
from jp_nb.headless.files import refuse_unsafe_target, replace_file_at, require_notebook
from jp_nb.headless.reported_decisions import ReportedDecision
from jp_nb.headless.run_reports.cassette_lines import format_cassettes
from jp_nb.headless.run_reports.decision_lines import find_misspelled_answers, format_decisions
from jp_nb.headless.run_reports.json_report import format_json_report
from jp_nb.headless.run_reports.junit_report import format_junit
from jp_nb.headless.run_reports.report_reading import make_report
from jp_nb.headless.run_reports.run_report import RunReport
from jp_nb.headless.runner import run_notebook
from jp_nb.headless.terminal_text import format_one_line, format_text
from jp_nb.storage.cassettes import cassette_file as cassette
from jp_nb.storage.configuration.answers_file import read_answers_file
from jp_nb.text import plain

_CASSETTE_TABLE: Final = "providers.cassette"  # path of the settings for cassettes
CASSETTE_MODES: Final = ("record", "replay", "replay-or-record")
"""Values of the setting `providers.cassette.mode`. Each is also an option: `--replay`."""


def run(options: argparse.Namespace) -> int:
    """Execute the notebook, and print its failure and its open decisions."""
    # Errors that the user can correct come before the notebook runs.
    notebook = require_notebook(options.notebook)
    for path in filter(None, (options.junit, options.json)):
        if path.suffix == ".ipynb":
            raise UsageError(f"{path} is named like a notebook: choose another name for the report")
        refuse_unsafe_target(path)
    settings = make_cassette_settings(options, notebook)
    answers = read_answers_file(options.answers) if options.answers is not None else None

    if options.answers_template is not None and os.path.lexists(options.answers_template):
        raise UsageError(_format_exists_error(options.answers_template))

    result = run_notebook(
        notebook,
        out=options.out,
        strict=options.strict,
        continue_=options.go_on,
        overrides=options.cfg,
        settings=settings,
        answers=options.answers,
        timeout=options.timeout,
        run_timeout=options.run_timeout,
        run_inserted=options.run_inserted,
    )

    report = make_report(result, os.fspath(options.notebook))
    print(plain(format_summary(report, os.fspath(options.out or options.notebook))))
    if (failure := report.failure) is not None:
        place = "" if failure.cell is None else f" in cell {failure.cell + 1}"
        _print_lines([f"{failure.name}{place}: {format_text(failure.message)}"])

    if options.junit is not None:
        replace_file_at(options.junit, format_junit([report]), folders=True)
    if options.json is not None:
        replace_file_at(options.json, format_json_report(report).encode(), folders=True)

    _print_lines(format_cassettes(report))
    _print_lines(format_decisions(report.events, answers))

    if options.answers_template is not None:
        _write_template(options.answers_template, report.undecided, options.notebook.name)

    # An unused answer, whose key is nearly that of an open decision, is probably misspelled.
    if options.strict and answers and find_misspelled_answers(report.events, answers):
        return 1
    return 0 if result.ok else 1


def format_summary(report: RunReport, written: str) -> str:
    """Return one line about the cells and turns of a run, and the file that was `written`."""
    parts = [_count(len(report.cells), "cell")]
    for status in ("failed", "not run"):
        if number := sum(cell.status == status for cell in report.cells):
            parts.append(f"{number} {status}")

    parts.append(_count(len(report.turns), "turn"))
    parts.append(_count(sum(len(each.turn.tool_calls) for each in report.turns), "tool call"))
    counts = ", ".join(parts)
    return f"jp-nb: {format_one_line(written)}: {counts}. Outputs and record are in the file."


def _count(number: int, noun: str) -> str:
    ending = "" if number == 1 else "s"
    return f"{number} {noun}{ending}"


def _write_template(path: Path, undecided: Sequence[ReportedDecision], notebook: str) -> None:
    """Write a new answers file with the open decisions as comments, if there are any."""
    if not undecided:
        _print_lines([f"there are no open decisions: {path} was not written"])
        return

    content = format_template(undecided, notebook).encode(errors="replace")
    try:
        with os.fdopen(open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(content)
    except FileExistsError as exc:
        raise UsageError(_format_exists_error(path)) from exc
    except OSError as exc:
        raise UsageError(f"{path} cannot be written: {exc.strerror}") from exc

    _print_lines([f"{path} written: fill it in and pass it with `--answers`"])


def _format_exists_error(path: Path) -> str:
    return f"{path} already exists: choose a new file for the template"


def make_cassette_settings(options: argparse.Namespace, notebook: Path) -> dict[str, str]:
    """Return the settings for a run of `notebook`, by path.

    Raises:
        UsageError: `--tools` is given without a replay.
        StorageError: The cassette is a link to a file that must not be written.
    """
    files = {mode: getattr(options, mode.replace("-", "_")) for mode in CASSETTE_MODES}
    chosen = [mode for mode, file in files.items() if file is not None]

    # The command line allows only one of the modes.
    if options.tools is not None and chosen in ([], ["record"]):
        raise UsageError("--tools selects where a replay takes tool results from: add `--replay`")

    if not chosen:
        return {}

    mode = chosen[0]
    path = cassette.make_default_cassette_path(notebook.resolve())
    if files[mode]:
        path = Path(os.path.abspath(files[mode]))

    if mode != "replay":
        cassette.refuse_unsafe_cassette_link(path)
    settings = {f"{_CASSETTE_TABLE}.mode": mode, f"{_CASSETTE_TABLE}.path": str(path)}
    if options.tools is not None:
        settings[f"{_CASSETTE_TABLE}.tools"] = options.tools

    return settings


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(f"jp-nb: {plain(line)}", file=sys.stderr)
