"""Read JSON text with its notation: the spelling of its numbers, and the text of each item.

A caller that changes one value can so write all others as they were. For example, a *page* in the
browser stores `1.0` as `1`, and only the notation tells how the file had it.

JP is the command-line program whose files `interop` reads and writes. `jp_json.py` writes JSON as
JP does. A *page*, which shows the notebook in a browser, saves each number as a float of
JavaScript: `1.0` becomes `1`. This module has no I/O.

Source: `docs/record.md`.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.interop.jp_json import NumberText, format_json_number
from jp_nb.json_limits import MAX_STORED_LEVELS, is_deeper

JSON_BYTE_ORDER_MARK = "\ufeff"
_WHITE = " \t\n\r"
_SPACE = re.compile(f"[{_WHITE}]*")
_SAFE_INTEGER = 2**53 - 1
"""Maximum integer that a page, with its 64-bit floats, stores exactly."""


@dataclass(frozen=True, slots=True)
class JsonText:
    """A value and its text.

    Attributes:
        numbers: The notation of each number that JP writes differently, or that a page changes, by
            JSON pointer.
        gap: The text before an item of a list: white space, and a bracket or a comma.
    """

    text: str
    value: JsonValue
    numbers: dict[str, str]
    gap: str = ""


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


_DECODER = json.JSONDecoder(parse_float=NumberText, parse_int=NumberText, parse_constant=_refuse)

_TOO_DEEP: Final = f"nested too deeply: more than {MAX_STORED_LEVELS} levels"


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

    items: list[JsonText] = []
    last_end = 0  # the end of the last item; the text up to the next one is the gap between them
    position = _skip_space(text, start + 1)
    is_closed = text[position : position + 1] == "]"

    while not is_closed:
        value, end = _scan_value(text, position, file)
        items.append(_make_json_text(text[position:end], value, text[last_end:position], file))

        last_end = end
        position = _skip_space(text, end)
        is_closed = text[position : position + 1] == "]"

        if not is_closed:
            if text[position : position + 1] != ",":
                raise _make_syntax_error(file, text, position, "expected `,` or `]`")
            position = _skip_space(text, position + 1)

    if _skip_space(text, position + 1) != len(text):
        raise _make_syntax_error(file, text, position + 1, "expected the end of the file")
    return items, text[last_end:]


def _skip_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    assert found is not None
    return found.end()


def _find_start(text: str) -> int:
    """Return the position of the first value, after a byte order mark and white space."""
    begin = len(JSON_BYTE_ORDER_MARK) if text.startswith(JSON_BYTE_ORDER_MARK) else 0
    return _skip_space(text, begin)


def _scan_value(text: str, position: int, file: str) -> tuple[Any, int]:
    """Return the value at `position`, with each number as a `NumberText`, and its end."""
    try:
        return _DECODER.raw_decode(text, position)
    except json.JSONDecodeError as exc:
        raise _make_syntax_error(file, text, exc.pos, exc.msg) from exc
    except ValueError as exc:
        raise _make_syntax_error(file, text, position, str(exc)) from exc
    except RecursionError as exc:
        raise StorageError(_TOO_DEEP, place=file) from exc


def _make_syntax_error(file: str, text: str, position: int, why: str) -> StorageError:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return StorageError(f"not valid JSON: {why} (line {line}, column {column})", place=file)


def _make_json_text(text: str, scanned: Any, gap: str, file: str) -> JsonText:
    """Return the value that was `scanned` from `text`, with Python's numbers."""
    # The parser's own limit depends on the Python version.
    if is_deeper(scanned, MAX_STORED_LEVELS):
        raise StorageError(_TOO_DEEP, place=file)

    numbers: dict[str, str] = {}
    try:
        return JsonText(text, _convert_numbers(scanned, "", numbers), numbers, gap)
    except (ValueError, OverflowError) as exc:
        raise StorageError(f"a value cannot be stored: {exc}", place=file) from exc


def _convert_numbers(value: Any, pointer: str, numbers: dict[str, str]) -> JsonValue:
    """Return a scanned value with Python's numbers, and add their notations to `numbers`."""
    match value:
        case NumberText():
            number = parse_number(value)
            if format_json_number(number) != value or not _is_kept_by_page(number):
                numbers[pointer] = str(value)
            return number
        case dict():
            return {
                k: _convert_numbers(v, join_pointer(pointer, k), numbers) for k, v in value.items()
            }
        case list():
            return [_convert_numbers(v, f"{pointer}/{i}", numbers) for i, v in enumerate(value)]
    return value  # type: ignore[no-any-return]  # the decoder returns no other types


def _is_kept_by_page(number: int | float) -> bool:
    """Return True if a page stores the number as it is. Each number of a page is a float."""
    if isinstance(number, float):
        return not number.is_integer()  # it writes `1.0` as `1`
    return abs(number) <= _SAFE_INTEGER


def parse_number(token: str) -> int | float:
    """Return the value of a number in JSON text.

    Raises:
        ValueError: It is too large.
    """
    # `1e5` and `1.0` equal integers, but JP writes them as floats.
    number = float(token) if token.strip("-0123456789") else int(token)
    if not math.isfinite(number):
        raise ValueError(f"the number {token} is too large")
    return number


def join_pointer(pointer: str, key: str) -> str:
    """Return the JSON pointer of `key` in the object at `pointer`."""
    return f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
