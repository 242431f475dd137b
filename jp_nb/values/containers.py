"""Describe dicts, lists, sets, dataclasses, and nested values.

Descriptions import nothing, compute no lazy values, and consume no iterators. The user's code runs
only in mappings of other classes, and for parts with their own `repr` or a describer.

Source: `docs/values.md`, `docs/notebook-tools.md`.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from jp_nb.images import Image
from jp_nb.values.base import (
    BRIEF_CHARS,
    Description,
    DescriptionLimits,
    bytes_without_hidden,
    count,
    cut_end,
    hide_part,
    hide_value,
    to_one_line,
    without_hidden,
)
from jp_nb.values.custom import (
    FAILURES,
    find_method,
    has_custom_description,
    has_own_repr,
    list_types,
    name_type,
)

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
        items: Function that returns the items. It is None for a set that is too large to sort.
        empty: The text of an empty container, if it is not `begin` and `end`.
        unordered: True if the items must be sorted.
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
            return _plain_container(value)
    except FAILURES:
        return None

    found = [(ItemKey(name, is_field=True), part) for name, part in fields.items()]
    begin = f"{name_type(type(value)).rpartition('.')[2]}("
    return Contents(begin, ")", len(found), lambda: iter(found), is_keyed=True)


def _plain_container(value: Any) -> Contents | None:
    kinds = list_types(value)
    name = name_type(kinds[0]).rpartition(".")[2]

    if dict in kinds:
        begin = "{"
        end = "}"
        if kinds[0] is not dict:
            begin = f"{name}({{"
            end = "})"
        items = partial(_keyed, dict.items(value))
        return Contents(begin, end, dict.__len__(value), items, is_keyed=True)

    for base, begin, end in _SEQUENCES:
        if base in kinds:
            if kinds[0] is not base:
                begin = f"{name}({begin}"
                end = f"{end})"
            return Contents(begin, end, base.__len__(value), partial(_elements, base, value))

    for base in (set, frozenset):
        if base in kinds:
            return _set_contents(value, base, kinds[0], name)

    if Mapping in kinds or kinds[0] is MappingProxyType:
        items = partial(_keyed, ItemsView(value))  # not its own `items`
        return Contents(f"{name}({{", "})", len(value), items, is_keyed=True)
    return None


def _keyed(pairs: Iterable[tuple[object, object]]) -> KeyedItems:
    return ((ItemKey(key), item) for key, item in pairs)


_SEQUENCES: Final[tuple[tuple[Any, str, str], ...]] = ((list, "[", "]"), (tuple, "(", ")"))


def _elements(base: Any, value: object) -> KeyedItems:
    return ((None, item) for item in base.__iter__(value))


def _set_contents(value: Any, base: Any, kind: type, name: str) -> Contents:
    begin = "{"
    end = "}"
    if kind is not set:
        begin = f"{name}({{"
        end = "})"

    length = base.__len__(value)
    can_sort = length <= MAX_COMPARED or (length <= MAX_SORTED and is_uniform(base.__iter__(value)))
    items = partial(_elements, base, value) if can_sort else None
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
    names = _field_names(value, type(value))
    if names is None:
        return None

    found: dict[str, object] = {}

    for name in names:
        try:
            found[name] = object.__getattribute__(value, name)
        except AttributeError:
            extra = _extra_fields(value)
            if name in extra:
                found[name] = extra[name]

    return found


def _field_names(value: Any, kind: type) -> list[str] | None:
    fields = find_method(value, "__dataclass_fields__")
    if type(fields) is dict:
        return [
            name for name, one in fields.items() if one.repr and one._field_type.name == "_FIELD"
        ]

    if tuple in list_types(value):
        named = find_method(value, "_fields")
        return list(named) if type(named) is tuple else None

    if find_method(value, "__pydantic_fields__") is not None:
        models = kind.__pydantic_fields__  # type: ignore[attr-defined]
        return [name for name, one in models.items() if one.repr] + list(_extra_fields(value))

    if (attributes := find_method(value, "__attrs_attrs__")) is not None:
        return [one.name for one in attributes if one.repr is not False]
    return None


def _extra_fields(value: Any) -> dict[str, object]:
    # Fields of a pydantic model with `extra="allow"` that its class does not declare.
    try:
        extra = object.__getattribute__(value, "__pydantic_extra__")
    except AttributeError:
        return {}
    return extra if type(extra) is dict else {}


MAX_CONTAINER_DEPTH: Final = 12
"""Maximum nesting of containers that are described, and searched for secrets."""
MAX_BITS: Final = 8_000
_MIN_CHARS = 24
_MAX_SHARES = 16
_KEY_CHARS = 120
_EXACT: Final = frozenset((list, tuple, dict, set, frozenset))
_SIMPLE: Final = (bool, float, complex, type(None), type(...), type(NotImplemented))


class NestedText:
    """Text of one value with its parts, similar to `repr`.

    Args:
        limits: Limits of the value. `limits.inner` describes parts of other types, and parts with
            their own `repr` or a describer.
        greedy: True to give the first parts all the room, and to stop when it is used up. This
            determines if the complete value fits. False to share the room among the parts.
    """

    def __init__(self, limits: DescriptionLimits, *, greedy: bool) -> None:
        self._limits = limits
        self._greedy = greedy
        self._above: set[int] = set()
        # Descriptions by `id()` of the value, so that the code of a value runs once. The value is
        # kept too, so that no other value gets its id.
        self._texts: dict[int, tuple[object, str]] = {}
        self.is_cut = False

    def sharing_room(self) -> NestedText:
        """Return a text that is not greedy, and has the same descriptions of parts."""
        other = NestedText(self._limits, greedy=False)
        other._texts = self._texts
        return other

    def write(self, value: object, room: int) -> str:
        """Return `value` in at most `room` characters. `is_cut` is True if a part is missing."""
        text = self._format_value(value, max(room, 1))
        if len(text) > room:
            self.is_cut = True
            return cut_end(text, room)
        return text

    def _format_value(self, value: object, room: int) -> str:
        kind = type(value)

        if (hidden := hide_value(value)) is not None:
            return hidden
        if kind in _SIMPLE:
            return repr(value)
        if kind is str:
            return self._format_string(value, room)  # type: ignore[arg-type]
        if kind is int:
            return format_int(value)  # type: ignore[arg-type]
        if kind in (bytes, bytearray):
            return self._format_bytes(value, room)  # type: ignore[arg-type]

        if kind in _EXACT or not (has_own_repr(value) or has_custom_description(value)):
            inside = list_contents(value)
            if inside is not None:
                return self._format_container(value, inside, room)
        return self._format_other(value, room)

    def _format_string(self, value: str, room: int) -> str:
        if len(value) + 2 > room:
            self.is_cut = True
            value = without_hidden(value)
            shown = max(room - 24, 4)
            return f"{value[:shown]!r}… (+{len(value) - shown:,})"
        return repr(value)

    def _format_bytes(self, value: bytes, room: int) -> str:
        shown = max(room // 4, 4)
        if len(value) > shown:
            self.is_cut = True
            value = bytes_without_hidden(value)
            return f"{bytes(value[:shown])!r}… (+{len(value) - shown:,} bytes)"
        return repr(value)

    def _format_other(self, value: object, room: int) -> str:
        texts = self._texts
        limits = self._limits

        if id(value) not in texts:
            limit = room if self._greedy and not limits.brief else min(room, BRIEF_CHARS)
            described = limits.inner(value, limits.part(limit, brief=True))
            texts[id(value)] = value, described.text

        text = texts[id(value)][1]

        if len(text) > room or text.endswith("…") or "… (+" in text:
            self.is_cut = True
        return to_one_line(text, room) if "\n" in text else text

    def _format_container(self, value: object, inside: Contents, room: int) -> str:
        if id(value) in self._above:
            return f"{inside.begin}… itself{inside.end}"

        if not inside.length:
            return inside.empty or inside.begin + inside.end

        if len(self._above) >= MAX_CONTAINER_DEPTH or room < _MIN_CHARS or inside.items is None:
            self.is_cut = True
            return f"{inside.begin}… {inside.length:,}{inside.end}"

        self._above.add(id(value))
        try:
            return self._format_items(inside, room)
        finally:
            self._above.discard(id(value))

    def _format_items(self, inside: Contents, room: int) -> str:
        texts: list[str] = []
        is_pair = inside.length == 2 and not inside.is_keyed and not inside.unordered
        used = len(inside.begin) + len(inside.end)
        first: object = None

        for index, (key, item) in enumerate(self.items(inside)):
            label = ""
            if key is not None and key.is_field:
                label = f"{key.value}="
            elif key is not None:
                key_room = room - used if self._greedy else _KEY_CHARS
                label = f"{self.write(key.value, key_room)}: "

            last = index == inside.length - 1
            room_after = 0 if last else _MIN_CHARS
            left = room - used - len(label) - room_after
            least = 1 if last else 8
            if left < least or (self._greedy and self.is_cut):
                self.is_cut = True
                texts.append(f"… {max(inside.length - index, 1):,} more")
                break

            name = key and key.value
            if is_pair and index:
                name = first  # a pair may be a name and its value
            first = item

            share = left if self._greedy else compute_share(left, inside.length - index)
            text = self.part(name, item, share)
            texts.append(label + text)
            used += len(label) + len(text) + 2

        comma = "," if inside.end == ")" and inside.begin == "(" and inside.length == 1 else ""
        return f"{inside.begin}{', '.join(texts)}{comma}{inside.end}"

    def part(self, key: object, item: object, room: int) -> str:
        """Return the text of `item`, whose key or name is `key`, in at most `room` characters."""
        hidden = hide_part(key, item)
        return self.write(item, room) if hidden is None else cut_end(hidden, room)

    def items(self, inside: Contents) -> KeyedItems:
        """Return the items with their keys. Sets are sorted."""
        assert inside.items is not None
        if inside.unordered:
            items = [item for _, item in inside.items()]
            return ((None, item) for item in self.sorted(items))
        return inside.items()

    def sorted(self, found: list[object]) -> list[object]:
        """Return the elements of a set in a reproducible order."""
        if is_uniform(found):
            return sorted(found)  # type: ignore[type-var]
        probe = self.sharing_room()
        return sorted(found, key=lambda item: (name_type(type(item)), probe.write(item, 200)))


def compute_share(room: int, items: int) -> int:
    """Return the share of `room` for the next item, if `items` items remain."""
    return min(room, max(60, room // max(min(items, _MAX_SHARES), 1)))


def format_int(value: int) -> str:
    """Return the decimal digits of an integer. A very long one is shortened."""
    bits = int.bit_length(value)
    if bits <= MAX_BITS:
        return int.__repr__(value)
    sign = "-" if value < 0 else ""
    digits = int(bits * 0.30103) + 1
    size = f"an integer of {bits:,} bits, about {digits:,} digits"
    return f"{sign}{hex(abs(value) >> (bits - 64))}… ({size})"


MAX_DESCRIBED_PARTS: Final = 50  # limit for the parts of a container that are described separately
_SHORT_ITEM = 24
_NOTE_CHARS = 120


def describe_container(
    value: Any, limits: DescriptionLimits, is_rich: Callable[[object], bool]
) -> str | Description | None:
    """Describe a container in one line if it fits, else its first items. None for other values.

    Each part of a container with frames, figures, or arrays is described separately.
    """
    inside = list_contents(value)
    if inside is None:
        return None

    if not limits.brief and inside.items is not None and 0 < inside.length <= MAX_DESCRIBED_PARTS:
        parts = list(islice(inside.items(), MAX_DESCRIBED_PARTS))
        if any(is_rich(part) for _, part in parts) and not inside.unordered:
            return _describe_parts(value, parts, limits)

    whole = NestedText(limits, greedy=True)
    text = whole.write(value, limits.chars)
    if not whole.is_cut:
        return text

    nested = whole.sharing_room()
    if limits.brief or limits.chars < 2 * _NOTE_CHARS:
        return nested.write(value, limits.chars)
    return _describe_first_items(value, inside, nested, limits)


def _title(value: object, length: int) -> str:
    return f"{name_type(type(value))} of {count(length, 'item')}"


def _describe_first_items(
    value: object, inside: Contents, nested: NestedText, limits: DescriptionLimits
) -> str:
    title = _title(value, inside.length)

    if inside.items is None:
        what = limits.expression("")
        twenty = f"sorted({what or '…'}, key=str)[:20]"
        return f"{title}: unordered, too many to show; {twenty} has 20 of them"

    room = limits.chars - len(title) - _NOTE_CHARS
    lines: list[str] = []
    shown = 0

    for key, item in nested.items(inside):
        label = f"[{shown}] "
        if key is not None and key.is_field:
            label = f"{key.value} = "
        elif key is not None:
            label = f"{nested.write(key.value, _KEY_CHARS)}: "

        left = room - len(label) - 1
        if left < 16:
            break

        share = compute_share(left, inside.length - shown)
        line = label + nested.part(key and key.value, item, share)
        lines.append(line)
        room -= len(line) + 1
        shown += 1

    if not inside.is_keyed and all(len(line) <= _SHORT_ITEM for line in lines):
        lines = [", ".join(line.partition("] ")[2] for line in lines)]

    note = [_format_rest(inside, shown, limits)] if shown < inside.length else []
    return "\n".join([f"{title}:", *lines, *note])


def _format_rest(inside: Contents, shown: int, limits: DescriptionLimits) -> str:
    left = inside.length - shown
    if inside.unordered:
        inner = limits.expression("") or "…"
        return f"… {count(left, 'more item')}; sorted({inner})[{shown}:{shown + 20}] has the next"
    if inside.begin.endswith("{"):
        return f"… {count(left, 'more key')}; list({limits.name or '…'}) has all keys"
    return limits.more(left, "item", f"[{shown}:{shown + 20}] has the next")


def _describe_parts(
    value: object, parts: list[tuple[ItemKey | None, object]], limits: DescriptionLimits
) -> Description:
    title = f"{_title(value, len(parts))}:"
    room = limits.chars - len(title)
    lines = [title]
    images = list[Image]()

    for index, (key, part) in enumerate(parts):
        end = _format_access(key, index)
        label = f"{end}: "
        share = room // (len(parts) - index) - len(label) - 2
        if share < 20:
            lines.append(f"… {count(len(parts) - index, 'more item')}")
            break

        if (hidden := hide_part(key and key.value, part)) is not None:
            part = hidden

        name = limits.expression(end) if limits.name else ""
        inner = limits.part(share, name=name, images=limits.images - len(images))
        description = limits.inner(part, inner)

        lines.append(label + description.text)
        images += description.images
        room -= len(lines[-1]) + 1

    return Description(cut_end("\n".join(lines), limits.chars), tuple(images))


def _format_access(key: ItemKey | None, index: int) -> str:
    # The attribute or subscript that follows the container's name.
    if key is None:
        return f"[{index}]"
    if key.is_field:
        return f".{key.value}"

    kind = type(key.value)
    plain = kind in (str, int, float, bool, type(None))
    subscript = cut_end(repr(key.value), 80) if plain else name_type(kind)
    return f"[{subscript}]"
