r"""Differences between two values or two texts, line by line and word by word.

Text values are compared line by line, other values as indented JSON. Replaced lines are compared
word by word. Equal parts are folded, and different parts are complete and exact. In a text, a
backslash or invisible character is shown as its JSON escape (`\\`, `\t`, `\u200b`; a space at the
end of a line is `\u0020`). In JSON, its own escapes are shown. Folds are in `⟨…⟩`, and a `⟨` of a
value is `\u27e8`, so that no value looks like a fold.

`same_runs.py` finds the equal parts. The comparison takes O(n log n) time for values of size n.

Source: `docs/guide.md`, `docs/turns.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Literal, NamedTuple

from pydantic import JsonValue

from jp_nb.agent.prompting.prompts import UNSET_VALUE, ProposedChange
from jp_nb.json_values import MAX_INDENTED_LEVELS, indented_json, is_deeper
from jp_nb.rendering.same_runs import SameRun, find_same_runs
from jp_nb.text import escape_invisible, pluralize

SHORT_VALUE_CHARS = 100
"""Up to this length, values are shown next to each other as JSON."""
CONTEXT_LINES = 3
"""Equal lines that are shown on either side of a difference."""
CONTEXT_CHARS = 60
"""Equal characters that are shown on either side of a difference in a line."""

DiffSign = Literal["-", "+", " ", "…"]
_WORDS = re.compile(r"\w+|\W")


class DiffPiece(NamedTuple):
    """A part of a line: equal on both sides, different, or a fold of equal characters."""

    text: str
    kind: Literal["same", "differs", "fold"] = "same"


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a difference: removed, added, equal, or (`…`) a fold of equal lines."""

    sign: DiffSign
    pieces: tuple[DiffPiece, ...]

    def __str__(self) -> str:
        """Return `- text`; a fold without its sign."""
        text = "".join(piece.text for piece in self.pieces)
        if self.sign == "…":
            return text

        return f"{self.sign} {text}".rstrip(" ")


@dataclass(frozen=True, slots=True)
class Difference:
    """A changed value.

    Attributes:
        sizes: `text, 30 lines → text, 31 lines`.
        lines: The differences, with some lines of context.
        now: All lines of the current value; empty if it is not set.
        proposed: All lines of the proposed value; empty if it is removed.
    """

    sizes: str
    lines: tuple[DiffLine, ...]
    now: tuple[str, ...]
    proposed: tuple[str, ...]

    @property
    def is_folded(self) -> bool:
        """True if `lines` omit equal parts."""
        pieces = chain.from_iterable(line.pieces for line in self.lines)
        return any(piece.kind == "fold" for piece in pieces)


@dataclass(frozen=True, slots=True)
class _Value:
    kind: str
    lines: tuple[str, ...]
    escaped: Callable[[str], str]

    def show_line(self, index: int) -> str:
        return _escape_line(self.lines[index], self.escaped)

    def show_all(self) -> tuple[str, ...]:
        return tuple(map(self.show_line, range(len(self.lines))))

    def __str__(self) -> str:
        count = len(self.lines)
        if not count:
            return self.kind

        return f"{self.kind}, {count:,} {pluralize('line', count)}"


def diff_change(change: ProposedChange) -> Difference | None:
    """Return the differences of `change` line by line; None if its values are short.

    An added item of a list is compared with nothing. An unset value is compared with the inherited
    value that replaces it.
    """
    after = change.then if change.proposed is None else change.proposed
    before = None if change.added else change.now
    if max(len(before or ""), len(after or "")) <= SHORT_VALUE_CHARS:
        return None

    now = _read_value(before)
    proposed = _read_value(after)

    if change.added:
        sizes = f"+ {proposed}"
    elif change.proposed is None and change.then is not None:
        sizes = f"{now} → {UNSET_VALUE}, then {proposed}"
    else:
        sizes = f"{now} → {proposed}"

    lines = tuple(_compare_lines(now, proposed))
    return Difference(sizes, lines, now.show_all(), proposed.show_all())


def diff_lines(before: Iterable[str], after: Iterable[str]) -> tuple[DiffLine, ...]:
    """Return the exact differences between lines; empty if there are none."""
    now = _Value("lines", tuple(before), _escape_json)
    then = _Value("lines", tuple(after), _escape_json)
    if now.lines == then.lines:
        return ()

    return tuple(_compare_lines(now, then))


def _read_value(text: str | None) -> _Value:
    if text is None:
        return _Value(UNSET_VALUE, (), escape_invisible)

    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return _Value("JSON", (text,), _escape_json)

    if isinstance(value, str):
        return _Value("text", tuple(value.split("\n")), _escape_text)

    if not is_deeper(value, MAX_INDENTED_LEVELS):
        text = indented_json(value)
    return _Value("JSON", tuple(text.split("\n")), _escape_json)


def _escape_json(text: str) -> str:
    return escape_invisible(text).replace("⟨", r"\u27e8")


def _escape_text(text: str) -> str:
    return _escape_json(text.replace("\\", r"\\"))


def _escape_line(text: str, escaped: Callable[[str], str]) -> str:
    kept = text.rstrip(" ")
    return escaped(kept) + r"\u0020" * (len(text) - len(kept))


