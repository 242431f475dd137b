"""Text and HTML of proposed configuration changes, for prompts and summaries of decisions.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from html import escape
from typing import NamedTuple

from jp_nb.agent.prompting.prompts import UNSET_VALUE, ProposedChange
from jp_nb.exact_form import escape_invisible, spell_invisible
from jp_nb.rendering.report import MAX_CELL_CHARS
from jp_nb.rendering.text_diff import Difference, DiffLine, diff_change
from jp_nb.rendering.word_diff import DiffPiece
from jp_nb.text import plain, pluralize

CHANGE_COLUMNS = ("path", "now", "proposed")
NOW_WHOLE = "The whole current value"
PROPOSED_WHOLE = "The whole proposed value"
MAX_CHANGES = 50
MAX_DIFFERENCE_LINES = 100
"""Limit of all changed values together in the record of a decision."""


def spell_change(change: ProposedChange, *, limit: int = sys.maxsize) -> ProposedChange:
    """Return `change` with invisible characters spelled out, and texts cut to `limit`."""

    def spell(value: str | None) -> str | None:
        return None if value is None else plain(escape_invisible(value), limit=limit)

    path = plain(spell_invisible(change.path), limit=limit) or '""'
    return replace(
        change,
        path=path,
        now=spell(change.now),
        proposed=spell(change.proposed),
        then=spell(change.then),
    )


class ChangeSummary(NamedTuple):
    """Summary of a decided change: a line, and the differences of long values."""

    line: str
    difference: tuple[str, ...] = ()


def summarize_changes(changes: tuple[ProposedChange, ...]) -> list[ChangeSummary]:
    """Return a summary of each of the first `MAX_CHANGES` changes, and the number of others."""
    summaries: list[ChangeSummary] = []
    remaining_lines = MAX_DIFFERENCE_LINES

    for change in changes[:MAX_CHANGES]:
        short_change = spell_change(change, limit=MAX_CELL_CHARS)
        difference = diff_change(change)
        if difference is None:
            summaries.append(ChangeSummary(str(short_change)))
            continue

        listed = difference.lines[:remaining_lines]
        lines = [plain(str(line), limit=MAX_CELL_CHARS) for line in listed]
        omitted_lines = len(difference.lines) - len(listed)
        if omitted_lines:
            verb = "differs" if omitted_lines == 1 else "differ"
            noun = pluralize("line", omitted_lines)
            lines.append(f"… {omitted_lines} more {noun} that {verb}")

        remaining_lines = max(remaining_lines - len(lines), 0)
        line = f"{short_change.path}: {difference.sizes}"
        summaries.append(ChangeSummary(line, tuple(lines)))

    omitted_changes = len(changes) - len(summaries)
    if omitted_changes:
        noun = pluralize("change", omitted_changes)
        summaries.append(ChangeSummary(f"… {omitted_changes} more {noun}"))

    return summaries


# HTML elements by the sign of a line of a difference, and by the kind of a piece of a line.
_LINE_TAGS = {"-": "del", "+": "ins", " ": "span", "…": "i"}
_PIECE_TAGS = {"differs": "b", "fold": "i"}
_BETWEEN_WORDS = re.compile(r"[._/:-]+(?=\w)")
"""Signs after which a long path may be broken into lines: `conversation.` `tools`."""


def render_change_table(changes: Iterable[ProposedChange]) -> str:
    """Return an HTML table with a row for each of `changes`, complete and exact.

    Short values are next to each other. A long value shows its differences. If equal parts are
    folded, the user can unfold both full values.
    """
    rows: list[str] = []
    columns: tuple[str, ...] = ()
    for change in changes:
        difference = diff_change(change)
        if difference is None:
            rows.append(_render_short_row(change))
            columns = CHANGE_COLUMNS  # a long row has no columns
        else:
            rows.append(_render_long_row(change, difference))

    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    body = "".join(rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _render_short_row(change: ProposedChange) -> str:
    """Return a row with the path, the current value, and the proposed value, each in a cell."""
    shown = spell_change(change)
    now = UNSET_VALUE if shown.now is None else shown.now

    cells = [_render_path(change), _isolate_text(now), _isolate_text(shown.becomes)]
    row = "".join(f"<td>{cell}</td>" for cell in cells)
    return f"<tr>{row}</tr>"


def _render_long_row(change: ProposedChange, difference: Difference) -> str:
    """Return a row with one wide cell: the path, and the differences of the values below it."""
    title = f"{_render_path(change)} <span class='jp-nb-sizes'>{escape(difference.sizes)}</span>"
    lines = "".join(map(_render_line, difference.lines))

    whole = ""
    if difference.is_folded:
        whole += _render_whole_value(NOW_WHOLE, difference.now)
        whole += _render_whole_value(PROPOSED_WHOLE, difference.proposed)

    return (
        f"<tr class='jp-nb-long'><td colspan='3'>{title}"
        f"<div class='jp-nb-lines'>{lines}</div>{whole}</td></tr>"
    )


def _render_whole_value(caption: str, lines: tuple[str, ...]) -> str:
    """Return a folded block with all lines of a value; "" for an unset value."""
    if not lines:
        return ""

    count = f"{len(lines):,} {pluralize('line', len(lines))}"
    text = "".join(f"<span>{_isolate_text(line)}</span>" for line in lines)
    return (
        f"<details><summary>{caption} ({count})</summary>"
        f"<div class='jp-nb-lines'>{text}</div></details>"
    )


def _render_line(line: DiffLine) -> str:
    tag = _LINE_TAGS[line.sign]
    sign = "" if line.sign == "…" else f"<span>{line.sign}</span>"
    text = "".join(map(_render_piece, line.pieces))
    return f"<{tag}>{sign}<bdi>{text}</bdi></{tag}>"


def _render_piece(piece: DiffPiece) -> str:
    text = escape(piece.text)
    tag = _PIECE_TAGS.get(piece.kind)
    return f"<{tag}>{text}</{tag}>" if tag else text


def _render_path(change: ProposedChange) -> str:
    path = escape(spell_change(change).path)
    breakable = _BETWEEN_WORDS.sub(lambda found: f"{found[0]}<wbr>", path)
    return f"<bdi>{breakable}</bdi>"


def _isolate_text(text: str) -> str:
    """Return a text whose direction (right to left) does not change the order around it."""
    return f"<bdi>{escape(text)}</bdi>"
