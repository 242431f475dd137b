"""Descriptions that the user's code provides, whatever it raises, within the budget.

The code is a registered describer (`registered_describers.py`), or the method `_ai_repr_` of the
class (`ai_repr.py`). The describer comes first.

Source: `docs/values.md`.
"""

from __future__ import annotations

from jp_nb.values.ai_repr import AI_REPR, call_ai_repr, has_ai_repr
from jp_nb.values.base import Description, ValueBudget
from jp_nb.values.class_facts import FAILURES
from jp_nb.values.cut_text import cut_middle, to_one_line
from jp_nb.values.registered_describers import call_describer, find_describer
from jp_nb.values.repr_text import read_exception_message


def has_custom_description(value: object) -> bool:
    """Return True if a describer is registered for `value`, or it has an `_ai_repr_`."""
    return find_describer(value) is not None or has_ai_repr(value)


def make_custom_description(
    value: object, budget: ValueBudget
) -> tuple[Description | None, list[str]]:
    """Return the description by a describer or `_ai_repr_`, or None, and the errors of both.

    The errors are sentences for the description: the user's code may raise anything.
    """
    problems: list[str] = []
    for name, describe in (("describer", call_describer), (AI_REPR, call_ai_repr)):
        try:
            description = describe(value, budget)
        except FAILURES as exc:
            reason = to_one_line(f"{type(exc).__name__}: {read_exception_message(exc, '…')}", 200)
            problems.append(f"(Its {name} failed: {reason})")
            continue

        if description is not None:
            images = description.images[: max(budget.images, 0)]
            return Description(cut_middle(description.text, budget.chars), images), problems

    return None, problems
