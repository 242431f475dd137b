"""Show a JSON object key by key, in exact form: nothing is hidden, and no two objects look alike.

Each line of a text with several lines is shown after a bar, so that no line can look like a key:

    path: "notes.md"
    content: 2 lines
      │ first
      │ second
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.exact_form import format_exact_json, spell_lines
from jp_nb.json_limits import MAX_SHOWN_LEVELS
from jp_nb.text import pluralize

BAR: Final = "│ "  # prefix of each line of a text
MAX_INLINE_CHARS: Final = 100  # maximum characters of a list or an object in one line
_KEY = re.compile("[A-Za-z_][A-Za-z0-9_-]*")


def format_object(values: Mapping[str, JsonValue]) -> list[str]:
    """Return lines that show `values` key by key, in exact form."""
    return list(_format_entries(values, "", MAX_SHOWN_LEVELS))


def _format_entries(values: Mapping[str, JsonValue], indent: str, depth: int) -> Iterator[str]:
    for key, value in values.items():
        name = key if _KEY.fullmatch(key) else format_exact_json(key)
        yield from _format_entry(name, value, indent, depth)


def _format_entry(name: str, value: JsonValue, indent: str, depth: int) -> Iterator[str]:
    has_several_lines = isinstance(value, str) and "\n" in value[:-1]
    if isinstance(value, str) and has_several_lines:
        count, lines = spell_lines(value)  # such as "2 lines", and each line in exact form
        yield f"{indent}{name}: {count}"
        yield from (f"{indent}  {BAR}{line}" for line in lines)
    elif not isinstance(value, (dict, list)) or not depth or _is_short(value):
        yield f"{indent}{name}: {format_exact_json(value)}"
    elif isinstance(value, dict):
        yield f"{indent}{name}: {len(value)} {pluralize('key', len(value))}"
        yield from _format_entries(value, f"{indent}  ", depth - 1)
    else:
        yield f"{indent}{name}: {len(value)} {pluralize('item', len(value))}"
        for index, item in enumerate(value):
            yield from _format_entry(f"[{index}]", item, f"{indent}  ", depth - 1)


def _is_short(value: dict[str, JsonValue] | list[JsonValue]) -> bool:
    """Return True if `value` can be shown in one line."""
    has_only_numbers = isinstance(value, list) and not any(
        isinstance(item, (str, dict, list)) for item in value
    )
    if has_only_numbers:  # one line each would be long, and no easier to read
        return True
    if len(value) > MAX_INLINE_CHARS:
        return False

    text = format_exact_json(value)
    return len(text) <= MAX_INLINE_CHARS and "\\n" not in text
