"""Read the arguments of a tool call that the user types: `%jp call`.

| typed | value |
|---|---|
| `name=value` | JSON if possible, else text; always text if the tool takes text |
| `name:=json` | JSON |
| `{"name": …}` | a JSON object with all arguments |

A text that begins with `{` is read by `read_object`, all others by `read_assignments`.

Source: `docs/guide.md`, `docs/decisions.md` D100.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.json_reading import read_json
from jp_nb.json_values import as_object
from jp_nb.text import one_line
from jp_nb.toolkit.arguments.json_types import list_declared_types

EXPECTED_FORMS: Final = "name=value, name:=json, or a JSON object"
_ASSIGNMENT: Final = re.compile(r"([^=:\s]+)\s*(:?)=(.*)", re.DOTALL)


def read_object(text: str) -> dict[str, JsonValue]:
    """Return arguments from the JSON object in `text`.

    Raises:
        UsageError: It is not a JSON object.
    """
    try:
        value = read_json(text)
    except ValueError as exc:
        raise UsageError(f"the arguments are not JSON: {exc}. Expected {EXPECTED_FORMS}") from exc

    if not isinstance(value, dict):
        raise UsageError(f"expected one JSON object, found {one_line(text, limit=60)!r}")
    return value


def read_assignments(words: Sequence[str], schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return arguments from `words`, for a tool with this parameter `schema`.

    Raises:
        UsageError: A word is not an assignment, has no JSON after `:=`, or repeats a name.
    """
    properties = as_object(schema.get("properties"))
    arguments: dict[str, JsonValue] = {}

    for word in words:
        match = _ASSIGNMENT.fullmatch(word)
        if match is None:
            shown = one_line(word, limit=60)
            raise UsageError(f"{shown!r} is not an argument, expected {EXPECTED_FORMS}")

        name, colon, text = match.groups()
        if name in arguments:
            raise UsageError(f"the argument {one_line(name, limit=60)!r} is given twice")

        types = list_declared_types(as_object(properties.get(name)))
        takes_only_text = "string" in types and types <= {"string", "null"}
        if takes_only_text and not colon:
            arguments[name] = text
            continue

        try:
            arguments[name] = read_json(text)
        except ValueError as exc:
            if colon:
                raise UsageError(f"the value after {name}:= is not JSON: {exc}") from exc
            arguments[name] = text

    return arguments
