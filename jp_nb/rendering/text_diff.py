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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from pydantic import JsonValue

from jp_nb.agent.prompting.prompts import UNSET_VALUE, ProposedChange
from jp_nb.exact_form import escape_invisible
from jp_nb.json_limits import MAX_INDENTED_LEVELS, is_deeper
from jp_nb.json_writing import indented_json
from jp_nb.rendering.same_runs import SameRun, find_same_runs
from jp_nb.rendering.word_diff import DiffPiece, Escape, compare_words, escape_line
from jp_nb.text import pluralize

SHORT_VALUE_CHARS = 100
"""Up to this length, values are shown next to each other as JSON."""
CONTEXT_LINES = 3
"""Equal lines that are shown on either side of a difference."""

DiffSign = Literal["-", "+", " ", "…"]


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
    """A value as lines.

    Attributes:
        kind: `text`, `JSON`, or the words for an unset value. It is shown with the size.
        lines: The lines as they are compared.
        escape: Returns a line as it is shown.
    """

    kind: str
    lines: tuple[str, ...]
    escape: Escape

    def show_line(self, index: int) -> str:
        return escape_line(self.lines[index], self.escape)

    def show_all(self) -> tuple[str, ...]:
        return tuple(map(self.show_line, range(len(self.lines))))

    def __str__(self) -> str:
        count = len(self.lines)
        if not count:
            return self.kind

        return f"{self.kind}, {count:,} {pluralize('line', count)}"


def diff_change(change: ProposedChange) -> Difference | None:
    """Return the differences of `change` line by line; None if its values are short.

    Its values are JSON, or None if they are unset. An added item of a list is compared with
    nothing. An unset value is compared with the inherited value that replaces it.
    """
    # `then` is the inherited value of an unset one.
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
    proposed = _Value("lines", tuple(after), _escape_json)
    if now.lines == proposed.lines:
        return ()

    return tuple(_compare_lines(now, proposed))


def _read_value(text: str | None) -> _Value:
    """Return the lines of a value that is given as JSON; None is an unset value."""
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


def _compare_lines(now: _Value, proposed: _Value) -> Iterator[DiffLine]:
    """Yield the differences: before each run of equal lines, the lines that differ.

    The last run is always empty and at the end, so the lines that differ after the others come too.
    """
    if now.kind != proposed.kind:  # a line of text never equals a line of JSON
        runs = [SameRun(len(now.lines), len(proposed.lines), 0)]  # only the empty one at the end
    else:
        runs = find_same_runs(now.lines, proposed.lines)

    now_end = 0  # of the last run
    proposed_end = 0

    for run in runs:
        removed = range(now_end, run.before_start)
        added = range(proposed_end, run.after_start)
        yield from _compare_replaced(now, proposed, removed, added)

        now_end = run.before_end
        proposed_end = run.after_end

        same = list(map(now.show_line, range(run.before_start, now_end)))
        is_first = run.before_start == run.after_start == 0
        is_last = now_end == len(now.lines) and proposed_end == len(proposed.lines)
        yield from _fold_same_lines(same, is_first=is_first, is_last=is_last)


def _compare_replaced(
    now: _Value, proposed: _Value, removed: range, added: range
) -> Iterator[DiffLine]:
    """Yield the removed and the added lines; word by word if there are equally many."""
    if now.kind != proposed.kind or len(removed) != len(added):
        yield from (DiffLine("-", (DiffPiece(now.show_line(index)),)) for index in removed)
        yield from (DiffLine("+", (DiffPiece(proposed.show_line(index)),)) for index in added)
        return

    pairs = []
    for now_index, proposed_index in zip(removed, added, strict=True):
        before = now.lines[now_index]
        after = proposed.lines[proposed_index]
        pairs.append(compare_words(before, after, now.escape, proposed.escape))

    yield from (DiffLine("-", pair.before) for pair in pairs)
    yield from (DiffLine("+", pair.after) for pair in pairs)


def _fold_same_lines(same: list[str], *, is_first: bool, is_last: bool) -> Iterator[DiffLine]:
    """Yield equal lines, of which only those near a difference are shown."""
    head = 0 if is_first else CONTEXT_LINES
    tail = 0 if is_last else CONTEXT_LINES
    folded_count = len(same) - head - tail
    if folded_count <= 1:  # a fold would be as long
        head = len(same)
        folded_count = 0

    yield from (DiffLine(" ", (DiffPiece(line),)) for line in same[:head])
    if folded_count:
        yield DiffLine("…", (DiffPiece(f"⟨… {folded_count:,} unchanged lines⟩", "fold"),))
        yield from (DiffLine(" ", (DiffPiece(line),)) for line in same[len(same) - tail :])


def compare_values(
    label: str, old: JsonValue, new: JsonValue, *, limit: int
) -> tuple[str, list[str]]:
    """Return a line about a changed value, and at most `limit` lines of a long difference.

    If there are more, the last line has their number.
    """
    before = format_sorted_json(old)
    after = format_sorted_json(new)
    difference = diff_change(ProposedChange(label, before, after))
    if difference is None:
        return f"{label}: {_format_short(before)} → {_format_short(after)}", []

    lines = [str(line) for line in difference.lines]
    if len(lines) > limit:
        omitted_count = len(lines) - limit + 1
        lines[limit - 1 :] = [f"⟨… {omitted_count:,} more lines⟩"]

    return f"{label}: {difference.sizes}", lines


def _format_short(text: str | None) -> str:
    return UNSET_VALUE if text is None else escape_invisible(text)


def format_sorted_json(value: JsonValue) -> str | None:
    """Return `value` as JSON with sorted keys, in which 1, 1.0 and true differ; None for null."""
    return None if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)
