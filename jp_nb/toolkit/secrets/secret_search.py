"""Search the variables and the environment of a notebook for secrets.

A value is a secret by the name of its variable, key, or attribute (`api_key`), or by its form
(`sk-…`). `notebook_secrets.py` hides the found secrets in results for the model.

Source: `docs/notebook-tools.md`.
"""

from __future__ import annotations

import os
import re
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from jp_nb.config.redactor import MIN_SECRET_CHARS
from jp_nb.config.secrets.api_keys import find_api_keys
from jp_nb.config.secrets.secret_names import is_secret, is_secret_name
from jp_nb.values.class_facts import FAILURES, is_a
from jp_nb.values.decoded_texts import MAX_READ_BYTES, decode_as_text
from jp_nb.values.named_parts import PLAIN_TYPES, PartReader, find_part_reader, read_secret_content
from jp_nb.values.nested_text import MAX_CONTAINER_DEPTH

MIN_HIDDEN_CHARS: Final = 8
"""Minimum length of a secret that is hidden inside of words: a shorter one may be a word."""
MIN_HIDDEN_NUMBER: Final = 1000
"""The smallest number that is hidden everywhere."""
_MIN_KEY_CHARS: Final = 16
"""Minimum length of a text that is searched for API keys."""
_MIN_LINE_CHARS: Final = 16
"""Minimum length of a line of a secret that is hidden without the others."""
MAX_COMPARED_SECRETS: Final = 50_000  # limit for the secrets that are compared with whole values
MAX_SEARCHED_VALUES: Final = 100_000  # limit for the values that are searched for secrets
MAX_SECRET_LIST_ITEMS: Final = 100
"""Limit for a container whose texts are all secrets: a longer one may be a column of words."""
SINGLE_WORD = re.compile(r"[^\W\d_]+")


def is_environment(value: object) -> bool:
    """Return True for the mappings of environment variables, such as `os.environ`."""
    raw = sys.modules[os.name].__dict__.get("environ")  # of the module `posix` or `nt`
    mappings = (os.environ, getattr(os, "environb", None), raw)
    if any(value is mapping for mapping in mappings if mapping is not None):
        return True
    return is_a(value, "os", "_Environ")


