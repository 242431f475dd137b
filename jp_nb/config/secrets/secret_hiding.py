"""Hide secrets in any text: API keys, and values of secret names, as in `password = "…"`.

A secret in a text is replaced by `(set, not shown)`, and the rest of the text stays.
"""

from __future__ import annotations

import re

from jp_nb.config.secrets.api_keys import KEY_WITH_PREFIX, hide_credentials
from jp_nb.config.secrets.replacements import redact_secret
from jp_nb.config.secrets.secret_names import is_secret_name

_STRING_PREFIXES = "bfruBFRU"

# The parts of an assignment in Python, JSON, YAML, or on a command line. Between the name and the
# value can be the end of a quoted key, as in `environ["TOKEN"] =`, and a type, as in
# `token: str =`. All parts have a maximum length, so that the search in a long text stays fast.
_NAME = r"(?<![\w-])(?P<name>[A-Za-z_][\w-]{0,99})"
_TYPE = r"(?:[ \t]{0,8}:[ \t]{0,8}[\w.|\[\], ]{1,60}?)?"
_ASSIGNMENT = rf"(?P<assignment>[\"']?\]?{_TYPE}[ \t]{{0,8}}[=:][ \t]{{0,8}})"
_QUOTED_VALUE = (
    rf'[{_STRING_PREFIXES}]{{0,2}}(?:"""(?:[^"\\]|\\.|"(?!"")){{1,5000}}"""|'
    r"'''(?:[^'\\]|\\.|'(?!'')){1,5000}'''"
    r'|"(?:[^"\\\n]|\\.){1,5000}"|' + r"'(?:[^'\\\n]|\\.){1,5000}')"
)
# A value without quotes. The end excludes calls and lookups, as in `token = read()`.
_BARE_VALUE = r"[^\s\"'(),;\[\]{}<>=]{4,1000}(?![\w(.\[])"

_ASSIGNMENT_IN_CODE = re.compile(f"{_NAME}{_ASSIGNMENT}(?P<value>{_QUOTED_VALUE})", re.DOTALL)
_ASSIGNMENT_IN_TEXT = re.compile(
    f"{_NAME}{_ASSIGNMENT}(?P<value>{_QUOTED_VALUE}|{_BARE_VALUE})", re.DOTALL
)
_OPENING_QUOTE = re.compile(rf"(?P<open>[{_STRING_PREFIXES}]{{0,2}}(?:\"\"\"|'''|[\"']))(?s:.*)")
_MAGIC_LINE = re.compile(r"^[ \t]*[%!#].*", re.MULTILINE)


def hide_secrets(text: str, *, code: bool = False) -> str:
    """Return `text` with a replacement for each API key and each value of a secret name.

    The number of lines stays the same: the replacement of a secret has its line breaks.

    Args:
        text: Any text, such as the output of a cell.
        code: True for Python code: `token = read()` is kept, `token = "…"` is not.
    """
    text = hide_credentials(text)
    text = KEY_WITH_PREFIX.sub(lambda key: redact_secret(key[0]), text)

    if not code:
        return _hide_values(text)

    # Magics and comments are no Python: in `%env TOKEN=abc`, the value has no quotes.
    text = _MAGIC_LINE.sub(lambda line: _hide_values(line[0]), text)
    return _ASSIGNMENT_IN_CODE.sub(_hide_value, text)


def _hide_values(text: str) -> str:
    return _ASSIGNMENT_IN_TEXT.sub(_hide_value, text)


def _hide_value(found: re.Match[str]) -> str:
    """Return the text of an assignment, without its value if the name is secret."""
    name = found["name"]
    value = found["value"]

    is_count = name.lower().endswith("tokens")  # such as `tokens: 4096`
    if is_count or not is_secret_name(name):
        return found[0]

    opening = _OPENING_QUOTE.fullmatch(value)
    opening_quote = opening["open"] if opening else ""
    closing_quote = opening_quote.lstrip(_STRING_PREFIXES)
    return f"{name}{found['assignment']}{opening_quote}{redact_secret(value)}{closing_quote}"
