"""Mark the lines of an untrusted text with a bar, so that they do not look like the prompt's own.

    │ The first line of the text
    │ a line that is wider than the terminal is wrapped here,
    ┊ and its rest has another mark

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

from jp_nb.exact_form import force_left_to_right
from jp_nb.object_text import BAR

MAX_COLUMNS: Final = 100
"""Width of an exactly shown line. `CONTINUATION` marks the rest of a longer one."""

CONTINUATION: Final = "┊ "


def bar_text(text: str | None) -> Iterator[str]:
    """Yield the lines of `text` with a bar, as `bar_lines` does; none if there is no text."""
    return bar_lines(text.split("\n") if text else ())


def bar_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield `lines` with a bar, so that none of them looks like a line of the prompt itself."""
    for line in lines:
        mark = BAR
        for part in _wrap_line(line):
            # A console shows the characters in this order, also those of right-to-left scripts.
            yield mark + force_left_to_right(part)
            mark = CONTINUATION


def _wrap_line(line: str) -> Iterator[str]:
    """Yield parts of a line: the rest of a line that the terminal wraps would have no bar."""
    part = list[str]()
    columns = 0

    for char in line:
        width = 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if columns + width > MAX_COLUMNS and not unicodedata.combining(char):
            yield "".join(part)
            part = []
            columns = 0

        part.append(char)
        columns += width

    yield "".join(part)
