"""Convert a result that is plain data to JSON, with sets in a reproducible order.

Pydantic makes the JSON. It writes a set in the order of its elements, which differs between runs,
so sets are sorted afterwards, by the texts of their elements (`NestedText.sort_elements`). A *rich*
value, such as a frame or a figure, has a description of its own (`base.py`), and no JSON.

Source: `docs/values.md` (results of tools).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from itertools import chain
from typing import Any, Final, cast

from pydantic_core import to_json, to_jsonable_python

from jp_nb.image_headers import detect_media_type
from jp_nb.values.base import BRIEF_CHARS, DescriptionLimits
from jp_nb.values.class_facts import find_method, list_types
from jp_nb.values.contents import MAX_COMPARED, is_uniform
from jp_nb.values.describe import describe_part, has_rich_items, is_rich
from jp_nb.values.nested_text import NestedText

_NUMBERS: Final = frozenset((int, float, bool, type(None)))
_LEAVES: Final = _NUMBERS | {str, bytes}
"""Types of values without parts."""
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
    if type(result) not in _LEAVES and (is_rich(result) or has_rich_items(result)):
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


_END: Final = object()


def _find_sets(value: object) -> bool | None:
    """Return True if `value` contains a set; None if it is too large or contains an iterator.

    Parts that occur twice count twice, as in JSON. So work and memory are bounded, also for a value
    that contains itself.
    """
    has_sets = False
    items = 0
    chars = 0

    # The parts that are left of each container around the current part, the innermost last.
    open_parts: list[Iterator[object]] = [iter((value,))]

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
            open_parts.append(iter(_list_parts(part)))
        elif kind not in _NUMBERS:
            items += 1
            is_set = _is_set(part)
            if is_set is None:
                return None
            has_sets = has_sets or is_set
            open_parts.append(iter(_list_parts(part)))

        if items > MAX_JSON_ITEMS or chars > MAX_JSON_CHARS or len(open_parts) > MAX_JSON_LEVELS:
            return None
    return has_sets


def _is_set(value: object) -> bool | None:
    """Return True for a set; None for an iterator, or a set that is too large to be sorted."""
    if find_method(value, "__next__") is not None or find_method(value, "__anext__") is not None:
        return None

    kinds = list_types(value)
    if set not in kinds and frozenset not in kinds:
        return False

    items = cast("set[object]", value)
    # Elements of one simple type are compared themselves, and not by their texts, which is slow.
    is_sortable = len(items) <= MAX_COMPARED or is_uniform(items)
    return True if is_sortable else None


def _list_parts(value: Any) -> Iterable[object]:
    """Return the parts of a value as its JSON has them; none for a value without parts."""
    kinds = list_types(value)
    if dict in kinds:
        return chain(dict.keys(value), dict.values(value))

    for base in (list, tuple, set, frozenset):
        if base in kinds:
            return cast("Iterable[object]", base.__iter__(value))

    fields = _read_json_fields(value)
    if fields is not None:
        return list(fields.values())

    return [value._value_] if Enum in kinds else []


def _read_json_fields(value: Any) -> Mapping[str, object] | None:
    """Return the fields of a pydantic model or a dataclass, by their names in JSON."""
    # A dataclass of pydantic has both attributes.
    models = find_method(value, "__pydantic_fields__")
    if models is not None and find_method(value, "__dataclass_fields__") is None:
        stored = object.__getattribute__(value, "__dict__")
        extra = object.__getattribute__(value, "__pydantic_extra__") or {}
        names = {
            name: field.serialization_alias or field.alias or name for name, field in models.items()
        }
        return {names.get(name, name): part for name, part in {**stored, **extra}.items()}

    fields = find_method(value, "__dataclass_fields__")
    if type(fields) is not dict or type in list_types(value):
        return None

    values = {}
    for name in fields:
        with suppress(AttributeError):  # a field that was never set
            values[name] = object.__getattribute__(value, name)
    return values


def _sort_sets(value: Any, data: Any) -> Any:
    """Return `data`, the JSON of `value`, with the elements of sets in a reproducible order."""
    if type(value) in _LEAVES:
        return data

    kinds = list_types(value)
    if set in kinds or frozenset in kinds:
        items = list(value)  # in the order of `data`: pydantic has iterated over the same set
        pairs = zip(items, data, strict=True)
        by_id = {id(item): _sort_sets(item, json) for item, json in pairs}
        limits = DescriptionLimits(
            chars=BRIEF_CHARS, side=0, images=0, name="", describe_part=describe_part
        )
        in_order = NestedText(limits, greedy=False).sort_elements(items)
        return [by_id[id(item)] for item in in_order]

    if list in kinds or tuple in kinds:
        return [_sort_sets(item, json) for item, json in zip(value, data, strict=True)]
    if dict in kinds:
        members = zip(dict.values(value), data.items(), strict=True)
        return {key: _sort_sets(item, json) for item, (key, json) in members}

    fields = _read_json_fields(value)
    if fields is not None and isinstance(data, dict):
        known = {name: json for name, json in data.items() if name in fields}
        sorted_parts = {name: _sort_sets(fields[name], json) for name, json in known.items()}
        return data | sorted_parts

    if fields is not None and len(fields) == 1:  # a `RootModel`
        return _sort_sets(next(iter(fields.values())), data)
    return _sort_sets(value._value_, data) if Enum in kinds else data
