"""The spelling of JSON text: what JP's usual form of a value lacks to reproduce a text of JP.

JP is a command-line assistant, whose files are written back byte for byte if nothing has changed.

A notebook stores values, not texts: it sorts keys, and a page turns `1.0` into `1`. The *spelling*
of a text is stored with its value and holds the differences from JP's form:

    {"order": [[1, 0], 0, …],       for each object with two or more keys, outermost first: the
                                    index in JP's order of each key of the text; 0 if the order
                                    is JP's
     "numbers": {"/a/b": "1e-7"}}   notation of numbers that JP writes differently, or that a
                                    page changes, by JSON pointer

If these do not reproduce the text (escapes, white space, duplicate keys), the spelling is the text
itself: {"text": "…"}. In this module, the *usual* value is the one with its keys in JP's order.

Source: `docs/record.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import JsonValue

from jp_nb.config.setting_paths import look_up
from jp_nb.interop.jp_json import NumberText, render_json
from jp_nb.interop.json_comparison import same_json
from jp_nb.interop.json_text import JsonText, parse_number
from jp_nb.json_values import JsonObject, as_object

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")


def find_spelling(source: JsonText, usual: JsonValue, pad: str = "") -> JsonObject:
    """Return the spelling that reproduces the text of `source`.

    It is `{"text": …}` if `apply_spelling` cannot reproduce the text. `pad` is the indentation of
    the lines after the first. `source` has the value of the text, and the notation of its unusual
    `numbers`.
    """
    whole_text: JsonObject = {"text": source.text}
    if usual != source.value:
        return whole_text

    orders: list[JsonValue] = []
    _add_orders(source.value, usual, orders)
    while orders and orders[-1] == 0:  # without an order, the keys are in JP's order
        orders.pop()

    spelling: JsonObject = {}
    if orders:
        spelling["order"] = orders
    if source.numbers:
        spelling["numbers"] = dict(source.numbers)

    is_reproduced = apply_spelling(usual, spelling, pad) == source.text
    return spelling if is_reproduced else whole_text


def apply_spelling(usual: JsonValue, spelling: JsonValue, pad: str = "") -> str:
    """Return the text of `usual` with the order and the numbers of the `spelling`.

    Parts that do not fit are ignored. The caller handles the spelling `{"text": …}`.
    """
    orders = as_object(spelling).get("order")
    if not isinstance(orders, list):
        orders = []
    value = _reorder(usual, iter(orders))

    for pointer, token in as_object(as_object(spelling).get("numbers")).items():
        if isinstance(token, str) and pointer:
            _replace_number(value, pointer, token)

    return render_json(value, pad)


def _add_orders(value: JsonValue, usual: Any, orders: list[JsonValue]) -> None:
    """Append the order of keys of each object in `value`, outermost first."""
    if isinstance(value, dict):
        if len(value) > 1:
            indexes = {key: index for index, key in enumerate(usual)}
            order = [indexes[key] for key in value]
            is_usual = order == list(range(len(order)))
            stored: Any = 0 if is_usual else order
            orders.append(stored)
        for key, item in value.items():
            _add_orders(item, usual[key], orders)
    elif isinstance(value, list):
        for item, usual_item in zip(value, usual, strict=True):
            _add_orders(item, usual_item, orders)


def _reorder(usual: JsonValue, orders: Iterator[JsonValue]) -> JsonValue:
    """Return a copy of `usual`. Each object takes the next of `orders`, as `_add_orders` adds."""
    if isinstance(usual, dict):
        keys = list(usual)
        order = next(orders, 0) if len(keys) > 1 else 0

        if isinstance(order, list) and _is_permutation(order, len(keys)):
            keys = [keys[index] for index in order]  # type: ignore[index]  # integers, see above
        return {key: _reorder(usual[key], orders) for key in keys}
    if isinstance(usual, list):
        return [_reorder(item, orders) for item in usual]
    return usual


def _is_permutation(order: Sequence[JsonValue], count: int) -> bool:
    """Return True if `order` has each of the indexes below `count` once."""
    indexes = [index for index in order if isinstance(index, int) and not isinstance(index, bool)]
    return len(order) == count and sorted(indexes) == list(range(count))


def _replace_number(value: JsonValue, pointer: str, token: str) -> None:
    """Replace the number at a JSON pointer by its notation.

    The spelling may come from someone else: it replaces only a number of equal value.
    """
    parts = pointer.split("/")[1:] or [""]
    *keys, last = [part.replace("~1", "/").replace("~0", "~") for part in parts]
    container: JsonValue = look_up(value, keys)
    number = look_up(container, [last])

    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return
    if not _is_number(token, number):
        return

    if isinstance(container, list):
        container[int(last)] = NumberText(token)
    elif isinstance(container, dict):
        container[last] = NumberText(token)


def _is_number(token: str, number: int | float) -> bool:
    """Return True if `token` is a notation of `number` in JSON."""
    try:
        return bool(_NUMBER.fullmatch(token)) and same_json(parse_number(token), number)
    except ValueError:  # too large, or too long
        return False
