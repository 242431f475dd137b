"""Make JSON values and texts storable in a record: finite numbers and valid UTF-8.

    not storable                    replacement
    infinite number, NaN            null
    half of a surrogate pair        U+FFFD; `?` in `encode_utf8`
    too many levels                 none: the caller checks with `is_storable`

JSON can contain one half of a surrogate pair, as an escape. UTF-8 cannot.

Source: `docs/record.md`: notebook JSON has no infinities and a limited depth.
"""

from __future__ import annotations

import json
import math
from typing import Any

from pydantic import JsonValue

from jp_nb.json_limits import MAX_STORED_LEVELS, is_deeper

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def is_storable(value: object) -> bool:
    """Return True if `value` has only finite numbers, and a limited depth.

    Its texts are not checked: `make_storable` replaces their halves of surrogate pairs.
    """
    return not is_deeper(value, MAX_STORED_LEVELS) and is_finite(value)


def is_finite(value: object) -> bool:
    """Return True if `value` has no infinite number and no `nan`, which JSON cannot express."""
    match value:
        case float():
            return math.isfinite(value)
        case dict():
            return all(map(is_finite, value.values()))
        case list():
            return all(map(is_finite, value))
    return True


def make_storable(value: JsonValue) -> JsonValue:
    """Return `value` with replacements for numbers and characters that a file cannot store.

    Returns `value` itself if it needs no replacement.
    """
    return make_storable_with_size(value)[0]


def make_storable_with_size(value: JsonValue) -> tuple[JsonValue, int]:
    """Return `make_storable(value)`, and its size as JSON in bytes."""
    try:
        return value, len(_encode(value).encode())
    except ValueError:  # a number or a character that a file cannot store: rare
        clean = replace_unstorable(value)
        return clean, len(_encode(clean).encode())


def replace_unstorable(value: Any) -> Any:
    """Return `value` with null for infinite numbers, and without halves of surrogate pairs."""
    match value:
        case str():
            return replace_surrogates(value)
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {_clean_key(key): replace_unstorable(item) for key, item in value.items()}
        case list() | tuple():
            return [replace_unstorable(item) for item in value]
    return value


def _clean_key(key: Any) -> Any:
    return replace_surrogates(key) if isinstance(key, str) else key


def replace_surrogates(text: str) -> str:
    """Return `text` without surrogates, so that UTF-8 can encode it.

    A pair becomes its character, a single half becomes U+FFFD.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def encode_utf8(text: str) -> bytes:
    """Return `text` in UTF-8, with `?` for each half of a surrogate pair."""
    return text.encode(errors="replace")
