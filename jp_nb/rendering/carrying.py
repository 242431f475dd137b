"""The line about the configuration that a conversation leaves behind."""

from __future__ import annotations

import json
from collections.abc import Iterator

from jp_nb.config.masking import masked
from jp_nb.config.partial import Change, Partial, get_path, walk
from jp_nb.config.paths import Keys, format_path, parse_path
from jp_nb.config.schema import node_at
from jp_nb.safe_text import one_line

MAX_LISTED = 10
MAX_VALUE_CHARS = 60

FOR_ALL = "For every conversation: `%jp config --user PATH=VALUE`"


def kept_notices(change: Change) -> list[str]:
    """Return the line about settings that a conversation took over; none if there are none."""
    return [f"Kept from the previous conversation: {_listed(change)}"] if change else []


def left_behind(change: Change, *, asks: bool) -> str:
    """One line: what the conversation before had set, and how to have it in the new one.

    Args:
        change: What would carry it over; not empty.
        asks: Whether the new conversation begins with a request, and not by `%jp new`.
    """
    how = "Keep them: `%jp new --keep-config`"
    if asks:
        how = "Set a value again: `%jp config PATH=VALUE`, or `-c PATH=VALUE` together with `-n`"
    return (
        "these settings of the previous conversation do not apply to the new one: "
        f"{_listed(change)}. {how}. {FOR_ALL}"
    )


def _listed(change: Change) -> str:
    found = [*_values(change.delta), *(f"{path} unset" for path in change.unsets)]
    more = len(found) - MAX_LISTED
    return ", ".join([*found[:MAX_LISTED], *([f"and {more} more"] if more > 0 else [])])


def _values(delta: Partial) -> Iterator[str]:
    shown: dict[Keys, None] = {}
    for keys, _ in walk(delta):
        above = node_at(keys[:-1])
        is_model = above is not None and above.requires == ["provider", "name"]
        shown[keys[:-1] if is_model else keys] = None
    for keys in shown:
        path = format_path(keys)
        value = masked(get_path(delta, path), parse_path(path))
        if isinstance(value, dict) and {"provider", "name"} <= value.keys():
            value = f"{value['provider']}/{value['name']}"
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield f"{one_line(path, limit=200)}={one_line(text, limit=MAX_VALUE_CHARS)}"
