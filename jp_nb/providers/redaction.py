"""Keeps a key out of what its server says.

A server, or a proxy before it, may send back what it was sent: in an error, in a header, in the
answer itself. What is said passes here where it enters, before anything is cut or quoted from it.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from urllib.parse import quote

from pydantic import JsonValue

from jp_nb.config.secret_names import PROVIDER_KEY, SHORTEST

SHORTEST_IN_ANSWERS = 16
"""Characters of a key that is hidden in what a model says too: `none` or `lm-studio`, which local
servers are given for a key, are words."""
_SHORTEST_BASE64 = 8
_BEGINNING = 4
"""Characters of a key that may pass before the rest of it is looked for."""
_ESCAPES = ("\\u00", "\\x", "\\/", "%", "&#")


class Redaction:
    """Replaces a key in texts; its `repr` shows nothing of it.

    Found are the key as it is, each of its characters as JSON, Python, HTML or a URL may spell it,
    and its Base64, whatever stands before it there.
    """

    __slots__ = ("_forms", "_key", "in_answers")

    def __init__(self, key: str) -> None:
        self._key = key if len(key) >= SHORTEST else ""
        self._forms = tuple(sorted(_forms(self._key), key=len, reverse=True))
        self.in_answers = len(key) >= SHORTEST_IN_ANSWERS

    def __call__(self, text: str) -> str:
        """`text` without the key."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, PROVIDER_KEY)
        if self._key and any(sign in text for sign in _ESCAPES):
            text = re.sub("".join(map(_spellings, self._key)), PROVIDER_KEY, text)
        return text

    def in_json(self, value: JsonValue) -> JsonValue:
        """`value` without the key in any text of it."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, list):
            return [self.in_json(each) for each in value]
        if isinstance(value, dict):
            return self.in_mapping(value)
        return value

    def in_mapping(self, value: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """`value` without the key in any text of it."""
        return {self(key): self.in_json(each) for key, each in value.items()}

    def first(self, text: str) -> int:
        """Return where the key begins in `text`; the length of `text` if it does not hold it."""
        places = [place for form in self._forms if (place := text.find(form)) >= 0]
        return min(places, default=len(text))

    def beginning(self, text: str) -> int:
        """Return how many characters at the end of `text` may be the beginning of a key."""
        longest = 0
        for form in self._forms:
            place = text.find(form[:_BEGINNING], max(len(text) - len(form) + 1, 0))
            while place >= 0 and not form.startswith(text[place:]):
                place = text.find(form[:_BEGINNING], place + 1)
            if place >= 0:
                longest = max(longest, len(text) - place)
        return longest


class StreamedText:
    """A text that comes in pieces, without a key that several of them hold together.

    Nothing is held back unless it begins as the key does. A piece that ends in less than four
    characters of it has passed then, and the rest of the key is taken out.
    """

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._passed = ""
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return what is shown of the text so far, and was not given before."""
        before = len(self._passed)
        text = self._passed + self._held + piece
        found = self._redaction.first(text)
        if found < len(text):
            text = text[before:found] + self._redaction(text[found:])
            before = 0
        held = min(self._redaction.beginning(text), len(text) - before)
        shown = text[before : len(text) - held]
        self._held = text[len(text) - held :]
        self._passed = (self._passed + shown)[1 - _BEGINNING :]
        return shown

    def rest(self) -> str:
        """Return what was held back, when nothing more comes."""
        held, self._held = self._held, ""
        return held


def _forms(key: str) -> set[str]:
    if not key:
        return set()
    forms = {key, quote(key, safe="")}
    for before in range(3):
        bits = 8 * (before + len(key))
        text = b64encode(b"\0" * before + key.encode() + b"\0\0").decode()
        core = text[-(-8 * before // 6) : bits // 6]
        if len(core) >= _SHORTEST_BASE64:
            forms |= {core, core.translate({ord("+"): "-", ord("/"): "_"})}
    return forms


def _spellings(char: str) -> str:
    """A pattern for `char` as it may stand in quoted text. Each part of it is bounded."""
    code = ord(char)
    return (
        rf"(?:\\{{0,8}}{re.escape(char)}|\\{{1,8}}(?:u00|x)(?i:{code:02x})"
        rf"|%(?:25){{0,4}}(?i:{code:02x})|&\#(?:0{{0,8}}{code}|[xX]0{{0,8}}(?i:{code:x}));?)"
    )
