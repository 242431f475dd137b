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
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.json_values import MAX_INTEGER

PROTOCOL = 1
TARGET = "jp_nb.document"
"""Name of the comm target that the page registers."""

MAX_MESSAGE_FIELD_CHARS: Final = 10_000
"""Limit of ids, paths, and reasons in a message of a page."""

_TEXTS: Final = ("type", "page", "path", "stream", "session", "client", "why", "request")
_COUNTS: Final = ("seq", "n", "i", "of", "chunks")
_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "hello": ("page", "path"),
    "chunk": ("page", "i", "text"),
    "ack": ("seq", "stream", "n"),
    "nack": ("seq",),
    "saved": (),
    "save_failed": ("seq",),
    "cells": ("seq", "i", "of", "text"),
    "bye": ("page",),
    "want": ("page", "request"),
    "seen": ("page", "request"),
    "input": ("seq", "can"),
}
"""The required fields of each message of a page."""


def read_page_message(data: Any) -> dict[str, Any] | None:
    """Return the fields of `data` if it is a message of a page, with the right types; else None.

    Other code in a page can send comm messages, too: a script in an output, or another notebook.
    """
    if not isinstance(data, dict) or not isinstance(data.get("type"), str):
        return None
    if data["type"] not in _REQUIRED:
        return None
    if any(data.get(name) is None for name in _REQUIRED[data["type"]]):
        return None
    if not all(_is_name(data[name]) for name in _TEXTS if data.get(name) is not None):
        return None
    if not all(is_count(data[name]) for name in _COUNTS if data.get(name) is not None):
        return None

    # A `hello` without `doc` has no record, one whose `doc` is null has a damaged one.
    return {name: value for name, value in data.items() if value is not None or name == "doc"}


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_MESSAGE_FIELD_CHARS


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
