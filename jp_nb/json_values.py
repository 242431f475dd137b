"""Write, compare, and copy JSON values, and make them storable.

`json_reading.py` reads JSON with limits. Other code relies on three text forms:

    canonical_json   equal for all spellings of a value: signatures, comparison of records
    sorted_json      one text for each value (`1` is not `1.0`): identity of items of a list
    compact_json     keys in their order: text for models and processes

JSON can contain one half of a surrogate pair, UTF-8 cannot. `replace_surrogates` repairs stored
text, and `encode_utf8` sends `?`.

Source: `docs/record.md`: notebook JSON has no infinities and a limited depth.
https://www.rfc-editor.org/rfc/rfc8785 (numbers and keys of the canonical form).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pydantic import JsonValue
from pydantic_core import to_json

from jp_nb.errors import StorageError
from jp_nb.json_reading import MAX_INDENTED_LEVELS, MAX_STORED_LEVELS, is_deeper

JsonObject = dict[str, JsonValue]


def is_storable(value: object) -> bool:
    """Return True if a record can store `value`: finite numbers, limited depth.

    `make_storable` replaces the infinite numbers of other values, and halves of surrogate pairs. It
    keeps their depth.
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


def as_object(value: JsonValue) -> JsonObject:
    """Return `value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


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
        return encode(_replace_unstorable(value))


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
            text = _encode_ascii(_replace_unstorable(doubles))
    except RecursionError:
        raise StorageError("the record is nested too deeply to sign it") from None
    return text


_NO_NUMBERS: Final = frozenset({str, bool, type(None)})


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


_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def copy_json(value: Any) -> Any:
    """Return a deep copy of a JSON value: fast, for values with limited depth.

    Use `copy_nested_json` for values of any depth.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is dict:
        return {key: copy_json(item) for key, item in value.items()}
    if kind is list:
        return [copy_json(item) for item in value]
    return copy_nested_json(value)


def copy_nested_json(value: Any) -> Any:
    """Return a deep copy of a JSON value, at any depth that the `json` module supports."""
    return json.loads(json.dumps(value))


def make_storable(value: JsonValue) -> JsonValue:
    """Return `value` with replacements for numbers and characters that a file cannot store.

    Returns `value` itself if it needs no replacement.
    """
    return make_storable_with_size(value)[0]


def make_storable_with_size(value: JsonValue) -> tuple[JsonValue, int]:
    """Return `make_storable(value)`, and its size as JSON in bytes."""
    try:
        return value, len(_encode_spaced(value).encode())
    except ValueError:  # a number or a character that a file cannot store: rare
        clean = _replace_unstorable(value)
        return clean, len(spaced_json(clean).encode())


def format_storable_line(value: JsonValue) -> bytes:
    """Return `make_storable(value)` as one line of JSON."""
    try:
        return to_json(value, inf_nan_mode="null")
    except ValueError:  # a surrogate
        return compact_json(_replace_unstorable(value)).encode()


def _replace_unstorable(value: Any) -> Any:
    """Return `value` with null for infinite numbers, and without halves of surrogate pairs."""
    match value:
        case str():
            return replace_surrogates(value)
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {_clean_key(key): _replace_unstorable(item) for key, item in value.items()}
        case list() | tuple():
            return [_replace_unstorable(item) for item in value]
    return value


def _clean_key(key: Any) -> Any:
    return replace_surrogates(key) if isinstance(key, str) else key


def map_texts(value: JsonValue, change: Callable[[str], str]) -> JsonValue:
    """Return `value` with `change` applied to all texts except keys."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: map_texts(item, change) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [map_texts(item, change) for item in value]
    return value


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


def hash_json(value: JsonValue) -> str:
    """Return the SHA-256 of `value` as JSON, independent of the order of keys."""
    return hashlib.sha256(encode_utf8(sorted_json(value))).hexdigest()
