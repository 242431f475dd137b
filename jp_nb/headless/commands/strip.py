"""Command `jp-nb strip`: remove outputs and the record from notebook files, also as a git filter.

Source: `docs/guide.md`, https://git-scm.com/docs/gitattributes#_filter.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from jp_nb.errors import StorageError
from jp_nb.file_reading import MAX_NOTEBOOK_BYTES, read_regular
from jp_nb.file_writing import replace_file
from jp_nb.headless.commands.stripped_text import Parts, strip_notebook
from jp_nb.text import plain

PIPE = Path("-")  # argument that selects stdin and stdout


def strip(options: argparse.Namespace) -> int:
    """Strip each notebook, and return 1 if one is not valid. Such a file is not changed."""
    parts = Parts(record=options.record, outputs=options.outputs)
    if not options.record and not options.outputs:  # without an option, both are removed
        parts = Parts(record=True, outputs=True)
    code = 0

    for path in options.notebooks:
        try:
            if path == PIPE:
                _strip_pipe(parts)
            else:
                _strip_file(path, parts)
        except StorageError as exc:
            print(f"jp-nb: {plain(f'{path}: {exc}')}", file=sys.stderr)
            code = 1
    return code


def _strip_pipe(parts: Parts) -> None:
    """Copy stdin to stdout without the parts; unchanged if it is not a valid notebook."""
    data = sys.stdin.buffer.read()
    try:
        data = strip_notebook(data, parts)
    finally:  # after an error, git may use the output despite the exit code
        sys.stdout.buffer.write(data)
        sys.stdout.flush()


def _strip_file(path: Path, parts: Parts) -> None:
    """Replace the file by one without the parts, if that changes it."""
    try:
        data = read_regular(path, max_bytes=MAX_NOTEBOOK_BYTES)
        stripped = strip_notebook(data, parts)
        if stripped != data:
            replace_file(path, stripped)
    except OSError as exc:
        raise StorageError(exc.strerror or str(exc)) from exc
