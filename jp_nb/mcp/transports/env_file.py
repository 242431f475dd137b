"""Read lines of a file of variables, such as `.env`: `export NAME="value"  # comment`.

Source: `docs/mcp.md`, Configure servers.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_LINE: Final = re.compile(
    r"\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(?P<value>.*?)\s*", re.DOTALL
)
_COMMENT: Final = re.compile(r"\s+#.*$", re.DOTALL)
_ESCAPES: Final = {"\\n": "\n", "\\t": "\t", '\\"': '"', "\\\\": "\\"}


class EnvLine(NamedTuple):
    """A variable and its value."""

    name: str
    value: str


def parse_env_line(line: str) -> EnvLine | None:
    """Return the variable that a line sets; None if it is no such line."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    return EnvLine(match["name"], _unquote(match["value"]))


def _unquote(value: str) -> str:
    """Return a value without its quotes, or without the comment after it."""
    quote = value[:1]
    is_quoted = quote in ("'", '"') and len(value) > 1 and value.endswith(quote)
    if not is_quoted:
        return _COMMENT.sub("", value)

    inner = value[1:-1]
    if quote == "'":
        return inner
    return re.sub(r'\\[nt"\\]', lambda match: _ESCAPES[match[0]], inner)
