"""Proposed configuration changes as an HTML table in a form, complete and exact.

Source: `docs/turns.md`, `docs/prompts.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import Final

from jp_nb.agent.prompting.prompts import UNSET_VALUE, ProposedChange
from jp_nb.rendering.prompt_texts.change_text import NOW_WHOLE, PROPOSED_WHOLE, spell_change
from jp_nb.rendering.text_diff import Difference, DiffLine, diff_change
from jp_nb.rendering.word_diff import DiffPiece
from jp_nb.text import pluralize

CHANGE_COLUMNS: Final = ("path", "now", "proposed")

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
        if difference is None:  # both values are short
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
    # A narrow form shows the cells below each other, with the name of the column before each.
    row = "".join(
        f'<td data-column="{column}">{cell}</td>'
        for column, cell in zip(CHANGE_COLUMNS, cells, strict=True)
    )
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
