"""Describe dicts, lists, sets, dataclasses and nested values.

Nothing is imported, lazy values are not computed, and iterators are not consumed.

Source: `docs/values.md`, `docs/notebook-tools.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, Literal

from jp_nb.images import Image
from jp_nb.values.base import (
    BRIEF_CHARS,
    Description,
    DescriptionLimits,
    bytes_without_hidden,
    count,
    hidden_part,
    hidden_value,
    to_one_line,
    truncate_end,
    without_hidden,
)
from jp_nb.values.custom import (
    FAILURES,
    has_custom_description,
    has_own_repr,
    method_of,
    type_name,
    types_of,
)
from jp_nb.values.expressions import ValuePathError

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


MAX_DEPTH: Final = 12
MAX_BITS: Final = 8_000
_LEAST = 24
_SHARES = 16
_KEY = 120
_EXACT: Final = frozenset((list, tuple, dict, set, frozenset))
_SIMPLE: Final = (bool, float, complex, type(None), type(...), type(NotImplemented))

Special = Callable[[object, int], str]


@dataclass(frozen=True, slots=True)
class NestedRules:
    """What counts for a value and all that is in it.

    Attributes:
        special: Returns the text of what is neither plain nor a container, in so many characters.
        texts: What was said of values already, by their id, beside them: it is asked for once.
    """

    special: Special
    texts: dict[int, tuple[object, str]] = field(default_factory=dict)


class NestedText:
    """Writes one value with all that is in it.

    Args:
        rules: What counts for it.
        greedy: The first parts get all the room, and nothing more is written once it is used up:
            that is how to find out whether all of it fits.
    """

    def __init__(self, rules: NestedRules, *, greedy: bool) -> None:
        self.rules = rules
        self._greedy = greedy
        self._above: set[int] = set()
        self.is_cut = False

    def write(self, value: object, room: int) -> str:
        """Return `value` in at most `room` characters; `is_cut` says if something is missing."""
        text = self._written(value, max(room, 1))
        if len(text) > room:
            self.is_cut = True
            return truncate_end(text, room)
        return text

    def _written(self, value: object, room: int) -> str:
        kind = type(value)
        if (hidden := hidden_value(value)) is not None:
            return hidden
        if kind in _SIMPLE:
            return repr(value)
        if kind is str:
            return self._string(value, room)  # type: ignore[arg-type]
        if kind is int:
            return int_text(value)  # type: ignore[arg-type]
        if kind in (bytes, bytearray):
            return self._bytes(value, room)  # type: ignore[arg-type]
        if kind in _EXACT or not (has_own_repr(value) or has_custom_description(value)):
            inside = contents(value)
            if inside is not None:
                return self._container(value, inside, room)
        return self._other(value, room)

    def _string(self, value: str, room: int) -> str:
        if len(value) + 2 > room:
            self.is_cut = True
            value = without_hidden(value)
            shown = max(room - 24, 4)
            return f"{value[:shown]!r}… (+{len(value) - shown:,})"
        return repr(value)

    def _bytes(self, value: bytes, room: int) -> str:
        shown = max(room // 4, 4)
        if len(value) > shown:
            self.is_cut = True
            value = bytes_without_hidden(value)
            return f"{bytes(value[:shown])!r}… (+{len(value) - shown:,} bytes)"
        return repr(value)

    def _other(self, value: object, room: int) -> str:
        texts = self.rules.texts
        if id(value) not in texts:
            said = self.rules.special(value, room if self._greedy else min(room, BRIEF_CHARS))
            texts[id(value)] = value, said
        said = texts[id(value)][1]
        if len(said) > room or said.endswith("…") or "… (+" in said:
            self.is_cut = True
        return to_one_line(said, room) if "\n" in said else said

    def _container(self, value: object, inside: Contents, room: int) -> str:
        if id(value) in self._above:
            return f"{inside.begin}… itself{inside.end}"
        if len(self._above) >= MAX_DEPTH or room < _LEAST:
            self.is_cut = self.is_cut or inside.length > 0
            return (
                f"{inside.begin}… {inside.length:,}{inside.end}" if inside.length else inside.empty
            )
        self._above.add(id(value))
        try:
            return self._items(inside, room)
        finally:
            self._above.discard(id(value))

    def _items(self, inside: Contents, room: int) -> str:
        if not inside.length:
            return inside.empty
        if inside.items is None:
            self.is_cut = True
            return f"{inside.begin}… {inside.length:,}{inside.end}"
        texts: list[str] = []
        is_pair = inside.length == 2 and not inside.is_keyed and not inside.unordered
        used = len(inside.begin) + len(inside.end)
        first: object = None
        for index, (key, item) in enumerate(self._ordered(inside)):
            label = self._label(key, room - used if self._greedy else _KEY)
            last = index == inside.length - 1
            left = room - used - len(label) - (0 if last else _LEAST)
            if left < (1 if last else 8) or (self._greedy and self.is_cut):
                self.is_cut = True
                texts.append(f"… {max(inside.length - index, 1):,} more")
                break
            name = first if is_pair and index else key  # of a pair, a text is the name
            first = item
            text = self.part(name, item, self._share(left, inside.length - index))
            texts.append(label + text)
            used += len(label) + len(text) + 2
        comma = "," if inside.end == ")" and inside.begin == "(" and inside.length == 1 else ""
        return f"{inside.begin}{', '.join(texts)}{comma}{inside.end}"

    def _share(self, left: int, items: int) -> int:
        if self._greedy:
            return left
        return min(left, max(60, left // max(min(items, _SHARES), 1)))

    def part(self, key: object, item: object, room: int) -> str:
        """Return the part of a value that stands under `key`, in at most `room` characters."""
        hidden = hidden_part(key.key if type(key) is MappingKey else key, item)
        return self.write(item, room) if hidden is None else truncate_end(hidden, room)

    def _ordered(self, inside: Contents) -> Iterable[tuple[object, object]]:
        assert inside.items is not None
        if inside.unordered:
            return ((None, item) for item in self.sorted(inside.items()))
        return inside.items()

    def _label(self, key: object, room: int) -> str:
        if key is None:
            return ""
        if type(key) is FieldName:
            return f"{key}="
        return f"{self.write(key.key, room)}: "  # type: ignore[attr-defined]

    def sorted(self, items: Iterable[tuple[Any, object]]) -> list[object]:
        """Return the elements of a set in an order that is the same in every process."""
        found = [item for _, item in items]
        if all(type(item) is str for item in found) or all(type(item) is int for item in found):
            return sorted(found)  # type: ignore[type-var]
        probe = NestedText(self.rules, greedy=False)
        return sorted(found, key=lambda item: (type_name(type(item)), probe.write(item, 200)))


def int_text(value: int) -> str:
    """Return an integer in decimal digits, a very long one by its length and its beginning."""
    bits = int.bit_length(value)
    if bits <= MAX_BITS:
        return int.__repr__(value)
    sign = "-" if value < 0 else ""
    digits = int(bits * 0.30103) + 1
    size = f"an integer of {bits:,} bits, about {digits:,} digits"
    return f"{sign}{hex(abs(value) >> (bits - 64))}… ({size})"


MAX_PARTS: Final = 50
"""Parts of a container that are described one below the other, as values of their own."""
_FLOWING = 24
_NOTE = 120


def describe_container(
    value: Any, limits: DescriptionLimits, special: Special, is_rich: Callable[[object], bool]
) -> str | Description | None:
    """Return a container in one line if all of it fits, else its beginning; None: it is none.

    One with frames, figures or arrays in it is described part by part.
    """
    inside = contents(value)
    if inside is None:
        return None
    if not limits.brief and inside.items is not None and 0 < inside.length <= MAX_PARTS:
        parts = head(inside.items(), MAX_PARTS)
        if any(is_rich(part) for _, part in parts) and not inside.unordered:
            return _part_by_part(value, parts, limits)
    rules = NestedRules(special)
    whole = NestedText(rules, greedy=True)
    text = whole.write(value, limits.chars)
    if not whole.is_cut:
        return text
    nested = NestedText(rules, greedy=False)
    if limits.brief or limits.chars < 2 * _NOTE:
        return nested.write(value, limits.chars)
    return _beginning(value, inside, nested, limits)


def _title(value: object, length: int) -> str:
    return f"{type_name(type(value))} of {count(length, 'item')}"


def _beginning(
    value: object, inside: Contents, nested: NestedText, limits: DescriptionLimits
) -> str:
    """Return as many items as there is room for, and how many more there are."""
    title = _title(value, inside.length)
    if inside.items is None:
        what = limits.expression("")
        return f"{title}: unordered, too many to show; sorted({what or '…'}, key=str)[:20] has some"
    room = limits.chars - len(title) - _NOTE
    lines: list[str] = []
    shown = 0
    for key, item in _items(inside, nested):
        label = _label(key, shown, nested)
        left = room - len(label) - 1
        if left < 16:
            break
        share = min(left, max(60, left // max(min(inside.length - shown, 16), 1)))
        line = label + nested.part(key, item, share)
        lines.append(line)
        room -= len(line) + 1
        shown += 1
    body = lines if inside.is_keyed else _laid_out(lines)
    note = [_rest(inside, shown, limits)] if shown < inside.length else []
    return "\n".join([f"{title}:", *body, *note])


def _items(inside: Contents, nested: NestedText) -> Any:
    assert inside.items is not None
    if inside.unordered:
        return ((None, item) for item in nested.sorted(inside.items()))
    return inside.items()


def _label(key: object, index: int, nested: NestedText) -> str:
    if type(key) is FieldName:
        return f"{key} = "
    if type(key) is MappingKey:
        return f"{nested.write(key.key, 120)}: "
    return f"[{index}] "


def _laid_out(lines: list[str]) -> list[str]:
    """Return short items in one line, without their numbers; else each in a line of its own."""
    if any(len(line) > _FLOWING for line in lines):
        return lines
    return [", ".join(line.partition("] ")[2] for line in lines)]


def _rest(inside: Contents, shown: int, limits: DescriptionLimits) -> str:
    left = inside.length - shown
    if inside.unordered:
        inner = limits.expression("") or "…"
        return f"… {count(left, 'more item')}; sorted({inner})[{shown}:{shown + 20}] has the next"
    if inside.begin.endswith("{"):
        return f"… {count(left, 'more key')}; list({limits.name or '…'}) has all keys"
    return limits.more(left, "item", f"[{shown}:{shown + 20}] has the next")


def _part_by_part(
    value: object, parts: list[tuple[Any, object]], limits: DescriptionLimits
) -> Description:
    """Return each part described as a value of its own, with images in the order of the parts."""
    title = f"{_title(value, len(parts))}:"
    room = limits.chars - len(title)
    lines, images = [title], list[Image]()
    for index, (key, part) in enumerate(parts):
        end = _end(key, index)
        label = f"{end}: "
        share = room // (len(parts) - index) - len(label) - 2
        if share < 20:
            lines.append(f"… {count(len(parts) - index, 'more item')}")
            break
        hidden = hidden_part(key.key if type(key) is MappingKey else key, part)
        if hidden is not None:
            part = hidden
        name = limits.expression(end) if limits.name else ""
        inner = limits.part(share, name=name, images=limits.images - len(images))
        said = limits.inner(part, inner)
        lines.append(label + said.text)
        images += said.images
        room -= len(lines[-1]) + 1
    return Description(truncate_end("\n".join(lines), limits.chars), tuple(images))


def _end(key: object, index: int) -> str:
    """Return what is written behind the container's name for one part."""
    if type(key) is FieldName:
        return f".{key}"
    if type(key) is MappingKey:
        plain = type(key.key) in (str, int, float, bool, type(None))
        return f"[{truncate_end(repr(key.key), 80)}]" if plain else f"[{type_name(type(key.key))}]"
    return f"[{index}]"


