"""`jp-nb run`: executes a notebook with nobody there.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import argparse
import os
import sys

from jp_nb.headless.cassette_options import cassette_settings, noting_use, unused_lines
from jp_nb.headless.files import existing_notebook, write_whole
from jp_nb.headless.runner import RunResult, run_notebook
from jp_nb.safe_text import plain


def run(options: argparse.Namespace) -> int:
    """Execute the notebook; say which cell failed, if one did."""
    notebook = existing_notebook(options.notebook)
    with noting_use() as noted:
        result = run_notebook(
            notebook,
            out=options.out,
            strict=options.strict,
            continue_=options.go_on,
            overrides=options.cfg,
            settings=cassette_settings(options, notebook),
        )
        write_reports(result, options)
        for line in unused_lines(noted):
            print(f"jp-nb: {plain(line)}", file=sys.stderr)
    if result.failure is not None:
        place = "" if result.failure.cell is None else f" in cell {result.failure.cell}"
        message = plain(f"{result.failure.name}{place}: {result.failure.message}")
        print(f"jp-nb: {message}", file=sys.stderr)
        return 1
    return 0


def write_reports(result: RunResult, options: argparse.Namespace) -> None:
    """Write the reports that were asked for, whatever came of the run.

    Raises:
        StorageError: If one cannot be written.
    """
    if options.junit is None and options.json is None:
        return
    from jp_nb.headless.junit import junit_xml
    from jp_nb.headless.report_json import json_report
    from jp_nb.headless.run_report import report_of

    report = report_of(result, os.fspath(options.notebook))
    if options.junit is not None:
        write_whole(options.junit, junit_xml([report]), folders=True)
    if options.json is not None:
        write_whole(options.json, json_report(report).encode(), folders=True)
