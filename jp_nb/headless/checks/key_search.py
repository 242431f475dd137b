"""Find API keys, and values of secret environment variables, in the texts of files.

A key is found by its form alone. The value of a variable is found by a `Redactor`, which also
recognizes it in the escapes of JSON or URLs, and in Base64.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from jp_nb.config.redactor import Redactor
from jp_nb.config.secrets.api_keys import find_api_keys, hide_api_keys
from jp_nb.config.secrets.replacements import SECRET_ANSWER
from jp_nb.config.secrets.secret_names import is_secret_name
from jp_nb.text import plain

SHORTEST_VALUE: Final = 8  # a shorter value of a variable may occur in a text by chance
SHOWN_KEY_CHARS: Final = 4  # number of characters of a key that identify it in a finding
# Base64 in one line, or in lines of at least 60 characters.
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{60,}+\n?)*+[A-Za-z0-9+/]*+={0,2}\n?")
MIN_BASE64: Final = 200  # minimum length of image data, which may look like it contains keys


class Finding(NamedTuple):
    """A problem in a file.

    Attributes:
        place: Location of the problem, such as `cells[3].outputs[0].text`; "" for the whole file.
        message: Description without secrets.
    """

    place: str
    message: str


class KeySearch:
    """Finds API keys, and values of environment variables such as `SERVICE_TOKEN`."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        # For each secret variable, by its name: the redactor that recognizes its value.
        self._secrets: dict[str, Redactor] = {}
        for name, value in sorted(environment.items()):
            is_long = len(value.strip()) >= SHORTEST_VALUE
            # A path is no secret: `SSH_AUTH_SOCK` or `KEY_FILE` name files.
            if is_secret_name(name) and is_long and not _is_path(value):
                self._secrets[name] = Redactor(SECRET_ANSWER, value)

    def find(self, text: str) -> Iterator[str]:
        """Yield a description of each secret in `text`, with at most the beginning of a key."""
        # Image data contains words of any form, but not a given value by chance.
        is_image_data = len(text) >= MIN_BASE64 and _BASE64.fullmatch(text) is not None
        if not is_image_data:
            yield from _find_possible_keys(text)

        for name, redactor in self._secrets.items():
            if redactor.hide(text) != text:
                yield f"the value of the environment variable {name}"

    def find_in_lines(self, content: bytes) -> Iterator[Finding]:
        """Yield the secrets in a text file with this `content`, each with its line."""
        for number, line in enumerate(content.split(b"\n"), 1):
            for secret in self.find(line.decode("utf-8", "replace")):
                yield Finding(f"line {number}", f"contains {secret}")

    def hide(self, text: str) -> str:
        """Return `text` without keys, values of secret variables, and control characters.

        If only a part of the text is to be shown, call this with the whole text: a key that is cut
        is not found any more.
        """
        text = hide_api_keys(plain(text, limit=len(text)))
        for redactor in self._secrets.values():
            text = redactor.hide(text)
        return text


def _is_path(value: str) -> bool:
    try:
        return os.path.lexists(value)
    except ValueError:  # it contains a null character
        return False


def _find_possible_keys(text: str) -> Iterator[str]:
    """Yield a description of each API key in `text`, by its form alone."""
    visible = text
    if "\x1b" in text:  # colors of a terminal may split a key; `plain` removes them
        visible = plain(text, limit=len(text))

    for key in dict.fromkeys(find_api_keys(visible)):
        begin = plain(key[:SHOWN_KEY_CHARS]).replace("\n", " ")
        yield f"a possible API key: {begin}… ({len(key)} characters)"
