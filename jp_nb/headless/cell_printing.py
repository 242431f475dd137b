"""Print the cells of a notebook and their outputs as text, safe for a terminal.

Source: `docs/ci.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TextIO

from jp_nb.headless.terminal_text import format_terminal_text


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
