"""Read lines of a file of variables, such as `.env`: `export NAME="value"  # comment`.

Source: `docs/mcp.md`, Configure servers.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_LINE: Final = re.compile(r"\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)\s*=(?P<value>.*)")
# The second form of a value in double quotes has quotes or a last backslash that are not escaped,
# such as `"{"a": 1}"`. It ends at the first quote that only a comment, or nothing, follows.
_DOUBLE_QUOTED: Final = re.compile(r'\s*"(?P<inner>(?:\\.|[^"\\])*|.*?)"\s*(?:#.*)?')
_SINGLE_QUOTED: Final = re.compile(r"\s*'(?P<inner>.*?)'\s*(?:#.*)?")
_COMMENT: Final = re.compile(r"\s#.*")  # `#` within a word begins no comment
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
    return EnvLine(match["name"], _read_value(match["value"]))


def _read_value(text: str) -> str:
    """Return the value in the text after `=`, without quotes and without a comment."""
    if single := _SINGLE_QUOTED.fullmatch(text):
        return single["inner"]
    if double := _DOUBLE_QUOTED.fullmatch(text):
        return re.sub(r'\\[nt"\\]', lambda escape: _ESCAPES[escape[0]], double["inner"])
    return _COMMENT.sub("", text).strip()
