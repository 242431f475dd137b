"""Remove the key of a provider from texts: errors, headers, logs, and responses.

A server or a proxy may send the key back. It is read from its environment variable for each
request, because the user may change it in a running kernel.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Final

from jp_nb.config.redactor import Redactor
from jp_nb.config.secrets.replacements import PROVIDER_KEY_MARK

MIN_CHARS_IN_RESPONSES = 16
"""Minimum length of a key that is also hidden in the model's text. Local servers often have a word
as their key, such as `none` or `lm-studio`.
"""


class KeyRedactor(Redactor):
    """Replaces a key in texts."""

    def __init__(self, key: str) -> None:
        super().__init__(PROVIDER_KEY_MARK, key)
        self.applies_to_responses = len(key) >= MIN_CHARS_IN_RESPONSES

    def hide_in_response(self, text: str) -> str:
        """Return the model's `text` without the key, unless the key is a common word."""
        return self.hide(text) if self.applies_to_responses else text

    def hide_in_lines(self, text: str) -> list[str]:
        """Return the lines of a response without the key, which is never in two lines."""
        lines = text.split("\n")
        is_hidden = self.applies_to_responses and self.may_be_in(text)
        return [*map(self.hide, lines)] if is_hidden else lines


def read_key(variable: str | None) -> str:
    """Return the current key in an environment variable; "" if it has none, or for None."""
    return os.environ.get(variable, "").strip() if variable else ""


NO_KEY: Final = KeyRedactor("")
_make_redactor: Final = lru_cache(8)(KeyRedactor)


def get_current_redactor(variable: str | None) -> KeyRedactor:
    """Return the redactor of the current key in an environment variable."""
    return _make_redactor(read_key(variable))
