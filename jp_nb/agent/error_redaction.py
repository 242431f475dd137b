"""Hide keys and server addresses in the text of an error, before a model and the record get it."""

from __future__ import annotations

import re
import string
from typing import Final

# An address with its scheme, whose host is the group; then a host or an address with a port.
_URL: Final = re.compile(
    r"\b[a-z][a-z0-9+.-]*://(?:[^\s/@'\"]*@)?([^\s/:'\"?#)\]]+)[^\s'\")\]]*(?<![:.,;])",
    re.IGNORECASE,
)
_ADDRESS: Final = re.compile(
    r"\b(?:\d{1,3}(?:\.\d{1,3}){3}|localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)+(?=:\d))(?::\d+)?\b",
    re.IGNORECASE,
)
_KEY: Final = re.compile(
    r"\bbearer\s+\S+|\b(?:sk|pk|rk|gsk|xai|ghp|gho|key)[-_][\w*-]{8,}|\bAIza[\w-]{8,}",
    re.IGNORECASE,
)

MAX_REDACTED_CHARS: Final = 1000
"""Maximum number of characters of an error, before keys and addresses are replaced."""
_WORD_CHARACTERS: Final = string.ascii_letters + string.digits + "_-*.~+/="


def redact_error(text: str) -> str:
    """Return `text` without keys and server addresses, and truncated."""
    if len(text) > MAX_REDACTED_CHARS:
        # A part of a key is not recognized as a key.
        beginning = text[:MAX_REDACTED_CHARS]
        text = beginning.rstrip(_WORD_CHARACTERS) or beginning

    # An error may name a host again without the rest of its address.
    hosts = {match[1] for match in _URL.finditer(text)}
    text = _URL.sub("[address]", text)
    for host in hosts:
        text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", "[address]", text)

    text = _ADDRESS.sub("[address]", text)
    return _KEY.sub("[key]", text)
