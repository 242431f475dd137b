"""Hide known secrets in texts, also in texts that arrive in pieces.

A secret is recognized in all forms that encoders give it: Base64 (`secret_encodings.py`), and
escapes of JSON, Python, HTML, and URLs (`unescaped_text.py`). `jp_nb/config/secrets/` recognizes
unknown secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from threading import Lock

from pydantic import JsonValue

from jp_nb.config.secret_encodings import iter_encoded_forms
from jp_nb.config.unescaped_text import (
    ESCAPE_CHARS,
    ESCAPED_WORD,
    PLAIN_WORD,
    cut_last_escape,
    iter_unescaped,
)

MIN_SECRET_CHARS = 4
"""Shorter values are not hidden: they occur in many texts."""
_SHORTEST_LINE = 8
"""Minimum length of a line of a secret that is also hidden alone."""
_SHORTEST_FORM = 3
"""Minimum length of a form whose escapes were removed: shorter ones occur in many texts."""
_MIN_PARTIAL_CHARS = 4
"""Characters at which a stream recognizes the beginning of a secret, and holds it back."""
_TAIL_CHARS = _MIN_PARTIAL_CHARS * ESCAPE_CHARS
"""Length of the shown text that may be the beginning of a secret."""
_ESCAPE_MARKS = ("\\", "%", "&")
"""Characters with which escapes begin."""


class Redactor:
    """Replaces known secrets in texts.

    Recognizes a secret as it is, in the escapes of JSON, Python, HTML, and URLs, also repeated or
    mixed, and its Base64 after any other text. The `repr` does not contain the secrets.

    A text is searched for the *forms* of all secrets, such as their Base64. If it may have escapes,
    it is also searched without them: `iter_unescaped` yields it after each pass that removes some.
    A `PLAIN_WORD` has no character that an encoder needs to escape, and `ESCAPED_WORD` finds an
    escape of such a character.

    Thread-safe: `_adding` guards changes, and each change replaces whole sets.
    """

    def __init__(self, replacement: str, *secrets: str) -> None:
        self._replacement = replacement
        self._forms: frozenset[str] = frozenset()
        # The forms without escapes, for texts without escapes.
        self._unescaped_forms: frozenset[str] = frozenset()
        # Of each secret with characters that encoders have to escape, the longest word without such
        # characters: `ssword` of `pa"ssword`. "", which is in each text, if there is none.
        self._plain_words: frozenset[str] = frozenset()
        self._adding = Lock()

        for secret in secrets:
            self.add(secret)

    def add(self, secret: str) -> None:
        """Hide `secret` in later texts, and each of its longer lines."""
        parts = {secret, secret.strip()} if len(secret.strip()) >= MIN_SECRET_CHARS else set()

        lines = map(str.strip, secret.splitlines())
        parts |= {line for line in lines if len(line) >= _SHORTEST_LINE}

        with self._adding:
            for part in parts:
                if not PLAIN_WORD.fullmatch(part):
                    self._plain_words |= {max(PLAIN_WORD.findall(part), key=len, default="")}

            self._forms = self._forms.union(*map(iter_encoded_forms, parts))

            unescaped: set[str] = set()
            for form in self._forms:
                unescaped.update(text for text, _ in iter_unescaped(form))
            self._unescaped_forms = frozenset(
                text for text in unescaped if len(text) >= _SHORTEST_FORM
            )

    def hide(self, text: str) -> str:
        """Return `text` with the replacement in place of each secret."""
        if not self.may_be_in(text):
            return text  # the usual case

        return self.replace(text, self.find(text))

    def find(self, text: str) -> list[tuple[int, int]]:
        """Return the start and the end of each secret in `text`, sorted. They may overlap."""
        return sorted(self._find(text))

    def replace(self, text: str, places: Iterable[tuple[int, int]]) -> str:
        """Return `text` with the replacement at each of `places`, which `find` has returned."""
        pieces: list[str] = []
        end = 0
        for start, stop in places:
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
        return bool(self._forms) and self._may_have_escaped_secret(text)

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
        return RedactedStream(self, self._forms, self._unescaped_forms)

    def _find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the start and the end of each secret in `text`. They may overlap."""
        for form in self._forms:
            yield from _find_all(form, text)
        if self._may_have_escaped_secret(text):
            # `starts` has the index in `text` of each character without escapes, and of the end.
            for unescaped, starts in iter_unescaped(text):
                for form in self._unescaped_forms:
                    for start, stop in _find_all(form, unescaped):
                        yield starts[start], starts[stop]

    def _may_have_escaped_secret(self, text: str) -> bool:
        """Return False if no secret in `text` can have escapes in it, such as `%61` for `a`.

        An encoder may escape any character, or only those that it has to. In the first case the
        text has an `ESCAPED_WORD`, and in the second one it has the plain word of the secret.
        """
        # Finding a character is much faster than the pattern.
        is_likely = "\\" in text or "%" in text or "&#" in text
        if is_likely and ESCAPED_WORD.search(text) is not None:
            return True
        return any(word in text for word in self._plain_words)


