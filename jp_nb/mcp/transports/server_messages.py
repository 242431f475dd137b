"""Read the JSON of a server's messages, which may be nested too deeply or not be valid.

Source: `docs/mcp.md`, Protocols, transports, limits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from jp_nb.json_limits import MAX_STORED_LEVELS, is_deeper

Json = dict[str, Any]

TOO_DEEP: Final = "[nested too deeply]"
"""Replaces parts of a message below `MAX_STORED_LEVELS`."""
# Strings are matched as well, so that the brackets in them are not.
_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_ID: Final = re.compile(r'"id"\s*:\s*(\d{1,15}|"[^"\\]{1,100}")')
_ID_CHARS: Final = 300
"""Characters at the start and at the end of an answer in which its id is searched."""


def read_message(text: str) -> Json:
    """Return the JSON object `text`; parts below `MAX_STORED_LEVELS` are replaced by `TOO_DEEP`.

    Raises:
        ValueError: It is not a JSON object.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        value = None

    if value is None or is_deeper(value, MAX_STORED_LEVELS):
        value = json.loads(cut_deep(text))

    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def cut_deep(text: str) -> str:
    """Return the JSON `text`, unchecked; parts below `MAX_STORED_LEVELS` become `TOO_DEEP`."""
    kept: list[str] = []
    kept_from = 0  # index of the first character that is neither in `kept` nor in a deep part
    depth = 0  # number of open brackets

    for match in _BRACKETS.finditer(text):
        if match[0] in "[{":
            depth += 1
            if depth == MAX_STORED_LEVELS:
                kept += [text[kept_from : match.start()], json.dumps(TOO_DEEP)]
        elif match[0] in "]}":
            if depth == MAX_STORED_LEVELS:
                kept_from = match.end()
            depth -= 1

    if depth < MAX_STORED_LEVELS:  # otherwise the text ends inside of a deep part
        kept.append(text[kept_from:])
    return "".join(kept)


def find_request_id(text: str) -> int | str | None:
    """Return the id in an unreadable answer, so that its request does not wait; None if unknown."""
    if '"result"' not in text and '"error"' not in text:
        return None
    # Servers write the id first or last. The result between may contain other ids.
    match = _ID.search(text[:_ID_CHARS]) or _ID.search(text[-_ID_CHARS:])
    if match is None:
        return None

    identifier: int | str = json.loads(match[1])
    return identifier


def is_request(message: Mapping[str, object]) -> bool:
    """Return True if `message` of JSON-RPC is a request: it has an id, and gets an answer."""
    return "id" in message and "method" in message
