"""Differences of two sources by lines, as text.

Source: `docs/cells.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final, Literal

from jp_nb.text import make_lookalike_key, spell_lines

CONTEXT_LINES: Final = 3
"""Unchanged lines that are shown before and after a change."""
MAX_COMPARED_LINES: Final = 20_000
"""Sources with more lines are shown as changed as a whole."""

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
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for operation, i1, i2, j1, j2 in matcher.get_opcodes():
        if operation == "equal":
            lines += [SourceDiffLine("same", line) for line in old[i1:i2]]
            continue
        lines += [SourceDiffLine("removed", line) for line in old[i1:i2]]
        lines += [SourceDiffLine("added", line) for line in new[j1:j2]]
    return list(_fold(lines))


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


def format_diff(before: str, after: str) -> str:
    """Return the difference of two sources as text, with `+` and `-` before changed lines."""
    lines: list[str] = []
    for line in diff_lines(before, after):
        if line.kind == "folded":
            count = int(line.text)
            noun = "line" if count == 1 else "lines"
            lines.append(f"… {count} unchanged {noun}")
            continue
        lines.append(_MARKS[line.kind] + line.text.removesuffix("\n"))

    ends = before.endswith("\n") != after.endswith("\n")
    if before and after and ends:
        verb = "has" if after.endswith("\n") else "has no"
        lines.append(f"… the new source {verb} a line break at its end")
    return "\n".join(lines)


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
