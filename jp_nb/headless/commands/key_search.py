"""Find API keys, and values of secret environment variables, in the texts of files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from jp_nb.config.redactor import Redactor
from jp_nb.config.secrets import (
    SECRET_ANSWER,
    find_api_keys,
    hide_api_keys,
    is_secret_name,
)
from jp_nb.text import plain

SHORTEST_VALUE: Final = 8  # a shorter value of a variable may occur in a text by chance
SHOWN_KEY_CHARS: Final = 4  # number of characters of a key that identify it in a finding
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{60,}+\n?)*+[A-Za-z0-9+/]*+={0,2}\n?")
MIN_BASE64: Final = 200  # minimum length of image data, which may look like it contains keys


class KeySearch:
    """Finds API keys, and values of environment variables such as `SERVICE_TOKEN`."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._secrets: dict[str, Redactor] = {}
        for name, value in sorted(environment.items()):
            if not is_secret_name(name) or len(value.strip()) < SHORTEST_VALUE:
                continue
            with suppress(ValueError):
                if os.path.lexists(value):
                    continue
            self._secrets[name] = Redactor(SECRET_ANSWER, value)

    def find(self, text: str) -> Iterator[str]:
        """Yield a description of each secret in `text`, with at most the beginning of a key."""
        if len(text) < MIN_BASE64 or not _BASE64.fullmatch(text):
            visible = plain(text, limit=len(text)) if "\x1b" in text else text
            for key in dict.fromkeys(find_api_keys(visible)):
                begin = plain(key[:SHOWN_KEY_CHARS]).replace("\n", " ")
                yield f"a possible API key: {begin}… ({len(key)} characters)"

        for name, secrets in self._secrets.items():
            if secrets.hide(text) != text:
                yield f"the value of the environment variable {name}"

    def hide(self, text: str) -> str:
        """Return `text` without keys and control characters. Hide keys before a text is cut."""
        text = hide_api_keys(plain(text, limit=len(text)))
        for secrets in self._secrets.values():
            text = secrets.hide(text)
        return text


Finding = tuple[str, str]
"""A problem in a file: its location, such as `cells[3].outputs[0].text` ("" for the whole file),
and a description without secrets."""
