"""Differences of two sources by lines, as text.

`line_matching.py` finds the lines that are the same in both.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from jp_nb.text import pluralize
from jp_nb.toolkit.editing.line_matching import match_source_lines, split_source_lines

SOURCE_CONTEXT_LINES: Final = 3
"""Unchanged lines that are shown before and after a change."""
LineKind = Literal["same", "removed", "added", "folded"]
_MARKS: Final[dict[LineKind, str]] = {"same": "  ", "removed": "- ", "added": "+ "}


@dataclass(frozen=True, slots=True)
class SourceDiffLine:
    """One line of a difference. The text of a `folded` one is the number of unchanged lines."""

    kind: LineKind
    text: str


def diff_source_lines(before: str, after: str) -> list[SourceDiffLine]:
    """Return the difference of two sources, with unchanged lines folded.

    Line ends are part of a line: a source that only loses its last line break is a change.
    """
    old = split_source_lines(before)
    new = split_source_lines(after)
    lines: list[SourceDiffLine] = []
    old_start = 0
    new_start = 0
    for same in match_source_lines(old, new):
        lines += [SourceDiffLine("removed", line) for line in old[old_start : same.old]]
        lines += [SourceDiffLine("added", line) for line in new[new_start : same.new]]
        lines.append(SourceDiffLine("same", old[same.old]))
        old_start = same.old + 1
        new_start = same.new + 1

    lines += [SourceDiffLine("removed", line) for line in old[old_start:]]
    lines += [SourceDiffLine("added", line) for line in new[new_start:]]
    return list(_fold(lines))


def _fold(lines: list[SourceDiffLine]) -> Iterator[SourceDiffLine]:
    """Yield the changed lines with `SOURCE_CONTEXT_LINES` around them; count the lines between."""
    shown = set[int]()
    for index, line in enumerate(lines):
        if line.kind != "same":
            shown.update(range(index - SOURCE_CONTEXT_LINES, index + SOURCE_CONTEXT_LINES + 1))

    folded_count = 0
    for index, line in enumerate(lines):
        if index not in shown:
            folded_count += 1
            continue
        if folded_count:
            yield SourceDiffLine("folded", str(folded_count))
            folded_count = 0
        yield line

    if folded_count:
        yield SourceDiffLine("folded", str(folded_count))


@dataclass(frozen=True)
class SourceDiff:
    """The difference of two sources, computed once, when it is first shown."""

    before: str
    after: str

    @cached_property
    def lines(self) -> list[SourceDiffLine]:
        """The lines, with unchanged lines folded."""
        return diff_source_lines(self.before, self.after)

    @property
    def note(self) -> str:
        """A note about a line break at the end that was added or removed; "" without one."""
        ends_differ = self.before.endswith("\n") != self.after.endswith("\n")
        if not (self.before and self.after and ends_differ):
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
        # The text behind the last line break is a line only if it is not empty.
        counts = Counter(line.kind for line in self.lines if line.text)
        parts = [
            f"{counts[kind]} {pluralize('line', counts[kind])} {kind}"
            for kind in ("added", "removed")
            if counts[kind]
        ]
        return ", ".join(parts)


def format_fold(line: SourceDiffLine) -> str:
    """Return the text in place of unchanged lines."""
    count = int(line.text)
    return f"… {count} unchanged {pluralize('line', count)}"


def format_diff(before: str, after: str) -> str:
    """Return the difference of two sources as text, with `+` and `-` before changed lines."""
    return SourceDiff(before, after).format()
