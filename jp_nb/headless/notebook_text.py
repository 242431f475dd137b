"""A notebook as text on a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TextIO

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
    # Not `safe_text.plain`: that spells out what is left, and shows each state of a progress bar.
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
