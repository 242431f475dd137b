"""Items of containers and records: dicts, lists, sets, dataclasses, and other classes with fields.

A *record* is an instance of a class with fields (`instance_fields.py`). Its items are its fields.

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

from jp_nb.values.class_facts import FAILURES, list_types, name_type
from jp_nb.values.instance_fields import read_record_fields

MAX_SORTED: Final = 20_000
"""Maximum size of a set of texts or integers that is sorted. A larger set shows only its length."""
MAX_COMPARED: Final = 1_000
"""Maximum size of other sets that are sorted: the sort key of an element is its description."""


class ItemKey(NamedTuple):
    """Key of a mapping, or the name of a field of a dataclass or another record."""

    value: Any
    is_field: bool = False


KeyedItems = Iterator[tuple[ItemKey | None, object]]
"""Items with their keys. The elements of a list, tuple, or set have None."""

_SEQUENCES: Final[tuple[tuple[Any, str, str], ...]] = ((list, "[", "]"), (tuple, "(", ")"))
"""Types of sequences, with their brackets."""


@dataclass(slots=True, eq=False)
class Contents:
    """Items of a container or record, and the texts around them.

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
        if type in list_types(value):  # a class is no record, even if it declares fields
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
