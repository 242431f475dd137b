"""Command `jp-nb run`: execute a notebook without a user.

Source: `docs/guide.md`, `docs/answers.md`, `docs/cassettes.md`, `docs/ci.md`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from jp_nb.errors import UsageError
from jp_nb.headless.files import format_text, refuse_unsafe_link, replace_file_at, require_notebook
from jp_nb.headless.options import (
    format_fully_used,
    format_recorded,
    format_unused,
    log_cassette_use,
    log_decisions,
    make_cassette_settings,
    read_cassette_use,
)
from jp_nb.headless.runner import RunResult, run_notebook
from jp_nb.text import plain


def run(options: argparse.Namespace) -> int:
    """Execute the notebook, and print its failure and its open decisions."""
    notebook = require_notebook(options.notebook)
    _check_report_paths(options.junit, options.json)
    settings = make_cassette_settings(options, notebook)
    with log_decisions(options) as decisions, log_cassette_use() as noted:
        result = run_notebook(
            notebook,
            out=options.out,
            strict=options.strict,
            continue_=options.go_on,
            overrides=options.cfg,
            settings=settings,
            answers=options.answers,
            decisions=decisions.log,
        )
        print_lines(format_failure(result))
        write_reports(result, options, decisions.log)
        uses = read_cassette_use(noted, settings)
        print_lines(format_recorded(uses))
        if result.ok:  # a failed run may not need the rest
            print_lines([*format_fully_used(uses), *format_unused(uses)])
        print_lines(decisions.finish())
        misspelled = options.strict and decisions.has_misspelled_answers()
    return 0 if result.ok and not misspelled else 1


def _check_report_paths(*reports: Path | None) -> None:
    for path in reports:
        if path is not None and path.suffix == ".ipynb":
            raise UsageError(f"{path} is named like a notebook: choose another name for the report")
        if path is not None:
            refuse_unsafe_link(path)


def print_lines(lines: Iterable[str]) -> None:
    """Print `lines` to stderr, safe for a terminal."""
    for line in lines:
        print(f"jp-nb: {plain(line)}", file=sys.stderr)


def format_failure(result: RunResult) -> list[str]:
    """Return a line about the failed cell, without keys; none without a failure."""
    failure = result.failure
    if failure is None:
        return []
    place = "" if failure.cell is None else f" in cell {failure.cell + 1}"
    return [f"{failure.name}{place}: {format_text(failure.message)}"]


def write_reports(result: RunResult, options: argparse.Namespace, decisions: Path) -> None:
    """Write the requested reports, also after a failed run. `decisions` is the log of the kernel.

    Raises:
        StorageError: A report cannot be written.
    """
    if options.junit is None and options.json is None:
        return
    from jp_nb.headless.report import format_json_report, format_junit, make_report

    report = make_report(result, os.fspath(options.notebook), decisions)
    if options.junit is not None:
        replace_file_at(options.junit, format_junit([report]), folders=True)
    if options.json is not None:
        replace_file_at(options.json, format_json_report(report).encode(), folders=True)
