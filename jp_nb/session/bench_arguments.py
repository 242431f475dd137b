"""The arguments of a tool call as they are written on a line.

| written | is |
|---|---|
| `name=value` | JSON if it is some, else text; always text where the tool takes text |
| `name:=json` | JSON |
| `{"name": …}` | a JSON object with all of them |

Source: `docs/guide.md`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.json_values import as_object, read_json
from jp_nb.safe_text import one_line
from jp_nb.tooling.arguments import declared_types

FORMS = "name=value, name:=json, or a JSON object"
_ARGUMENT = re.compile(r"([^=:\s]+)\s*(:?)=(.*)", re.DOTALL)


def read_object(text: str) -> dict[str, JsonValue]:
    """Return the arguments that are written as one JSON object.

    Raises:
        UsageError: If it is none.
    """
    try:
        value = read_json(text)
    except ValueError as exc:
        raise UsageError(f"the arguments are not JSON: {exc}. Expected {FORMS}") from exc
    if not isinstance(value, dict):
        raise UsageError(f"expected one JSON object, found {one_line(text, limit=60)!r}")
    return value


def read_assignments(words: Sequence[str], schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the arguments in `words` for a tool that takes what `schema` says.

    Raises:
        UsageError: If one is malformed, or given twice.
    """
    known = as_object(schema.get("properties"))
    found: dict[str, JsonValue] = {}
    for word in words:
        match = _ARGUMENT.fullmatch(word)
        if match is None:
            shown = one_line(word, limit=60)
            raise UsageError(f"{shown!r} is not an argument, expected {FORMS}")
        name, colon, text = match.groups()
        if name in found:
            raise UsageError(f"the argument {one_line(name, limit=60)!r} is given twice")
        found[name] = _json(name, text) if colon else _value(text, known.get(name))
    return found


def _json(name: str, text: str) -> JsonValue:
    try:
        return read_json(text)
    except ValueError as exc:
        raise UsageError(f"the value after {name}:= is not JSON: {exc}") from exc


def _value(text: str, schema: JsonValue) -> JsonValue:
    types = declared_types(as_object(schema))
    if "string" in types and types <= {"string", "null"}:
        return text
    try:
        return read_json(text)
    except ValueError:
        return text
