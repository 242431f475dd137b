"""Descriptions of Python values for the model."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import jp_nb as jp
from jp_nb.values.base import ValueBudget
from jp_nb.values.privacy import Privacy


def describe_value(
    value: object, *, name: str = "", hide: Collection[str] = (), **limits: int
) -> Any:
    """Return the description of `value`, which has a `text` and `images`.

    `limits` are `chars`, `side`, and `images` of the budget. Parts with one of the names in `hide`
    are `(hidden)`.
    """
    privacy = _HideNames(hide) if hide else None
    return jp.describe(value, ValueBudget(**limits, privacy=privacy), name=name)


class _HideNames(Privacy):
    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def name(self, name: str, value: object) -> str | None:
        return "(hidden)" if name in self._names else None