Part = Literal["head", "tail", "sample"]
MAX_INDEXED: Final = 100_000
"""Items of a set, or keys of a mapping, that are listed to take some of them."""


def part_of(value: Any, part: Part, count: int) -> Any:
    """Return `count` items or rows of `value`, of the same kind where that can be.

    `sample` is spread evenly over the whole: the same value gives the same items.

    Raises:
        ValuePathError: If it has no items in an order, or they cannot be taken.
    """
    kind = type(value).__name__
    if not hasattr(type(value), "__len__"):
        raise ValuePathError(f"this {kind} has no {part}: its length is unknown")
    try:
        length = len(value)
        take = _taker(value)
        if take is not None:
            return take(_places(part, count, length))
    except Exception as exc:  # whatever the value's own code raises
        raise ValuePathError(
            f"cannot take the {part} of this {kind}: {type(exc).__name__}: {exc}"
        ) from exc
    raise ValuePathError(f"this {kind} has no {part}: its items have no order")


def pieces_of(value: Any, size: int) -> list[Any]:
    """Return a frame or a series in pieces of `size` rows, as a description shows all of; else it.

    Raises:
        ValuePathError: If it cannot be cut.
    """
    of_pandas = hasattr(type(value), "iloc")
    if not of_pandas and not (hasattr(type(value), "columns") and hasattr(type(value), "shape")):
        return [value]
    try:
        starts = range(0, max(len(value), 1), size)
        rows = value.iloc if of_pandas else value
        return [rows[start : start + size] for start in starts]
    except Exception as exc:  # whatever the value's own code raises
        raise ValuePathError(f"cannot read its rows: {type(exc).__name__}: {exc}") from exc