class SecretSearch:
    """Search for the secrets of a notebook. It runs no properties and consumes no iterators.

    Some secrets are hidden everywhere in texts, and others only where a whole value is equal: a
    short text or a common word may also be a part of other texts. The value `swordfish` of
    `password` is hidden everywhere. A word in a list named `tokens` may be a word of a text, and is
    not hidden at all.

    Attributes:
        texts: Secrets that are hidden inside of texts.
        whole_values: Secrets that are hidden if a whole value is equal.
    """

    def __init__(self) -> None:
        self.texts: set[str] = set()
        self.whole_values: set[str | int | float] = set()
        self._values_left = MAX_SEARCHED_VALUES
        self._seen: dict[int, object] = {}  # searched values by `id()`, kept alive
        self._readers: dict[type, PartReader] = {}  # by the type of value

    def _find_reader(self, value: object) -> PartReader:
        """Return the function that reads the parts of values of this type (`named_parts.py`).

        It yields each part with its name, or None. The values in the columns of a data frame are
        parts only `with_plain_cells`, so that the search for names does not read large tables.
        """
        kind = type(value)
        if kind not in self._readers:
            self._readers[kind] = find_part_reader(value)
        return self._readers[kind]

    def add_environment(self, name: str, value: str) -> None:
        """Add the value of an environment variable if it may be a secret."""
        if is_secret_name(name):
            self._add_text(value, is_alone=True)
        elif len(value) >= MIN_HIDDEN_CHARS and not _is_path(value):
            # A name that is not known may belong to a secret too.
            self.whole_values.add(value.strip())
            if _looks_random(value):
                self.texts.add(value.strip())

    def add_variable(self, variable: str | None, content: object) -> None:
        """Add the secrets in the variable of this name, breadth first.

        Secrets are values with the name of a secret, API keys in texts, and the contents of objects
        such as `pydantic.SecretStr`. Values inside of containers are searched as well.
        """
        pending: deque[tuple[str | None, object, int]] = deque([(variable, content, 0)])
        while pending and self._values_left > 0:
            name, value, depth = pending.popleft()
            self._values_left -= 1
            if type(value) in PLAIN_TYPES and name is None:
                continue  # a number without a name, for example, is no secret

            if name is not None and is_secret(name, value):
                self._add_secret(name, value)
            elif type(value) is str:
                if len(value) >= _MIN_KEY_CHARS:
                    self.texts.update(find_api_keys(value[:MAX_READ_BYTES]))
            elif self._find_reader(value) is read_secret_content:  # such as `pydantic.SecretStr`
                _, secret = next(read_secret_content(value, with_plain_cells=True))
                self._add_secret("", secret)
            elif depth < MAX_CONTAINER_DEPTH and self._mark_searched(value):
                read_parts = self._find_reader(value)
                try:
                    for key, part in read_parts(value, with_plain_cells=False):
                        pending.append((key, part, depth + 1))
                except FAILURES:
                    continue  # another thread changed the container, or its code raised

    def _mark_searched(self, value: object) -> bool:
        """Note that a container is searched; return False if it was before, or must not be.

        The environment is not a container of the user: `add_environment` searches it.
        """
        if id(value) in self._seen or is_environment(value):
            return False

        self._seen[id(value)] = value  # kept alive, so that no other object gets its id
        return True

    def _add_secret(self, name: str, value: object) -> None:
        """Add the texts and numbers in the value of a secret `name`.

        Omit those that may be words of a text: parts of a container with a name such as `tokens`,
        unless they look random.
        """
        may_be_words = _may_contain_words(name)

        for part, is_alone in self._iter_plain_parts(value, may_be_words=may_be_words):
            if isinstance(part, str):
                is_own_name = part.lower() == name.lower()  # such as in the header of a table
                if is_own_name:
                    continue
                if is_alone or not may_be_words or _looks_random(part):
                    self._add_text(part, is_alone=is_alone)
            elif abs(part) >= MIN_HIDDEN_NUMBER and (is_alone or not may_be_words):
                self._add_number(part)

    def _iter_plain_parts(
        self, secret: object, *, may_be_words: bool
    ) -> Iterator[tuple[str | int | float, bool]]:
        """Yield each text and number in the value of a secret, and True if it is alone.

        It is *alone* if it is the value itself, or in a short container. If they `may_be_words`,
        the parts of a container are never alone.
        """
        pending: deque[tuple[object, bool]] = deque([(secret, True)])
        seen: dict[int, object] = {}

        while pending and self._values_left > 0:
            value, is_alone = pending.popleft()
            self._values_left -= 1
            text = decode_as_text(value)

            if text is not None:
                yield text, is_alone
            elif isinstance(value, int | float) and type(value) in (int, float):
                yield value, is_alone
            elif type(value) not in PLAIN_TYPES and id(value) not in seen:
                seen[id(value)] = value
                read_parts = self._find_reader(value)
                try:
                    parts = [part for _, part in read_parts(value, with_plain_cells=True)]
                except FAILURES:
                    continue  # another thread changed the container, or its code raised

                is_short = len(parts) <= MAX_SECRET_LIST_ITEMS
                are_alone = is_short and is_alone and not may_be_words
                pending.extend((part, are_alone) for part in parts)

    def _add_number(self, number: float) -> None:
        """Hide `number`, also if it is written as a text."""
        self.whole_values.add(number)
        with suppress(ValueError):  # more digits than `sys.get_int_max_str_digits()`
            self.whole_values.add(str(number))

    def _add_text(self, text: str, *, is_alone: bool) -> None:
        """Add `text`. A single word that is not alone is hidden only if a whole value is equal."""
        text = text.strip()
        if len(text) < MIN_SECRET_CHARS or len(self.whole_values) > MAX_COMPARED_SECRETS:
            return

        self.whole_values.add(text)
        if len(text) >= MIN_HIDDEN_CHARS and (is_alone or not SINGLE_WORD.fullmatch(text)):
            # A program may have read its bytes in another encoding, or print single lines of it.
            # A variable whose bytes are not UTF-8 has halves of surrogate pairs.
            read_as_latin = text.encode("utf-8", "surrogatepass").decode("latin-1")
            self.texts |= {text, read_as_latin}
            lines = map(str.strip, text.split("\n"))
            self.texts.update(line for line in lines if len(line) >= _MIN_LINE_CHARS)


def _may_contain_words(name: str) -> bool:
    """Return True for a name such as `tokens`, whose value may be the words of a text."""
    return re.search("token", name, re.IGNORECASE) is not None


def _looks_random(text: str) -> bool:
    """Return True for a text with digits and other characters, but not for a path or a time."""
    if len(text) < MIN_HIDDEN_CHARS or re.search(r"[\s/:]", text):
        return False
    digit_count = sum(map(str.isdigit, text))
    return 2 <= digit_count < len(text)


def _is_path(text: str) -> bool:
    return text.startswith(("/", "~", ".")) or (os.name == "nt" and text[1:3] == ":\\")
