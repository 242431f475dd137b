"""Describes what a function returned to the model that called it.

Source: `docs/values.md`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from jp_nb.values.container_contents import contents
from jp_nb.values.containers import MAX_PARTS
from jp_nb.values.describing import describe, is_rich
from jp_nb.values.description import Description, ValueBudget


def is_plain(result: object) -> bool:
    """Return True if neither `result` nor something in it is to be described by its kind."""
    return not is_rich(result) and not _has_rich_items(result)


def describe_result(result: object, budget: ValueBudget) -> Description:
    """Return what is said of `result`; of texts and values in a row, of each in its place."""
    if type(result) not in (list, tuple) or not _has_rich_items(result):
        return describe(result, budget)
    parts = cast("list[object] | tuple[object, ...]", result)
    share = replace(budget, chars=max(budget.chars // len(parts) - 2, 0))
    told = [describe(part, share) for part in parts]
    images = [image for said in told for image in said.images]
    return Description("\n\n".join(said.text for said in told), tuple(images))


def _has_rich_items(value: object) -> bool:
    inside = contents(value)
    if inside is None or inside.items is None or not 0 < inside.length <= MAX_PARTS:
        return False
    return any(is_rich(part) for _, part in inside.items())
