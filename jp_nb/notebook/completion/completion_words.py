"""Split a line up to the cursor into words, as a shell does, and escape a word for the line.

The word at the cursor may have an open quote. Each of its characters keeps its position, so that a
completion can replace a part of the word.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class TypedChar(NamedTuple):
    """A character of the word before the cursor, without quotes and escapes; "" at the cursor.

    `position` is its position in the line, and `quote` the quote that is open there, or "".
    """

    char: str
    position: int
    quote: str


def split_typed_words(line: str, position: int) -> tuple[list[str], list[TypedChar]]:
    """Split `line` from `position` as a shell does: complete words, and the word at the cursor."""
    words: list[str] = []
    typed: list[TypedChar] = []  # of the current word
    has_begun = False  # quotes alone also make a word, which is empty
    quote = ""

    while position < len(line):
        char = line[position]
        next_char = line[position + 1 : position + 2]
        is_space = char in " \t\r\n"
        # A backslash escapes each character outside of quotes, only `"` and `\` within double
        # quotes, and nothing within single quotes.
        may_escape = not quote or (quote == '"' and next_char in ('"', "\\"))
        is_escape = char == "\\" and may_escape

        if is_escape and next_char:
            typed.append(TypedChar(next_char, position, quote))
            position += 1
        elif char in ("'", '"') and quote in ("", char):
            quote = "" if quote else char
        elif is_space and not quote:
            if has_begun:
                words.append(join_typed_chars(typed))
            typed = []
        elif not is_escape:  # a backslash at the cursor escapes nothing yet
            typed.append(TypedChar(char, position, quote))

        # A space outside of quotes ends the word. All other characters, also quotes, begin one.
        ends_word = is_space and not quote
        has_begun = not ends_word
        position += 1

    return words, [*typed, TypedChar("", position, quote)]


def join_typed_chars(typed: Iterable[TypedChar]) -> str:
    """Return the text of a word."""
    return "".join(item.char for item in typed)


def escape_typed(text: str, quote: str) -> str | None:
    """Escape `text` inside of the open `quote`; None if that is not possible."""
    match quote:
        case "'":
            return None if "'" in text else text
        case '"':
            return re.sub(r'["\\]', r"\\\g<0>", text)

    return re.sub(r"[\s'\"\\]", r"\\\g<0>", text)
