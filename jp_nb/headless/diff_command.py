"""`jp-nb diff`: two notebooks' records by turn, for people and for git.

Source: `docs/guide.md`, https://git-scm.com/docs/git#Documentation/git.txt-GITEXTERNALDIFF.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jp_nb.errors import StorageError, UsageError
from jp_nb.headless.files import read_notebook
from jp_nb.record import carrier
from jp_nb.record.document import Document
from jp_nb.record.timestamps import utc_now
from jp_nb.rendering.difference import line_difference
from jp_nb.rendering.record_difference import INDENT, ComparedRecord, record_difference
from jp_nb.safe_text import one_line, plain

SAME: Final = 0
DIFFERENT: Final = 1
UNREADABLE: Final = 2
_OF_GIT: Final = (7, 9)
"""Arguments of an external diff: path, old file, hash, mode, new file, hash, mode; of one that
was renamed two more."""


NOTHING: Final = ComparedRecord()
"""Of a notebook without a record."""


@dataclass(frozen=True, slots=True)
class _Compared:
    """One notebook: its record, and its cells as lines."""

    record: ComparedRecord = NOTHING
    cells: tuple[str, ...] = ()


def diff(options: argparse.Namespace) -> int:
    """Print what differs; return 0 if nothing does, 1 if something does, 2 if one cannot be read.

    As an external diff of git also the cells are compared, and 0 is what git wants.
    """
    if options.git:
        return _for_git(options.notebooks)
    if len(options.notebooks) != 2:
        raise UsageError("jp-nb diff compares two notebooks: `jp-nb diff A B`")
    before, after = options.notebooks
    try:
        lines = record_difference(_read(before).record, _read(after).record)
    except StorageError as exc:
        print(f"jp-nb: {plain(str(exc))}", file=sys.stderr)
        return UNREADABLE
    _print([f"--- {before}", f"+++ {after}"], lines)
    return DIFFERENT if lines else SAME


def _for_git(arguments: list[str]) -> int:
    if len(arguments) == 1:
        _print([f"* Unmerged path {arguments[0]}"], [""])
        return 0
    if len(arguments) not in _OF_GIT:
        raise UsageError(
            "jp-nb diff --git runs as a diff driver of git: see `git help gitattributes`"
        )
    path, old, new = arguments[0], arguments[1], arguments[4]
    heading = [f"--- a/{path}", f"+++ b/{arguments[7] if len(arguments) > 7 else path}"]
    try:
        before, after = _read(old), _read(new)
    except StorageError as exc:  # with another exit code git would show nothing of other files
        _print(heading, [f"⟨not compared: {plain(str(exc))}⟩", ""])
        return 0
    cells = [str(line) for line in line_difference(before.cells, after.cells)]
    shown = ["cells", *cells, ""] if cells else []
    _print(heading, shown + record_difference(before.record, after.record))
    return 0


def _print(heading: list[str], lines: list[str]) -> None:
    if not lines:
        return
    text = "\n".join([*map(one_line, heading), "", *lines])
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    sys.stdout.flush()


def _read(name: str) -> _Compared:
    """Return the notebook of that name; nothing for one without a record, or without a file.

    Raises:
        StorageError: If it is no notebook, or its record is none.
    """
    if name == os.devnull:  # git's name for what is not there
        return _Compared()
    notebook = read_notebook(Path(name))
    stored = carrier.read(notebook.metadata)
    try:
        found = None if stored is None else Document.load(stored, clock=utc_now, tolerant=True)
    except StorageError as exc:
        raise StorageError(f"{name}: {exc}") from exc
    return _Compared(
        NOTHING if found is None else ComparedRecord.of(found),
        tuple(_cells(notebook)),
    )


def _cells(notebook: Any) -> Iterator[str]:
    """Yield the cells as lines, without their outputs."""
    for cell in notebook.cells:
        yield f"[{cell.cell_type}] {cell.get('id', '')}".rstrip()
        yield from (f"{INDENT}{line}" if line else "" for line in cell.source.split("\n"))
        yield ""