def _places(part: Part, count: int, length: int) -> range | list[int]:
    count = min(count, length)
    match part:
        case "head":
            return range(count)
        case "tail":
            return range(length - count, length)
        case "sample":
            return [i * length // count for i in range(count)]


def _taker(value: Any) -> Callable[[range | list[int]], Any] | None:
    """Return what takes the items at some places; None if `value` has no order."""
    if isinstance(value, Mapping):
        return lambda places: {key: value[key] for key in _picked(list(_few(value)), places)}
    if isinstance(value, Set):
        ordered = sorted(_few(value), key=lambda item: (type(item).__name__, repr(item)))
        return lambda places: _picked(ordered, places)
    if hasattr(type(value), "iloc"):  # frames and series of pandas
        return lambda places: value.iloc[_index(places)]
    if not hasattr(type(value), "__getitem__"):
        return None
    if isinstance(value, (list, tuple)):
        return lambda places: _kind_of(value)(_picked(value, places))
    return lambda places: _of_sequence(value, places)


def _kind_of(value: Any) -> type[list[Any]] | type[tuple[Any, ...]]:
    return tuple if isinstance(value, tuple) else list


def _of_sequence(value: Any, places: range | list[int]) -> Any:
    if isinstance(places, range):
        try:
            return value[places.start : places.stop]
        except (TypeError, KeyError):  # a deque takes no slices
            return _picked(value, places)
    if isinstance(value, (str, bytes, bytearray)):
        raise ValueError("a sample of single characters has no meaning: use head, tail or a slice")
    if hasattr(type(value), "shape"):  # an array, a frame
        return value[places]
    return _picked(value, places)


def _index(places: range | list[int]) -> slice | list[int]:
    return slice(places.start, places.stop) if isinstance(places, range) else places


def _picked(items: Any, places: range | list[int]) -> list[Any]:
    return [items[i] for i in places]


def _few(items: Any) -> Any:
    if len(items) > MAX_INDEXED:
        raise ValueError(f"it has more than {MAX_INDEXED:,} items: give a key")
    return islice(items, MAX_INDEXED)
