"""Remove the escapes of encoders from a text, before secrets are searched in it.

The characters of a secret may be escaped, as in JSON, Python, HTML, or a URL, also several times.
There are too many ways to do that to list them. So the text is searched without its escapes.

`secret_encodings.py` lists the other forms of a secret, and `redactor.py` searches all of them.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import Final

PLAIN_WORD: Final = re.compile(r"[\w.~-]+", re.ASCII)
"""A word whose characters no encoder needs to escape."""
ESCAPED_WORD: Final = re.compile(r"\\(?:u00|U0000|x|/)|%[2-7]|&\#")
"""The beginning of an escape that may stand for a character of `PLAIN_WORD`, or for a slash."""

_ANY_ESCAPE: Final = (  # `{backslash}++`: text in a text in a text has several backslashes
    r"{backslash}++(?:x(?P<byte>[\da-fA-F]{{2}})|u(?P<short>[\da-fA-F]{{4}})"
    r"|U(?P<long>[\da-fA-F]{{8}})|(?P<char>[^%&]))?|(?P<break>[\n\r\t\b\f])"
    r"|&\#[xX](?P<html>[\da-fA-F]{{1,12}});?|&\#(?P<decimal>\d{{1,12}});?"
)
"""Template of a pattern for one escape. The name of its group is the kind of escape. Backslashes
alone have no group."""
_ESCAPE: Final = re.compile(_ANY_ESCAPE.format(backslash=r"\\"), re.ASCII)
_ESCAPE_IN_URL: Final = re.compile(
    _ANY_ESCAPE.format(backslash=r"(?:\\|%(?:25){0,4}5[cC])")
    + r"|%(?:25){0,4}(?P<percent>[\da-fA-F]{2})",
    re.ASCII,
)
"""As `_ESCAPE`, and the escapes of URLs: `%41`, or `%2541` if the URL was escaped twice. `%25` is a
percent sign, and `%5C` a backslash."""
_ESCAPE_BEGINNING: Final = re.compile(
    r"(?:(?:\\|%(?:25){0,4}5[cC])++(?:x[\da-fA-F]?|u[\da-fA-F]{0,3}|U[\da-fA-F]{0,7})?"
    r"|%(?:25){0,4}[\da-fA-F]?"
    r"|&(?:\#(?:[xX][\da-fA-F]{0,12}|\d{0,12}))?)\Z"
)
"""The beginning of one escape at the end of a text."""
ESCAPE_CHARS: Final = 12
"""Length of an escape, also of one that was escaped again, such as `%255Cu0041`."""

_LETTERS: Final = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f", "\\": ""}
"""Replacements of special characters by the letters of their escapes, without backslashes.

So a line break and its escape give the same text.
"""

_MAX_PASSES: Final = 4
"""An escape of an escape needs one more pass. The limit keeps the work linear."""


def iter_unescaped(text: str) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield the texts to search for secrets, each with the escapes of `text` removed.

    In the first one, the escapes of URLs stay. If there are any, each further one is the result of
    another pass that removes all escapes.

    The second value has the index in the original text of each character, and of the end.
    """
    yield _unescape(text, _ESCAPE)

    starts: Sequence[int] = range(len(text) + 1)
    for _ in range(_MAX_PASSES):
        if "%" not in text:
            break

        length = len(text)
        text, indexes = _unescape(text, _ESCAPE_IN_URL)
        if len(text) == length:  # there was no escape
            break

        starts = [starts[index] for index in indexes]
        yield text, starts


def cut_last_escape(text: str) -> str:
    r"""Return `text` without an escape at its end that may be incomplete, such as `\u00`."""
    begun = _ESCAPE_BEGINNING.search(text, max(0, len(text) - ESCAPE_CHARS))
    return text if begun is None else text[: begun.start()]


def _unescape(text: str, escapes: re.Pattern[str]) -> tuple[str, array[int]]:
    """Return `text` without escapes of any level, and the index in `text` of each character.

    The indexes also have that of the end. Backslashes are removed, and a line break is the letter
    of its escape.
    """
    pieces: list[str] = []
    starts = array("Q")
    end = 0  # of the last escape

    # Backslashes directly before an escape belong to it: in `\\%41`, the A begins at the first.
    # This is the index of the first one, or -1.
    backslashes = -1

    for escape in escapes.finditer(text):
        if backslashes < 0 or escape.start() > end:
            backslashes = escape.start()
        pieces.append(text[end : escape.start()])
        starts.extend(range(end, escape.start()))
        end = escape.end()

        if escape.lastgroup is not None:  # otherwise, it is only backslashes
            decoded = _decode_escape(escape, escape.lastgroup)
            pieces.append(decoded)
            starts.extend(backslashes for _ in decoded)
            backslashes = -1

    starts.extend(range(end, len(text) + 1))
    return "".join([*pieces, text[end:]]), starts


def _decode_escape(escape: re.Match[str], kind: str) -> str:
    """Return the character of an escape, or "". `kind` is the name of its group."""
    char = escape[kind]
    if char and kind not in ("char", "break"):
        base = 10 if kind == "decimal" else 16
        char = chr(min(int(char, base), sys.maxunicode))
    return _LETTERS.get(char, char)
