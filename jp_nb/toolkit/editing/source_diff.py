"""Differences of two sources by lines, as text.

Source: `docs/cells.md`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from typing import Final, Literal

from jp_nb.text import make_lookalike_key, pluralize, spell_lines

CONTEXT_LINES: Final = 3
"""Unchanged lines that are shown before and after a change."""
MAX_COMPARED_LINES: Final = 20_000
"""Sources with more lines are shown as changed as a whole."""
MAX_COMPARISON_COST: Final = 3_000_000
"""Limit of comparisons of lines that occur several times; others are shown as changed."""

LineKind = Literal["same", "removed", "added", "folded"]
_MARKS: Final[dict[LineKind, str]] = {"same": "  ", "removed": "- ", "added": "+ "}
_SPELLED: Final = re.compile(r"⟨U\+([0-9A-F]{4,6})⟩")
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class SourceDiffLine:
    """One line of a difference. The text of a `folded` one is the number of unchanged lines."""

    kind: LineKind
    text: str


def diff_lines(before: str, after: str) -> list[SourceDiffLine]:
    """Return the difference of two sources, with unchanged lines folded.

    Line ends are part of a line: a source that only loses its last line break is a change.
    """
    old = _split(before)
    new = _split(after)
    if len(old) + len(new) > MAX_COMPARED_LINES:
        removed = [SourceDiffLine("removed", line) for line in old]
        return removed + [SourceDiffLine("added", line) for line in new]

    lines: list[SourceDiffLine] = []
    position = 0
    start = 0
    for i, j in [*_match_lines(old, new), (len(old), len(new))]:
        lines += [SourceDiffLine("removed", line) for line in old[position:i]]
        lines += [SourceDiffLine("added", line) for line in new[start:j]]
        if i < len(old):
            lines.append(SourceDiffLine("same", old[i]))
        position = i + 1
        start = j + 1
    return list(_fold(lines))


def _match_lines(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    """Return the indices of lines that are the same in both sources, in order.

    Lines that occur once in both are found first, so that the time grows with the number of lines.
    Between them, `difflib` compares as many lines as `MAX_COMPARISON_COST` allows.
    """
    begin = 0
    while begin < min(len(old), len(new)) and old[begin] == new[begin]:
        begin += 1
    end = 0
    while end < min(len(old), len(new)) - begin and old[-1 - end] == new[-1 - end]:
        end += 1

    pairs = [(index, index) for index in range(begin)]
    cost = 0
    i = begin
    j = begin
    ends = (len(old) - end, len(new) - end)
    for anchor in [*_find_unique_lines(old, new, begin, ends), ends]:
        height = anchor[0] - i
        width = anchor[1] - j
        cost += height * width * min(height, width)
        if height and width and cost <= MAX_COMPARISON_COST:
            matcher = SequenceMatcher(None, old[i : anchor[0]], new[j : anchor[1]], autojunk=False)
            for block in matcher.get_matching_blocks():
                pairs += [(i + block.a + k, j + block.b + k) for k in range(block.size)]
        if anchor != ends:
            pairs.append(anchor)
        i = anchor[0] + 1
        j = anchor[1] + 1

    pairs += [(len(old) - k, len(new) - k) for k in range(end, 0, -1)]
    return pairs


def _find_unique_lines(
    old: list[str], new: list[str], begin: int, ends: tuple[int, int]
) -> list[tuple[int, int]]:
    """Return the longest list of lines that occur once in both parts, in order."""
    counts = Counter(old[begin : ends[0]])
    others = Counter(new[begin : ends[1]])
    places = {line: j for j, line in enumerate(new[begin : ends[1]], begin) if others[line] == 1}
    found = [
        (i, places[line])
        for i, line in enumerate(old[begin : ends[0]], begin)
        if counts[line] == 1 and line in places
    ]

    # The longest increasing sequence of places in `new`.
    tails: list[int] = []
    last: list[int] = []
    previous: list[int] = []
    for index, (_, j) in enumerate(found):
        length = bisect_left(tails, j)
        previous.append(last[length - 1] if length else -1)
        tails[length : length + 1] = [j]
        last[length : length + 1] = [index]

    chain: list[tuple[int, int]] = []
    index = last[-1] if last else -1
    while index >= 0:
        chain.append(found[index])
        index = previous[index]
    return chain[::-1]


def _split(source: str) -> list[str]:
    if not source:
        return []
    lines = source.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + lines[-1:]


def _fold(lines: list[SourceDiffLine]) -> Iterator[SourceDiffLine]:
    changed = [index for index, line in enumerate(lines) if line.kind != "same"]
    shown = set[int]()
    for index in changed:
        shown.update(range(index - CONTEXT_LINES, index + CONTEXT_LINES + 1))

    folded = 0
    for index, line in enumerate(lines):
        if index not in shown:
            folded += 1
            continue
        if folded:
            yield SourceDiffLine("folded", str(folded))
            folded = 0
        yield line
    if folded:
        yield SourceDiffLine("folded", str(folded))


@dataclass(frozen=True)
class SourceDiff:
    """The difference of two sources, computed once, when it is first shown."""

    before: str
    after: str

    @cached_property
    def lines(self) -> list[SourceDiffLine]:
        """The lines, with unchanged lines folded."""
        return diff_lines(self.before, self.after)

    @property
    def note(self) -> str:
        """A note about a line break at the end that was added or removed; "" without one."""
        ends = self.before.endswith("\n") != self.after.endswith("\n")
        if not (self.before and self.after and ends):
            return ""
        verb = "has" if self.after.endswith("\n") else "has no"
        return f"… the new source {verb} a line break at its end"

    def format(self) -> str:
        """Return the difference as text, with `+` and `-` before changed lines."""
        lines: list[str] = []
        for line in self.lines:
            if line.kind == "folded":
                lines.append(format_fold(line))
                continue
            mark = _MARKS[line.kind]
            text = line.text.removesuffix("\n")
            # The mark of an empty line has no space: a prompt would show it as a part of the line.
            lines.append(f"{mark}{text}" if text else mark.rstrip())

        if self.note:
            lines.append(self.note)
        return "\n".join(lines)

    def describe_size(self) -> str:
        """Return the numbers of lines that are added and removed, in words."""
        # The text behind the last line break is a line only if there is any.
        kinds = Counter(line.kind for line in self.lines if line.text)
        parts = [
            f"{kinds[kind]} {pluralize('line', kinds[kind])} {kind}"
            for kind in ("added", "removed")
            if kinds[kind]
        ]
        return ", ".join(parts)


def format_fold(line: SourceDiffLine) -> str:
    """Return the text in place of unchanged lines."""
    count = int(line.text)
    return f"… {count} unchanged {pluralize('line', count)}"


def format_diff(before: str, after: str) -> str:
    """Return the difference of two sources as text, with `+` and `-` before changed lines."""
    return SourceDiff(before, after).format()


def describe_hidden_characters(before: str, after: str) -> list[str]:
    """Return warnings about characters of `after` that a reader does not see or takes for others.

    Such characters are invisible, change the order of text, or look like letters of `before`.
    """
    warnings: list[str] = []
    _, spelled = spell_lines(after)
    found = _SPELLED.findall("\n".join(spelled))
    if found:
        points = ", ".join(f"U+{each}" for each in sorted(set(found))[:8])
        noun = "1 character" if len(found) == 1 else f"{len(found)} characters"
        warnings.append(f"{noun} that cannot be seen or confuse, shown as code points: {points}")

    if "\r" in after:
        warnings.append(
            "a carriage return (U+000D): JupyterLab puts text that is typed into such a cell "
            "at the wrong place"
        )

    alike = _find_lookalikes(before, after)
    if alike:
        points = ", ".join(f"{char} U+{ord(char):04X}" for char in alike[:8])
        warnings.append(f"letters that look like Latin ones: {points}")
    return warnings


def _find_lookalikes(before: str, after: str) -> list[str]:
    """Return the letters in `after` that look like Latin ones, in mixed words or known lines."""
    if after.isascii():
        return []

    known = {make_lookalike_key(line): line for line in before.split("\n")}
    found: dict[str, None] = {}
    for line in after.split("\n"):
        if line.isascii():
            continue
        twin = known.get(make_lookalike_key(line), line)
        words = [line] if twin != line else _WORD.findall(line)
        for word in words:
            if twin != line or any(char.isascii() and char.isalpha() for char in word):
                found |= dict.fromkeys(filter(_is_lookalike, word))
    return list(found)


def _is_lookalike(char: str) -> bool:
    if char.isascii() or not char.isalpha():
        return False
    key = make_lookalike_key(char)
    return key != char and key.isascii() and key.isalpha() and len(key) == 1
