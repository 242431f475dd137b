"""Describes mappings, sequences, sets and records.

Source: `docs/values.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from jp_nb.image import Image
from jp_nb.values.container_contents import (
    Contents,
    FieldName,
    MappingKey,
    contents,
    head,
)
from jp_nb.values.cutting import count, cut_end
from jp_nb.values.description import Description
from jp_nb.values.nested import NestedRules, NestedText, Special
from jp_nb.values.own_text import type_name
from jp_nb.values.privacy import hidden_part
from jp_nb.values.telling import Telling

MAX_PARTS: Final = 50
"""Parts of a container that are described one below the other, as values of their own."""
_FLOWING = 24
_NOTE = 120


def describe_container(
    value: Any, telling: Telling, special: Special, is_rich: Callable[[object], bool]
) -> str | Description | None:
    """Return a container in one line if all of it fits, else its beginning; None: it is none.

    One with frames, figures or arrays in it is described part by part.
    """
    inside = contents(value)
    if inside is None:
        return None
    if not telling.brief and inside.items is not None and 0 < inside.length <= MAX_PARTS:
        parts = head(inside.items(), MAX_PARTS)
        if any(is_rich(part) for _, part in parts) and not inside.unordered:
            return _part_by_part(value, parts, telling)
    rules = NestedRules(special)
    whole = NestedText(rules, greedy=True)
    text = whole.write(value, telling.chars)
    if not whole.is_cut:
        return text
    nested = NestedText(rules, greedy=False)
    if telling.brief or telling.chars < 2 * _NOTE:
        return nested.write(value, telling.chars)
    return _beginning(value, inside, nested, telling)


def _title(value: object, length: int) -> str:
    return f"{type_name(type(value))} of {count(length, 'item')}"


def _beginning(value: object, inside: Contents, nested: NestedText, telling: Telling) -> str:
    """Return as many items as there is room for, and how many more there are."""
    title = _title(value, inside.length)
    if inside.items is None:
        what = telling.expression("")
        return f"{title}: unordered, too many to show; sorted({what or '…'}, key=str)[:20] has some"
    room = telling.chars - len(title) - _NOTE
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
    note = [_rest(inside, shown, telling)] if shown < inside.length else []
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


def _rest(inside: Contents, shown: int, telling: Telling) -> str:
    left = inside.length - shown
    if inside.unordered:
        inner = telling.expression("") or "…"
        return f"… {count(left, 'more item')}; sorted({inner})[{shown}:{shown + 20}] has the next"
    if inside.begin.endswith("{"):
        return f"… {count(left, 'more key')}; list({telling.name or '…'}) has all keys"
    return telling.more(left, "item", f"[{shown}:{shown + 20}] has the next")


def _part_by_part(value: object, parts: list[tuple[Any, object]], telling: Telling) -> Description:
    """Return each part described as a value of its own, with images in the order of the parts."""
    title = f"{_title(value, len(parts))}:"
    room = telling.chars - len(title)
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
        name = telling.expression(end) if telling.name else ""
        inner = telling.part(share, name=name, images=telling.images - len(images))
        said = telling.inner(part, inner)
        lines.append(label + said.text)
        images += said.images
        room -= len(lines[-1]) + 1
    return Description(cut_end("\n".join(lines), telling.chars), tuple(images))


def _end(key: object, index: int) -> str:
    """Return what is written behind the container's name for one part."""
    if type(key) is FieldName:
        return f".{key}"
    if type(key) is MappingKey:
        plain = type(key.key) in (str, int, float, bool, type(None))
        return f"[{cut_end(repr(key.key), 80)}]" if plain else f"[{type_name(type(key.key))}]"
    return f"[{index}]"
