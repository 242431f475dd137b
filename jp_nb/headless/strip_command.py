"""`jp-nb strip`: notebooks without record and outputs, in place or as a filter of git.

Source: `docs/guide.md`, https://git-scm.com/docs/gitattributes#_filter.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from jp_nb.errors import StorageError
from jp_nb.file_writing import replace_file
from jp_nb.headless.stripping import Parts, strip_notebook
from jp_nb.safe_text import plain

PIPE = Path("-")
"""In place of a file: what comes in goes out."""


def strip(options: argparse.Namespace) -> int:
    """Strip each notebook; return 1 if one of them is none. That one stays as it is."""
    chosen = Parts(options.record, options.outputs)
    parts = chosen if options.record or options.outputs else Parts()
    code = 0
    for path in options.notebooks:
        try:
            _strip_pipe(parts) if path == PIPE else _strip_file(path, parts)
        except StorageError as exc:
            print(f"jp-nb: {plain(f'{path}: {exc}')}", file=sys.stderr)
            code = 1
    return code


def _strip_pipe(parts: Parts) -> None:
    data = sys.stdin.buffer.read()
    try:
        stripped = strip_notebook(data, parts)
    except StorageError:
        _write_out(data)  # git may go on with what comes out, whatever the exit code
        raise
    _write_out(stripped)


def _write_out(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


def _strip_file(path: Path, parts: Parts) -> None:
    try:
        data = path.read_bytes()
        stripped = strip_notebook(data, parts)
        if stripped != data:
            replace_file(path, stripped)
    except OSError as exc:
        raise StorageError(exc.strerror or str(exc)) from exc
