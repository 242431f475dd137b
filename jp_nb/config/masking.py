"""Mask secrets in shown values of the configuration.

Only the last key of a path is checked, so that settings of a tool with the name `token` are shown.

Source: `docs/decisions.md` D49.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import JsonValue

from jp_nb.config.schema import Element, node_at, parse_path
from jp_nb.config.secrets import NOT_SHOWN, is_secret_name

VALUE_KEYS = ("answer", "default")
"""Keys whose value belongs to the key above, such as the answer of a question."""


def is_secret_path(keys: Sequence[str]) -> bool:
    """Return True if the last key of a path is usually the name of a secret (D49)."""
    return is_secret_name(_find_name(tuple(keys)))


def _find_name(keys: Sequence[str]) -> str:
    if keys and isinstance(keys[-1], Element):
        above = node_at(keys[:-1])
        if above is not None and above.kind == "list":  # the text of an item is not a name
            keys = keys[:-1]
    if len(keys) > 1 and keys[-1] in VALUE_KEYS:
        keys = keys[:-1]
    return keys[-1] if keys else ""


def mask_secrets(value: JsonValue, keys: Sequence[str] = ()) -> JsonValue:
    """Return `value`, which is at `keys`, with `(set, not shown)` in place of secrets."""
    if isinstance(value, dict):
        return {key: mask_secrets(item, (*keys, key)) for key, item in value.items()}
    if value is None or isinstance(value, bool):
        return value
    if is_secret_path(keys):
        return NOT_SHOWN
    return [mask_secrets(item, keys) for item in value] if isinstance(value, list) else value


def format_masked(path: str, value: JsonValue) -> str:
    """Return `value`, which is at `path`, as `unset` or as JSON without secrets."""
    if value is None:
        return "unset"
    return json.dumps(mask_secrets(value, parse_path(path)), ensure_ascii=False)
