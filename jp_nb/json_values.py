"""JSON as this package reads, compares, stores and sends it.

Text of strangers is read with bounds. A value is written in one of three ways that others rely on:

    canonical_json   the same for all spellings of a value: what is signed, and what tells records
                     apart that a page wrote again
    sorted_json      each value its own text (`1` is not `1.0`): what names an item of a list
    compact_json     in the order given: what is sent to models and processes

Half of a surrogate pair, which JSON can spell and UTF-8 cannot, is mended by `whole_text` in what
is kept, and sent as `?` by `to_utf8`.

Source: `docs/record.md`: a notebook's JSON has no infinities and no depth that its readers cannot
follow. https://www.rfc-editor.org/rfc/rfc8785 (number and key rules of the canonical form).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.errors import StorageError

JsonObject = dict[str, JsonValue]

# Objects and lists within one another. The limits differ because of who has to follow them:
MAX_LEVELS: Final = 100
"""Of what a record stores: any JSON reader, with all that lies around it, gets to its end."""
MAX_SCHEMA_LEVELS: Final = 64
"""Of a JSON schema: a validator calls several functions for each level."""
MAX_CONFIG_LEVELS: Final = 32
"""Of a configuration, whose checks, paths and merges recurse; also the keys of a path."""
MAX_SHOWN_LEVELS: Final = 20
"""Of what is shown key by key: deeper values, indented that far, nobody reads."""
MAX_INDENTED_LEVELS: Final = 16
"""Of JSON with a line for each item: each line begins with two spaces for each level, so that a
value of a megabyte could fill gigabytes."""


# --- reading ---------------------------------------------------------------------------------


def read_json(text: str, *, max_levels: int = MAX_LEVELS) -> JsonValue:
    """Return what the JSON `text` says.

    Raises:
        ValueError: If it is not JSON, or has numbers or nesting that a stored record cannot have.
    """
    with suppress(RecursionError):
        value: JsonValue = json.loads(text, parse_constant=_no_number, parse_float=_finite)
        if not is_deeper(value, max_levels):
            return value
    raise ValueError(f"nested too deeply: more than {max_levels} levels")


def _no_number(text: str) -> JsonValue:
    raise ValueError(f"{text} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


def is_deeper(value: object, levels: int) -> bool:
    """Return True if more than `levels` objects and lists lie within one another in `value`."""
    level = [value]
    while level := [x for x in level if isinstance(x, (dict, list))]:
        if levels == 0:
            return True
        levels -= 1
        level = [x for one in level for x in (one.values() if isinstance(one, dict) else one)]
    return False


def is_storable(value: object) -> bool:
    """Return True if a record can keep `value`: its numbers are finite, its levels not too many."""
    return not is_deeper(value, MAX_LEVELS) and _is_finite(value)


def _is_finite(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if not isinstance(value, (dict, list)):
        return True
    return all(map(_is_finite, value.values() if isinstance(value, dict) else value))


def as_object(value: JsonValue) -> JsonObject:
    """Return `value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


# --- writing ---------------------------------------------------------------------------------


# Made once: `json.dumps` with options makes an encoder for each call.
_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_sorted = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
_signed = json.JSONEncoder(allow_nan=False, sort_keys=True, separators=(",", ":")).encode
_stored = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_spaced = json.JSONEncoder(ensure_ascii=False).encode
_line = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def compact_json(value: object) -> str:
    """Return `value` as JSON without spaces, its keys in the order given."""
    return _compact(value)


def spaced_json(value: JsonValue) -> str:
    """Return `value` as JSON in one line, as people write it."""
    return _spaced(value)


def sorted_json(value: JsonValue) -> str:
    """Return the one JSON text of `value`: compact, keys sorted."""
    return _sorted(value)


def indented_json(value: JsonValue) -> str:
    """Return `value` as JSON, a line for each item; in one line if it is nested deeply."""
    levels = None if is_deeper(value, MAX_INDENTED_LEVELS) else 2
    return json.dumps(value, ensure_ascii=False, indent=levels)


def canonical_json(value: Any) -> str:
    """Return JSON text in ASCII, without newlines, that is the same for all spellings of `value`.

    Pages and file formats rewrite JSON without changing what it says, so it is made of what they
    keep: numbers are IEEE doubles, keys are sorted, what no file can hold is replaced.

    Raises:
        StorageError: If it is nested too deeply.
    """
    try:
        return _signed(_canonical(value))
    except RecursionError:
        raise StorageError("the record is nested too deeply to sign it") from None


def _canonical(value: Any) -> Any:
    match value:
        case bool() | None:
            return value
        case int() | float():
            return _double(value)
        case str():
            return replace_surrogates(value)
        case Mapping():
            return {replace_surrogates(str(key)): _canonical(item) for key, item in value.items()}
        case _:
            return [_canonical(item) for item in value]


def _double(value: float) -> float | None:
    """Return the double that a page reads; None where it writes null."""
    try:
        number = float(value)
    except OverflowError:
        return None
    return number + 0.0 if math.isfinite(number) else None  # -0.0 + 0.0 is 0.0


# --- storing and sending ---------------------------------------------------------------------

_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def copy_json(value: Any) -> Any:
    """Return what `json_copy` does, several times faster; of what is not nested deeply."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is dict:
        return {key: copy_json(item) for key, item in value.items()}
    return [copy_json(item) for item in value] if kind is list else copy_nested_json(value)


def copy_nested_json(value: Any) -> Any:
    """Return a copy of JSON `value` that shares nothing with it, however deep it is nested."""
    return json.loads(json.dumps(value))


def make_storable(value: JsonValue) -> JsonValue:
    """Return `value`, with what UTF-8 or JSON cannot express replaced: such a file would not open.

    A value that needs no change is returned itself.
    """
    return make_storable_with_size(value)[0]


def make_storable_with_size(value: JsonValue) -> tuple[JsonValue, int]:
    """Return `value` as a notebook can hold it, and its size as JSON in bytes."""
    try:
        return value, len(_stored(value).encode())
    except ValueError:  # a number or a character that a file cannot hold: rare
        clean = _cleaned(value)
        return clean, len(_spaced(clean).encode())


def format_storable_line(value: JsonValue) -> bytes:
    """Return `value`, as `storable` has it, in one line of JSON."""
    try:
        return _line(value).encode()
    except ValueError:
        return _line(_cleaned(value)).encode()


def _cleaned(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return replace_surrogates(value)
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {replace_surrogates(key): _cleaned(item) for key, item in value.items()}
        case list():
            return [_cleaned(item) for item in value]
    return value


def replace_surrogates(text: str) -> str:
    """Return `text` as UTF-8 can hold it.

    Halves of a surrogate pair become their character, a lone one U+FFFD.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def encode_utf8(text: str) -> bytes:
    """Return `text` in UTF-8; half of a surrogate pair, as a model may write it, becomes `?`."""
    return text.encode(errors="replace")
