"""Compare two versions of a line word by word, and fold the equal parts.

`text_diff.py` finds the lines that are compared, and has the escapes of their characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from jp_nb.rendering.same_runs import count_equal, find_same_runs

CONTEXT_CHARS = 60
"""Equal characters that are shown on either side of a difference in a line."""
_WORDS = re.compile(r"\w+|\W")

Escape = Callable[[str], str]
"""Returns a text in which characters that cannot be seen are escapes."""


class DiffPiece(NamedTuple):
    """A part of a line: equal on both sides, different, or a fold of equal characters."""

    text: str
    kind: Literal["same", "differs", "fold"] = "same"


class ComparedLines(NamedTuple):
    """The pieces of both versions of a line."""

    before: tuple[DiffPiece, ...]
    after: tuple[DiffPiece, ...]


def compare_words(
    before: str, after: str, escape_before: Escape, escape_after: Escape
) -> ComparedLines:
    """Return the pieces of two versions of a line, escaped and with folds."""
    before_words = _WORDS.findall(before)
    after_words = _WORDS.findall(after)
    before_pieces: list[DiffPiece] = []
    after_pieces: list[DiffPiece] = []

    before_end = 0  # of the last run of equal words
    after_end = 0
    for run in find_same_runs(before_words, after_words):  # the last run is empty, at the end
        removed = "".join(before_words[before_end : run.before_start])
        added = "".join(after_words[after_end : run.after_start])
        before_end = run.before_end
        after_end = run.after_end

        # The replaced words: their equal beginning and end are no difference. If one side is empty,
        # an empty piece marks the place, which is then not folded.
        if removed or added:
            head = count_equal(removed, added)
            tail = count_equal(removed[head:][::-1], added[head:][::-1])
            before_pieces += _split_word(removed, head, tail)
            after_pieces += _split_word(added, head, tail)

        same = DiffPiece("".join(before_words[run.before_start : run.before_end]))
        before_pieces.append(same)
        after_pieces.append(same)

    return ComparedLines(
        _join_pieces(before_pieces, escape_before), _join_pieces(after_pieces, escape_after)
    )


def _split_word(text: str, head: int, tail: int) -> Iterator[DiffPiece]:
    """Yield a changed text in three pieces, of which the first and the last are equal."""
    end = len(text) - tail
    yield DiffPiece(text[:head])
    yield DiffPiece(text[head:end], "differs")
    yield DiffPiece(text[end:])


def _join_pieces(pieces: list[DiffPiece], escape: Escape) -> tuple[DiffPiece, ...]:
    """Join adjacent pieces of the same kind, escape them, and fold long equal ones."""
    joined: list[DiffPiece] = []
    for piece in pieces:
        if joined and joined[-1].kind == piece.kind:
            joined[-1] = DiffPiece(joined[-1].text + piece.text, piece.kind)
        elif piece.text or piece.kind == "differs":
            joined.append(piece)

    folded: list[DiffPiece] = []
    for index, piece in enumerate(joined):
        is_first = index == 0
        is_last = index == len(joined) - 1
        folded += _fold_piece(piece, escape, is_first=is_first, is_last=is_last)
    return tuple(folded)


def _fold_piece(
    piece: DiffPiece, escape: Escape, *, is_first: bool, is_last: bool
) -> Iterator[DiffPiece]:
    """Yield a piece with escapes. Of a long equal one, only the text near a difference is kept."""
    head = 0 if is_first else CONTEXT_CHARS
    tail = 0 if is_last else CONTEXT_CHARS
    folded_count = len(piece.text) - head - tail

    if piece.kind == "differs" or folded_count <= CONTEXT_CHARS:
        text = escape_line(piece.text, escape) if is_last else escape(piece.text)
        yield DiffPiece(text, piece.kind)
        return

    if head:
        yield DiffPiece(escape(piece.text[:head]))
    yield DiffPiece(f"⟨… {folded_count:,} unchanged characters⟩", "fold")
    if tail:
        yield DiffPiece(escape(piece.text[-tail:]))


def escape_line(text: str, escape: Escape) -> str:
    """Return a line with its escapes, and with spaces at its end as escapes."""
    kept = text.rstrip(" ")
    return escape(kept) + r"\u0020" * (len(text) - len(kept))
