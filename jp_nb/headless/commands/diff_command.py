"""Command `jp-nb diff`: compare the conversations of two notebooks, also as a diff driver of git.

Source: `docs/guide.md`, https://git-scm.com/docs/git#Documentation/git.txt-GITEXTERNALDIFF.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Final, NamedTuple

from jp_nb.errors import StorageError, UsageError
from jp_nb.headless.commands.stored_records import parse_record
from jp_nb.headless.files import read_notebook
from jp_nb.record.documents import carrier
from jp_nb.rendering.text_diff import diff_lines
from jp_nb.rendering.transcripts.record_diff import ComparedRecord, diff_records
from jp_nb.rendering.transcripts.record_lines import INDENT
from jp_nb.text import one_line, plain

_GIT_ARGUMENT_COUNTS: Final = (7, 9)
"""Numbers of arguments of git's external diff: path, old file, hash, mode, new file, hash, mode,
and two more for a renamed file.
"""


def diff_notebooks(options: argparse.Namespace) -> int:
    """Print the differences. Return 0 if there are none, 1 if there are some, 2 for invalid files.

    As an external diff of git, it also compares cells, and returns 0 as git expects.
    """
    if options.git:
        return _diff_for_git(options.notebooks)

    if len(options.notebooks) != 2:
        raise UsageError("jp-nb diff compares two notebooks: `jp-nb diff A B`")

    before, after = options.notebooks
    try:
        lines = diff_records(_read_compared(before).record, _read_compared(after).record)
    except StorageError as exc:
        print(f"jp-nb: {plain(str(exc))}", file=sys.stderr)
        return 2

    _print_diff([f"--- {before}", f"+++ {after}"], lines)
    return 1 if lines else 0


def _diff_for_git(arguments: list[str]) -> int:
    """Print the differences of cells and conversations for git. The return value is always 0."""
    # Of a file with conflicts, git passes only the path.
    if len(arguments) == 1:
        _print_diff([f"* Unmerged path {arguments[0]}"], [""])  # a heading needs at least a line
        return 0

    if len(arguments) not in _GIT_ARGUMENT_COUNTS:
        raise UsageError(
            "jp-nb diff --git runs as a diff driver of git: see `git help gitattributes`"
        )

    path = arguments[0]
    old = arguments[1]
    new = arguments[4]
    new_path = arguments[7] if len(arguments) > 7 else path
    heading = [f"--- a/{path}", f"+++ b/{new_path}"]

    try:
        before = _read_compared(old)
        after = _read_compared(new)
    except StorageError as exc:  # git stops after another exit code
        _print_diff(heading, [f"⟨not compared: {plain(str(exc))}⟩", ""])
        return 0

    cells = [str(line) for line in diff_lines(before.cell_lines, after.cell_lines)]
    lines = ["cells", *cells, ""] if cells else []
    _print_diff(heading, lines + diff_records(before.record, after.record))
    return 0


def _print_diff(heading: list[str], lines: list[str]) -> None:
    """Print the heading and the lines; nothing if there are no lines."""
    if not lines:
        return

    text = "\n".join([*map(one_line, heading), "", *lines])
    if not text.endswith("\n"):
        text += "\n"
    sys.stdout.write(text)
    sys.stdout.flush()


class _ComparedNotebook(NamedTuple):
    """The record of a notebook, and its cells as lines."""

    record: ComparedRecord
    cell_lines: list[str]


def _read_compared(name: str) -> _ComparedNotebook:
    """Read the notebook with this name. One without a file is empty."""
    if name == os.devnull:  # git's name for a missing file
        return _ComparedNotebook(ComparedRecord(), [])

    notebook = read_notebook(Path(name))
    stored = carrier.read_carrier(notebook.metadata)
    record = ComparedRecord()
    if stored is not None:
        record = ComparedRecord.of(parse_record(stored, name, tolerant=True))

    lines: list[str] = []
    for cell in notebook.cells:
        lines.append(f"[{cell.cell_type}] {cell.get('id', '')}".rstrip())
        lines += [_indent(line) for line in cell.source.split("\n")]
        lines.append("")

    return _ComparedNotebook(record, lines)


def _indent(line: str) -> str:
    return f"{INDENT}{line}" if line else ""
