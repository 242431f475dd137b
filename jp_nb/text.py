"""Format text of models, tools, and files so that a user can read it safely.

    plain              no control characters, terminal escapes, or reordering
    Markdown-escaped   one line of plain text without markup

For a decision, a text must not look like another one: see `exact_form.py`.

`upper_first`, `lower_first`, and `pluralize` adapt words to their place in a sentence.
`format_bytes` writes a size.
"""

from __future__ import annotations

import re
from typing import Final

MAX_PLAIN_CHARS: Final = 20_000
"""Maximum length of a plain text."""
MAX_PATH_LINE_CHARS: Final = 5000
"""Maximum length of a line with names of folders, which are untrusted."""
MAX_LISTED_LINES: Final = 20
"""Maximum number of lines of a list. The others are counted."""
MAX_ITEMS_IN_LINE: Final = 10
"""Maximum number of items of a list in one line."""
MAX_FEW_NAMES: Final = 5
"""Maximum number of names in a sentence, or of lines of one kind."""
MAX_DIGITS: Final = 9
"""Maximum number of digits that a user types. Python refuses thousands of digits."""

_LINE_BREAKS = re.compile("\r\n?|[\v\f\x85\u2028\u2029]")
_TERMINAL_ESCAPES = re.compile(
    r"\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # strings: titles, links, clipboards
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor movements
    r"|\x1b[ -/]*[0-~]"
)
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_REORDERING = re.compile("[\u202a-\u202e\u2066-\u2069]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_MARKUP = re.compile(
    r"[`*\[\]<>~|&#]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])"
    r"|^[-+=](?=\s)|(?<=^\d)[.)]|(?<=^\d\d)[.)]"  # lists
    r"|:(?=//)|(?<=[Ww][Ww][Ww])\.|@"  # addresses, without which readers find no link in them
)
_MATHEMATICS = re.compile(r"[$\\]")


def plain(text: str, *, limit: int = MAX_PLAIN_CHARS) -> str:
    """Return `text` with only printable characters, tabs, and line breaks."""
    return truncate(_make_plain(text), limit)


def _make_plain(text: str) -> str:
    if text.replace("\n", "").replace("\t", "").isprintable():  # faster than the patterns
        return text

    text = _LINE_BREAKS.sub("\n", text)
    text = _CONTROLS.sub("", _TERMINAL_ESCAPES.sub("", text))
    text = _REORDERING.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)
    return _SURROGATES.sub("\ufffd", text)


def truncate(text: str, limit: int, *, cut: int = 0) -> str:
    """Return at most `limit` characters of `text`, and the number of the others.

    `cut` characters were removed from a longer `text` before, and count among the others.
    """
    more = len(text) - limit + cut
    return f"{text[:limit]}… ({more} more characters)" if len(text) > limit else text


def one_line(text: str, *, limit: int = 500) -> str:
    """Return `text` as plain text in one line."""
    return truncate(_join_lines(text), limit)


def begin_line(text: str, limit: int) -> tuple[str, bool]:
    """Return the beginning of `text` in one line, and True if it has more than `limit` characters.

    The beginning may be longer than `limit`. Only a part of a long text is read for it.
    """
    text = text.strip()
    max_read_chars = 4 * limit  # more than `limit`, because control characters are removed

    line = _join_lines(text[:max_read_chars])
    has_more = len(text) > max_read_chars or len(line) > limit
    return line, has_more


def _join_lines(text: str) -> str:
    return re.sub(r"[\n\t]+", " ", _make_plain(text)).strip()


def escape_markdown(text: str) -> str:
    """Return one line of plain `text` in which Markdown readers find no markup and no links."""
    if _MATHEMATICS.search(text):
        # Front ends search the rendered text for mathematics. An escape would not help: it is
        # rendered as a dollar sign again. They do not search code.
        fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
        return f"{fence} {text} {fence}"
    return _MARKUP.sub(lambda found: f"&#{ord(found[0])};", text)


def upper_first(text: str) -> str:
    """Return `text` with a capital letter at its beginning, as an error is shown in a form."""
    return text[:1].upper() + text[1:]


def lower_first(text: str) -> str:
    """Return `text` with a small letter at its beginning, such as a label within a sentence."""
    return text[:1].lower() + text[1:]


def pluralize(noun: str, count: int) -> str:
    """Return `noun` for one, and with an `s` for any other count."""
    return noun if count == 1 else f"{noun}s"


def format_bytes(count: int) -> str:
    """Return a number of bytes as text: `1.2 MB`."""
    if count < 1000:
        return f"{count} B"
    if count < 1_000_000:
        return f"{count / 1000:.1f} kB"
    return f"{count / 1_000_000:.1f} MB"