def _compare_lines(now: _Value, proposed: _Value) -> Iterator[DiffLine]:
    if now.kind != proposed.kind:  # a line of text never equals a line of JSON
        runs = [SameRun(len(now.lines), len(proposed.lines), 0)]
    else:
        runs = find_same_runs(now.lines, proposed.lines)

    at = there = 0
    for run in runs:
        gone = range(at, run.at)
        new = range(there, run.there)

        # Equal numbers of removed and added lines are compared word by word.
        if now.kind == proposed.kind and len(gone) == len(new):
            pairs = [_compare_words(now, proposed, i, j) for i, j in zip(gone, new, strict=True)]
            yield from (DiffLine("-", before) for before, _ in pairs)
            yield from (DiffLine("+", after) for _, after in pairs)
        else:
            yield from (DiffLine("-", (DiffPiece(now.show_line(i)),)) for i in gone)
            yield from (DiffLine("+", (DiffPiece(proposed.show_line(j)),)) for j in new)

        at = run.at + run.length
        there = run.there + run.length

        same = list(map(now.show_line, range(run.at, at)))
        last = at == len(now.lines) and there == len(proposed.lines)
        yield from _context_lines(same, first=run.at == run.there == 0, last=last)


def _context_lines(same: list[str], *, first: bool, last: bool) -> Iterator[DiffLine]:
    head = 0 if first else CONTEXT_LINES
    tail = 0 if last else CONTEXT_LINES
    left = len(same) - head - tail
    if left <= 1:  # a fold would be as long
        head = len(same)
        left = 0

    yield from (DiffLine(" ", (DiffPiece(line),)) for line in same[:head])
    if left:
        yield DiffLine("…", (DiffPiece(f"⟨… {left:,} unchanged lines⟩", "fold"),))
        yield from (DiffLine(" ", (DiffPiece(line),)) for line in same[len(same) - tail :][:tail])


def _compare_words(
    now: _Value, proposed: _Value, i: int, j: int
) -> tuple[tuple[DiffPiece, ...], tuple[DiffPiece, ...]]:
    before = _WORDS.findall(now.lines[i])
    after = _WORDS.findall(proposed.lines[j])
    sides: tuple[list[DiffPiece], list[DiffPiece]] = ([], [])

    at = there = 0
    for run in find_same_runs(before, after):
        gone = "".join(before[at : run.at])
        new = "".join(after[there : run.there])
        at = run.at + run.length
        there = run.there + run.length

        if gone or new:  # if one is empty, an empty piece marks the place, which is not folded
            head = count_equal(gone, new)
            tail = count_equal(gone[head:][::-1], new[head:][::-1])

            for side, text in zip(sides, (gone, new), strict=True):
                end = len(text) - tail
                side.append(DiffPiece(text[:head]))
                side.append(DiffPiece(text[head:end], "differs"))
                side.append(DiffPiece(text[end:]))

        for side in sides:
            side.append(DiffPiece("".join(before[run.at : at])))

    return _join_pieces(sides[0], now.escaped), _join_pieces(sides[1], proposed.escaped)


def count_equal(one: Sequence[object], other: Sequence[object]) -> int:
    """Return the number of equal characters or items at the beginning of both."""
    unlike = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(unlike, min(len(one), len(other)))


def _join_pieces(pieces: list[DiffPiece], escaped: Callable[[str], str]) -> tuple[DiffPiece, ...]:
    joined: list[DiffPiece] = []
    for piece in pieces:
        if joined and joined[-1].kind == piece.kind:
            joined[-1] = DiffPiece(joined[-1].text + piece.text, piece.kind)
        elif piece.text or piece.kind == "differs":
            joined.append(piece)

    folded = (
        _fold_piece(piece, escaped, first=piece is joined[0], last=piece is joined[-1])
        for piece in joined
    )
    return tuple(chain.from_iterable(folded))


def _fold_piece(
    piece: DiffPiece, escaped: Callable[[str], str], *, first: bool, last: bool
) -> Iterator[DiffPiece]:
    show = partial(_escape_line, escaped=escaped) if last else escaped
    head = 0 if first else CONTEXT_CHARS
    tail = 0 if last else CONTEXT_CHARS
    left = len(piece.text) - head - tail

    if piece.kind == "differs" or left <= CONTEXT_CHARS:
        yield DiffPiece(show(piece.text), piece.kind)
        return

    if head:
        yield DiffPiece(escaped(piece.text[:head]))
    yield DiffPiece(f"⟨… {left:,} unchanged characters⟩", "fold")
    if tail:
        yield DiffPiece(escaped(piece.text[-tail:]))


def compare_values(
    label: str, old: JsonValue, new: JsonValue, *, limit: int
) -> tuple[str, list[str]]:
    """Return a line about a changed value, and at most `limit` lines of a long difference.

    If there are more, the last line has their number.
    """
    before = format_sorted_json(old)
    after = format_sorted_json(new)
    found = diff_change(ProposedChange(label, before, after))
    if found is None:
        return f"{label}: {_format_short(before)} → {_format_short(after)}", []

    lines = [str(line) for line in found.lines]
    if len(lines) > limit:
        left = len(lines) - limit + 1
        lines[limit - 1 :] = [f"⟨… {left:,} more lines⟩"]

    return f"{label}: {found.sizes}", lines


def _format_short(text: str | None) -> str:
    return UNSET_VALUE if text is None else escape_invisible(text)


def format_sorted_json(value: JsonValue) -> str | None:
    """Return `value` as JSON with sorted keys, in which 1, 1.0 and true differ; None for null."""
    return None if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)
