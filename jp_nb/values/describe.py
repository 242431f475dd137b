"""Describe a Python value for the model, within a size budget.

The class of a value is compared with classes in loaded modules. Nothing is imported, and a class
that only has the same name is not accepted.

Source: `docs/values.md`.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from itertools import chain
from typing import Any, Final, cast

from pydantic_core import to_json, to_jsonable_python

from jp_nb.images import detect_media_type
from jp_nb.values import arrays, exceptions, figures, frames, objects
from jp_nb.values.base import BRIEF_CHARS, Description, DescriptionLimits, ValueBudget, ValueKind
from jp_nb.values.containers import MAX_DESCRIBED_PARTS, describe_container
from jp_nb.values.contents import MAX_COMPARED, is_uniform, list_contents
from jp_nb.values.custom import (
    FAILURES,
    ClassTable,
    find_method,
    format_repr,
    has_custom_description,
    has_own_repr,
    list_types,
    make_custom_description,
    name_type,
)
from jp_nb.values.cut_text import cut_end, cut_middle, to_one_line
from jp_nb.values.nested_text import NestedText
from jp_nb.values.privacy import apply_privacy, hide_value, without_hidden

_TABLE: Final = ClassTable[ValueKind](
    (
        *frames.FRAME_KINDS,
        *arrays.ARRAY_KINDS,
        *figures.FIGURE_KINDS,
        *objects.OBJECT_KINDS,
        *exceptions.EXCEPTION_KINDS,
    )
)


def find_kind(value: object) -> ValueKind | None:
    """Return the kind of the nearest base class of `value`, or None."""
    if (found := _TABLE.find(value)) is not None:
        return found
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
        max(budget.chars, 0), budget.side, max(budget.images, 0), name, _describe
    )

    with warnings.catch_warnings(), apply_privacy(budget.privacy):
        warnings.simplefilter("ignore")  # libraries may warn about an access to the value
        found = _describe(value, limits)

        text = cut_middle(without_hidden(found.text), limits.chars)
    return Description(text, found.images[: limits.images])


def _describe(value: object, limits: DescriptionLimits) -> Description:
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


_NUMBERS: Final = frozenset((int, float, bool, type(None)))
_LEAVES: Final = _NUMBERS | {str, bytes}
_CONTAINERS: Final = frozenset((dict, list, tuple))

MAX_JSON_ITEMS: Final = 1_000_000
MAX_JSON_CHARS: Final = 16_777_216
MAX_JSON_LEVELS: Final = 200
"""Limits of a result that becomes JSON: its parts, the characters of its texts, its levels."""


def as_json(result: object) -> str | None:
    """Return the JSON of plain data, with sorted sets; None if `result` is not plain data.

    A value that contains an iterator is not plain data, because serialization would consume it. The
    bytes of an image or PDF are not plain data either. Neither is a very large value: its JSON
    would take several times its memory.
    """
    if type(result) not in _LEAVES and (is_rich(result) or _has_rich_items(result)):
        return None
    with suppress(Exception):  # the value is not JSON
        if isinstance(result, bytes | bytearray) and detect_media_type(bytes(result[:16])):
            return None

        has_sets = _find_sets(result)
        if has_sets is None:
            return None
        if not has_sets:
            return to_json(result).decode()
        return to_json(_sort_sets(result, to_jsonable_python(result))).decode()
    return None


def describe_result(result: object, budget: ValueBudget) -> Description:
    """Describe `result`. The items of a list with frames, figures, or arrays are separate texts."""
    if type(result) not in (list, tuple) or not _has_rich_items(result):
        return describe(result, budget)
    parts = cast("list[object] | tuple[object, ...]", result)
    share = replace(budget, chars=max(budget.chars // len(parts) - 2, 0))
    descriptions = [describe(part, share) for part in parts]
    images = chain.from_iterable(each.images for each in descriptions)
    return Description("\n\n".join(each.text for each in descriptions), tuple(images))


def _has_rich_items(value: object) -> bool:
    inside = list_contents(value)
    if inside is None or inside.items is None or not 0 < inside.length <= MAX_DESCRIBED_PARTS:
        return False
    return any(is_rich(part) for _, part in inside.items())


def _find_sets(value: object) -> bool | None:
    """Return True if `value` contains a set; None if it is too large or contains an iterator.

    Parts that occur twice count twice, as in JSON. So work and memory are bounded, also for a value
    that contains itself.
    """
    found = False
    open_parts: list[Iterator[object]] = [iter((value,))]
    items = 0
    chars = 0

    while open_parts:
        part = next(open_parts[-1], _END)
        kind = type(part)
        if part is _END:
            open_parts.pop()
            continue

        if kind is str or kind is bytes:
            chars += len(cast("str | bytes", part))
        elif kind in _CONTAINERS:
            items += len(cast("Collection[object]", part))
            open_parts.append(iter(_parts(part)))
        elif kind not in _NUMBERS:
            items += 1
            has_set = _is_set(part)
            if has_set is None:
                return None
            found = found or has_set
            open_parts.append(iter(_parts(part)))
        if items > MAX_JSON_ITEMS or chars > MAX_JSON_CHARS or len(open_parts) > MAX_JSON_LEVELS:
            return None
    return found


_END: Final = object()


def _is_set(value: object) -> bool | None:
    # None if it is an iterator, or a set that is too large to be sorted.
    if find_method(value, "__next__") is not None or find_method(value, "__anext__") is not None:
        return None

    kinds = list_types(value)
    if set not in kinds and frozenset not in kinds:
        return False

    items = cast("set[object]", value)
    is_sortable = len(items) <= MAX_COMPARED or is_uniform(items)
    return True if is_sortable else None


def _parts(value: Any) -> Iterable[object]:
    kinds = list_types(value)
    if dict in kinds:
        return chain(dict.keys(value), dict.values(value))

    for base in (list, tuple, set, frozenset):
        if base in kinds:
            return cast("Iterable[object]", base.__iter__(value))

    fields = _fields(value)
    if fields is not None:
        return list(fields.values())

    return [value._value_] if Enum in kinds else []


def _fields(value: Any) -> Mapping[str, object] | None:
    # The fields of a pydantic model or a dataclass, by their names in JSON.
    models = find_method(value, "__pydantic_fields__")
    if models is not None and find_method(value, "__dataclass_fields__") is None:
        stored = object.__getattribute__(value, "__dict__")
        extra = object.__getattribute__(value, "__pydantic_extra__") or {}
        names = {name: one.serialization_alias or one.alias or name for name, one in models.items()}
        return {names.get(name, name): part for name, part in {**stored, **extra}.items()}

    fields = find_method(value, "__dataclass_fields__")
    if type(fields) is not dict or type in list_types(value):
        return None

    found = {}
    for name in fields:
        with suppress(AttributeError):  # a field that was never set
            found[name] = object.__getattribute__(value, name)
    return found


def _sort_sets(value: Any, data: Any) -> Any:
    # `data` is the JSON of `value`.
    if type(value) in _LEAVES:
        return data

    kinds = list_types(value)
    if set in kinds or frozenset in kinds:
        items = list(value)
        by_id = {id(item): _sort_sets(item, each) for item, each in zip(items, data, strict=True)}
        limits = DescriptionLimits(BRIEF_CHARS, 0, 0, "", _describe)
        return [by_id[id(x)] for x in NestedText(limits, greedy=False).sorted(items)]

    if list in kinds or tuple in kinds:
        return [_sort_sets(item, each) for item, each in zip(value, data, strict=True)]
    if dict in kinds:
        pairs = zip(dict.values(value), data.items(), strict=True)
        return {key: _sort_sets(item, each) for item, (key, each) in pairs}

    fields = _fields(value)
    if fields is not None and isinstance(data, dict):
        known = {name: each for name, each in data.items() if name in fields}
        sorted_parts = {name: _sort_sets(fields[name], each) for name, each in known.items()}
        return data | sorted_parts

    if fields is not None and len(fields) == 1:  # a `RootModel`
        return _sort_sets(next(iter(fields.values())), data)
    return _sort_sets(value._value_, data) if Enum in kinds else data
