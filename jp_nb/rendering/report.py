"""Reports for the user: lines, blocks, and tables, as Markdown and as plain text.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from jp_nb.rendering.markdown import MAX_MARKDOWN_CHARS, escape_markup, make_code_block
from jp_nb.text import escape_markdown, one_line, plain, pluralize, truncate

MAX_CELL_CHARS = 200
MAX_LINE_CHARS = 2000
_COMMAND: Final = re.compile(r"`(%%?jp(?: [\w./=-]+)*)`", re.ASCII)


@dataclass(frozen=True, slots=True)
class Report:
    """The same content as Markdown and as plain text.

    While the turn runs, `live` replaces `markdown`, unless it is None. It contains durations,
    which are never saved.
    """

    markdown: str
    text: str
    live: str | None = None


def join_reports(parts: Iterable[Report | str], *, between: str = "\n") -> Report:
    """Join `parts` to one report. `between` separates them in the plain text.

    A string is used unchanged as Markdown and as plain text. The `live` form of parts is dropped.
    """
    markdown: list[str] = []
    text: list[str] = []
    for part in parts:
        if isinstance(part, str):
            markdown.append(part)
            text.append(part)
        else:
            markdown.append(part.markdown)
            if part.text:  # a picture has none
                text.append(part.text)

    return Report("\n\n".join(markdown), between.join(text))


def make_line(text: str, *, limit: int = MAX_LINE_CHARS) -> Report:
    """Return any `text` as one line."""
    shown = one_line(text, limit=limit)
    return Report(escape_markup(shown), shown)


def make_heading(text: str) -> Report:
    """Return any `text` as one line, in Markdown as a heading."""
    shown = make_line(text)
    return Report(f"**{shown.markdown}**", shown.text)


def make_remark(text: str) -> Report:
    """Return any `text` as one line, in Markdown emphasized."""
    shown = make_line(text)
    return Report(f"*{shown.markdown}*", shown.text)


def make_block(text: str, language: str = "text", *, limit: int = MAX_MARKDOWN_CHARS) -> Report:
    """Return any `text` as a block of code. In plain text, it is indented."""
    shown = plain(text, limit=limit).rstrip("\n")
    return Report(make_code_block(shown, language), indent_text(shown))


def indent_text(text: str) -> str:
    """Return `text` with indentation, so that its lines do not look like lines of a report."""
    lines = []
    for line in text.splitlines():
        indented = f"    {line}" if line else ""
        lines.append(indented)

    return "\n".join(lines)


def limit_text(text: str, *, lines: int | None = None) -> str:
    """Return `text` as plain text of at most `lines` lines, with the number of omitted lines."""
    # `plain` spells out invisible characters. Its limit would count the longer spelling, and cut
    # text that the limits below allow.
    found = plain(text, limit=sys.maxsize).strip("\n").split("\n")
    shown = found if lines is None else found[:lines]
    omitted_count = len(found) - len(shown)

    cut = [truncate(line, 1000).rstrip() for line in shown]
    text = truncate("\n".join(cut), 100_000)  # the output of a cell stays readable
    if omitted_count:
        text = f"{text}\n… {omitted_count} more {pluralize('line', omitted_count)}"

    return text


def add_note(report: Report, text: str) -> Report:
    """Return `report` with a note below it."""
    return join_reports([report, make_note(text)])


def make_note(text: str) -> Report:
    """Return a note, in Markdown emphasized. A command such as `%jp undo` becomes code."""
    # Front ends may read a formula before code, so a note with TeX has no code.
    parts = [text] if "$" in text or "\\" in text else _COMMAND.split(text)
    marked = ""
    for index, part in enumerate(parts):
        is_command = index % 2 == 1  # `split` puts a group of the pattern between two texts
        marked += f"`{part}`" if is_command else escape_markup(part)

    return Report(f"*{marked}*", text)


def make_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, limit: int = MAX_CELL_CHARS
) -> Report:
    """Return a table with the column names `head`. Cells are cut after `limit` characters."""
    if not rows:
        return Report("*nothing*", "nothing")

    lines = [list(head)]
    markdown = [_format_row(head), f"|{'---|' * len(head)}"]
    for row in rows:
        cells = [one_line(cell, limit=limit) for cell in row]
        lines.append(cells)
        markdown.append(_format_row(map(_escape_cell, cells)))

    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = ("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
    return Report("\n".join(markdown), "\n".join(text))


def _format_row(cells: Iterable[str]) -> str:
    joined = " | ".join(cells)
    return f"| {joined} |"


def _escape_cell(cell: str) -> str:
    # Markdown splits a row at `|` first, even inside code.
    return escape_markdown(cell).replace("|", "\\|")
