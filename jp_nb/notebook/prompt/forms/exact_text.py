"""Show a long text exactly, in parts, with highlighted code.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

import ipywidgets as widgets

from jp_nb.notebook.prompt.controls.form_messages import guard_widgets
from jp_nb.notebook.prompt.controls.form_widgets import make_box, make_button, make_html, make_text
from jp_nb.notebook.prompt.controls.widget_closing import close_widgets
from jp_nb.notebook.prompt.controls.widget_sharing import SharedLook
from jp_nb.notebook.prompt.forms.code_pieces import highlight_code

MAX_PART_LINES: Final = 1000
"""Limit of lines of one part."""

MAX_PART_CHARS: Final = 50_000
"""Limit of characters of one part."""

# The beginning of a spelled-out character, such as `⟨U+200B⟩` or `\x1b`, at the end of a text.
_UNFINISHED_ESCAPE: Final = re.compile(r"[⟨\\][^⟨⟩\\]{0,9}$")


@dataclass(frozen=True, slots=True)
class ExactPart:
    """Consecutive lines of a text. A line that is too long is split into several parts.

    Attributes:
        lines: The lines, or a piece of one line.
        first: The number of the first line, counted from 1; 0 if the text has no lines.
        last: The number of the last line.
        continues: True if the first line starts in the previous part.
    """

    lines: tuple[str, ...]
    first: int
    last: int
    continues: bool = False


def split_parts(lines: Sequence[str]) -> Iterator[ExactPart]:
    """Yield `lines` in parts of at most `MAX_PART_LINES` lines and `MAX_PART_CHARS` characters."""
    part: list[str] = []
    chars = 0
    first = 1
    continues = False

    for number, line in enumerate(lines, start=1):
        # The line does not fit into the current part.
        if part and (len(part) == MAX_PART_LINES or chars + len(line) > MAX_PART_CHARS):
            yield ExactPart(tuple(part), first, number - 1, continues)
            part = []
            chars = 0
            first = number
            continues = False

        # The line does not fit into any part: it is split, but not within an escape. Each piece but
        # the last one is a part.
        rest = line
        while len(rest) > MAX_PART_CHARS:
            piece = _UNFINISHED_ESCAPE.sub("", rest[:MAX_PART_CHARS]) or rest[:MAX_PART_CHARS]
            yield ExactPart((piece,), number, number, continues)
            rest = rest[len(piece) :]
            first = number
            continues = True

        part.append(rest)
        chars += len(rest)

    if lines:
        yield ExactPart(tuple(part), first, len(lines), continues)
    else:
        yield ExactPart((), 0, 0)


def show_exact_lines(
    lines: Sequence[str], language: str | None, look: SharedLook
) -> Iterator[widgets.Widget]:
    """Yield widgets that show all of `lines`.

    The caller has made invisible characters visible. Code of a known `language` is highlighted.
    `look` has the layout and style that the widgets of the form share. The widget of a part is
    closed when the user turns the page, so it has its own.
    """
    parts = list(split_parts(lines))
    if len(parts) > 1:
        yield from _PagedText(parts, language).widgets
    else:
        yield _make_text_box(parts[0], language, look)


class _PagedText:
    """A text in several parts, with buttons to turn the pages. The first follows the last."""

    def __init__(self, parts: Sequence[ExactPart], language: str | None) -> None:
        self._parts = parts
        self._language = language
        self._index = 0
        self._place = make_text("", "part")
        self._text_box = make_box("exact-part")
        back = make_button("Previous part", lambda: self._turn(-1))
        pager = widgets.HBox([back, make_button("Next part", lambda: self._turn(1)), self._place])
        pager.add_class("jp-nb-pager")
        self.widgets = (self._text_box, pager)
        self._turn(0)

    def _turn(self, step: int) -> None:
        """Show the part that is `step` parts after the current one."""
        self._index = (self._index + step) % len(self._parts)
        previous = self._text_box.children
        part = self._parts[self._index]

        # A new widget resets the scroll position.
        self._text_box.children = (_make_text_box(part, self._language),)
        guard_widgets(self._text_box)  # ignores messages that do not come from the form's page

        for widget in previous:
            close_widgets(widget)

        total = self._parts[-1].last
        which = f"lines {part.first} to {part.last}"
        if part.first == part.last:
            which = f"line {part.first}"
            if part.continues:
                which += ", continued"

        self._place.value = f"Part {self._index + 1} of {len(self._parts)}: {which} of {total}"


def _make_text_box(
    part: ExactPart, language: str | None, look: SharedLook | None = None
) -> widgets.HTML:
    lines = highlight_code(part.lines, language) if language else map(escape, part.lines)
    # `bdo` shows all characters in their logical order, also right-to-left text.
    rows = "".join(f'<div><bdo dir="ltr">{line}</bdo></div>' for line in lines)
    return make_html(rows, "exact", look)
