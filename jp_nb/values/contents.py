"""Items of containers and records: dicts, lists, sets, dataclasses, and other classes with fields.

Overrides in subclasses of built-in types are not called, and computed fields are not read. The
user's code runs only in mappings of other classes.

Source: `docs/values.md`.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from jp_nb.values.class_facts import FAILURES, find_method, list_types, name_type

MAX_SORTED: Final = 20_000
"""Maximum size of a set of texts or integers that is sorted. A larger set shows only its length."""
MAX_COMPARED: Final = 1_000
"""Maximum size of other sets that are sorted: the sort key of an element is its description."""


class ItemKey(NamedTuple):
    """Key of a mapping, or the name of a field of a dataclass or another record."""

    value: Any
    is_field: bool = False


KeyedItems = Iterator[tuple[ItemKey | None, object]]


@dataclass(slots=True, eq=False)
class Contents:
    """Items of a container or record. Overrides in subclasses of built-in types are not called.

    Attributes:
        begin: The opening bracket, perhaps after a class name.
        end: The closing bracket.
        length: Number of items.
        items: Function that returns the items. It is None for a set that is too large to sort.
        empty: The text of an empty container, if it is not `begin` and `end`.
        unordered: True for a set, whose items the caller sorts, so that equal sets look equal.
        is_keyed: True if the items have keys or names.
    """

    begin: str
    end: str
    length: int
    items: Callable[[], KeyedItems] | None
    empty: str = ""
    unordered: bool = False
    is_keyed: bool = False


def list_contents(value: object) -> Contents | None:
    """Return the items of a container or a record; None for another value."""
    try:
        if type in list_types(value):
            return None
        fields = read_record_fields(value)
        if fields is None:
            return _list_plain_container(value)
    except FAILURES:
        return None

    items = [(ItemKey(name, is_field=True), part) for name, part in fields.items()]
    begin = f"{name_type(type(value)).rpartition('.')[2]}("
    return Contents(begin, ")", len(items), lambda: iter(items), is_keyed=True)


def _list_plain_container(value: Any) -> Contents | None:
    """Return the items of a dict, list, tuple, set, or other mapping; None for another value.

    A subclass is shown with its name around the brackets: `OrderedDict({'a': 1})`.
    """
    kinds = list_types(value)
    name = name_type(kinds[0]).rpartition(".")[2]

    if dict in kinds:
        begin = "{"
        end = "}"
        if kinds[0] is not dict:
            begin = f"{name}({{"
            end = "})"
        items = partial(_iter_keyed, dict.items(value))
        return Contents(begin, end, dict.__len__(value), items, is_keyed=True)

    for base, begin, end in _SEQUENCES:
        if base in kinds:
            if kinds[0] is not base:
                begin = f"{name}({begin}"
                end = f"{end})"
            return Contents(begin, end, base.__len__(value), partial(_iter_elements, base, value))

    for base in (set, frozenset):
        if base in kinds:
            return _list_set(value, base, kinds[0], name)

    if Mapping in kinds or kinds[0] is MappingProxyType:
        items = partial(_iter_keyed, ItemsView(value))  # not its own `items`
        return Contents(f"{name}({{", "})", len(value), items, is_keyed=True)
    return None


def _iter_keyed(pairs: Iterable[tuple[object, object]]) -> KeyedItems:
    return ((ItemKey(key), item) for key, item in pairs)


_SEQUENCES: Final[tuple[tuple[Any, str, str], ...]] = ((list, "[", "]"), (tuple, "(", ")"))


def _iter_elements(base: Any, value: object) -> KeyedItems:
    return ((None, item) for item in base.__iter__(value))


def _list_set(value: Any, base: Any, kind: type, name: str) -> Contents:
    begin = "{"
    end = "}"
    if kind is not set:
        begin = f"{name}({{"
        end = "})"

    length = base.__len__(value)
    can_sort = length <= MAX_COMPARED or (length <= MAX_SORTED and is_uniform(base.__iter__(value)))
    items = partial(_iter_elements, base, value) if can_sort else None
    return Contents(begin, end, length, items, empty=f"{name}()", unordered=True)


def is_uniform(items: Iterable[object]) -> bool:
    """Return True if all `items` are texts, or all are integers, which can be sorted directly."""
    kinds = {type(item) for item in items}
    return kinds <= {str} or kinds <= {int}


def read_record_fields(value: Any) -> dict[str, object] | None:
    """Return the stored fields of a dataclass, a named tuple, a pydantic model, or an attrs class.

    Return None for another value. Fields with `repr=False` are omitted, and computed fields are not
    read.
    """
    names = _list_field_names(value, type(value))
    if names is None:
        return None

    found: dict[str, object] = {}

    for name in names:
        try:
            found[name] = object.__getattribute__(value, name)
        except AttributeError:
            extra = _read_extra_fields(value)
            if name in extra:
                found[name] = extra[name]

    return found


def _list_field_names(value: Any, kind: type) -> list[str] | None:
    """Return the names of the fields that a record shows in its `repr`; None for another value."""
    fields = find_method(value, "__dataclass_fields__")
    if type(fields) is dict:
        return [
            name
            for name, field in fields.items()
            if field.repr and field._field_type.name == "_FIELD"
        ]

    if tuple in list_types(value):
        named = find_method(value, "_fields")
        return list(named) if type(named) is tuple else None

    if find_method(value, "__pydantic_fields__") is not None:
        models = kind.__pydantic_fields__  # type: ignore[attr-defined]
        declared = [name for name, field in models.items() if field.repr]
        return [*declared, *_read_extra_fields(value)]

    if (attributes := find_method(value, "__attrs_attrs__")) is not None:
        return [attribute.name for attribute in attributes if attribute.repr is not False]
    return None


def _read_extra_fields(value: Any) -> dict[str, object]:
    """Return the fields of a pydantic model with `extra="allow"` that are not declared."""
    try:
        extra = object.__getattribute__(value, "__pydantic_extra__")
    except AttributeError:
        return {}
    return extra if type(extra) is dict else {}
