"""Write values as TOML, each in one line, and texts as comments that stay comments.

Source: https://toml.io/en/v1.0.0.
"""

from __future__ import annotations

import re
from typing import Final

from pydantic import JsonValue

from jp_nb.text import one_line

MAX_COMMENT_CHARS: Final = 500
"""Longest text of a comment."""
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")


def format_comment(text: str) -> str:
    """Return `text` as one line of a comment."""
    return f"# {one_line(text, limit=MAX_COMMENT_CHARS)}"


def format_toml_key(name: str) -> str:
    """Return the key `name`, in quotes if it needs them."""
    return name if _BARE.fullmatch(name) else format_toml_text(name)


def format_toml_text(text: str) -> str:
    """Return `text` as a basic string."""
    escaped = re.sub(r'["\\]', r"\\\g<0>", text)
    return '"' + _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04X}", escaped) + '"'


def format_toml(value: JsonValue) -> str:
    """Return `value` in one line, with a table as an inline table.

    TOML has no null, which is written as the empty text. `is_toml` tells if the text means the same
    value.
    """
    match value:
        case dict():
            pairs = [f"{format_toml_key(key)} = {format_toml(each)}" for key, each in value.items()]
            return f"{{ {', '.join(pairs)} }}"
        case list():
            return f"[{', '.join(map(format_toml, value))}]"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case None:
            return format_toml_text("")
        case str():
            return format_toml_text(value)


def is_toml(value: JsonValue) -> bool:
    """Return True if TOML can express `value`: it has no null, and no half of a surrogate pair."""
    match value:
        case None:
            return False
        case dict():
            return all(is_toml(key) and is_toml(each) for key, each in value.items())
        case list():
            return all(map(is_toml, value))
        case str():
            return not any("\ud800" <= char <= "\udfff" for char in value)
        case _:
            return True
