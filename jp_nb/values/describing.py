"""Describes a value of the notebook to a model.

Source: `docs/values.md`.
"""

from __future__ import annotations

from jp_nb.values.description import Description, ValueBudget


def describe(value: object, budget: ValueBudget | None = None) -> Description:
    """Return what a model is told of `value`: never more than `budget`, and never an exception.

    Equal values give equal texts. Call it on the thread on which the value lives: the value's own
    code may run.
    """
    limit = (budget or ValueBudget()).chars
    if isinstance(value, str):
        return Description(value[:limit])
    try:
        text = repr(value)
    except Exception as exc:  # whatever the value's own code raises
        text = f"<{type(value).__name__}: its text cannot be had: {type(exc).__name__}>"
    return Description(text[:limit])
