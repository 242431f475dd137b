"""Checks of request bodies by the rules of each API, as its server would check them."""

from __future__ import annotations

import json
import math
from typing import Any

from tests.support.loopback import Received, validate

MAX_LEVELS = 100
"""The JSON reader of Google's API refuses deeper bodies."""


def check_body(sent: Any) -> Any:
    """Return the JSON body of a request that its API accepts.

    Raises:
        AssertionError: It is not JSON that every server reads.
        InvalidRequestError: The API refuses it.
    """
    text = sent.body.decode()
    body = json.loads(text, parse_constant=_refuse, object_pairs_hook=_without_duplicates)
    _check_value(body, MAX_LEVELS)
    target = sent.url.partition("://")[2].partition("/")[2]
    validate(Received(f"/{target}", sent.headers, sent.body, body))
    return body


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    assert len({*keys}) == len(keys), f"a key occurs twice: {keys}"
    return dict(pairs)


def _check_value(value: Any, levels: int) -> None:
    assert levels > 0, "nested too deeply"
    match value:
        case str():
            value.encode()  # no half of a surrogate pair
            assert "\0" not in value, "NUL"
        case bool() | None:
            pass
        case int() | float():
            assert math.isfinite(float(value)), "a number that is infinite elsewhere"
        case dict():
            for key, each in value.items():
                _check_value(key, levels)
                _check_value(each, levels - 1)
        case list():
            for each in value:
                _check_value(each, levels - 1)
