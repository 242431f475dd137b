"""What may be a secret is not shown. Values that are shown go through here.

Keys themselves are never configured, only the names of the variables that hold them; but options
of a tool, answers and arguments are anybody's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import JsonValue

HIDDEN = "(set, not shown)"
_SECRET = re.compile(
    r"(.*[_.-])?(secret|password|passwd|passphrase|pass|pw|pin|token|credentials?|api[_-]?key)",
    re.IGNORECASE,
)
_CREDENTIALS = re.compile(
    r"(?P<kept>\bBearer\s+)[^\s'\"]+"  # a header
    r"|(?P<name>://[^\s/?#:@'\"]*:)[^\s/?#'\"]+(?=@)"  # an address
    r"|\bsk-[\w-]{8,}",
    re.IGNORECASE,
)


def is_secret(keys: Sequence[str]) -> bool:
    """Whether one of `keys`, of a path, names what is usually secret."""
    return any(_SECRET.fullmatch(key) for key in keys)


def masked(value: JsonValue, keys: Sequence[str] = ()) -> JsonValue:
    """`value`, which is at `keys`, with `(set, not shown)` in place of what may be a secret."""
    if isinstance(value, dict):
        return {key: masked(item, (*keys, key)) for key, item in value.items()}
    if isinstance(value, list) and not is_secret(keys):
        return [masked(item, keys) for item in value]
    if value is None or isinstance(value, bool) or not is_secret(keys):
        return value
    return HIDDEN


def without_credentials(text: str) -> str:
    """`text`, such as a command line, without what looks like a key or a password in it."""
    return _CREDENTIALS.sub(lambda at: f"{at['kept'] or at['name'] or ''}{HIDDEN}", text)
