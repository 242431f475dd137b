"""What may be a secret is not shown. Values that are shown go through here.

Keys themselves are never configured, only the names of the variables that hold them; but options
of a tool, answers and arguments are anybody's. What holds a value is named by the last key of its
path alone: whatever is set about a tool called `token` is seen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from pydantic import JsonValue

from jp_nb.config.paths import Element, parse_path
from jp_nb.config.schema import node_at

HIDDEN = "(set, not shown)"

# --- the names of secrets ----------------------------------------------------------------------

ALONE = (
    *("secret", "password", "passwd", "passphrase", "passcode", "pass", "pwd", "pw", "pin", "otp"),
    *("token", "credential", "cred", "authorization", "cookie", "jwt", "apikey"),
)
"""The last word of a name of a secret, in the singular or in the plural."""
NO_PLURAL = ("pass", "pw", "token")
"""As a plural, `tokens` counts what a model reads, unless a word of `KEYS` is before it."""
KEYS = (
    *("api", "access", "secret", "private", "auth", "signing", "encryption", "master", "session"),
    *("shared", "ssh", "client", "account", "service", "deploy", "storage", "refresh", "bearer"),
    *("id", "user", "bot", "personal"),
)
"""The word before `key` or `token` in a name of a secret."""
ENDINGS = ("password", "passwd", "passphrase", "secret")
"""What a name of a secret ends in, also in the middle of a word: `dbpassword`."""
SAID_ABOVE = ("answer", "default")
"""Keys below the one that names a value: a question's, a parameter's."""

_SECRET = re.compile(
    rf"(?:.* )?(?:(?:{'|'.join(ALONE)})"
    rf"|(?:{'|'.join(word for word in ALONE if word not in NO_PLURAL)})s"
    rf"|(?:{'|'.join(KEYS)}) ?(?:key|token)s?)"
    rf"|tokens|.*(?:{'|'.join(ENDINGS)})s?"
)
_WORDS = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def is_secret(keys: Sequence[str]) -> bool:
    """Whether the last key of a path names what is usually secret."""
    name = _name(keys)
    words = " ".join(word.lower() for word in _WORDS.findall(name))
    return bool(_SECRET.fullmatch(words))


def _name(keys: Sequence[str]) -> str:
    """The key that names what is at `keys`; "" if none does."""
    keys = tuple(keys)
    if keys and isinstance(keys[-1], Element):
        above = node_at(keys[:-1])
        if above is not None and above.kind == "list":  # the text of an item is no name
            keys = keys[:-1]
    if len(keys) > 1 and keys[-1] in SAID_ABOVE:
        keys = keys[:-1]
    return keys[-1] if keys else ""


# --- values ------------------------------------------------------------------------------------

_CREDENTIALS = re.compile(  # no part of a shell's language, or it would hide what runs
    r"(?P<kept>\bBearer\s+)[\w.~+/=-]+"  # a header
    r"|(?P<name>://[^\s/?#:@'\"]*:)[^\s/?#'\"$`(){};|&<>]+(?=@)"  # an address
    r"|\bsk-[\w-]{8,}",
    re.IGNORECASE,
)


def masked(value: JsonValue, keys: Sequence[str] = ()) -> JsonValue:
    """`value`, which is at `keys`, with `(set, not shown)` in place of what may be a secret."""
    if isinstance(value, dict):
        return {key: masked(item, (*keys, key)) for key, item in value.items()}
    if value is None or isinstance(value, bool):
        return value
    if is_secret(keys):
        return HIDDEN
    return [masked(item, keys) for item in value] if isinstance(value, list) else value


def shown_value(path: str, value: JsonValue) -> str:
    """Return `value`, which is at `path`, as it is shown: `unset`, or JSON without secrets."""
    if value is None:
        return "unset"
    return json.dumps(masked(value, parse_path(path)), ensure_ascii=False)


def without_credentials(text: str) -> str:
    """`text`, such as a command line, without what looks like a key or a password in it."""
    return _CREDENTIALS.sub(lambda at: f"{at['kept'] or at['name'] or ''}{HIDDEN}", text)
