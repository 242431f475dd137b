"""Read JSON with comments and trailing commas, as editors write their settings.

Source: https://code.visualstudio.com/docs/languages/json#_json-with-comments.
"""

from __future__ import annotations

import json
import re
from typing import Final

from pydantic import JsonValue

from jp_nb.config.tree.value_errors import shorten_for_error
from jp_nb.json_limits import MAX_CONFIG_LEVELS, is_deeper
from jp_nb.storable_json import is_finite

_TOKENS: Final = re.compile(
    r'"(?:[^"\\]|\\.)*+"?'  # a text
    r"|//[^\r\n]*+|/\*.*?(?:\*/|\Z)"  # a comment
    r"|,(?=(?:\s|//[^\r\n]*+|/\*.*?\*/)*+[}\]])",  # a comma before a closing bracket
    re.DOTALL,
)


def read_json_with_comments(text: str, *, max_levels: int = MAX_CONFIG_LEVELS) -> JsonValue:
    """Return the value of `text`.

    Raises:
        ValueError: It is not JSON, an object has a key twice, or it is nested too deeply.
    """
    plain = _TOKENS.sub(_keep_texts, text.removeprefix("\ufeff"))
    try:
        value: JsonValue = json.loads(
            plain, object_pairs_hook=_read_object, parse_constant=_refuse_constant
        )
    except RecursionError:
        raise ValueError(f"nested too deeply: more than {max_levels} levels") from None

    if is_deeper(value, max_levels):
        raise ValueError(f"nested too deeply: more than {max_levels} levels")
    if not is_finite(value):
        raise ValueError("a number is too large")

    return value


def _keep_texts(found: re.Match[str]) -> str:
    """Return a text as it is, and white space in place of a comment or a comma."""
    token = found[0]
    if token.startswith('"'):
        return token
    # Line breaks stay, so that an error names the right line.
    return " " + "\n" * token.count("\n")


def _read_object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found

    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise ValueError(f"the key {shorten_for_error(name)!r} occurs twice in an object")
        seen.add(name)
    return found


def _refuse_constant(name: str) -> JsonValue:
    raise ValueError(f"{name} is not a JSON number")