def _find_all(part: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each `part` in `text`. They do not overlap."""
    start = text.find(part)
    while start >= 0:
        end = start + len(part)
        yield start, end
        start = text.find(part, end)


class RedactedStream:
    """Removes secrets from a text that arrives in pieces.

    The end of the text so far is held back if it may be the beginning of a secret, from
    `_MIN_PARTIAL_CHARS` characters on, each of which may be an escape. Fewer characters of a secret
    may therefore be shown, and the rest of it is removed: to recognize it, the last shown text is
    searched again.
    """

    def __init__(
        self, redactor: Redactor, forms: frozenset[str], unescaped_forms: frozenset[str]
    ) -> None:
        self._redactor = redactor
        self._forms = forms
        self._unescaped_forms = unescaped_forms
        beginnings = {re.escape(form[:_MIN_PARTIAL_CHARS]) for form in forms | unescaped_forms}
        nothing = "(?!)"  # a pattern that never matches
        self._beginning = re.compile("|".join(sorted(beginnings)) or nothing)
        self._longest = max(map(len, forms), default=0)  # those without escapes are not longer
        self._tail = ""  # the last text that was shown
        self._held = ""  # the text that is held back

    def feed(self, piece: str) -> str:
        """Return the next part of the redacted text."""
        text = self._tail + self._held + piece
        shown_end = len(self._tail)  # `text` up to here was shown
        may_be_escaped = any(mark in text for mark in _ESCAPE_MARKS)
        if not may_be_escaped and self._beginning.search(text) is None:  # the usual case
            self._tail = text[-_TAIL_CHARS:]
            self._held = ""
            return text[shown_end:]

        # Text that was shown must not be shown again. Only now, because the new piece has escapes,
        # a place in it may look like a secret.
        found = self._redactor.find(text)
        places = [(start, stop) for start, stop in found if stop > shown_end]
        if places:
            # From here on, `text` is only what was not shown yet. If the first secret began before
            # `shown_end`, the replacement follows the few characters that were shown of it.
            first, _ = places[0]
            text = self._redactor.replace(text, places)[min(first, shown_end) :]
            shown_end = 0

        # Hold back the end of the text that was not shown, if it may be the beginning of a secret.
        end = max(self._find_beginning(text), shown_end)
        shown = text[shown_end:end]
        self._held = text[end:]
        self._tail = (self._tail + shown)[-_TAIL_CHARS:]
        return shown

    def _find_beginning(self, text: str) -> int:
        """Return the index from which the end of `text` can be the beginning of a secret.

        It is the length of `text` if there is none.
        """
        start = len(text) - self._count_beginning(text, self._forms)

        # A longer end, such as one of many backslashes, is no beginning of a secret.
        end_start = max(0, len(text) - self._longest * ESCAPE_CHARS)
        for unescaped, starts in iter_unescaped(cut_last_escape(text[end_start:])):
            # Each pass may uncover another escape at the end: one whose backslash was escaped.
            complete = cut_last_escape(unescaped)
            count = self._count_beginning(complete, self._unescaped_forms)
            if count:
                start = min(start, end_start + starts[len(complete) - count])

        return start

    def _count_beginning(self, text: str, forms: frozenset[str]) -> int:
        """Return how many characters at the end of `text` can be the beginning of a secret."""
        longest = min(self._longest - 1, len(text))
        if self._beginning.search(text[len(text) - longest :]) is None:  # the usual case
            return 0

        for size in range(longest, _MIN_PARTIAL_CHARS - 1, -1):
            end = text[-size:]
            if any(form.startswith(end) for form in forms):
                return size
        return 0

    def finish(self) -> str:
        """Return the rest of the text."""
        held = self._held
        self._held = ""
        return held
