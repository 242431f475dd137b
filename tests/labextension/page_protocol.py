"""Compare messages between kernel and page with the JSON Schema that both sides use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jsonschema import Draft7Validator  # type: ignore[import-untyped]

from tools.page_schema import SCHEMA

_DEFINITIONS: Mapping[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))["definitions"]


def _list_fields(sender: str) -> dict[str, Any]:
    references = _DEFINITIONS[f"{sender}Message"]["oneOf"]
    schemas = [_DEFINITIONS[each["$ref"].rpartition("/")[2]] for each in references]
    return {schema["properties"]["type"]["const"]: schema for schema in schemas}


FIELDS: Mapping[str, Mapping[str, Any]] = {
    "kernel": _list_fields("Kernel"),
    "page": _list_fields("Page"),
}
"""The schema of each message, by sender and type."""


def misfits(sender: str, message: Mapping[str, Any]) -> list[str]:
    """Return the differences between `message` and its schema; unknown fields are one, too."""
    schema = FIELDS[sender].get(message.get("type", ""))
    if schema is None:
        return [f"{sender} sends {message.get('type')!r}"]

    wrong = [error.message for error in Draft7Validator(schema).iter_errors(message)]
    unknown = [f"{name} is not in the schema" for name in message.keys() - schema["properties"]]
    return [f"{sender} {message['type']}: {each}" for each in [*wrong, *unknown]]
