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

from jp_nb.json_limits import MAX_INTEGER
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
"""Fields of each message of a page, its id `page`. A message also has `type` and `v`.

`v` is not validated: a page with another version is refused with a reason. In the tables, `seq` is
the number of the kernel's message that is answered, and `i` `of` count the pieces of a long text.
"""

PAGE_MESSAGES: Final[Mapping[str, Fields]] = {
    # The state of the page: which record it has, and which messages it supports (`tells`).
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
    # A piece of a long `hello`.
    "chunk": {"i": _COUNT, "of?": _COUNT, "text": _LONG_TEXT},
    # The page has applied a write, or has not.
    "ack": {"seq": _COUNT, "state": _TEXT, "dirty?": _FLAG},
    "nack": {"seq": _COUNT, "why?": _TEXT},
    # The notebook file was saved: for a `save` (`seq`), or by the user, in a state.
    "saved": {"seq?": _COUNT, "state?": _TEXT},
    "save_failed": {"seq": _COUNT, "why?": _TEXT},
    # The answer to `cells`, `document`, `edit`, or `ran`, as JSON. A text of another type ends the
    # request of the tool, which must not wait for nothing.
    "cells": {"seq": _COUNT, "i": _COUNT, "of": _COUNT, "text": _ANY},
    # The page shows no outputs of the running cell with this request: send `show`.
    "want": {"request": _TEXT},
    # True if the page can show an input box.
    "input": {"seq": _COUNT, "can": _FLAG},
    # The page shows the final outputs of a cell that has ended.
    "seen": {"request": _TEXT},
    # The page closes.
    "bye": {},
}
"""Fields of the messages of a page, by `type`."""

KERNEL_COMMON: Final[Fields] = {"seq": _COUNT, "ctl": _FLAG, "path": _LONG_TEXT}
"""Fields of each message of the kernel. A message also has `type` and `v`."""

KERNEL_MESSAGES: Final[Mapping[str, Fields]] = {
    "open": {},
    # Change the record of the page from the state `expect` to `state`: put, delete, or copy parts
    # of it, or append entries (`extend`).
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
    # A piece of a long `write`.
    "chunk": {"to": _TEXT, "id": _COUNT, "i": _COUNT, "of": _COUNT, "text": _LONG_TEXT},
    # Send `hello` again.
    "pull": {"to?": _TEXT},
    # Save the notebook file.
    "save": {"to": _TEXT},
    # Send the cells, shortened except the cell `whole`; or all cells with their whole sources.
    "cells": {"to": _TEXT, "whole": {"type": ["integer", "string", "null"]}},
    "document": {"to": _TEXT},
    # Apply edits of cells, if the cells are as `expected`.
    "edit": {"to": _TEXT, "operation": _TEXT, "steps": _OBJECTS, "expected": _OBJECTS},
    # A cell runs inside of a turn: show that (`run`). When it has run, store its outputs (`ran`).
    "run": {"to": _TEXT, "cell": _TEXT, "source": _LONG_TEXT},
    "ran": {
        "to": _TEXT,
        "cell": _TEXT,
        "source": _LONG_TEXT,
        "count": _COUNT,
        "outputs": _OBJECTS,
    },
    # Tell whether you can show an input box for this request.
    "input": {"request": _TEXT},
    # Show the duration and the tokens of a turn below its cell.
    "ended": {
        "request": _TEXT,
        "cell": _TEXT,
        "seconds": _COUNT,
        "sent": _COUNT_OR_NULL,
        "received": _COUNT_OR_NULL,
    },
    # Show the outputs of a cell: write them into a shared document (`puts`); the cell is `over`.
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
