"""Text of a model or a tool, made safe to show.

Whoever wrote it may want it to look like something else: control characters, terminal escapes,
characters that reverse the reading direction, markup. What is left is what a person can read.
"""

from __future__ import annotations

import re

from jp_nb.safe_text import exact as exact

MAX_CHARS = 20_000
"""Longest text shown; beyond it the form says how much is missing."""

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
)
_MATHEMATICS = re.compile(r"[$\\]")


def plain(text: str, *, limit: int = MAX_CHARS) -> str:
    """Return `text` with nothing in it but printable characters, tabs and line breaks."""
    text = _LINE_BREAKS.sub("\n", text)
    text = _CONTROLS.sub("", _TERMINAL_ESCAPES.sub("", text))
    text = _REORDERING.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)
    text = _SURROGATES.sub("\ufffd", text)
    if len(text) > limit:
        text = f"{text[:limit]}… ({len(text) - limit} more characters)"
    return text


def one_line(text: str, *, limit: int = 500) -> str:
    """Return `text` made plain, in one line."""
    return plain(re.sub(r"[\n\t]+", " ", plain(text)).strip(), limit=limit)


def markdown(text: str) -> str:
    """Return one line of plain `text` such that no Markdown reader sees more than text in it."""
    if _MATHEMATICS.search(text):
        # A page looks for mathematics in what it has rendered, where an escaped dollar sign is a
        # dollar sign; it looks everywhere but in code.
        fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
        return f"{fence} {text} {fence}"
    return _MARKUP.sub(lambda found: f"&#{ord(found[0])};", text)
