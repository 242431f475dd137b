"""The comm messages between kernel and page: constants, checks, and the kernel's common fields.

A message is the data of a comm message, an object with `type` and `v`. The kernel numbers its
messages (`seq`). Their order and effect are in `page_sender.py` and `page_receiver.py` (kernel) and
the lab extension (page). For example, the kernel sends one entry of the record, and the page
confirms it:

    {"type": "write", "v": 2, "ctl": true, "seq": 3, "path": "a.ipynb", "to": "p1", "expect": "s2",
     "state": "s3", "extend": {"at": 12, "events": [{…}]}}
    {"type": "ack", "v": 2, "page": "p1", "seq": 3, "state": "s3"}

A *state* is a text that names the content of the keys in which a notebook keeps the record. With
`ctl`, the page answers on the control channel, which the kernel reads while a cell runs.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from jp_nb.json_limits import MAX_INTEGER
from jp_nb.notebook.page.message_schema import PAGE_COMMON, PAGE_MESSAGES, find_misfits

PROTOCOL = 2
"""Version of the protocol. A page with another one is not written."""
PREVIOUS_PROTOCOL = 1
"""Version of pages of earlier releases, whose record is read and not written."""
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

    message = {name: value for name, value in data.items() if value is not None}
    if find_misfits(message, {**PAGE_COMMON, **fields}):
        return None

    return message


def is_count(value: Any) -> bool:
    """Return True for an integer from 0 to `MAX_INTEGER`, such as the index of a piece."""
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
        self._kernel = uuid.uuid4().hex[:12]

    def make_message(self, kind: str, **fields: JsonValue) -> dict[str, JsonValue]:
        """Return the next message."""
        self.last += 1
        # `ctl` and `path` are in every message, because a reloaded page did not receive the first.
        common: dict[str, JsonValue] = {"type": kind, "v": PROTOCOL, "ctl": True}
        return {**common, "seq": self.last, "path": self.path, **fields}

    def make_state(self) -> str:
        """Return the name of a state that the next message makes; no other kernel uses it."""
        return f"{self._kernel}.{self.last + 1}"


def appends_entries(kind: str, content: Mapping[str, Any]) -> bool:
    """Return True if a Jupyter message of type `kind` is a `write` that appends entries.

    `Outbox` (`outbox.py`) lets it wait up to 0.1 s, for a batch with the outputs of the cell.
    """
    data = content.get("data")  # the message between kernel and page
    of_record = kind == "comm_msg" and str(content.get("comm_id", "")).startswith(f"{TARGET}.")
    return of_record and isinstance(data, dict) and "extend" in data
