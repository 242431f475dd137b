"""Masks what may be a secret in values of the configuration that are shown.

What holds a value is named by the last key of its path alone: whatever is set about a tool called
`token` is seen.

Source: `docs/decisions.md` D49.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import JsonValue

from jp_nb.config.schema import Element, node_at, parse_path
from jp_nb.config.secrets import NOT_SHOWN, is_secret_name

SAID_ABOVE = ("answer", "default")
"""Keys below the one that names a value: a question's, a parameter's."""


def is_secret_path(keys: Sequence[str]) -> bool:
    """Return True if the last key of a path names what is usually secret (D49)."""
    return is_secret_name(_name(keys))


def _name(keys: Sequence[str]) -> str:
    """The key that names what is at `keys`; "" if none does."""
    keys = tuple(keys)
    if keys and isinstance(keys[-1], Element):
        above = node_at(keys[:-1])
        if above is not None and above.kind == "list":  # the text of an item is no name
            keys = keys[:-1]
    if len(keys) > 1 and keys[-1] in SAID_ABOVE:
        keys = keys[:-1]
    return keys[-1] if keys else ""


def mask_secrets(value: JsonValue, keys: Sequence[str] = ()) -> JsonValue:
    """`value`, which is at `keys`, with `(set, not shown)` in place of what may be a secret."""
    if isinstance(value, dict):
        return {key: mask_secrets(item, (*keys, key)) for key, item in value.items()}
    if value is None or isinstance(value, bool):
        return value
    if is_secret_path(keys):
        return NOT_SHOWN
    return [mask_secrets(item, keys) for item in value] if isinstance(value, list) else value


def format_masked(path: str, value: JsonValue) -> str:
    """Return `value`, which is at `path`, as it is shown: `unset`, or JSON without secrets."""
    if value is None:
        return "unset"
    return json.dumps(mask_secrets(value, parse_path(path)), ensure_ascii=False)
