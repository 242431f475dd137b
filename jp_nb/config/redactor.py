"""Hide known secrets in texts, also in texts that arrive in pieces.

A secret is recognized in all forms that encoders give it: escapes of JSON, Python, HTML, and URLs,
and Base64. `jp_nb/config/secrets/` recognizes unknown secrets.
"""

from __future__ import annotations

import re
import sys
from array import array
from base64 import b64encode
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Final
from urllib.parse import quote

from pydantic import JsonValue

MIN_SECRET_CHARS = 4
"""Shorter values are not hidden: they occur in many texts."""
_SHORTEST_LINE = 8  # minimum length of a line of a secret that is also hidden alone
_SHORTEST_BASE64 = 8
_SHORTEST_FORM = 3  # minimum length of a secret without backslashes
_MIN_PARTIAL_CHARS = 4
"""Characters of a secret that may be shown before the rest is recognized in a stream."""


class Redactor:
    """Replaces known secrets in texts. Thread-safe: `_adding` guards changes.

    Recognizes a secret as it is, in the escapes of JSON, Python, HTML, and URLs, also repeated or
    mixed, and its Base64 after any other text. The `repr` does not contain the secrets.
    """

    def __init__(self, replacement: str, *secrets: str) -> None:
        self._replacement = replacement
        self._forms: frozenset[str] = frozenset()
        self._unescaped: frozenset[str] = frozenset()
        self._words: frozenset[str] = frozenset()  # one of each secret that encoders escape
        self._adding = Lock()

        for secret in secrets:
            self.add(secret)

    def add(self, secret: str) -> None:
        """Hide `secret` in later texts, and each of its longer lines."""
        parts = {secret, secret.strip()} if len(secret.strip()) >= MIN_SECRET_CHARS else set()

        lines = map(str.strip, secret.splitlines())
        parts |= {line for line in lines if len(line) >= _SHORTEST_LINE}

        with self._adding:
            special = [part for part in parts if not _WORD.fullmatch(part)]
            self._words |= {max(_WORD.findall(part), key=len, default="") for part in special}
            self._forms = self._forms.union(*map(_encode, parts))
            unescaped = (form for f in self._forms for form, _ in _unescape_all(f))
            self._unescaped = frozenset(form for form in unescaped if len(form) >= _SHORTEST_FORM)

    def hide(self, text: str) -> str:
        """Return `text` with the replacement in place of each secret."""
        if not self.may_be_in(text):
            return text  # the usual case

        pieces: list[str] = []
        end = 0
        for start, stop in sorted(self._find(text)):
            overlaps_last = start < end
            if not overlaps_last:
                pieces += [text[end:start], self._replacement]
            end = max(end, stop)

        return "".join([*pieces, text[end:]])

    def may_be_in(self, text: str) -> bool:
        """Return False if there is certainly no secret in `text`. It is faster than `hide`."""
        for form in self._forms:
            if form in text:
                return True
        return bool(self._forms) and self._may_escape(text)

    def hide_value(self, value: JsonValue) -> JsonValue:
        """Return `value` without secrets in its names and texts."""
        match value:
            case str():
                return self.hide(value)
            case list():
                return [self.hide_value(item) for item in value]
            case dict():
                return {self.hide(key): self.hide_value(item) for key, item in value.items()}
        return value

    def stream(self) -> RedactedStream:
        """Return a stream that hides the secrets known now."""
        return RedactedStream(self, self._forms)

    def _find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the start and the end of each secret in `text`. They may overlap."""
        for form in self._forms:
            yield from _find_all(form, text)
        if self._may_escape(text):
            for unescaped, starts in _unescape_all(text):
                for form in self._unescaped:
                    for start, stop in _find_all(form, unescaped):
                        yield starts[start], starts[stop]

    def _may_escape(self, text: str) -> bool:
        """Return True if `text` may have a secret with escapes in it, such as `%61` for `a`."""
        # Finding a character is much faster than the pattern.
        is_likely = "\\" in text or "%" in text or "&#" in text
        if is_likely and _WITH_ESCAPED_WORD.search(text) is not None:
            return True
        return any(word in text for word in self._words)


class RedactedStream:
    """Removes secrets from a text that arrives in pieces.

    Only the beginning of a secret is held back. Up to three characters of a secret may be shown,
    and the rest is removed.
    """

    def __init__(self, redactor: Redactor, forms: frozenset[str]) -> None:
        self._redactor = redactor
        self._forms = forms
        beginnings = {re.escape(form[:_MIN_PARTIAL_CHARS]) for form in forms}
        self._beginning = re.compile("|".join(sorted(beginnings)) or "(?!)")
        self._longest = max(map(len, forms), default=0)
        self._tail = ""  # the last characters that were shown
        self._held = ""  # the characters that are held back

    def feed(self, piece: str) -> str:
        """Return the next part of the redacted text."""
        text = self._tail + self._held + piece
        shown_end = len(self._tail)  # the text before it was shown
        if self._beginning.search(text) is None:  # the usual case
            self._tail = text[1 - _MIN_PARTIAL_CHARS :]
            self._held = ""
            return text[shown_end:]

        starts = [start for start in map(text.find, self._forms) if start >= 0]
        if starts:
            first = min(starts)
            text = text[shown_end:first] + self._redactor.hide(text[first:])
            shown_end = 0

        held_chars = min(self._count_beginning(text), len(text) - shown_end)
        end = len(text) - held_chars
        shown = text[shown_end:end]
        self._held = text[end:]
        self._tail = (self._tail + shown)[1 - _MIN_PARTIAL_CHARS :]
        return shown

    def _count_beginning(self, text: str) -> int:
        """Return how many characters at the end of `text` can be the beginning of a secret."""
        longest = min(self._longest - 1, len(text))
        for size in range(longest, _MIN_PARTIAL_CHARS - 1, -1):
            end = text[-size:]
            if any(form.startswith(end) for form in self._forms):
                return size
        return 0

    def finish(self) -> str:
        """Return the rest of the text."""
        held = self._held
        self._held = ""
        return held


def _encode(secret: str) -> Iterator[str]:
    """Yield the forms in which texts can have `secret`, without escapes. They may repeat."""
    data = secret.encode(errors="replace")
    units = secret.encode("utf-16-be", "surrogatepass")
    surrogates = "".join(chr(a << 8 | b) for a, b in zip(units[::2], units[1::2], strict=True))

    for text in (secret, data.decode("latin-1"), surrogates):  # as URLs, bytes, or JSON have it
        yield text
        yield text.replace(" ", "+")

    quoted = quote(data, safe="")
    yield quoted  # also found if it is in pieces
    if "%" in secret:  # decoding cannot tell digits after its escape from digits of the escape
        yield quote(quoted, safe="")

    # Base64 has three forms, which depend on the number of bytes before the secret. The characters
    # at the ends also depend on the neighbors, so they do not count.
    for bytes_before in range(3):
        bits = 8 * (bytes_before + len(data))
        encoded = b64encode(b"\0" * bytes_before + data + b"\0\0").decode()
        first = -(-8 * bytes_before // 6)
        core = encoded[first : bits // 6]
        if len(core) >= _SHORTEST_BASE64:
            yield core
            yield core.translate({ord("+"): "-", ord("/"): "_"})


def _find_all(part: str, text: str) -> Iterator[tuple[int, int]]:
    start = text.find(part)
    while start >= 0:
        end = start + len(part)
        yield start, end
        start = text.find(part, end)


_WORD: Final = re.compile(r"[\w.~-]+", re.ASCII)  # no encoder needs to escape these characters
_WITH_ESCAPED_WORD: Final = re.compile(r"\\(?:u00|U0000|x|/)|%[2-7]|&\#")
_ESCAPED: Final = (  # any number of backslashes, which depends on the levels of quotation
    r"{backslash}++(?:x(?P<byte>[\da-fA-F]{{2}})|u(?P<short>[\da-fA-F]{{4}})"
    r"|U(?P<long>[\da-fA-F]{{8}})|(?P<char>[^%&]))?|(?P<break>[\n\r\t\b\f])"
    r"|&\#[xX](?P<html>[\da-fA-F]{{1,12}});?|&\#(?P<decimal>\d{{1,12}});?"
)
_ESCAPES: Final = (  # without and with those of URLs
    re.compile(_ESCAPED.format(backslash=r"\\"), re.ASCII),
    re.compile(
        _ESCAPED.format(backslash=r"(?:\\|%(?:25){0,4}5[cC])")
        + r"|%(?:25){0,4}(?P<percent>[\da-fA-F]{2})",
        re.ASCII,
    ),
)
_LETTERS: Final = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f", "\\": ""}


_MAX_PASSES: Final = 4  # an escape of an escape needs one more; the work stays linear


def _unescape_all(text: str) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield `text` without escapes except those of URLs, then after each pass that removes all.

    The second value has the index in the original text of each character, and of the end.
    """
    yield _unescape(text, _ESCAPES[0])

    starts: Sequence[int] = range(len(text) + 1)
    for _ in range(_MAX_PASSES):
        if "%" not in text:
            break

        length = len(text)
        text, indexes = _unescape(text, _ESCAPES[1])
        if len(text) == length:
            break

        starts = [starts[index] for index in indexes]
        yield text, starts


def _unescape(text: str, escapes: re.Pattern[str]) -> tuple[str, array[int]]:
    """Return `text` without escapes of any level, and the index in `text` of each character.

    The indexes also have that of the end. Backslashes are removed, and a line break is the letter
    of its escape.
    """
    pieces: list[str] = []
    starts = array("Q")
    end = 0  # of the last escape

    begin = -1  # of the backslashes that belong to the next escape; -1 if there are none
    for escape in escapes.finditer(text):
        if begin < 0 or escape.start() > end:
            begin = escape.start()
        pieces.append(text[end : escape.start()])
        starts.extend(range(end, escape.start()))
        end = escape.end()

        kind = escape.lastgroup
        if kind is not None:  # otherwise, only backslashes
            char = escape[kind]
            if char and kind not in ("char", "break"):
                base = 10 if kind == "decimal" else 16
                char = chr(min(int(char, base), sys.maxunicode))
            pieces.append(_LETTERS.get(char, char))
            starts.extend(begin for _ in pieces[-1])
            begin = -1

    starts.extend(range(end, len(text) + 1))
    return "".join([*pieces, text[end:]]), starts
