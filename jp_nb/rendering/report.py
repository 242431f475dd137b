"""Tables that magics show, as Markdown and as plain text.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jp_nb.safe_text import escape_markdown, one_line

MAX_CELL_CHARS = 200


@dataclass(frozen=True, slots=True)
class Report:
    """The same content twice."""

    markdown: str
    text: str


def joined(parts: Sequence[Report], *, between: str = "\n") -> Report:
    """Return `parts` below one another; as plain text with `between` them."""
    return Report(
        "\n\n".join(part.markdown for part in parts), between.join(part.text for part in parts)
    )


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, limit: int = MAX_CELL_CHARS
) -> Report:
    """`rows` under `head`; cells are cut after `limit` characters."""
    cells = [[one_line(cell, limit=limit) for cell in row] for row in rows]
    if not cells:
        return Report("*nothing*", "nothing")
    widths = [max(len(row[i]) for row in [list(head), *cells]) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        return "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()

    # A table is cut at its bars before anything else is read, also inside code.
    marked = [[escape_markdown(cell).replace("|", "\\|") for cell in row] for row in cells]
    markdown = [
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
        *(f"| {' | '.join(row)} |" for row in marked),
    ]
    return Report("\n".join(markdown), "\n".join(line(row) for row in [list(head), *cells]))
