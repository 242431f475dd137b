"""Write JSON values as text, each in the form that its reader needs.

    canonical_json   equal for all spellings of a value: signatures, comparison of records
    sorted_json      one text for each value (`1` is not `1.0`): identity of items of a list
    hash_json        SHA-256 of `sorted_json`
    compact_json     keys in their order: text for models and processes
    spaced_json      the same with spaces: the notation of `json.dumps`
    indented_json    a line for each item: for people

    format_storable_line    bytes of one line: journals and logs, with replacements

Source: https://www.rfc-editor.org/rfc/rfc8785 (numbers and keys of the canonical form).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import JsonValue
from pydantic_core import to_json

from jp_nb.errors import StorageError
from jp_nb.json_limits import MAX_INDENTED_LEVELS, is_deeper
from jp_nb.storable_json import encode_utf8, replace_unstorable

# `json.dumps` with options would create an encoder for each call.
_encode_compact = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":")
).encode
_encode_spaced = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
sorted_json: Final = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":")
).encode
"""Return compact JSON with sorted keys: one text for each value."""
_encode_ascii = json.JSONEncoder(allow_nan=False, sort_keys=True, separators=(",", ":")).encode


def compact_json(value: object) -> str:
    """Return JSON without spaces, with the keys in their order.

    As in a record, an infinite number becomes null: a model or a server could not read it.
    """
    return _encode(_encode_compact, value)


def spaced_json(value: object) -> str:
    """Return `compact_json` with spaces after `,` and `:`."""
    return _encode(_encode_spaced, value)


def _encode(encode: Callable[[object], str], value: object) -> str:
    """Return the JSON of `value`, with null in place of infinite numbers."""
    try:
        return encode(value)
    except ValueError as exc:
        if "JSON compliant" not in str(exc):  # for example a value that contains itself
            raise
        return encode(replace_unstorable(value))


def indented_json(value: JsonValue) -> str:
    """Return JSON with a line for each item, or in one line if it is nested deeply.

    It is for readers only: an infinite number is shown as `Infinity`.
    """
    levels = None if is_deeper(value, MAX_INDENTED_LEVELS) else 2
    return json.dumps(value, ensure_ascii=False, indent=levels)


def canonical_json(value: Any) -> str:
    """Return ASCII JSON without newlines that is equal for all spellings of `value`.

    Front ends and file formats may spell JSON in another way. The canonical form only contains what
    they preserve: numbers are IEEE doubles, keys are sorted, and unstorable values are replaced.

    Raises:
        StorageError: If it is nested too deeply.
    """
    try:
        doubles = _convert_to_doubles(value)
        text = _encode_ascii(doubles)
        if "\\ud" in text:  # a surrogate, which UTF-8 may be unable to encode
            text = _encode_ascii(replace_unstorable(doubles))
    except RecursionError:
        raise StorageError("the record is nested too deeply to sign it") from None
    return text


_NO_NUMBERS: Final = frozenset({str, bool, type(None)})
"""Types of values that contain no number."""


def _convert_to_doubles(value: Any) -> Any:
    """Return `value` with all numbers as floats: JavaScript has no other numbers."""
    kind = type(value)  # each entry of a record is signed, and exact types are the fast case
    if kind in _NO_NUMBERS:
        return value

    if kind is dict:
        doubles = {}
        for key, item in value.items():
            is_plain = type(item) in _NO_NUMBERS
            doubles[key] = item if is_plain else _convert_to_doubles(item)
        return doubles

    if isinstance(value, (int, float)):
        try:
            number = float(value)
        except OverflowError:
            return None
        # JavaScript writes null for infinite numbers. -0.0 + 0.0 is 0.0.
        return number + 0.0 if math.isfinite(number) else None

    if isinstance(value, Mapping):
        return _convert_to_doubles(dict(value))
    if isinstance(value, str):
        return value
    return [_convert_to_doubles(item) for item in value]


def format_storable_line(value: JsonValue) -> bytes:
    """Return `value` as one line of JSON, with replacements for all that a file cannot store."""
    try:
        return to_json(value, inf_nan_mode="null")
    except ValueError:  # a surrogate
        return compact_json(replace_unstorable(value)).encode()


def hash_json(value: JsonValue) -> str:
    """Return the SHA-256 of `value` as JSON, independent of the order of keys."""
    return hashlib.sha256(encode_utf8(sorted_json(value))).hexdigest()
