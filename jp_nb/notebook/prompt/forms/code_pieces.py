"""Highlight code as HTML, with the classes `jp-nb-code-…` for its colors.

Source: `docs/prompts.md`, https://pygments.org/docs/tokens/.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from html import escape
from typing import Any, Final, NamedTuple

from pygments.lexers import get_lexer_by_name  # IPython depends on Pygments
from pygments.token import Comment, Generic, Keyword, Name, Number, Operator, String
from pygments.util import ClassNotFound

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
"""Types of tokens with their styles. A type contains its subtypes, such as `Comment.Single`."""

_LEXERS: Final = {"python": ("ipython3", "python")}
"""Names of lexers by language, best first. `ipython3` knows the magics of cells."""


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
    if "".join(token for _, token in tokens) != code:  # a lexer must not change what is shown
        return [[CodePiece(line)] for line in lines]

    lines_of_pieces: list[list[CodePiece]] = [[]]
    for kind, token in tokens:
        style = next((style for known, style in _STYLES if kind in known), "")
        first, *others = token.split("\n")  # a token may contain line breaks
        _append_piece(lines_of_pieces[-1], CodePiece(first, style))
        lines_of_pieces += ([CodePiece(part, style)] for part in others)

    return lines_of_pieces


def _append_piece(pieces: list[CodePiece], new: CodePiece) -> None:
    """Append a piece, or join it with the last one: the quotes of a string are separate tokens."""
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
