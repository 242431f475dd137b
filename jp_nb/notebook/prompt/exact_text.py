"""The exact text that a decision is about, such as the arguments of a call, on a form.

A long text is shown in parts, one at a time: a page that has to lay out a megabyte at once hangs
for seconds. Code is highlighted.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import Any, Final

import ipywidgets as widgets
from pygments.lexers import get_lexer_by_name  # IPython depends on Pygments
from pygments.token import Comment, Keyword, Name, Number, Operator, String
from pygments.util import ClassNotFound

from jp_nb.notebook.prompt.beacon import close_widgets
from jp_nb.notebook.prompt.form_parts import button, html, text

MAX_LINES: Final = 1000
"""Lines of one part."""
MAX_CHARS: Final = 50_000
"""Characters of one part."""
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
)
_LEXERS: Final = {"python": ("ipython3", "python")}
"""Names of lexers by language, best first: cells may hold magics."""


@dataclass(frozen=True, slots=True)
class ExactPart:
    """Consecutive lines of a text; a line that is too long for one part is cut.

    Attributes:
        lines: The lines, or pieces of them.
        first: Number of the first line, from 1.
        last: Number of the last line.
        continues: True if the first line began in the part before.
    """

    lines: tuple[str, ...]
    first: int
    last: int
    continues: bool = False


def split_parts(lines: Sequence[str]) -> list[ExactPart]:
    """Return `lines` in parts of at most `MAX_LINES` lines and `MAX_CHARS` characters."""
    return list(_parts(lines)) or [ExactPart((), 0, 0)]


def _parts(lines: Sequence[str]) -> Iterator[ExactPart]:
    part: list[str] = []
    chars, first, continues = 0, 1, False
    for number, line in enumerate(lines, start=1):
        rest = line
        while part and (len(part) == MAX_LINES or chars + len(rest) > MAX_CHARS):
            yield ExactPart(tuple(part), first, number - 1, continues)
            part, chars, first, continues = [], 0, number, False
        while len(rest) > MAX_CHARS:
            piece = _UNFINISHED_ESCAPE.sub("", rest[:MAX_CHARS]) or rest[:MAX_CHARS]
            yield ExactPart((piece,), number, number, continues)
            rest, first, continues = rest[len(piece) :], number, True
        part.append(rest)
        chars += len(rest)
    if part:
        yield ExactPart(tuple(part), first, len(lines), continues)


def exact_text(
    caption: str, lines: Sequence[str], language: str | None = None
) -> Iterator[widgets.Widget]:
    """Yield widgets that show a `caption` and below it `lines`, which hide nothing.

    Args:
        caption: One line.
        lines: As `jp_nb.safe_text` spells them.
        language: Of code, such as `python`.
    """
    yield text(caption, "caption")
    parts = split_parts(lines)
    if len(parts) == 1:
        yield _box(parts[0], language)
        return
    yield from _PagedText(parts, language).widgets


class _PagedText:
    """A text in several parts, of which one is up, and buttons to turn over."""

    def __init__(self, parts: Sequence[ExactPart], language: str | None) -> None:
        self._parts = parts
        self._language = language
        self._at = 0
        self._place = text("", "part")
        self._box = widgets.VBox([])
        self._box.add_class("jp-nb-exact-part")
        buttons = [
            button("Previous part", lambda: self._turn(-1)),
            button("Next part", lambda: self._turn(1)),
        ]
        pager = widgets.HBox([*buttons, self._place])
        pager.add_class("jp-nb-pager")
        self.widgets = (self._box, pager)
        self._turn(0)

    def _turn(self, step: int) -> None:
        self._at = (self._at + step) % len(self._parts)
        old = self._box.children
        # A new widget each time: the scroll position of the old part means nothing in the new one.
        self._box.children = (_box(self._parts[self._at], self._language),)
        for each in old:
            close_widgets(each)
        self._place.value = escape(self._words())

    def _words(self) -> str:
        part, total = self._parts[self._at], self._parts[-1].last
        one = f"line {part.first}" + (", continued" if part.continues else "")
        which = one if part.first == part.last else f"lines {part.first} to {part.last}"
        return f"Part {self._at + 1} of {len(self._parts)}: {which} of {total}"


def _box(part: ExactPart, language: str | None) -> widgets.HTML:
    lines = highlighted(part.lines, language) if language else map(escape, part.lines)
    # Each of its characters stands in its order, whatever it is.
    return html("".join(f'<div><bdo dir="ltr">{line}</bdo></div>' for line in lines), "exact")


# --- code --------------------------------------------------------------------------------------


def highlighted(lines: Sequence[str], language: str) -> list[str]:
    """Return the HTML of each of `lines` of code; without colors if `language` is not known."""
    lexer = _lexer(language)
    code = "\n".join(lines)
    tokens = [] if lexer is None else list(lexer.get_tokens(code))
    if "".join(token for _, token in tokens) != code:
        return [escape(line) for line in lines]
    shown = [""]
    for kind, token in tokens:
        first, *others = token.split("\n")
        shown[-1] += _colored(kind, first)
        shown += (_colored(kind, other) for other in others)
    return shown


@lru_cache
def _lexer(language: str) -> Any:
    for name in _LEXERS.get(language, (language,)):
        try:
            return get_lexer_by_name(name, stripnl=False, ensurenl=False)
        except ClassNotFound:
            continue
    return None


def _colored(kind: Any, code: str) -> str:
    style = next((style for token, style in _STYLES if kind in token), None)
    if style is None or not code:
        return escape(code)
    return f'<span class="jp-nb-code-{style}">{escape(code)}</span>'
