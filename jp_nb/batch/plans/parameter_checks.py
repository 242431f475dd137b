"""Check that values can be parameters of a run: the log and its notebook store them.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import math
from typing import Final

from pydantic import JsonValue

from jp_nb.config.secrets.api_keys import looks_like_secret
from jp_nb.headless.parameter_cell import is_parameter_name
from jp_nb.json_limits import is_deeper
from jp_nb.text import one_line

MAX_PARAMETER_LEVELS: Final = 50
"""Depth of the lists and mappings in a value. The log stores it some levels below its top."""
ParameterSet = dict[str, JsonValue]
"""A value for each name."""


class BadSetError(ValueError):
    """Raised for values that are not a set of parameters. The message has the reason."""


def check_set(value: object) -> ParameterSet:
    """Return `value` if it is a set of parameters.

    Raises:
        BadSetError: It is not an object, or a name or a value cannot be a parameter.
    """
    if not isinstance(value, dict):
        raise BadSetError("expected names and values: an object")

    for name, parameter in value.items():
        if not is_parameter_name(name):
            raise BadSetError(f"{one_line(repr(name), limit=80)} is not a name of Python")
        if is_deeper(parameter, MAX_PARAMETER_LEVELS):
            raise BadSetError(f"{name} is nested more than {MAX_PARAMETER_LEVELS} levels deep")
        _check_value(name, parameter)
    return value


def _check_value(place: str, value: object) -> None:
    """Refuse a value that the log or the notebook must not or cannot contain.

    `place` names it for the user, such as `x[1].key`.
    """
    match value:
        case str():
            _check_text(place, value)
        case float() if not math.isfinite(value):
            raise BadSetError(
                f"{place} is {value}, which JSON cannot store: omit it, or write it as a text in "
                "a file for `--params`, and convert it in the notebook"
            )
        case int() if _is_infinite(value):
            raise BadSetError(f"{place} is a larger number than JSON can store: write it as text")
        case list():
            for index, item in enumerate(value):
                _check_value(f"{place}[{index}]", item)
        case dict():
            for key, item in value.items():
                _check_text(f"a name in {place}", key)
                _check_value(f"{place}.{one_line(key, limit=40)}", item)


def _check_text(place: str, text: str) -> None:
    if looks_like_secret(text):
        raise BadSetError(
            f"{place} looks like an API key, which would be stored in the notebook: "
            "read it from the environment in the notebook"
        )
    if not is_utf8(text):
        raise BadSetError(f"{place} has half a surrogate pair, or bytes that are not UTF-8")


def is_utf8(text: str) -> bool:
    """Return True if UTF-8 can encode `text`: it has no half of a surrogate pair.

    Names of files and arguments that are not UTF-8 have such halves in Python.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_infinite(number: int) -> bool:
    """Return True if `number` is infinite as a float, so that no reader of JSON accepts it."""
    try:
        float(number)
    except OverflowError:
        return True
    return False
