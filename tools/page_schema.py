"""Write the JSON Schema of the messages between kernel and page, for the lab extension.

`python -m tools.page_schema`, then `npm run messages` in `js/`.
"""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import JsonValue

from jp_nb.json_values import JsonObject
from jp_nb.notebook.page.message_schema import (
    KERNEL_COMMON,
    KERNEL_MESSAGES,
    PAGE_COMMON,
    PAGE_MESSAGES,
    Fields,
)

SCHEMA = Path(__file__).parents[1] / "js" / "schema" / "messages.json"


def format_schema() -> str:
    """Return the text of the file."""
    return json.dumps(make_message_schema(), indent=2) + "\n"


def make_message_schema() -> JsonObject:
    """Return a JSON Schema with a definition for each message, and the unions of both senders."""
    definitions: JsonObject = {}
    unions: list[JsonValue] = []
    for sender, common, messages in (
        ("Page", PAGE_COMMON, PAGE_MESSAGES),
        ("Kernel", KERNEL_COMMON, KERNEL_MESSAGES),
    ):
        union: list[JsonValue] = []
        for kind, fields in messages.items():
            name = "I" + sender + "".join(word.capitalize() for word in kind.split("_"))
            definitions[name] = _make_definition(kind, {**common, **fields})
            union.append({"$ref": f"#/definitions/{name}"})

        definitions[f"{sender}Message"] = {"oneOf": union}
        unions.append({"$ref": f"#/definitions/{sender}Message"})

    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Message",
        "oneOf": unions,
        "definitions": definitions,
    }


def _make_definition(kind: str, fields: Fields) -> JsonObject:
    properties: JsonObject = {"type": {"const": kind}, "v": {"type": "integer"}}
    properties |= {name.removesuffix("?"): schema for name, schema in fields.items()}
    required = [name for name in fields if not name.endswith("?")]
    return {"type": "object", "properties": properties, "required": ["type", "v", *required]}


if __name__ == "__main__":
    SCHEMA.write_text(format_schema(), encoding="utf-8")
