"""Looks for keys in what is about to be shared: by their shape, and by what variables hold here.

Source: `docs/ci.md`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Final

from jp_nb.agent.secret_answers import Secrets
from jp_nb.config.secret_names import keys_in, names_secret, without_keys
from jp_nb.safe_text import plain

SHORTEST_VALUE: Final = 8
"""Characters of a variable's value: a shorter one may stand in any text by chance."""
SHOWN: Final = 4
"""Characters of a key that are shown: enough to tell whose it is."""
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{60,}+\n?)*+[A-Za-z0-9+/]*+={0,2}\n?")
MIN_BASE64: Final = 200
"""Characters of what may be the bytes of a picture: some run of its letters looks like a key."""


class KeySearch:
    """Finds keys in texts.

    Args:
        environment: Its variables that are called like secrets are looked for, too.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._secrets: dict[str, Secrets] = {}
        for name, value in sorted(environment.items()):
            if names_secret(name) and len(value.strip()) >= SHORTEST_VALUE and not _is_path(value):
                secrets = self._secrets[name] = Secrets()
                secrets.add(value)

    def found_in(self, text: str) -> Iterator[str]:
        """Yield for each key in `text` what it is, in words that do not tell it."""
        if len(text) < MIN_BASE64 or not _BASE64.fullmatch(text):
            shown = plain(text, limit=len(text)) if "\x1b" in text else text
            for key in dict.fromkeys(keys_in(shown)):
                begin = plain(key[:SHOWN]).replace("\n", " ")
                yield f"a possible API key: {begin}… ({len(key)} characters)"
        for name, secrets in self._secrets.items():
            if secrets.hide(text) != text:
                yield f"the value of the environment variable {name}"

    def hide(self, text: str) -> str:
        """Return `text` made plain, without the keys in it. What is cut first may keep a part."""
        text = without_keys(plain(text, limit=len(text)))
        for secrets in self._secrets.values():
            text = secrets.hide(text)
        return text


def _is_path(value: str) -> bool:
    try:
        return os.path.lexists(value)
    except ValueError:
        return False
