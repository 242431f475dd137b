"""Describe a Python value for the model, within a size budget.

The class of a value is compared with classes in loaded modules. Nothing is imported, and a class
that only has the same name is not accepted. A description by the user's code (`custom.py`) comes
first, then one by the class, by the parts of a container, or by `repr`.

Rules of the user hide secrets (`privacy.py`) while `apply_privacy` is entered. `hide_value` returns
the text that replaces a secret, and None for other values. `without_hidden` returns a text without
the secrets in it.

Source: `docs/values.md`.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Final, cast

from jp_nb.values import (
    arrays,
    code_objects,
    exceptions,
    figures,
    frames,
    handles,
    pictures,
    plain_values,
)
from jp_nb.values.base import Description, DescriptionLimits, ValueBudget, ValueKind
from jp_nb.values.class_facts import FAILURES, ClassTable, find_method, name_type
from jp_nb.values.containers import MAX_DESCRIBED_PARTS, describe_container
from jp_nb.values.contents import list_contents
from jp_nb.values.custom import has_custom_description, make_custom_description
from jp_nb.values.cut_text import cut_end, cut_middle, to_one_line
from jp_nb.values.privacy import apply_privacy, hide_value, without_hidden
from jp_nb.values.repr_text import format_repr, has_own_repr

_TABLE: Final = ClassTable[ValueKind](
    (
        *frames.FRAME_KINDS,
        *arrays.ARRAY_KINDS,
        *figures.FIGURE_KINDS,
        *pictures.PICTURE_KINDS,
        *plain_values.PLAIN_KINDS,
        *code_objects.CODE_KINDS,
        *handles.HANDLE_KINDS,
        *exceptions.EXCEPTION_KINDS,
    )
)


def find_kind(value: object) -> ValueKind | None:
    """Return the kind of the nearest base class of `value`, or None."""
    kind = _TABLE.find(value)
    if kind is not None:
        return kind

    # An iterator with its own `__repr__` is described by it.
    has_default_repr = find_method(value, "__repr__") is object.__repr__
    is_iterator = find_method(value, "__next__") is not None
    return ValueKind(_describe_iterator) if is_iterator and has_default_repr else None


def _describe_iterator(value: object, limits: DescriptionLimits) -> str:
    return f"{name_type(type(value))}, an iterator (not consumed)"


def describe(value: object, budget: ValueBudget | None = None, *, name: str = "") -> Description:
    """Describe a Python value for the model as text and images, within a size budget.

    Equal values have equal descriptions. The function runs code of the value, such as `__repr__`,
    so call it in the thread that uses the value. It raises no exception except `KeyboardInterrupt`:
    if the value's code fails, the text reports that.

    Args:
        value: Any value. It is not changed, displayed, or consumed. A lazy value is not computed,
            and a file is not read.
        budget: Limits of the description, with the attributes `chars`, `side`, and `images`; None
            for 20,000 characters and 4 images of at most 768 pixels a side.
        name: Expression for the value, such as a variable name. If a part is omitted, the text
            shows an expression for it.

    Returns:
        A description with the attributes `text` and `images`. A notebook displays both.
    """
    budget = budget or ValueBudget()
    limits = DescriptionLimits(
        chars=max(budget.chars, 0),
        side=budget.side,
        images=max(budget.images, 0),
        name=name,
        describe_part=describe_part,
    )

    with warnings.catch_warnings(), apply_privacy(budget.privacy):
        warnings.simplefilter("ignore")  # libraries may warn about an access to the value
        found = describe_part(value, limits)

        text = cut_middle(without_hidden(found.text), limits.chars)
    return Description(text, found.images[: limits.images])


def describe_part(value: object, limits: DescriptionLimits) -> Description:
    """Describe `value`, which may be a part of another one, within `limits`."""
    if (hidden := hide_value(value)) is not None:
        return Description(cut_end(hidden, limits.chars))

    budget = ValueBudget(limits.chars, limits.side, limits.images)
    found, problems = make_custom_description(value, budget)

    if found is None:
        found = _describe_without_custom(value, limits)

    if problems:
        room = limits.chars - sum(len(problem) + 1 for problem in problems)
        text = "\n".join([cut_middle(found.text, max(room, 0)), *problems])
        found = Description(cut_end(text, limits.chars), found.images)

    if limits.brief and "\n" in found.text:
        return replace(found, text=to_one_line(found.text, limits.chars))
    return found


def _describe_without_custom(value: object, limits: DescriptionLimits) -> Description:
    """Return the description by the class of `value`, by its parts, or by its own `repr`."""
    found: Description | str | None = None

    with suppress(*FAILURES):  # the value differs from other values of its class
        if (kind := find_kind(value)) is not None:
            found = kind.describe(value, limits)
        elif not has_own_repr(value):
            found = describe_container(value, limits, is_rich)

    if found is None:
        found = format_repr(value, limits.chars)

    if isinstance(found, Description):
        return replace(found, text=cut_end(found.text, limits.chars))
    return Description(cut_middle(found, limits.chars))


def is_rich(value: object) -> bool:
    """Return True for a frame, a figure, an array, or a value with a custom description."""
    kind = find_kind(value)
    return (kind is not None and kind.is_rich) or has_custom_description(value)


def describe_result(result: object, budget: ValueBudget) -> Description:
    """Describe `result`. The items of a list with frames, figures, or arrays are separate texts."""
    if type(result) not in (list, tuple) or not has_rich_items(result):
        return describe(result, budget)
    parts = cast("list[object] | tuple[object, ...]", result)
    share = replace(budget, chars=max(budget.chars // len(parts) - 2, 0))
    descriptions = [describe(part, share) for part in parts]
    text = "\n\n".join(description.text for description in descriptions)
    images = chain.from_iterable(description.images for description in descriptions)
    return Description(text, tuple(images))


def has_rich_items(value: object) -> bool:
    """Return True for a container with *rich* items: see `is_rich`."""
    inside = list_contents(value)
    if inside is None or inside.items is None or not 0 < inside.length <= MAX_DESCRIBED_PARTS:
        return False
    return any(is_rich(part) for _, part in inside.items())
