"""Read notebook files, and make their text safe for a terminal.

Keys are hidden before a text is cut, because the beginning of a key is not recognized.

Source: `docs/ci.md`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TextIO

import nbformat

from jp_nb.config.secrets import hide_secrets
from jp_nb.errors import StorageError, UsageError
from jp_nb.file_writing import replace_file, resolve_write_target
from jp_nb.text import one_line, plain


def existing_notebook(path: Path) -> Path:
    """Return `path`.

    Raises:
        UsageError: If there is no file.
    """
    if not os.path.isfile(path):
        raise UsageError(f"there is no notebook {path}")
    return path


def read_notebook(path: Path) -> Any:
    """Return the notebook at `path`, as nbformat has it.

    Raises:
        StorageError: If there is no file or it is no notebook.
    """
    try:
        text = path.read_text(encoding="utf-8")
        return nbformat.reads(text, as_version=4)
    except OSError as exc:
        raise StorageError(f"{path}: {exc.strerror or exc}") from exc
    except Exception as exc:  # nbformat raises whatever the file provokes
        raise StorageError(f"{path} is not a notebook: {exc}") from exc


def write_notebook(notebook: Any, path: Path) -> None:
    """Replace the file at `path` by `notebook`, at once or not at all.

    Raises:
        StorageError: If it cannot be written; the old file is as it was.
    """
    text = nbformat.writes(notebook)
    # Half a surrogate pair is legal in a JSON escape, but not in UTF-8.
    data = text.encode("utf-8", "backslashreplace")
    write_whole(path, data if data.endswith(b"\n") else data + b"\n")


def refuse_unsafe_link(path: Path) -> None:
    """Raise `StorageError` if nothing can be written to `path` because of a link.

    Asked before a long run, so that its result is not lost.
    """
    try:
        resolve_write_target(path)
    except OSError as exc:
        raise StorageError(f"{path} cannot be written: {exc.strerror}") from exc


def write_whole(path: Path, data: bytes, *, folders: bool = False) -> None:
    """Replace the file at `path` by `data`, at once or not at all; make its `folders` if need be.

    Raises:
        StorageError: If it cannot be written; the old file is as it was.
    """
    try:
        if folders:
            path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
    except OSError as exc:
        raise StorageError(f"{path} cannot be written: {exc.strerror or exc}") from exc


_SEQUENCES = re.compile(
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]).*?(?:\x07|\x1b\\|\x9c|$)"  # OSC, DCS and their like
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor movements
    r"|\x1b[ -/]*[0-~]?",
    re.DOTALL,
)
# Bidirectional overrides would let text read otherwise than it is.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def terminal_text(text: str) -> str:
    """Return `text` without anything that a terminal would obey. Newlines and tabs stay."""
    # Not `text.plain`: that spells out what is left, and shows each state of a progress bar.
    text = _SEQUENCES.sub("", text).replace("\r\n", "\n")
    # A progress bar rewrites its line: the last state is what a person would see.
    text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _CONTROLS.sub("", text)


def print_transcript(notebook: Any, file: TextIO) -> None:
    """Print cells and their text outputs, readable on any terminal."""
    for cell in notebook.cells:
        print_cell(cell, file)


def print_cell(cell: Any, file: TextIO) -> None:
    """Print one cell and its text outputs, then an empty line."""
    source = terminal_text(_joined(cell.source)).strip("\n")
    lines = [source]
    if cell.cell_type == "code":
        prompt = f"In [{cell.get('execution_count') or ' '}]: "
        lines = [prompt + source.replace("\n", "\n" + " " * len(prompt))] if source else []
        lines += _outputs(cell)
    text = "\n".join(line for line in lines if line.strip())
    if text:
        print(text, end="\n\n", file=file)


def _outputs(cell: Any) -> Iterator[str]:
    for output in cell.get("outputs", []):
        match output.output_type:
            case "stream":
                yield terminal_text(_joined(output.text)).strip("\n")
            case "error":
                yield terminal_text(f"{output.ename}: {output.evalue}")
            case "execute_result" | "display_data":
                text = output.data.get("text/plain")
                yield terminal_text(_joined(text)) if text else _named(output.data)


def _named(data: Any) -> str:
    kinds = ", ".join(sorted(map(terminal_text, data)))
    return f"<{kinds}>" if kinds else ""


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


MAX_LINE: Final = 200
MAX_TEXT: Final = 20_000


def shown_text(text: str) -> str:
    """Return `text`, such as an error, in its lines, of which at most `MAX_TEXT` characters."""
    return plain(_hidden(text), limit=MAX_TEXT)


def shown_line(text: str, *, limit: int = MAX_LINE) -> str:
    """Return `text` in one line of at most `limit` characters."""
    return one_line(_hidden(text), limit=limit)


def _hidden(text: str) -> str:
    return hide_secrets(plain(text, limit=sys.maxsize))
