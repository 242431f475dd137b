"""What is in a container or a record: read by the means of its own type.

Source: `docs/values.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from jp_nb.values.own_text import FAILURES, method_of, type_name, types_of

MAX_SORTED: Final = 20_000
"""Texts or integers in a set that are sorted; of a larger one just the length is said."""
MAX_COMPARED: Final = 1_000
"""Elements of other types that are: each of them has to be written for that."""


class FieldName(str):
    """The name of a field, which is written before an equals sign."""

    __slots__ = ()


class MappingKey:
    """A key of a mapping."""

    __slots__ = ("key",)

    def __init__(self, key: object) -> None:
        self.key = key


class Contents:
    """What is in a container: read by the means of its own type, whatever it overrides.

    Attributes:
        begin: What is written before.
        end: What is written behind.
        length: How many items.
        items: Yields each with its key: None, a `FieldName` or a `MappingKey`. None if they have no
            order that costs little.
        unordered: They have to be sorted.
        is_keyed: They have keys or names.
    """

    __slots__ = ("begin", "empty", "end", "is_keyed", "items", "length", "unordered")

    def __init__(
        self,
        begin: str,
        end: str,
        length: int,
        items: Callable[[], Iterator[tuple[Any, object]]] | None,
        *,
        empty: str = "",
        unordered: bool = False,
        is_keyed: bool = False,
    ) -> None:
        self.begin, self.end, self.length = begin, end, length
        self.items, self.unordered, self.is_keyed = items, unordered, is_keyed
        self.empty = empty or begin + end


def contents(value: object) -> Contents | None:
    """Return what is in `value` if it is a container or a record; None if it is neither."""
    try:
        if type in types_of(value):
            return None
        return _record(value) or _plain_container(value)
    except FAILURES:
        return None


def _plain_container(value: Any) -> Contents | None:
    kinds = types_of(value)
    name = type_name(kinds[0]).rpartition(".")[2]
    if dict in kinds:
        begin, end = ("{", "}") if kinds[0] is dict else (f"{name}({{", "})")
        return Contents(begin, end, dict.__len__(value), partial(_pairs, value), is_keyed=True)
    for base, begin, end in _SEQUENCES:
        if base in kinds:
            if kinds[0] is not base:
                begin, end = f"{name}({begin}", f"{end})"
            return Contents(begin, end, base.__len__(value), partial(_unnamed, base, value))
    for base in (set, frozenset):
        if base in kinds:
            return _set_contents(value, base, kinds[0], name)
    if Mapping in kinds or kinds[0] is MappingProxyType:
        return Contents(f"{name}({{", "})", len(value), partial(_looked_up, value), is_keyed=True)
    return None


def _looked_up(value: Mapping[object, object]) -> Iterator[tuple[MappingKey, object]]:
    return ((MappingKey(key), value[key]) for key in value)


_SEQUENCES: Final[tuple[tuple[Any, str, str], ...]] = ((list, "[", "]"), (tuple, "(", ")"))


def _unnamed(base: Any, value: object) -> Iterator[tuple[None, object]]:
    return ((None, item) for item in base.__iter__(value))


def _set_contents(value: Any, base: Any, kind: type, name: str) -> Contents:
    begin, end = ("{", "}") if kind is set else (f"{name}({{", "})")
    length = base.__len__(value)
    items = partial(_unnamed, base, value)
    elements = (item for _, item in items())
    can_sort = length <= MAX_COMPARED or (length <= MAX_SORTED and is_uniform(elements))
    return Contents(
        begin, end, length, items if can_sort else None, empty=f"{name}()", unordered=True
    )


def is_uniform(items: Iterable[object]) -> bool:
    """Return True if all `items` are texts, or all are integers: these are sorted quickly."""
    kinds = {type(item) for item in items}
    return kinds <= {str} or kinds <= {int}


def _pairs(value: dict[object, object]) -> Iterator[tuple[MappingKey, object]]:
    return ((MappingKey(key), item) for key, item in dict.items(value))


def _record(value: Any) -> Contents | None:
    """Return the fields of a dataclass, a named tuple, a pydantic model or an attrs class."""
    fields = record_fields(value)
    if fields is None:
        return None
    found = [(FieldName(name), part) for name, part in fields.items()]
    short = type_name(type(value)).rpartition(".")[2]
    return Contents(f"{short}(", ")", len(found), lambda: iter(found), is_keyed=True)


def record_fields(value: Any) -> dict[str, object] | None:
    """Return the stored fields of a record; None if it is none."""
    names = _field_names(value, type(value))
    if names is None:
        return None
    found = {name: _field(value, name) for name in names}
    return {name: part for name, part in found.items() if part is not _NONE}


_NONE = object()


def _field_names(value: Any, kind: type) -> list[str] | None:
    if (fields := method_of(value, "__dataclass_fields__")) is not None and type(fields) is dict:
        return [
            name for name, one in fields.items() if one.repr and one._field_type.name == "_FIELD"
        ]
    if tuple in types_of(value):
        named = method_of(value, "_fields")
        return list(named) if type(named) is tuple else None
    if method_of(value, "__pydantic_fields__") is not None:
        models = kind.__pydantic_fields__  # type: ignore[attr-defined]
        return [name for name, one in models.items() if one.repr] + list(_extra(value))
    if (attributes := method_of(value, "__attrs_attrs__")) is not None:
        return [one.name for one in attributes if one.repr is not False]
    return None


def _field(value: Any, name: str) -> object:
    """Return a field as it is stored; nothing that is computed is read."""
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return _extra(value).get(name, _NONE)


def _extra(value: Any) -> dict[str, object]:
    """Return the fields of a pydantic model beside those of its class."""
    try:
        extra = object.__getattribute__(value, "__pydantic_extra__")
    except AttributeError:
        return {}
    return extra if type(extra) is dict else {}


def head(items: Iterable[Any], number: int) -> list[Any]:
    """Return the first `number` of `items`."""
    return list(islice(items, number))
