"""JSON text as JP writes it, and the spelling that reproduces another text byte for byte.

JP is the command-line program whose files `interop` reads and writes. This module has no I/O.

A notebook stores values, not texts: it sorts keys, and a page turns `1.0` into `1`. The *spelling*
of a text is stored with its value and holds the differences from JP's form:

    {"order": [[1, 0], 0, …],       for each object with two or more keys, outermost first: the
                                    index in JP's order of each key of the text; 0 if the order
                                    is JP's
     "numbers": {"/a/b": "1e-7"}}   notation of numbers that JP writes differently, or that a
                                    page changes, by JSON pointer

If these do not reproduce the text (escapes, white space, duplicate keys), the spelling is the text
itself: {"text": "…"}.

Source: `docs/record.md`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from pydantic import JsonValue

from jp_nb.config.setting_paths import look_up
from jp_nb.errors import StorageError
from jp_nb.json_values import (
    MAX_STORED_LEVELS,
    JsonObject,
    is_deeper,
    replace_surrogates,
    spaced_json,
)

JSON_BYTE_ORDER_MARK = "\ufeff"
_WHITE = " \t\n\r"
_SPACE = re.compile(f"[{_WHITE}]*")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_SAFE_INTEGER = 2**53 - 1


@dataclass(frozen=True, slots=True)
class JsonText:
    """A value and its text.

    `numbers` has the notation of each number that JP writes differently, or that a page changes, by
    JSON pointer. `gap` is the text before an item of a list: white space, and a bracket or a comma.
    """

    text: str
    value: JsonValue
    numbers: dict[str, str]
    gap: str = ""


class _NumberText(str):
    __slots__ = ()


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


_DECODER = json.JSONDecoder(parse_float=_NumberText, parse_int=_NumberText, parse_constant=_refuse)

_TOO_DEEP: Final = f"nested too deeply: more than {MAX_STORED_LEVELS} levels"

# --- reading ---------------------------------------------------------------------------------


def read_value(text: str, file: str) -> JsonText:
    """Parse the `text` of `file` as one JSON value, and ignore white space around it.

    Raises:
        StorageError: The text is not JSON. The message names the file, line, and column.
    """
    start = _find_start(text)

    value, end = _scan_value(text, start, file)
    if _skip_space(text, end) != len(text):
        raise _make_syntax_error(file, text, end, "expected the end of the file")

    return _make_json_text(text[start:end], value, "", file)


def read_list(text: str, file: str) -> tuple[list[JsonText], str]:
    """Parse the `text` of `file` as a JSON list. Return its items and the text after the last one.

    Raises:
        StorageError: The text is not a JSON list. The message names the file, line, and column.
    """
    start = _find_start(text)

    if text[start : start + 1] != "[":
        raise _make_syntax_error(file, text, start, "expected a list")

    found: list[JsonText] = []
    last = 0
    place = _skip_space(text, start + 1)
    closed = text[place : place + 1] == "]"

    while not closed:
        value, end = _scan_value(text, place, file)
        found.append(_make_json_text(text[place:end], value, text[last:place], file))
        last = end
        place = _skip_space(text, end)
        closed = text[place : place + 1] == "]"

        if not closed:
            if text[place : place + 1] != ",":
                raise _make_syntax_error(file, text, place, "expected `,` or `]`")
            place = _skip_space(text, place + 1)

    if _skip_space(text, place + 1) != len(text):
        raise _make_syntax_error(file, text, place + 1, "expected the end of the file")
    return found, text[last:]


def _skip_space(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    assert found is not None
    return found.end()


def _find_start(text: str) -> int:
    begin = len(JSON_BYTE_ORDER_MARK) if text.startswith(JSON_BYTE_ORDER_MARK) else 0
    return _skip_space(text, begin)


def _scan_value(text: str, place: int, file: str) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, place)
    except json.JSONDecodeError as exc:
        raise _make_syntax_error(file, text, exc.pos, exc.msg) from exc
    except ValueError as exc:
        raise _make_syntax_error(file, text, place, str(exc)) from exc
    except RecursionError as exc:
        raise StorageError(_TOO_DEEP, place=file) from exc


def _make_syntax_error(file: str, text: str, place: int, why: str) -> StorageError:
    line = text.count("\n", 0, place) + 1
    column = place - text.rfind("\n", 0, place)
    return StorageError(f"not valid JSON: {why} (line {line}, column {column})", place=file)


def _make_json_text(text: str, scanned: Any, gap: str, file: str) -> JsonText:
    if is_deeper(
        scanned, MAX_STORED_LEVELS
    ):  # the parser's own limit depends on the Python version
        raise StorageError(_TOO_DEEP, place=file)

    numbers: dict[str, str] = {}
    try:
        return JsonText(text, _convert_numbers(scanned, "", numbers), numbers, gap)
    except (ValueError, OverflowError) as exc:
        raise StorageError(f"a value cannot be stored: {exc}", place=file) from exc


def _convert_numbers(value: Any, pointer: str, numbers: dict[str, str]) -> JsonValue:
    match value:
        case _NumberText():
            number = _parse_number(value)
            if isinstance(number, float):
                is_exact = not number.is_integer()
            else:
                is_exact = abs(number) <= _SAFE_INTEGER
            if (
                format_json_number(number) != value or not is_exact
            ):  # every number of a page is a float
                numbers[pointer] = str(value)
            return number
        case dict():
            return {
                k: _convert_numbers(v, join_pointer(pointer, k), numbers) for k, v in value.items()
            }
        case list():
            return [_convert_numbers(v, f"{pointer}/{i}", numbers) for i, v in enumerate(value)]
    return value  # type: ignore[no-any-return]  # the decoder returns no other types


def _parse_number(token: str) -> int | float:
    # `1e5` and `1.0` equal integers, but JP writes them as floats.
    number = float(token) if token.strip("-0123456789") else int(token)
    if not math.isfinite(number):
        raise ValueError(f"the number {token} is too large")
    return number


def join_pointer(pointer: str, key: str) -> str:
    """Return the JSON pointer of `key` in the object at `pointer`."""
    return f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"


def _replace_number(value: JsonValue, pointer: str, token: str) -> None:
    # The spelling may come from someone else: it replaces only a number of equal value.
    *keys, last = [p.replace("~1", "/").replace("~0", "~") for p in pointer.split("/")[1:]] or [""]
    holder: JsonValue = look_up(value, keys)
    old = look_up(holder, [last])
    if isinstance(old, bool) or not isinstance(old, (int, float)) or not _is_number(token, old):
        return

    if isinstance(holder, list):
        holder[int(last)] = _NumberText(token)
    elif isinstance(holder, dict):
        holder[last] = _NumberText(token)


def _is_number(token: str, number: int | float) -> bool:
    try:
        return bool(_NUMBER.fullmatch(token)) and same_json(_parse_number(token), number)
    except ValueError:  # too large, or too long
        return False


# --- spelling --------------------------------------------------------------------------------


def find_spelling(source: JsonText, usual: JsonValue, pad: str = "") -> JsonObject:
    """Return the spelling that reproduces the text of `source`.

    It is `{"text": …}` if `apply_spelling` cannot reproduce the text. `usual` is the value with its
    keys in JP's order, `pad` the indentation of the lines after the first.
    """
    found: JsonObject = {}

    if usual == source.value:
        order: list[JsonValue] = []
        _add_order(source.value, usual, order)

        while order and order[-1] == 0:
            order.pop()
        if order:
            found["order"] = order
        if source.numbers:
            found["numbers"] = dict(source.numbers)

        if apply_spelling(usual, found, pad) == source.text:
            return found
    return {"text": source.text}


def apply_spelling(usual: JsonValue, how: JsonValue, pad: str = "") -> str:
    """Return the text of `usual` with the order and the numbers of the spelling `how`.

    Parts that do not fit are ignored. The caller handles the spelling `{"text": …}`.
    """
    how = how if isinstance(how, dict) else {}

    order = how.get("order")
    places = order if isinstance(order, list) else []
    value = _reorder(usual, iter(places))
    numbers = how.get("numbers")

    if isinstance(numbers, dict):
        for pointer, token in numbers.items():
            if isinstance(token, str) and pointer:
                _replace_number(value, pointer, token)

    parts: list[str] = []
    _render(value, pad, parts)
    return "".join(parts)


def _add_order(value: JsonValue, usual: Any, found: list[JsonValue]) -> None:
    if isinstance(value, dict):
        if len(value) > 1:
            places = {key: place for place, key in enumerate(usual)}
            order = [places[key] for key in value]
            is_usual = order == list(range(len(order)))
            found.append(0 if is_usual else order)  # type: ignore[arg-type]
        for key, item in value.items():
            _add_order(item, usual[key], found)
    elif isinstance(value, list):
        for item, other in zip(value, usual, strict=True):
            _add_order(item, other, found)


def _reorder(usual: JsonValue, order: Iterator[JsonValue]) -> JsonValue:
    if isinstance(usual, dict):
        keys = list(usual)
        said = next(order, 0) if len(keys) > 1 else 0

        if isinstance(said, list) and _is_permutation(said, len(keys)):
            keys = [keys[place] for place in said]  # type: ignore[index]  # integers, see above
        return {key: _reorder(usual[key], order) for key in keys}
    if isinstance(usual, list):
        return [_reorder(item, order) for item in usual]
    return usual


def _is_permutation(places: Sequence[JsonValue], count: int) -> bool:
    integers = [p for p in places if isinstance(p, int) and not isinstance(p, bool)]
    return len(places) == count and sorted(integers) == list(range(count))


# --- writing ---------------------------------------------------------------------------------


def render_json(value: JsonValue, pad: str = "") -> str:
    """Return `value` as JP writes it: indented by two spaces, keys in their current order."""
    return apply_spelling(value, {}, pad)


def _render(value: JsonValue, pad: str, parts: list[str]) -> None:
    inner = pad + "  "
    match value:
        case dict() if value:
            start = "{\n"
            for key, item in value.items():
                parts.append(f"{start}{inner}{spaced_json(key)}: ")
                _render(item, inner, parts)
                start = ",\n"
            parts.append(f"\n{pad}}}")
        case list() if value:
            start = "[\n"
            for item in value:
                parts.append(start + inner)
                _render(item, inner, parts)
                start = ",\n"
            parts.append(f"\n{pad}]")
        case _NumberText():
            parts.append(value)
        case int() | float() if not isinstance(value, bool):
            parts.append(format_json_number(value))
        case _:
            parts.append(spaced_json(value))


def format_json_number(number: int | float) -> str:
    """Return a number as JP writes it: `1e-7`, `1e16`, `0.00001`; `null` for NaN and infinity."""
    text = repr(number)
    mantissa, exponent, power = text.partition("e")

    if not exponent:
        return text if isinstance(number, int) or math.isfinite(number) else "null"

    if int(power) == -5:
        sign = "-" * mantissa.startswith("-")
        return f"{sign}0.0000{mantissa.lstrip('-').replace('.', '')}"

    return f"{mantissa}e{int(power)}"


# --- comparing -------------------------------------------------------------------------------


def sort_keys(value: JsonValue) -> JsonValue:
    """Return a copy of `value` with the keys of all objects sorted, as in a notebook file."""
    if isinstance(value, dict):
        return {key: sort_keys(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [sort_keys(item) for item in value]
    return value


def same_json(one: JsonValue, other: JsonValue) -> bool:
    """Return True if two values are equal after a page has stored them.

    A page turns `1.0` into `1`, and an unpaired surrogate into U+FFFD.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            one = _clean_keys(one)
            other = _clean_keys(other)
        return one.keys() == other.keys() and all(same_json(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return one == other or _as_float(one) == _as_float(other)
    if isinstance(one, str) and isinstance(other, str):
        return one == other or replace_surrogates(one) == replace_surrogates(other)
    return one == other


def _clean_keys(value: JsonObject) -> JsonObject:
    return {replace_surrogates(key): item for key, item in value.items()}


def _as_float(number: int | float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
