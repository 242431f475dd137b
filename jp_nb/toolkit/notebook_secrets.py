"""Find the secrets of a notebook, and hide them in texts and values.

Source: `docs/notebook-tools.md`.
"""

from __future__ import annotations

import os
import re
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from jp_nb.config.redactor import MIN_SECRET_CHARS
from jp_nb.config.secrets import (
    NOT_SHOWN,
    find_api_keys,
    hide_secrets,
    is_secret,
    is_secret_name,
    redact_secret,
)
from jp_nb.values.base import Privacy, apply_privacy
from jp_nb.values.containers import MAX_CONTAINER_DEPTH
from jp_nb.values.custom import FAILURES
from jp_nb.values.data_access import is_a
from jp_nb.values.named_parts import (
    MAX_READ_BYTES,
    PLAIN_TYPES,
    PartReader,
    decode_as_text,
    find_part_reader,
    join_characters,
    read_secret_content,
)

SHORTEST_KNOWN: Final = 8
"""Minimum length of a secret that is hidden inside of words: a shorter one may be a word."""
MAX_COMPARED_SECRETS: Final = 50_000  # limit for the secrets that are compared with whole values
MAX_SEARCHED_VALUES: Final = 100_000  # limit for the values that are searched for secrets
MAX_SECRET_LIST_ITEMS: Final = 100
"""Limit for a container whose texts are all secrets: a longer one may be a column of words."""
LEAST_NUMBER: Final = 1000  # the smallest number that is hidden everywhere
ENVIRONMENT_NOT_SHOWN: Final = "the environment, without its values"
_NUMBERS = re.compile(r"(?<![\w.])\d{4,}(?:\.\d+)?(?![\w])")
_WORD = re.compile(r"[^\W\d_]+")


