"""Read, compare, store, and send JSON.

Input is read with limits. Other code relies on three text forms:

    canonical_json   equal for all spellings of a value: signatures, comparison of records
    sorted_json      one text for each value (`1` is not `1.0`): identity of items of a list
    compact_json     keys in their order: text for models and processes

JSON can contain one half of a surrogate pair, UTF-8 cannot. `replace_surrogates` repairs stored
text, and `encode_utf8` sends `?`.

Source: `docs/record.md`: notebook JSON has no infinities and a limited depth.
https://www.rfc-editor.org/rfc/rfc8785 (numbers and keys of the canonical form).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any, Final

from pydantic import JsonValue
from pydantic_core import to_json

from jp_nb.errors import StorageError

JsonObject = dict[str, JsonValue]

_LONG_NUMBER: Final = re.compile(r"[0-9]{309}")  # may be too large for a float
_CONTENT: Final = re.compile(r"\S")
_DECODER: Final = json.JSONDecoder()

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


def read_json(text: str, *, max_levels: int = MAX_STORED_LEVELS) -> JsonValue:
    """Return the value of the JSON `text`.

    Raises:
        ValueError: If it is not JSON, or a record cannot store it: a number that is infinite as a
            float, or too many levels.
    """
    parse_int: Callable[[str], int] | None = None
    if _LONG_NUMBER.search(text):  # a function for each integer would be slow
        parse_int = _parse_integer

    with suppress(RecursionError):
        value: JsonValue = json.loads(
            text, parse_constant=_parse_float, parse_float=_parse_float, parse_int=parse_int
        )
        if not is_deeper(value, max_levels):
            return value

    raise ValueError(f"nested too deeply: more than {max_levels} levels")


def _parse_float(text: str) -> float:
    number = float(text)
    if not text[-1].isdigit():  # `NaN` or `Infinity`
        raise ValueError(f"{text} is not a JSON number")
    if math.isinf(number):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


def _parse_integer(text: str) -> int:
    _parse_float(text)
    return int(text)


def split_json_objects(text: str) -> list[str]:
    """Return the texts of the JSON objects that `text` consists of; none if it has other text."""
    objects: list[str] = []
    position = _find_content(text, 0)

    while position < len(text):
        try:
            value, end = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            return []
        if not isinstance(value, dict):
            return []

        objects.append(text[position:end])
        position = _find_content(text, end)
    return objects


def is_json_object(text: str) -> bool:
    """Return True if `text` is a complete JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _find_content(text: str, begin: int) -> int:
    """Return the position of the first character from `begin` on that is no white space."""
    match = _CONTENT.search(text, begin)
    return len(text) if match is None else match.start()


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


def is_larger(value: object, *, items: int, chars: int, levels: int) -> bool:
    """Return True if `value` has more items, characters of text, or nested levels.

    A part that occurs twice counts twice, as in JSON. The work is bounded by `items`, and the
    memory by `levels`, also for a value that contains itself.
    """
    # The parts that are left of each container around the current part, the innermost last.
    open_parts: list[Iterator[object]] = [iter((value,))]
    while open_parts:
        part = next(open_parts[-1], _END)
        if part is _END:
            open_parts.pop()
        elif isinstance(part, str):
            chars -= len(part)
        elif isinstance(part, (dict, list, tuple)):
            items -= len(part)
            open_parts.append(_iterate_parts(part))
        if items < 0 or chars < 0 or len(open_parts) > levels + 1:
            return True

    return False


_END: Final = object()


def _iterate_parts(value: Any) -> Iterator[object]:
    return chain(value.keys(), value.values()) if isinstance(value, dict) else iter(value)


def is_storable(value: object) -> bool:
    """Return True if a record can store `value`: finite numbers, limited depth."""
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
_encode_stored = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


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
    """Return JSON with a line for each item, or in one line if it is nested deeply."""
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
    """Return a deep copy of a JSON value: fast, for values with limited depth."""
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
        return value, len(_encode_stored(value).encode())
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
