"""Limits of JSON values that come from outside, and measures of their depth and size.

JSON of a notebook, a model, a server, or a file may be nested so deeply, or be so large, that code
which reads it later fails.

Source: `docs/record.md`: notebook JSON has a limited depth.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

MAX_INTEGER: Final = 2**53 - 1
"""Largest integer that every JSON reader represents exactly. A larger count or id is damage."""
MAX_STORED_LEVELS: Final = 100
"""Maximum depth of a stored value, so that any JSON reader can read the whole notebook."""
MAX_SCHEMA_LEVELS: Final = 64
"""Maximum depth of a JSON schema. A validator calls several functions for each level."""
MAX_CONFIG_LEVELS: Final = 32
"""Maximum depth of a configuration, and number of keys of a path. Checks and merges recurse."""
MAX_SHOWN_LEVELS: Final = 20
"""Maximum depth of a value that is shown key by key. A deeper one would be hard to read."""
MAX_INDENTED_LEVELS: Final = 16
"""Maximum depth of indented JSON. The indentation of a deep value of 1 MB could fill gigabytes."""


def is_deeper(value: object, levels: int) -> bool:
    """Return True if objects and lists are nested more than `levels` deep in `value`."""
    parts = [value]  # all parts of the current level
    while containers := [part for part in parts if isinstance(part, (dict, list))]:
        if levels == 0:
            return True
        levels -= 1
        parts = []
        for container in containers:
            parts += container.values() if isinstance(container, dict) else container
    return False


_END: Final = object()
"""Marks the end of the parts of a container."""


def _iterate_parts(value: Any) -> Iterator[object]:
    return chain(value.keys(), value.values()) if isinstance(value, dict) else iter(value)


def is_larger(value: object, *, items: int, chars: int, levels: int) -> bool:
    """Return True if `value` has more items, characters of text, or nested levels.

    A part that occurs twice counts twice, as in JSON. The work is bounded by `items`, and the
    memory by `levels`, also for a value that contains itself.
    """
    items_left = items
    chars_left = chars
    # The parts that are left of each container around the current part, the innermost last.
    open_parts: list[Iterator[object]] = [iter((value,))]

    while open_parts:
        part = next(open_parts[-1], _END)
        if part is _END:
            open_parts.pop()
        elif isinstance(part, str):
            chars_left -= len(part)
        elif isinstance(part, (dict, list, tuple)):
            items_left -= len(part)
            open_parts.append(_iterate_parts(part))

        if items_left < 0 or chars_left < 0 or len(open_parts) > levels + 1:
            return True

    return False