class NotebookSecrets(Privacy):
    """The secrets of a notebook, recognized by name, pattern, and value.

    The constructor reads the user's variables, so call it in the cell's thread.
    """

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        found = _SecretSearch()
        self._environment = dict(os.environ)
        with apply_privacy(_NameRules()):
            for name, value in [*namespace.items()]:
                variable = name if type(name) is str else None
                found.walk(variable, value)
        for name, text in self._environment.items():
            found.add_environment(name, text)

        # Each is searched in each text.
        self._texts = sorted(found.texts, key=lambda text: (-len(text), text))[:500]
        self._equal = found.equal
        self._all = "\0".join(self._texts)

        short = sorted(x for x in found.equal if type(x) is str and len(x) < SHORTEST_KNOWN)
        patterns = map(_pattern_of_short_secret, short[:100])  # the pattern must stay small
        self._short = re.compile("|".join(patterns)) if short else None
        self._has_numbers = any(type(known) in (int, float) for known in found.equal)

    def __call__(self, text: str, *, code: bool = False) -> str:
        """Return `text` without secrets. The number of lines stays. `code` means Python code."""
        for secret in self._texts:
            text = text.replace(secret, redact_secret(secret))
        return hide_secrets(text, code=code)

    def name(self, name: str, value: object) -> str | None:
        """Return the replacement if the part is a secret by its name or form; else None.

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
        if self._short is not None:
            text = self._short.sub(NOT_SHOWN, text)
        if self._has_numbers:
            text = _NUMBERS.sub(self._hide_number, text)
        return self(text)

    def _hide_number(self, found: re.Match[str]) -> str:
        value = float(found[0]) if "." in found[0] else int(found[0][:4000])
        return NOT_SHOWN if value in self._equal else found[0]

    def _is_known(self, value: object) -> bool:
        kind = type(value)
        if kind in (int, float):
            return value in self._equal

        is_list = kind in (list, tuple)
        text = join_characters(value) if is_list else decode_as_text(value)  # type: ignore[arg-type]
        if text is None:
            return False

        part = text.strip()
        if part in self._equal:
            return True
        if kind in (bytes, bytearray) or issubclass(kind, str):
            return len(part) >= SHORTEST_KNOWN and part in self._all
        return self(text) != text


def _pattern_of_short_secret(text: str) -> str:
    """Return a pattern that matches a word only in quotes, any other secret as a whole word."""
    if _WORD.fullmatch(text):
        return re.escape(repr(text))
    return rf"(?<!\w){re.escape(text)}(?!\w)"


class _NameRules(Privacy):
    """Rules during the search, when the values of the secrets are not yet known."""

    def name(self, name: str, value: object) -> str | None:
        return NOT_SHOWN if is_secret_name(name) else None


def is_environment(value: object) -> bool:
    """Return True for the mappings of environment variables, such as `os.environ`."""
    raw = sys.modules[os.name].__dict__.get("environ")  # of the module `posix` or `nt`
    mappings = (os.environ, getattr(os, "environb", None), raw)
    if any(value is mapping for mapping in mappings if mapping is not None):
        return True
    return is_a(value, "os", "_Environ")


# --- searching ---------------------------------------------------------------------------------


class _SecretSearch:
    """Search for the secrets of a notebook. It runs no properties and consumes no iterators.

    Attributes:
        texts: Secrets that are hidden inside of texts.
        equal: Secrets that are hidden if a whole value is equal.
    """

    def __init__(self) -> None:
        self.texts: set[str] = set()
        self.equal: set[str | int | float] = set()
        self._left = MAX_SEARCHED_VALUES
        self._seen: dict[int, object] = {}
        self._readers: dict[type, PartReader] = {}

    def _reader(self, value: object) -> PartReader:
        kind = type(value)
        if kind not in self._readers:
            self._readers[kind] = find_part_reader(value)
        return self._readers[kind]

    def add_environment(self, name: str, value: str) -> None:
        if is_secret_name(name):
            self._add_text(value, alone=True)
        elif len(value) >= SHORTEST_KNOWN and not _is_path(value):
            self.equal.add(value.strip())
            if _looks_random(value):
                self.texts.add(value.strip())

    def walk(self, name: str | None, value: object) -> None:
        """Collect the secrets in the variable `name`."""
        todo: deque[tuple[str | None, object, int]] = deque([(name, value, 0)])
        while todo and self._left > 0:
            name, value, depth = todo.popleft()
            self._left -= 1
            if type(value) in PLAIN_TYPES and name is None:
                continue

            if name is not None and is_secret(name, value):
                self._add_secret(name, value)
            elif type(value) is str:
                if len(value) >= _SHORTEST_KEY:
                    self.texts.update(find_api_keys(value[:MAX_READ_BYTES]))
            elif self._reader(value) is read_secret_content:
                _, content = next(read_secret_content(value, True))
                self._add_secret("", content)
            elif (
                depth < MAX_CONTAINER_DEPTH
                and id(value) not in self._seen
                and not is_environment(value)
            ):
                self._seen[id(value)] = value
                parts = self._reader(value)
                try:
                    todo.extend((key, part, depth + 1) for key, part in parts(value, False))
                except FAILURES:
                    continue  # another thread changed the container, or its code raised

    def _add_secret(self, name: str, value: object) -> None:
        # All texts and numbers in the value of a secret name. `tokens` may also be words.
        is_words = re.search("token", name, re.IGNORECASE) is not None
        todo: deque[tuple[object, bool]] = deque([(value, True)])
        seen: dict[int, object] = {}

        while todo and self._left > 0:
            value, alone = todo.popleft()
            self._left -= 1
            text = decode_as_text(value)

            if text is not None:
                is_name = text.lower() == name.lower()  # for example in the header of a table
                if not is_name and (alone or not is_words or _looks_random(text)):
                    self._add_text(text, alone=alone)
            elif type(value) in (int, float):
                if abs(value) >= LEAST_NUMBER and (alone or not is_words):  # type: ignore[arg-type]
                    self.equal.add(value)  # type: ignore[arg-type]
                    with suppress(ValueError):  # more digits than `sys.get_int_max_str_digits()`
                        self.equal.add(str(value))
            elif type(value) not in PLAIN_TYPES and id(value) not in seen:
                seen[id(value)] = value
                try:
                    items = [part for _, part in self._reader(value)(value, True)]
                except FAILURES:
                    continue

                few = len(items) <= MAX_SECRET_LIST_ITEMS and alone and not is_words
                todo.extend((item, few) for item in items)

    def _add_text(self, text: str, *, alone: bool) -> None:
        text = text.strip()
        if len(text) < MIN_SECRET_CHARS or len(self.equal) > MAX_COMPARED_SECRETS:
            return

        self.equal.add(text)
        if len(text) >= SHORTEST_KNOWN and (alone or not _WORD.fullmatch(text)):
            self.texts |= {text, text.encode().decode("latin-1")}
            lines = map(str.strip, text.split("\n"))
            self.texts.update(line for line in lines if len(line) > 15)


_SHORTEST_KEY: Final = 16


def _looks_random(text: str) -> bool:
    if len(text) < SHORTEST_KNOWN or re.search(r"[\s/:]", text):
        return False
    return 2 <= sum(map(str.isdigit, text)) < len(text)


def _is_path(text: str) -> bool:
    return text.startswith(("/", "~", ".")) or (os.name == "nt" and text[1:3] == ":\\")
