"""Write the result of a function for the model that called it: as JSON, or as a description.

Source: `docs/values.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from typing import Any, Final, cast

from pydantic_core import to_json, to_jsonable_python

from jp_nb.values.container_contents import MAX_COMPARED, contents, is_uniform
from jp_nb.values.containers import MAX_PARTS
from jp_nb.values.describing import describe, in_order, is_rich
from jp_nb.values.description import Description, ValueBudget
from jp_nb.values.own_text import method_of, types_of

_LEAVES: Final = frozenset((str, int, float, bool, type(None), bytes))


def as_json(result: object) -> str | None:
    """Return the JSON of plain data, sets in order; None if `result` is to be described.

    Iterators, at any depth, are not plain data: to write one as JSON would consume it.
    """
    if is_rich(result) or _has_rich_items(result):
        return None
    with suppress(Exception):  # JSON cannot hold it: it is described
        has_sets = _find_sets(result)
        if has_sets is None:
            return None
        if not has_sets:
            return to_json(result).decode()
        return to_json(_ordered(result, to_jsonable_python(result))).decode()
    return None


def describe_result(result: object, budget: ValueBudget) -> Description:
    """Return the description of `result`; of texts and values in a row, of each in its place."""
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


def _find_sets(value: object) -> bool | None:
    """Return True if a set is in `value`; None if an iterator is, or a set that is not sorted."""
    found = False
    todo = [value]
    seen: dict[int, object] = {}
    while todo:
        part = todo.pop()
        if type(part) in _LEAVES or id(part) in seen:
            continue
        seen[id(part)] = part
        if method_of(part, "__next__") is not None or method_of(part, "__anext__") is not None:
            return None
        kinds = types_of(part)
        if set in kinds or frozenset in kinds:
            items = cast("set[object]", part)
            if len(items) > MAX_COMPARED and not is_uniform(items):
                return None
            found = True
        todo.extend(_parts(part))
    return found


def _parts(value: Any) -> Iterable[object]:
    """Return all values in `value` that JSON of it would hold."""
    kinds = types_of(value)
    if dict in kinds:
        return [*dict.keys(value), *dict.values(value)]
    for base in (list, tuple, set, frozenset):
        if base in kinds:
            return cast("Iterable[object]", base.__iter__(value))
    fields = _fields(value)
    if fields is not None:
        return list(fields.values())
    return [value._value_] if _is_member(value) else []


def _is_member(value: object) -> bool:
    return Enum in types_of(value)


def _fields(value: Any) -> Mapping[str, object] | None:
    """Return the fields of a record by the names that they have in JSON; None if it is none."""
    models = method_of(value, "__pydantic_fields__")
    if models is not None and method_of(value, "__dataclass_fields__") is None:
        stored = object.__getattribute__(value, "__dict__")
        extra = object.__getattribute__(value, "__pydantic_extra__") or {}
        names = {name: one.serialization_alias or one.alias or name for name, one in models.items()}
        return {names.get(name, name): part for name, part in {**stored, **extra}.items()}
    fields = method_of(value, "__dataclass_fields__")
    if type(fields) is not dict or type in types_of(value):
        return None
    found = {}
    for name in fields:
        with suppress(AttributeError):  # a field that was never set, or of the class alone
            found[name] = object.__getattribute__(value, name)
    return found


def _ordered(value: Any, data: Any) -> Any:
    """Return `data`, the JSON of `value`, with the elements of sets in their order."""
    if type(value) in _LEAVES:
        return data
    kinds = types_of(value)
    if set in kinds or frozenset in kinds:
        items = list(value)
        by_id = {id(item): _ordered(item, one) for item, one in zip(items, data, strict=True)}
        return [by_id[id(item)] for item in in_order(items)]
    if list in kinds or tuple in kinds:
        return [_ordered(item, one) for item, one in zip(value, data, strict=True)]
    if dict in kinds:
        pairs = zip(dict.values(value), data.items(), strict=True)
        return {key: _ordered(item, one) for item, (key, one) in pairs}
    fields = _fields(value)
    if fields is not None and isinstance(data, dict):
        return {
            name: _ordered(fields[name], one) if name in fields else one
            for name, one in data.items()
        }
    if fields is not None and len(fields) == 1:  # a model of pydantic with a root
        return _ordered(next(iter(fields.values())), data)
    return _ordered(value._value_, data) if _is_member(value) else data
