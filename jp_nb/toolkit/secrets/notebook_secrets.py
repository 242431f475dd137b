"""Hide the secrets of a notebook in texts and values for the model.

A secret has a name such as `api_key`, has the form of a key, or is equal to a known secret. The
known ones are found first, in the variables and the environment (`secret_search.py`):

- Most are hidden wherever they occur in a text.
- A short text, a common word, or a number may be part of other texts, so it is hidden only as a
  *whole value*, such as the value of a variable or an item of a list.

Source: `docs/notebook-tools.md`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final

from jp_nb.config.secrets.replacements import NOT_SHOWN, redact_secret
from jp_nb.config.secrets.secret_hiding import hide_secrets
from jp_nb.config.secrets.secret_names import is_secret, is_secret_name
from jp_nb.toolkit.secrets.secret_search import (
    MIN_HIDDEN_CHARS,
    SINGLE_WORD,
    SecretSearch,
    is_environment,
)
from jp_nb.values.decoded_texts import decode_as_text, join_characters
from jp_nb.values.privacy import Privacy, apply_privacy

MAX_HIDDEN_TEXTS: Final = 500
"""Number of secrets that are hidden inside of texts: a text is searched for each of them."""
ENVIRONMENT_NOT_SHOWN: Final = "the environment, without its values"
_NUMBERS = re.compile(r"(?<![\w.])\d{4,}(?:\.\d+)?(?![\w])")


class NotebookSecrets(Privacy):
    """The secrets of a notebook, recognized by name, pattern, and value.

    The constructor reads the user's variables, so call it in the cell's thread.

    As a `Privacy` (`values/privacy.py`), it is asked about parts of values while they are
    described: `name` for a part with a name, `value` for a value as a whole, and `text` for the
    printed form of a value, such as `{'pin': 'abc'}`. There, a short secret is in quotes and a
    number is alone, so they are hidden too. A call of the object hides secrets in source code and
    longer texts, in which short secrets and numbers stay: they may be parts of words.
    """

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        search = SecretSearch()
        self._environment = dict(os.environ)
        # The search reads parts of values by the rules that apply. So far only names are known.
        with apply_privacy(_NameRules()):
            for name, value in [*namespace.items()]:  # a thread may add variables meanwhile
                variable = name if type(name) is str else None
                search.add_variable(variable, value)
        for name, text in self._environment.items():
            search.add_environment(name, text)

        longest_first = sorted(search.texts, key=lambda text: (-len(text), text))
        self._texts = longest_first[:MAX_HIDDEN_TEXTS]
        self._joined_texts = "\0".join(self._texts)  # a slice of a secret is found in it

        self._whole_values = search.whole_values  # any text or number, also long texts
        self._has_numbers = any(type(value) in (int, float) for value in self._whole_values)
        self._short_pattern = _make_short_pattern(self._whole_values)

    def __call__(self, text: str, *, code: bool = False) -> str:
        """Return `text` without secrets. The number of lines stays. `code` means Python code."""
        for secret in self._texts:
            text = text.replace(secret, redact_secret(secret))
        return hide_secrets(text, code=code)

    def name(self, name: str, value: object) -> str | None:
        """Return the replacement if the part is a secret by its name or its form; else None.

        A part that is equal to the environment variable `name` is hidden too.
        """
        variable = self._environment.get(name)
        if isinstance(value, bytes):
            value = value.decode(errors="replace")

        if variable and type(value) is str and value == variable:
            return NOT_SHOWN
        return NOT_SHOWN if is_secret(name, value) else None

    def value(self, value: object) -> str | None:
        """Return the replacement if the value is a secret, a part of one, or the environment.

        None for other values. For the environment, the replacement lists the names of variables.
        """
        if is_environment(value):
            return f"{ENVIRONMENT_NOT_SHOWN}: {', '.join(sorted(os.environ))}"
        return NOT_SHOWN if self._is_known(value) else None

    def text(self, text: str) -> str:
        """Return `text` without secrets, including short ones and numbers."""
        if not text:
            return text
        if self._short_pattern is not None:
            text = self._short_pattern.sub(NOT_SHOWN, text)
        if self._has_numbers:
            text = _NUMBERS.sub(self._hide_number, text)
        return self(text)

    def _hide_number(self, match: re.Match[str]) -> str:
        """Return the replacement of a matched number if it is a secret; else the number."""
        digits = match[0]
        value = float(digits) if "." in digits else int(digits[:4000])  # Python's limit for `int`
        return NOT_SHOWN if value in self._whole_values else digits

    def _is_known(self, value: object) -> bool:
        """Return True if `value` is a known secret, contains one, or is a part of one."""
        kind = type(value)
        if kind in (int, float):
            return value in self._whole_values

        # A list of single characters, as of `list(password)`, is a text as well.
        is_list = kind in (list, tuple)
        text = join_characters(value) if is_list else decode_as_text(value)  # type: ignore[arg-type]
        if text is None:  # no text, no bytes, and no list of characters
            return False

        stripped = text.strip()
        if stripped in self._whole_values:
            return True
        if kind in (bytes, bytearray) or issubclass(kind, str):
            # A slice of a secret. Longer texts that contain a secret are hidden as texts.
            return len(stripped) >= MIN_HIDDEN_CHARS and stripped in self._joined_texts
        return self(text) != text


def _make_short_pattern(values: set[str | int | float]) -> re.Pattern[str] | None:
    """Return a pattern for the short texts in `values`; None if there are none."""
    short_texts = [
        value for value in values if isinstance(value, str) and len(value) < MIN_HIDDEN_CHARS
    ]
    if not short_texts:
        return None

    patterns = map(_quote_short_text, sorted(short_texts)[:100])  # the pattern must stay small
    return re.compile("|".join(patterns))


def _quote_short_text(text: str) -> str:
    """Return a pattern that matches a word only in quotes, any other secret as a whole word."""
    if SINGLE_WORD.fullmatch(text):
        return re.escape(repr(text))
    return rf"(?<!\w){re.escape(text)}(?!\w)"


class _NameRules(Privacy):
    """Rules during the search, when the values of the secrets are not yet known."""

    def name(self, name: str, value: object) -> str | None:
        return NOT_SHOWN if is_secret_name(name) else None
