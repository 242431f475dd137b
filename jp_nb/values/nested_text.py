"""`NestedText`: the text of a value with its parts, similar to `repr`, in a limited length.

The parts of a container share its room: `{'a': [1, 2, 3], 'b': 'long te… (+900)'}`. *Room* is a
number of characters. `Contents` (`contents.py`) has the brackets of a container (`begin`, `end`),
its `length`, and a function that returns its `items` with their keys; `items` is None for a set
that is too large to sort. `hide_value` and `hide_part` return the text that replaces a secret; None
for other values (`privacy.py`).

Source: `docs/values.md`.
"""

from __future__ import annotations

from typing import Final

from jp_nb.values.base import BRIEF_CHARS, DescriptionLimits
from jp_nb.values.class_facts import name_type
from jp_nb.values.contents import Contents, ItemKey, KeyedItems, is_uniform, list_contents
from jp_nb.values.custom import has_custom_description
from jp_nb.values.cut_text import cut_end, to_one_line
from jp_nb.values.privacy import hide_part, hide_value, read_bytes_without_hidden, without_hidden
from jp_nb.values.repr_text import has_own_repr

MAX_CONTAINER_DEPTH: Final = 12
"""Maximum nesting of containers that are described, and searched for secrets."""
MAX_BITS: Final = 8_000
"""Maximum size of an integer whose digits are shown."""
_MIN_CHARS = 24
"""Room that is kept for the items after the current one, and the least room of a container."""
_COUNT_CHARS = 24
"""Room for the quotes of a cut text, and for the number of its other characters."""
_MIN_SHARE = 60
"""Least share of an item, if there is as much room: with less, no item of a long list is useful."""
_MAX_SHARES = 16
"""Number of items that at most share the room: the first ones of a long container."""
_KEY_CHARS = 120
"""Maximum length of a key."""
_BUILT_IN_CONTAINERS: Final = frozenset((list, tuple, dict, set, frozenset))
_SIMPLE: Final = (bool, float, complex, type(None), type(...), type(NotImplemented))
"""Types whose `repr` is short."""


