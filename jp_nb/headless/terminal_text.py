"""Make the text of notebooks and of messages safe for a terminal.

Secrets are hidden before a text is cut, because a partial API key is not recognized.

Source: `docs/ci.md`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from jp_nb.config.secrets.secret_hiding import hide_secrets
from jp_nb.text import one_line, plain

_SEQUENCES = re.compile(
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]).*?(?:\x07|\x1b\\|\x9c|$)"  # OSC, DCS, and similar
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor movements
    r"|\x1b[ -/]*[0-~]?",
    re.DOTALL,
)
# Bidirectional overrides would change the order of the text on screen.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def format_terminal_text(text: str) -> str:
    """Return `text` without control sequences, and with the last state of progress bars."""
    text = _SEQUENCES.sub("", text).replace("\r\n", "\n")
    # A progress bar rewrites its line. Keep the last state, as on a screen; `plain` shows each one.
    text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _CONTROLS.sub("", text)


def print_transcript(notebook: Any, file: TextIO) -> None:
    """Print cells and their text outputs, safe for a terminal."""
    for cell in notebook.cells:
        print_cell(cell, file)


def print_cell(cell: Any, file: TextIO) -> None:
    """Print one cell with its text outputs, then an empty line."""
    source = format_terminal_text(_join_lines(cell.source)).strip("\n")
    lines = [source] if source else []

    if cell.cell_type == "code":
        prompt = f"In [{cell.get('execution_count') or ' '}]: "
        margin = " " * len(prompt)
        if source:
            lines = [prompt + source.replace("\n", f"\n{margin}")]
        lines += _format_outputs(cell)

    text = "\n".join(line for line in lines if line.strip())
    if text:
        print(text, end="\n\n", file=file)


def _format_outputs(cell: Any) -> Iterator[str]:
    """Yield the text of each output; the MIME types of an output without text."""
    for output in cell.get("outputs", []):
        match output.output_type:
            case "stream":
                yield format_terminal_text(_join_lines(output.text)).strip("\n")
            case "error":
                yield format_terminal_text(f"{output.ename}: {output.evalue}")
            case "execute_result" | "display_data":
                text = output.data.get("text/plain")
                kinds = ", ".join(sorted(map(format_terminal_text, output.data)))
                without_text = f"<{kinds}>" if kinds else ""
                yield format_terminal_text(_join_lines(text)) if text else without_text


def _join_lines(text: str | list[str]) -> str:
    """Return a text of a notebook, which may be stored as a list of lines."""
    return text if isinstance(text, str) else "".join(text)


def format_text(text: str) -> str:
    """Return `text` without secrets and control characters, cut to `MAX_PLAIN_CHARS` characters."""
    return plain(_hide_secrets(text))


def format_one_line(text: str, *, limit: int = 200) -> str:
    """Return `text` in one line without secrets, cut to `limit` characters."""
    return one_line(_hide_secrets(text), limit=limit)


def _hide_secrets(text: str) -> str:
    return hide_secrets(plain(text, limit=sys.maxsize))
