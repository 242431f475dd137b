"""The shapes of the messages between kernel and page, in JSON Schema.

The schemas below are the one source. `read_page_message` (`protocol.py`) validates messages of a
page with them. `python -m tools.page_schema` writes all of them to `js/schema/messages.json`, and
from that `npm run messages` makes the types of the lab extension, `js/src/messages.ts`. A test and
CI compare these files.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.json_reading import MAX_INTEGER
from jp_nb.json_values import JsonObject

MAX_MESSAGE_FIELD_CHARS: Final = 10_000
"""Limit of ids, paths, and reasons in a message of a page."""

Fields = Mapping[str, JsonObject]
"""Schemas of fields by their names. A field whose name ends with "?" is optional."""

_TEXT: Final[JsonObject] = {"type": "string", "maxLength": MAX_MESSAGE_FIELD_CHARS}
_LONG_TEXT: Final[JsonObject] = {"type": "string"}
_COUNT: Final[JsonObject] = {"type": "integer", "minimum": 0, "maximum": MAX_INTEGER}
_COUNT_OR_NULL: Final[JsonObject] = {**_COUNT, "type": ["integer", "null"]}
_FLAG: Final[JsonObject] = {"type": "boolean"}
_OBJECT: Final[JsonObject] = {"type": "object", "additionalProperties": True}
_OBJECTS: Final[JsonObject] = {"type": "array", "items": _OBJECT}
_LIST: Final[JsonObject] = {"type": "array"}
_ANY: Final[JsonObject] = {}

PAGE_COMMON: Final[Fields] = {"page": _TEXT}
"""Fields of each message of a page. A message also has `type` and `v`.

`v` is not validated: a page with another version is refused with a reason.
"""

PAGE_MESSAGES: Final[Mapping[str, Fields]] = {
    "hello": {
        "path": _TEXT,
        "readOnly?": _FLAG,
        "collaborative?": _FLAG,
        "state?": _TEXT,
        "keys?": _OBJECT,
        "carriers?": _OBJECT,
        "chunks?": _COUNT,
        "tells?": _LIST,
        "client?": _TEXT,
        "session?": _TEXT,
        "user?": _LONG_TEXT,  # shortened by `read_user_name`
    },
    "chunk": {"i": _COUNT, "of?": _COUNT, "text": _LONG_TEXT},
    "ack": {"seq": _COUNT, "state": _TEXT, "dirty?": _FLAG},
    "nack": {"seq": _COUNT, "why?": _TEXT},
    "saved": {"seq?": _COUNT, "state?": _TEXT},
    "save_failed": {"seq": _COUNT, "why?": _TEXT},
    # A text of another type ends the request of the tool, which must not wait for nothing.
    "cells": {"seq": _COUNT, "i": _COUNT, "of": _COUNT, "text": _ANY},
    "want": {"request": _TEXT},
    "input": {"seq": _COUNT, "can": _FLAG},
    "seen": {"request": _TEXT},
    "bye": {},
}
"""Fields of the messages of a page, by `type`."""

KERNEL_COMMON: Final[Fields] = {"seq": _COUNT, "ctl": _FLAG, "path": _LONG_TEXT}
"""Fields of each message of the kernel. A message also has `type` and `v`."""

KERNEL_MESSAGES: Final[Mapping[str, Fields]] = {
    "open": {},
    "write": {
        "to": _TEXT,
        "expect": _TEXT,
        "state": _TEXT,
        "put?": _OBJECT,
        "drop?": _LIST,
        "copies?": _LIST,
        "extend?": _OBJECT,
        "carriers?": _LIST,
    },
    "chunk": {"to": _TEXT, "id": _COUNT, "i": _COUNT, "of": _COUNT, "text": _LONG_TEXT},
    "pull": {"to?": _TEXT},
    "save": {"to": _TEXT},
    "cells": {"to": _TEXT, "whole": {"type": ["integer", "string", "null"]}},
    "document": {"to": _TEXT},
    "edit": {"to": _TEXT, "operation": _TEXT, "steps": _OBJECTS, "expected": _OBJECTS},
    "run": {"to": _TEXT, "cell": _TEXT, "source": _LONG_TEXT},
    "ran": {
        "to": _TEXT,
        "cell": _TEXT,
        "source": _LONG_TEXT,
        "count": _COUNT,
        "outputs": _OBJECTS,
    },
    "input": {"request": _TEXT},
    "ended": {
        "request": _TEXT,
        "cell": _TEXT,
        "seconds": _COUNT,
        "sent": _COUNT_OR_NULL,
        "received": _COUNT_OR_NULL,
    },
    "show": {
        "to": _TEXT,
        "puts?": _FLAG,
        "over?": _FLAG,
        "request": _TEXT,
        "cell": _TEXT,
        "code": _LONG_TEXT,
        "outputs": _OBJECTS,
    },
}
"""Fields of the messages of the kernel, by `type`."""


def find_misfits(message: Mapping[str, Any], fields: Fields) -> list[str]:
    """Return the names of `fields` that are missing in `message`, or have another type.

    Fields that the table does not know are ignored: a newer release may send them.
    """
    misfits = []
    for name, schema in fields.items():
        key = name.removesuffix("?")
        is_optional = key != name
        if key not in message:
            if not is_optional:
                misfits.append(key)
        elif not _fits(message[key], schema):
            misfits.append(key)

    return misfits


_TYPES: Final[Mapping[str, type]] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


def _fits(value: Any, schema: JsonObject) -> bool:
    """Return True if `value` fits, for the keywords that this module uses.

    Items of lists are not checked: their readers do that.
    """
    names = schema.get("type")
    if names is None:
        return True
    if not isinstance(names, list):
        names = [names]

    kinds = tuple(_TYPES[str(name)] for name in names)
    if not isinstance(value, kinds):
        return False
    if isinstance(value, bool):  # a boolean is an integer of Python
        return bool in kinds
    if isinstance(value, str) and "maxLength" in schema:
        return len(value) <= int(str(schema["maxLength"]))
    if isinstance(value, int) and "minimum" in schema:  # all bounded integers have the same bounds
        return 0 <= value <= MAX_INTEGER

    return True


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