class NestedText:
    """Text of one value with its parts, similar to `repr`.

    Args:
        limits: Limits of the value. `limits.describe_part` describes parts of other types, and
            parts with their own `repr` or a describer.
        greedy: True to give the first parts all the room, and to stop when it is used up. This
            determines if the complete value fits. False to share the room among the parts.

    Attributes:
        is_cut: True if a part is missing in the texts so far.
    """

    def __init__(self, limits: DescriptionLimits, *, greedy: bool) -> None:
        self.is_cut = False
        self._limits = limits
        self._greedy = greedy
        self._enclosing: set[int] = set()  # `id()` of the containers around the current part
        # Descriptions by `id()` of the value, so that the code of a value runs once. The value is
        # kept too, so that no other value gets its id.
        self._texts: dict[int, tuple[object, str]] = {}

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

        # An object of a user's class is described by its own text, if it has one.
        has_own_text = has_own_repr(value) or has_custom_description(value)
        if kind in _BUILT_IN_CONTAINERS or not has_own_text:
            inside = list_contents(value)
            if inside is not None:
                return self._format_container(value, inside, room)
        return self._format_other(value, room)

    def _format_string(self, value: str, room: int) -> str:
        if len(value) + 2 > room:
            self.is_cut = True
            # Secrets are hidden in the whole description later, but a cut one is not recognized.
            value = without_hidden(value)
            shown = max(room - _COUNT_CHARS, 4)
            return f"{value[:shown]!r}… (+{len(value) - shown:,})"
        return repr(value)

    def _format_bytes(self, value: bytes, room: int) -> str:
        shown = max(room // 4, 4)  # a byte may take four characters, such as `\x00`
        if len(value) > shown:
            self.is_cut = True
            value = read_bytes_without_hidden(value)
            return f"{bytes(value[:shown])!r}… (+{len(value) - shown:,} bytes)"
        return repr(value)

    def _format_other(self, value: object, room: int) -> str:
        """Return the description of a value that is no built-in container, text, or number.

        It is in one line. A greedy text, which may be the whole description, gives it all the room.
        """
        texts = self._texts
        limits = self._limits

        if id(value) not in texts:
            limit = room if self._greedy and not limits.brief else min(room, BRIEF_CHARS)
            described = limits.describe_part(value, limits.for_part(limit, brief=True))
            texts[id(value)] = value, described.text

        text = texts[id(value)][1]

        has_mark_of_cut = text.endswith("…") or "… (+" in text
        if len(text) > room or has_mark_of_cut:
            self.is_cut = True
        return to_one_line(text, room) if "\n" in text else text

    def _format_container(self, value: object, inside: Contents, room: int) -> str:
        if id(value) in self._enclosing:
            return f"{inside.begin}… itself{inside.end}"

        if not inside.length:
            return inside.empty or inside.begin + inside.end

        if len(self._enclosing) >= MAX_CONTAINER_DEPTH or room < _MIN_CHARS or inside.items is None:
            self.is_cut = True
            return f"{inside.begin}… {inside.length:,}{inside.end}"

        self._enclosing.add(id(value))
        try:
            return self._format_items(inside, room)
        finally:
            self._enclosing.discard(id(value))

    def _format_items(self, inside: Contents, room: int) -> str:
        """Return the items in brackets, as many as fit, with the number of the others."""
        texts: list[str] = []
        is_pair = inside.length == 2 and not inside.is_keyed and not inside.unordered
        used = len(inside.begin) + len(inside.end)
        first_item: object = None

        for index, (key, item) in enumerate(self.iter_items(inside)):
            label = self._format_label(key, room - used)
            is_last = index == inside.length - 1
            room_after = 0 if is_last else _MIN_CHARS  # for the number of the other items
            left = room - used - len(label) - room_after
            min_left = 1 if is_last else 8
            if left < min_left or (self._greedy and self.is_cut):
                self.is_cut = True
                texts.append(f"… {max(inside.length - index, 1):,} more")
                break

            # The name decides if the item is a secret. A pair may be a name and its value.
            name = key and key.value
            if is_pair and index == 1:
                name = first_item
            first_item = item

            share = left if self._greedy else compute_share(left, inside.length - index)
            text = self.write_part(name, item, share)
            texts.append(label + text)
            used += len(label) + len(text) + 2

        is_single_tuple = (inside.begin, inside.end, inside.length) == ("(", ")", 1)
        comma = "," if is_single_tuple else ""
        return f"{inside.begin}{', '.join(texts)}{comma}{inside.end}"

    def _format_label(self, key: ItemKey | None, room: int) -> str:
        """Return the key or the name of an item with its sign; "" for an item of a list."""
        if key is None:
            return ""
        if key.is_field:
            return f"{key.value}="

        key_room = room if self._greedy else _KEY_CHARS
        return f"{self.write(key.value, key_room)}: "

    def write_part(self, key: object, item: object, room: int) -> str:
        """Return the text of `item`, whose key or name is `key`, in at most `room` characters."""
        hidden = hide_part(key, item)
        return self.write(item, room) if hidden is None else cut_end(hidden, room)

    def iter_items(self, inside: Contents) -> KeyedItems:
        """Return the items with their keys. Sets are sorted."""
        assert inside.items is not None
        if inside.unordered:
            items = [item for _, item in inside.items()]
            return ((None, item) for item in self.sort_elements(items))
        return inside.items()

    def sort_elements(self, elements: list[object]) -> list[object]:
        """Return the elements of a set in a reproducible order."""
        if is_uniform(elements):
            return sorted(elements)  # type: ignore[type-var]
        probe = self.sharing_room()
        return sorted(elements, key=lambda item: (name_type(type(item)), probe.write(item, 200)))


def compute_share(room: int, items: int) -> int:
    """Return the share of `room` for the next item, if `items` items remain."""
    return min(room, max(_MIN_SHARE, room // max(min(items, _MAX_SHARES), 1)))


def format_int(value: int) -> str:
    """Return the decimal digits of an integer. A very long one is shortened."""
    bits = int.bit_length(value)
    if bits <= MAX_BITS:
        return int.__repr__(value)
    sign = "-" if value < 0 else ""
    digits = int(bits * 0.30103) + 1
    size = f"an integer of {bits:,} bits, about {digits:,} digits"
    return f"{sign}{hex(abs(value) >> (bits - 64))}… ({size})"
