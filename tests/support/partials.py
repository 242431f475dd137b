"""Partial configurations of tests, as JSON objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge(*partials: Mapping[str, Any]) -> dict[str, Any]:
    """Return one partial with the tables and lists of all. Of other values, the last one counts."""
    merged: dict[str, Any] = {}
    for partial in partials:
        for key, value in partial.items():
            before = merged.get(key)
            if isinstance(before, Mapping) and isinstance(value, Mapping):
                merged[key] = merge(before, value)
            elif isinstance(before, list) and isinstance(value, list):
                merged[key] = [*before, *value]
            else:
                merged[key] = value
    return merged
