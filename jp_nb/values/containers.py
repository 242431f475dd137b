"""Describe dicts, lists, sets, dataclasses, and nested values.

A container is described in one line if it fits, else by its first items. Descriptions import
nothing, compute no lazy values, and consume no iterators. The user's code runs only in mappings of
other classes, and for parts with their own `repr` or a describer.

`list_contents` (`contents.py`) returns the items of a container, with their keys. `NestedText`
(`nested_text.py`) writes them, similar to `repr`, within a number of characters.

Source: `docs/values.md`, `docs/notebook-tools.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from jp_nb.images import Image
from jp_nb.values.base import Description, DescriptionLimits
from jp_nb.values.class_facts import name_type
from jp_nb.values.contents import Contents, ItemKey, list_contents
from jp_nb.values.cut_text import cut_end, format_quantity
from jp_nb.values.nested_text import NestedText, compute_share
from jp_nb.values.privacy import hide_part

MAX_DESCRIBED_PARTS: Final = 50
"""Maximum number of parts of a container that are described separately."""
_KEY_CHARS = 120
"""Maximum length of a key."""
_SHORT_ITEM = 24
"""Maximum length of items that share one line."""
_NOTE_CHARS = 120
"""Room for the note about omitted items."""
_MIN_ITEM = 16
"""With less room, no further item is described in one line."""
_MIN_PART = 20
"""With less room for each of the others, no further part is described separately."""


def describe_container(
    value: Any, limits: DescriptionLimits, is_rich: Callable[[object], bool]
) -> str | Description | None:
    """Describe a container in one line if it fits, else its first items. None for other values.

    Each part of a container with *rich* parts, such as frames, figures, and arrays, is described
    separately. `is_rich` is that of `describe.py`, which imports this module.
    """
    inside = list_contents(value)
    if inside is None:
        return None

    if not limits.brief and inside.items is not None and 0 < inside.length <= MAX_DESCRIBED_PARTS:
        parts = list(islice(inside.items(), MAX_DESCRIBED_PARTS))
        if any(is_rich(part) for _, part in parts) and not inside.unordered:
            return _describe_parts(value, parts, limits)

    # In one line, if all of it fits: a greedy text gives the first parts all the room.
    whole = NestedText(limits, greedy=True)
    text = whole.write(value, limits.chars)
    if not whole.is_cut:
        return text

    # Otherwise the parts share the room. Texts of parts that were written are used again.
    nested = whole.sharing_room()
    if limits.brief or limits.chars < 2 * _NOTE_CHARS:
        return nested.write(value, limits.chars)
    return _describe_first_items(value, inside, nested, limits)


def _format_title_of(value: object, length: int) -> str:
    return f"{name_type(type(value))} of {format_quantity(length, 'item')}"


def _describe_first_items(
    value: object, inside: Contents, nested: NestedText, limits: DescriptionLimits
) -> str:
    """Return the items that fit, each in one line, with an expression for the others."""
    title = _format_title_of(value, inside.length)

    if inside.items is None:  # a set that is too large to sort
        expression = limits.format_expression("") or "…"
        first_20 = f"sorted({expression}, key=str)[:20]"
        return f"{title}: unordered, too many to show; {first_20} has 20 of them"

    room = limits.chars - len(title) - _NOTE_CHARS
    lines: list[str] = []
    shown = 0

    for key, item in nested.iter_items(inside):
        name = None if key is None else key.value
        label = f"[{shown}] "
        if key is not None and key.is_field:
            label = f"{name} = "
        elif key is not None:
            label = f"{nested.write(name, _KEY_CHARS)}: "

        left = room - len(label) - 1
        if left < _MIN_ITEM:
            break

        share = compute_share(left, inside.length - shown)
        line = label + nested.write_part(name, item, share)
        lines.append(line)
        room -= len(line) + 1
        shown += 1

    if not inside.is_keyed and all(len(line) <= _SHORT_ITEM for line in lines):
        lines = [", ".join(line.partition("] ")[2] for line in lines)]  # without `[0] `

    note = [_format_rest(inside, shown, limits)] if shown < inside.length else []
    return "\n".join([f"{title}:", *lines, *note])


def _format_rest(inside: Contents, shown: int, limits: DescriptionLimits) -> str:
    """Return the note about the items after the first `shown` ones."""
    left = inside.length - shown
    if inside.unordered:
        inner = limits.format_expression("") or "…"
        note = f"… {format_quantity(left, 'more item')}"
        return f"{note}; sorted({inner})[{shown}:{shown + 20}] has the next"
    if inside.begin.endswith("{"):  # a dict, or another mapping
        return f"… {format_quantity(left, 'more key')}; list({limits.name or '…'}) has all keys"
    return limits.format_omitted(left, "item", f"[{shown}:{shown + 20}] has the next")


def _describe_parts(
    value: object, parts: list[tuple[ItemKey | None, object]], limits: DescriptionLimits
) -> Description:
    """Return the descriptions of all `parts`, which share the room and the number of images."""
    title = f"{_format_title_of(value, len(parts))}:"
    room = limits.chars - len(title)
    lines = [title]
    images = list[Image]()

    for index, (key, part) in enumerate(parts):
        end = _format_access(key, index)
        label = f"{end}: "
        share = room // (len(parts) - index) - len(label) - 2
        if share < _MIN_PART:
            lines.append(f"… {format_quantity(len(parts) - index, 'more item')}")
            break

        key_value = None if key is None else key.value
        hidden = hide_part(key_value, part)
        if hidden is not None:  # a secret: this text is shown in its place
            part = hidden

        name = limits.format_expression(end) if limits.name else ""
        part_limits = limits.for_part(share, name=name, images=limits.images - len(images))
        description = limits.describe_part(part, part_limits)

        lines.append(label + description.text)
        images += description.images
        room -= len(lines[-1]) + 1

    return Description(cut_end("\n".join(lines), limits.chars), tuple(images))


def _format_access(key: ItemKey | None, index: int) -> str:
    """Return the attribute or subscript of a part, which follows the name of its container."""
    if key is None:
        return f"[{index}]"
    if key.is_field:
        return f".{key.value}"

    kind = type(key.value)
    plain = kind in (str, int, float, bool, type(None))
    subscript = cut_end(repr(key.value), 80) if plain else name_type(kind)
    return f"[{subscript}]"
