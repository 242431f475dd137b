"""Compare JSON values as a notebook stores them: it sorts keys, and a page changes some values."""

from __future__ import annotations

import math

from pydantic import JsonValue

from jp_nb.json_values import JsonObject
from jp_nb.storable_json import replace_surrogates


def sort_keys(value: JsonValue) -> JsonValue:
    """Return a copy of `value` with the keys of all objects sorted, as in a notebook file."""
    if isinstance(value, dict):
        return {key: sort_keys(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [sort_keys(item) for item in value]
    return value


def same_json(one: JsonValue, other: JsonValue) -> bool:
    """Return True if two values are equal after a page has stored them.

    A page has all numbers as doubles: it turns `1.0` into `1`, and rounds large integers. It turns
    an unpaired surrogate into U+FFFD.
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
