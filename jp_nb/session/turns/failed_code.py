"""The failed lines of user code: their numbers, and excerpts around them.

`error_request.py` puts them into a request to the model about the error of the last cell.

Source: `docs/guide.md`, `docs/decisions.md` D85, D99.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from itertools import accumulate

from jp_nb.text import pluralize

MAX_FAILED_LINES = 20  # limit of the lines of one failed statement
MAX_SOURCE_LINE_CHARS = 400  # limit of the characters of a source line


def find_failed_lines(summary: traceback.FrameSummary) -> range:
    """Return the numbers of the lines of the failed statement, from the first."""
    first = summary.lineno or 1
    last = max(summary.end_lineno or first, first)
    return range(first, min(last, first + MAX_FAILED_LINES - 1) + 1)


def find_written_line(
    raw_cell: str, source: str, line: int | None
) -> tuple[str, int | None] | None:
    """Return the cell as the user wrote it, and the number of its failed line.

    IPython ran `source`, a translation of `raw_cell`. It removes empty lines at the beginning, as
    is done here, and replaces lines such as `!ls` one by one. The error is at `line` of `source`.
    If `source` is unknown (""), `line` is returned if the cell has it.

    Return None if IPython changed the failed line, since then only `source` explains the error.
    """
    written_lines = raw_cell.splitlines()
    while written_lines and not written_lines[0].strip():
        del written_lines[0]

    written = "\n".join(written_lines)
    source_lines = source.splitlines()
    has_line = line is not None and 0 < line <= len(written_lines)

    if not source_lines:
        return written, line if has_line else None
    if line is None or not has_line or line > len(source_lines):
        return None

    is_same = written_lines[line - 1].strip() == source_lines[line - 1].strip()
    return (written, line) if is_same else None


def format_excerpt(lines: dict[int, str], failing: range, room: int) -> Iterator[str]:
    """Yield the lines nearest to the first failing one, with their numbers.

    An arrow marks each failing line. If lines above or below are omitted, a line has their number.

    Args:
        lines: Consecutive lines of code by their numbers.
        failing: Numbers of the failing lines. If it is empty, the first lines are kept.
        room: Maximum number of characters. At least one line is kept.
    """
    width = len(str(max(lines, default=0)))
    texts: dict[int, str] = {}
    for number, line in lines.items():
        mark = "→" if number in failing else " "
        texts[number] = f"{mark} {number:>{width}} {line[:MAX_SOURCE_LINE_CHARS]}"

    center = failing.start
    nearest_first = sorted(texts, key=lambda number: (abs(number - center), number))
    total_sizes = accumulate(len(texts[number]) + 1 for number in nearest_first)
    sized = zip(nearest_first, total_sizes, strict=True)
    fitting = {number for number, total_size in sized if total_size <= room}
    kept = fitting or set(nearest_first[:1])

    # The kept lines are consecutive: sizes only grow, so all nearer lines fit as well.
    above_count = sum(number < min(kept, default=0) for number in texts)
    below_count = len(texts) - len(kept) - above_count

    yield from format_omitted(above_count, "line")
    yield from (texts[number].rstrip() for number in sorted(kept))
    yield from format_omitted(below_count, "line")


def format_omitted(count: int, noun: str) -> Iterator[str]:
    """Yield a line about `count` omitted things, such as calls, or nothing if it is 0."""
    if count:
        yield f"… ({count} {pluralize(noun, count)} omitted)"
