"""`jp-nb run`: executes a notebook with nobody there.

Source: `docs/guide.md`, `docs/answers.md`, `docs/cassettes.md`, `docs/ci.md`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from jp_nb.errors import UsageError
from jp_nb.headless.files import existing_notebook, refuse_unsafe_link, shown_text, write_whole
from jp_nb.headless.options import (
    cassette_settings,
    cassette_use,
    noting_decisions,
    noting_use,
    unused_lines,
    used_lines,
    written_lines,
)
from jp_nb.headless.runner import RunResult, run_notebook
from jp_nb.text import plain


def run(options: argparse.Namespace) -> int:
    """Execute the notebook; say which cell failed, if one did, and what nobody decided."""
    notebook = existing_notebook(options.notebook)
    _refuse_reports(options.junit, options.json)
    settings = cassette_settings(options, notebook)
    with noting_decisions(options) as decisions, noting_use() as noted:
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
        say(failure_lines(result))
        write_reports(result, options, decisions.log)
        uses = cassette_use(noted, settings)
        say(written_lines(uses))
        if result.ok:  # what failed asks for the rest no more
            say([*used_lines(uses), *unused_lines(uses)])
        say(decisions.told())
        misspelt = options.strict and decisions.has_misspelt_answers()
    return 0 if result.ok and not misspelt else 1


def _refuse_reports(*reports: Path | None) -> None:
    """Raise an error if one of the `reports` cannot be written, before anything runs."""
    for path in reports:
        if path is not None and path.suffix == ".ipynb":
            raise UsageError(f"{path} is named like a notebook: choose another name for the report")
        if path is not None:
            refuse_unsafe_link(path)


def say(lines: Iterable[str]) -> None:
    """Print `lines` beside what a shell reads, safe for a terminal."""
    for line in lines:
        print(f"jp-nb: {plain(line)}", file=sys.stderr)


def failure_lines(result: RunResult) -> list[str]:
    """Return what is said of the cell that failed, without keys; nothing if none did."""
    failure = result.failure
    if failure is None:
        return []
    place = "" if failure.cell is None else f" in cell {failure.cell + 1}"
    return [f"{failure.name}{place}: {shown_text(failure.message)}"]


def write_reports(result: RunResult, options: argparse.Namespace, decisions: Path) -> None:
    """Write the reports that were asked for, whatever came of the run.

    `decisions` is the file that the run noted in what nobody decided.

    Raises:
        StorageError: If one cannot be written.
    """
    if options.junit is None and options.json is None:
        return
    from jp_nb.headless.report import json_report, junit_xml, report_of

    report = report_of(result, os.fspath(options.notebook), decisions)
    if options.junit is not None:
        write_whole(options.junit, junit_xml([report]), folders=True)
    if options.json is not None:
        write_whole(options.json, json_report(report).encode(), folders=True)
