"""Show a long text exactly, in parts, with highlighted code.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import Any, Final, NamedTuple

import ipywidgets as widgets
from pygments.lexers import get_lexer_by_name  # IPython depends on Pygments
from pygments.token import Comment, Generic, Keyword, Name, Number, Operator, String
from pygments.util import ClassNotFound

from jp_nb.notebook.prompt.controls.form_messages import guard_widgets
from jp_nb.notebook.prompt.controls.form_widgets import (
    close_widgets,
    make_box,
    make_button,
    make_html,
    make_text,
)

MAX_PART_LINES: Final = 1000
"""Limit of lines of one part."""

MAX_PART_CHARS: Final = 50_000
"""Limit of characters of one part."""

_UNFINISHED_ESCAPE: Final = re.compile(r"[⟨\\][^⟨⟩\\]{0,9}$")

_STYLES: Final = (
    (Comment, "comment"),
    (String, "string"),
    (Number, "number"),
    (Keyword, "keyword"),
    (Operator.Word, "keyword"),
    (Name.Builtin, "builtin"),
    (Name.Function, "name"),
    (Name.Class, "name"),
    (Generic.Heading, "keyword"),
    (Generic.Subheading, "keyword"),
)

_LEXERS: Final = {"python": ("ipython3", "python")}
"""Names of lexers by language, best first. `ipython3` knows the magics of cells."""


@dataclass(frozen=True, slots=True)
class ExactPart:
    """Consecutive lines of a text, from number `first` to `last`. A line that is too long is split.

    Lines are counted from 1. Both numbers are 0 if the text has no lines. `continues` is
    True if the first line starts in the previous part.
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
        rest = line
        while part and (len(part) == MAX_PART_LINES or chars + len(rest) > MAX_PART_CHARS):
            yield ExactPart(tuple(part), first, number - 1, continues)
            part = []
            chars = 0
            first = number
            continues = False

        while len(rest) > MAX_PART_CHARS:
            piece = _UNFINISHED_ESCAPE.sub("", rest[:MAX_PART_CHARS]) or rest[:MAX_PART_CHARS]
            yield ExactPart((piece,), number, number, continues)
            rest = rest[len(piece) :]
            first = number
            continues = True

        part.append(rest)
        chars += len(rest)

    if not lines:
        yield ExactPart((), 0, 0)
    elif part:
        yield ExactPart(tuple(part), first, len(lines), continues)


def show_exact_text(
    caption: str, lines: Sequence[str], language: str | None = None
) -> Iterator[widgets.Widget]:
    """Yield widgets that show `caption` and, below it, all of `lines`.

    The caller has made invisible characters visible. Code of a known `language` is highlighted.
    """
    yield make_text(caption, "caption")
    parts = list(split_parts(lines))
    if len(parts) > 1:
        yield from _PagedText(parts, language).widgets
    else:
        yield _make_text_box(parts[0], language)


class _PagedText:
    """A text in several parts, with buttons to turn the pages."""

    def __init__(self, parts: Sequence[ExactPart], language: str | None) -> None:
        self._parts = parts
        self._language = language
        self._at = 0
        self._place = make_text("", "part")
        self._text_box = make_box("exact-part")
        back = make_button("Previous part", lambda: self._turn(-1))
        pager = widgets.HBox([back, make_button("Next part", lambda: self._turn(1)), self._place])
        pager.add_class("jp-nb-pager")
        self.widgets = (self._text_box, pager)
        self._turn(0)

    def _turn(self, step: int) -> None:
        self._at = (self._at + step) % len(self._parts)
        old = self._text_box.children
        # A new widget resets the scroll position.
        self._text_box.children = (_make_text_box(self._parts[self._at], self._language),)
        guard_widgets(self._text_box)

        for each in old:
            close_widgets(each)

        part = self._parts[self._at]
        total = self._parts[-1].last
        which = f"lines {part.first} to {part.last}"
        if part.first == part.last:
            which = f"line {part.first}"
            if part.continues:
                which += ", continued"

        self._place.value = f"Part {self._at + 1} of {len(self._parts)}: {which} of {total}"


def _make_text_box(part: ExactPart, language: str | None) -> widgets.HTML:
    lines = highlight_code(part.lines, language) if language else map(escape, part.lines)
    # `bdo` shows all characters in their logical order, also right-to-left text.
    return make_html("".join(f'<div><bdo dir="ltr">{line}</bdo></div>' for line in lines), "exact")


def highlight_code(lines: Sequence[str], language: str) -> list[str]:
    """Return each line of code as HTML, without colors if `language` is unknown."""
    return ["".join(map(render_piece, pieces)) for pieces in split_code(lines, language)]


class CodePiece(NamedTuple):
    """A part of a line of code, with its style; "" without one."""

    text: str
    style: str = ""


def split_code(lines: Sequence[str], language: str) -> list[list[CodePiece]]:
    """Return the pieces of each line of code, without styles if `language` is unknown."""
    lexer = _find_lexer(language)
    code = "\n".join(lines)
    tokens = [] if lexer is None else list(lexer.get_tokens(code))
    if "".join(token for _, token in tokens) != code:
        return [[CodePiece(line)] for line in lines]

    shown: list[list[CodePiece]] = [[]]
    # A token may contain line breaks.
    for kind, token in tokens:
        style = next((style for known, style in _STYLES if kind in known), "")
        first, *others = token.split("\n")
        _append_piece(shown[-1], CodePiece(first, style))
        shown += ([CodePiece(part, style)] for part in others)

    return shown


def _append_piece(pieces: list[CodePiece], new: CodePiece) -> None:
    # The quotes of a string are tokens of their own.
    if pieces and pieces[-1].style == new.style:
        pieces[-1] = CodePiece(pieces[-1].text + new.text, new.style)
    else:
        pieces.append(new)


@lru_cache
def _find_lexer(language: str) -> Any:
    for name in _LEXERS.get(language, (language,)):
        with suppress(ClassNotFound):
            return get_lexer_by_name(name, stripnl=False, ensurenl=False)
    return None


def render_piece(piece: CodePiece) -> str:
    """Return a piece of code as HTML."""
    if not piece.style or not piece.text:
        return escape(piece.text)
    return f'<span class="jp-nb-code-{piece.style}">{escape(piece.text)}</span>'
