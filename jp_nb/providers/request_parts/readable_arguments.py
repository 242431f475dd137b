"""Arguments of tool calls in a form that every API can read.

A model, or the author of a record, can make up any arguments. An API that refuses them would refuse
every later request of the conversation.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.json_limits import is_deeper
from jp_nb.json_values import JsonObject
from jp_nb.json_writing import compact_json
from jp_nb.storable_json import make_storable

MAX_ARGUMENT_LEVELS: Final = 64
"""Deeper arguments are sent as a text, because the reader of Google's API stops at 100 levels."""
MAX_NUMBER_DIGITS: Final = 308
"""Longer integers are sent as a text, because other JSON readers turn them into infinity."""
_LONG_NUMBER: Final = re.compile(rf"[0-9]{{{MAX_NUMBER_DIGITS + 1}}}")


def format_arguments(arguments: Mapping[str, JsonValue]) -> JsonObject:
    """Return `arguments` as every API can read them.

    A number that JSON does not have (NaN, infinity) becomes null, and half a surrogate pair becomes
    U+FFFD. Longer integers than `MAX_NUMBER_DIGITS` become texts. Deeper arguments than
    `MAX_ARGUMENT_LEVELS` are sent as one text: `{"json": "…"}`.
    """
    if is_deeper(arguments, MAX_ARGUMENT_LEVELS):
        return {"json": compact_json(make_storable(dict(arguments)))}

    formatted = make_storable(dict(arguments))
    if _LONG_NUMBER.search(compact_json(formatted)):  # it also finds digits in texts
        formatted = _spell_long_numbers(formatted)
    assert isinstance(formatted, dict)
    return formatted


def _spell_long_numbers(value: JsonValue) -> JsonValue:
    """Return a copy of `value` with its longest integers as texts."""
    match value:
        case bool():
            return value
        case int():
            digits = str(abs(value))
            return str(value) if len(digits) > MAX_NUMBER_DIGITS else value
        case dict():
            return {key: _spell_long_numbers(item) for key, item in value.items()}
        case list():
            return [_spell_long_numbers(item) for item in value]
    return value
