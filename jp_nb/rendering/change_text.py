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

from jp_nb.agent.prompts import UNSET_VALUE, ProposedChange
from jp_nb.rendering.report import MAX_CELL_CHARS
from jp_nb.rendering.text_diff import Difference, DiffLine, diff_change
from jp_nb.text import escape_invisible, plain, spell_invisible

CHANGE_COLUMNS = ("path", "now", "proposed")
NOW_WHOLE = "The whole current value"
PROPOSED_WHOLE = "The whole proposed value"
MAX_CHANGES = 50
MAX_DIFFERENCE_LINES = 100
"""Limit of all changed values together in the record of a decision."""


def spell_change(change: ProposedChange, *, limit: int = sys.maxsize) -> ProposedChange:
    """Return `change` with invisible characters spelled out, and texts cut to `limit`."""

    def shown(text: str | None) -> str | None:
        return None if text is None else plain(escape_invisible(text), limit=limit)

    path = plain(spell_invisible(change.path), limit=limit) or '""'
    now, proposed, then = map(shown, (change.now, change.proposed, change.then))
    return replace(change, path=path, now=now, proposed=proposed, then=then)


class ChangeSummary(NamedTuple):
    """Summary of a decided change: a line, and the differences of long values."""

    line: str
    difference: tuple[str, ...] = ()


def summarize_changes(changes: tuple[ProposedChange, ...]) -> list[ChangeSummary]:
    """Return a summary of each of the first `MAX_CHANGES` changes, and the number of others."""
    shown: list[ChangeSummary] = []
    room = MAX_DIFFERENCE_LINES
    for change in changes[:MAX_CHANGES]:
        bounded = spell_change(change, limit=MAX_CELL_CHARS)
        if (found := diff_change(change)) is None:
            shown.append(ChangeSummary(str(bounded)))
            continue
        lines = [plain(str(line), limit=MAX_CELL_CHARS) for line in found.lines[:room]]
        if left := len(found.lines) - len(lines):
            ending = "" if left == 1 else "s"
            lines.append(f"… {left} more line{ending} that differ{'s' if left == 1 else ''}")
        room -= min(room, len(lines))
        shown.append(ChangeSummary(f"{bounded.path}: {found.sizes}", tuple(lines)))
    left = len(changes) - len(shown)
    more = f"… {left} more change{'' if left == 1 else 's'}"
    return [*shown, ChangeSummary(more)] if left else shown


_TAGS = {"-": "del", "+": "ins", " ": "span", "…": "i"}
_KINDS = {"differs": "b", "fold": "i"}
_BETWEEN_WORDS = re.compile(r"[._/:-]+(?=\w)")


def render_change_table(changes: Iterable[ProposedChange]) -> str:
    """Return an HTML table with a row for each of `changes`, complete and exact.

    Short values are next to each other. A long value shows its differences. If equal parts are
    folded, the user can unfold both full values.
    """
    found = [(change, diff_change(change)) for change in changes]
    body = "".join(_long_row(c, d) if d is not None else _short_row(c) for c, d in found)
    columns = CHANGE_COLUMNS if any(d is None for _, d in found) else ()
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _short_row(change: ProposedChange) -> str:
    shown = spell_change(change)
    texts = (UNSET_VALUE if shown.now is None else shown.now, shown.becomes)
    cells = (_path(change), *(f"<bdi>{escape(text)}</bdi>" for text in texts))
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _long_row(change: ProposedChange, found: Difference) -> str:
    title = f"{_path(change)} <span class='jp-nb-sizes'>{escape(found.sizes)}</span>"
    lines = "".join(map(_change_line, found.lines))
    whole = ""
    for caption, full in ((NOW_WHOLE, found.now), (PROPOSED_WHOLE, found.proposed)):
        if full and found.is_folded:
            text = "".join(f"<span><bdi>{escape(line)}</bdi></span>" for line in full)
            count = f"{len(full):,} line{'' if len(full) == 1 else 's'}"
            whole += (
                f"<details><summary>{caption} ({count})</summary>"
                f"<div class='jp-nb-lines'>{text}</div></details>"
            )
    return (
        f"<tr class='jp-nb-long'><td colspan='3'>{title}"
        f"<div class='jp-nb-lines'>{lines}</div>{whole}</td></tr>"
    )


def _change_line(line: DiffLine) -> str:
    tag = _TAGS[line.sign]
    pieces = ((_KINDS.get(piece.kind), escape(piece.text)) for piece in line.pieces)
    text = "".join(f"<{kind}>{text}</{kind}>" if kind else text for kind, text in pieces)
    sign = "" if line.sign == "…" else f"<span>{line.sign}</span>"
    return f"<{tag}>{sign}<bdi>{text}</bdi></{tag}>"


def _path(change: ProposedChange) -> str:
    shown = escape(spell_change(change).path)
    return f"<bdi>{_BETWEEN_WORDS.sub(lambda found: f'{found[0]}<wbr>', shown)}</bdi>"
