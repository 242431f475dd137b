"""The comm messages between kernel and page: constants, checks, and the kernel's common fields.

A message is the data of a comm message, an object with `type` and `v`. The kernel numbers its
messages (`seq`). Their order and effect are in `live_store.py` (kernel) and the lab extension
(page). For example, the kernel sends one entry of the record, and the page confirms it:

    {"type": "append", "v": 1, "ctl": true, "seq": 3, "path": "a.ipynb", "stream": "jp-c1", …}
    {"type": "ack", "v": 1, "page": "p1", "seq": 3, "stream": "jp-c1", "n": 13}

A *stream* is the id of a conversation; `n` is the number of its entries in the page.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from jp_nb.json_values import MAX_INTEGER
from jp_nb.notebook.page.message_schema import PAGE_COMMON, PAGE_MESSAGES, find_misfits

PROTOCOL = 1
TARGET = "jp_nb.document"
"""Name of the comm target that the page registers."""


def read_page_message(data: Any) -> dict[str, Any] | None:
    """Return the fields of `data` if it is a message of a page, with the right types; else None.

    Other code in a page can also send comm messages: a script in an output, or another notebook.
    """
    if not isinstance(data, dict) or not isinstance(data.get("type"), str):
        return None

    fields = PAGE_MESSAGES.get(data["type"])
    if fields is None:
        return None

    # A `hello` without `doc` has no record, one whose `doc` is null has a damaged one.
    message = {name: value for name, value in data.items() if value is not None or name == "doc"}
    if find_misfits(message, {**PAGE_COMMON, **fields}):
        return None

    return message


def is_count(value: Any) -> bool:
    """Return True for an integer from 0 to `MAX_INTEGER`."""
    # A boolean is an integer of Python.
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_INTEGER


class MessageNumbering:
    """Builds the kernel's messages, numbered from 1. Not thread-safe.

    Attributes:
        last: The `seq` of the last message.
        path: The server's path of the notebook, once a page has named it.
    """

    def __init__(self) -> None:
        self.last = 0
        self.path = ""

    def make_message(self, kind: str, **fields: JsonValue) -> dict[str, JsonValue]:
        """Return the next message."""
        self.last += 1
        # `ctl` and `path` are in every message, because a reloaded page did not receive the first.
        common: dict[str, JsonValue] = {"type": kind, "v": PROTOCOL, "ctl": True}
        return {**common, "seq": self.last, "path": self.path, **fields}


def is_batchable(kind: str, content: Mapping[str, Any]) -> bool:
    """Return True for an `append`, which may wait for the next batch of iopub messages."""
    data = content.get("data")
    of_record = kind == "comm_msg" and str(content.get("comm_id", "")).startswith(f"{TARGET}.")
    return of_record and isinstance(data, dict) and data.get("type") == "append"
