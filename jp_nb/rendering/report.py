"""Tables that magics show, as Markdown and as plain text.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from jp_nb.text import escape_markdown, one_line

MAX_CELL_CHARS = 200
_COMMAND: Final = re.compile(r"`(%%?jp(?: [\w./=-]+)*)`", re.ASCII)


@dataclass(frozen=True, slots=True)
class Report:
    """The same content as Markdown and as plain text."""

    markdown: str
    text: str


@dataclass(frozen=True, slots=True)
class Rendered(Report):
    """A piece of a turn as Markdown and as plain text.

    `live` is the Markdown while the turn runs. It has durations, which are never saved.
    """

    live: str


def joined(parts: Sequence[Report], *, between: str = "\n") -> Report:
    """Join `parts` to one report. `between` separates them in the plain text."""
    return Report(
        "\n\n".join(part.markdown for part in parts), between.join(part.text for part in parts)
    )


def emphasize_note(note: str, escape: Callable[[str], str] = escape_markdown) -> str:
    """Return `note` as emphasized Markdown. A command such as `%jp undo` becomes code."""
    # Front ends may read a formula before code, so a note with TeX has no code.
    parts = [note] if "$" in note or "\\" in note else _COMMAND.split(note)
    marked = [f"`{part}`" if place % 2 else escape(part) for place, part in enumerate(parts)]
    return f"*{''.join(marked)}*"


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, limit: int = MAX_CELL_CHARS
) -> Report:
    """Return a table with the column names `head`. Cells are cut after `limit` characters."""
    cells = [[one_line(cell, limit=limit) for cell in row] for row in rows]
    if not cells:
        return Report("*nothing*", "nothing")
    widths = [max(len(row[i]) for row in [list(head), *cells]) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        return "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()

    # Markdown splits a row at `|` first, even inside code.
    marked = [[escape_markdown(cell).replace("|", "\\|") for cell in row] for row in cells]
    markdown = [
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
        *(f"| {' | '.join(row)} |" for row in marked),
    ]
    return Report("\n".join(markdown), "\n".join(line(row) for row in [list(head), *cells]))
