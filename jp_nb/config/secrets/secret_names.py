"""Recognize the names that secrets usually have, such as `OPENAI_KEY` or `password_prod`.

The configuration contains the names of environment variables instead of the API keys of providers.
But a user or a model may write a secret into an option of a tool, an answer, an argument, or a
command.

The words of a name decide (`secret_words.py`). It is secret in three cases:

- Its last word is one of `SECRET_WORDS`, as in `client_pin`, or has one of `SECRET_ENDINGS`, as in
  `dbpassword`, or is `key` or `token` after one of `KEY_QUALIFIERS`, as in `api_key`. Words of
  `QUALIFIERS` may follow: `client_pin_prod`.
- Any of its words is one of `ALWAYS_SECRET_WORDS`, such as `password`, or has one of
  `SECRET_ENDINGS`, or is `key` or `token` after one of `KEY_QUALIFIERS`.
- It has the name of a service, one of `VENDORS`, and `key` or `token`.

In the last two cases, a later word of `DESCRIPTION_WORDS` makes the name harmless:
`password_policy`, `openai_key_name`.

The plural `tokens` is secret only alone or after one of `KEY_QUALIFIERS`: `max_tokens` is a number.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Final

from jp_nb.config.secrets.api_keys import find_api_keys
from jp_nb.config.secrets.secret_words import (
    ALWAYS_SECRET_WORDS,
    DESCRIPTION_WORDS,
    KEY_QUALIFIERS,
    MISPLACED_SECRET_KEYS,
    NO_PLURAL,
    QUALIFIERS,
    SECRET_ENDINGS,
    SECRET_WORDS,
    VENDORS,
)

_LONGEST_NAME: Final = 500
"""Only so many characters of a name are compared."""
_SHORTEST_KEY: Final = 16
_LONGEST_KEY: Final = 4096
"""Lengths of values that can be API keys."""

_WORD = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
"""A word of a name in `camelCase`, `snake_case` or `UPPER_CASE`."""

_PATH_SEPARATORS = re.compile(r"[.\[\]\"]+")

_PART_OF_EACH_SECRET_NAME = re.compile(
    "key|token|pass|pw|pin|otp|secret|cred|auth|bearer|cookie|jwt", re.IGNORECASE
)
"""The check of most other names ends here."""

_ANY_OF_PLURALS = "|".join(word for word in SECRET_WORDS if word not in NO_PLURAL)
_ANY_QUALIFIED_KEY = rf"(?:{'|'.join(KEY_QUALIFIERS)}) ?(?:key|token)s?"
_ANY_ENDING = rf"(?:{'|'.join(SECRET_ENDINGS)})"

_SECRET_AT_THE_END = re.compile(
    rf"(?:.* )?(?:(?:{'|'.join(SECRET_WORDS)})|(?:{_ANY_OF_PLURALS})s|{_ANY_QUALIFIED_KEY})"
    rf"|.*{_ANY_ENDING}s?"
)
"""Matches all words of a name whose last words are secret: `client secret`, `my dbpassword`."""

_SECRET_ANYWHERE = re.compile(
    rf"\b(?:(?:{'|'.join(ALWAYS_SECRET_WORDS)}|\w*{_ANY_ENDING})s?|{_ANY_QUALIFIED_KEY})\b"
)
"""Matches the words of a name that are secret in any position: `password` of `password by user`."""

_SECRET_IN_A_SENTENCE = re.compile(
    rf"\b(?:(?:{'|'.join((*SECRET_ENDINGS, 'passphrase', 'passcode'))})s?"
    rf"|(?:{'|'.join(KEY_QUALIFIERS)})[ _-]?(?:key|token)s?)\b",
    re.IGNORECASE,
)
"""Matches fewer words than in a name: a sentence may have `pass` or `token` with other meanings."""

_HINTS: Final = frozenset(
    ("key", "keys", "token", "auth", "sig", "signature", "sas", "salt", "webhook")
)
"""Words of a name under which a random text is a secret."""
_RANDOM_TEXT = re.compile(r"(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{16,}")


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Return True if a value with this name is usually secret."""
    if _PART_OF_EACH_SECRET_NAME.search(name) is None:
        return False

    words = _split_words(name)
    if words == ["tokens"]:
        return True

    while words and words[-1] in QUALIFIERS:
        words.pop()

    if _SECRET_AT_THE_END.fullmatch(" ".join(words)):
        return True

    return _names_vendor_key(words) or _has_secret_without_description(" ".join(words))


def _split_words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name[:_LONGEST_NAME])]


def _names_vendor_key(words: list[str]) -> bool:
    """Return True for a service and its key: `mistral_key`, but not `google_key_path`."""
    keys = [place for place, word in enumerate(words) if word in ("key", "keys", "token")]
    if not keys:
        return False

    words_after_key = words[keys[-1] + 1 :]
    if not DESCRIPTION_WORDS.isdisjoint(words_after_key):
        return False

    pairs = map("".join, pairwise(words))  # `OpenAI` is split into two words
    return not VENDORS.isdisjoint({*words, *pairs})


def _has_secret_without_description(words: str) -> bool:
    """Return True for `password by user`, and False for `password policy`."""
    for secret in _SECRET_ANYWHERE.finditer(words):
        words_after_secret = words[secret.end() :].split()
        if DESCRIPTION_WORDS.isdisjoint(words_after_secret):
            return True

    return False


def is_secret(name: str, value: object) -> bool:
    """Return True if `name` is the name of a secret, or `value` has the form of an API key.

    If the name mentions a key or a token, a random text such as `f3a9c1…` is also a secret.
    """
    if is_secret_name(name):
        return True

    if type(value) is not str or not _SHORTEST_KEY <= len(value) <= _LONGEST_KEY:
        return False

    has_hint = not _HINTS.isdisjoint(_split_words(name))
    if has_hint and _RANDOM_TEXT.search(value) is not None:
        return True

    return find_api_keys(value) == [value.strip()]  # the whole value is one key


def mentions_secret(text: str) -> bool:
    """Return True if `text` mentions a secret such as a password.

    `text` is the name or the sentence of a question of a model to the user.
    """
    is_name = " " not in text.strip()
    if is_name:
        return is_secret_name(text)

    words = " ".join(_WORD.findall(text))
    return _SECRET_IN_A_SENTENCE.search(words) is not None


def may_hold_secret(path: str) -> bool:
    """Return True if the setting at `path` may contain a secret, so that errors do not show it.

    `MISPLACED_SECRET_KEYS` are settings in which users write one by mistake, such as `base_url`.
    """
    keys = _PATH_SEPARATORS.split(path)
    return any(key in MISPLACED_SECRET_KEYS or is_secret_name(key) for key in keys)
