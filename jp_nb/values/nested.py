"""Writes values inside of values: bounded in length, depth and work, and never in a circle.

Source: `docs/values.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from jp_nb.values.container_contents import Contents, FieldName, MappingKey, contents
from jp_nb.values.cutting import cut_end, in_one_line
from jp_nb.values.own_text import has_own_repr, type_name
from jp_nb.values.own_words import has_own_words
from jp_nb.values.privacy import bytes_without_hidden, hidden_part, hidden_value, without_hidden
from jp_nb.values.telling import BRIEF_CHARS

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
            return cut_end(text, room)
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
        if kind in _EXACT or not (has_own_repr(value) or has_own_words(value)):
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
        return in_one_line(said, room) if "\n" in said else said

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
        return self.write(item, room) if hidden is None else cut_end(hidden, room)

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
