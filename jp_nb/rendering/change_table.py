"""The changes that a person decides about, as HTML in which everything of theirs is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from jp_nb.agent.prompts import UNSET, ProposedChange
from jp_nb.rendering import wording
from jp_nb.rendering.difference import Difference, Line, difference

_TAGS = {"-": "del", "+": "ins", " ": "span", "…": "i"}
_KINDS = {"differs": "b", "fold": "i"}
_BETWEEN_WORDS = re.compile(r"[._/:-]+(?=\w)")


def change_table(changes: Iterable[ProposedChange]) -> str:
    """Return a table with a row for each of `changes`, whole and exact.

    Short values stand beside each other; of long ones the row shows what differs, and all of
    either when it is unfolded.
    """
    found = [(change, difference(change)) for change in changes]
    body = "".join(_long(c, d) if d is not None else _short(c) for c, d in found)
    head = "".join(f'<th scope="col">{column}</th>' for column in wording.COLUMNS)
    if all(d is not None for _, d in found):
        head = ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _short(change: ProposedChange) -> str:
    shown = wording.exactly(change)
    cells = (_path(change), _text(UNSET if shown.now is None else shown.now))
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in (*cells, _text(shown.becomes)))}</tr>"


def _long(change: ProposedChange, found: Difference) -> str:
    title = f"{_path(change)} <span class='jp-nb-sizes'>{escape(found.sizes)}</span>"
    lines = "".join(map(_line, found.lines))
    whole = ""
    if found.is_folded:
        whole = _whole(wording.NOW_WHOLE, found.now) + _whole(
            wording.PROPOSED_WHOLE, found.proposed
        )
    return (
        f"<tr class='jp-nb-long'><td colspan='3'>{title}"
        f"<div class='jp-nb-lines'>{lines}</div>{whole}</td></tr>"
    )


def _line(line: Line) -> str:
    tag = _TAGS[line.sign]
    pieces = ((_KINDS.get(piece.kind), escape(piece.text)) for piece in line.pieces)
    text = "".join(f"<{kind}>{text}</{kind}>" if kind else text for kind, text in pieces)
    sign = "" if line.sign == "…" else f"<span>{line.sign}</span>"
    return f"<{tag}>{sign}<bdi>{text}</bdi></{tag}>"


def _whole(title: str, lines: tuple[str, ...]) -> str:
    if not lines:
        return ""
    text = "".join(f"<span><bdi>{escape(line)}</bdi></span>" for line in lines)
    count = f"{len(lines):,} line{'' if len(lines) == 1 else 's'}"
    return (
        f"<details><summary>{title} ({count})</summary>"
        f"<div class='jp-nb-lines'>{text}</div></details>"
    )


def _path(change: ProposedChange) -> str:
    """Return the path, which breaks where its parts do."""
    shown = escape(wording.exactly(change).path)
    return f"<bdi>{_BETWEEN_WORDS.sub(lambda found: f'{found[0]}<wbr>', shown)}</bdi>"


def _text(text: str) -> str:
    return f"<bdi>{escape(text)}</bdi>"
