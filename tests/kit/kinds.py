"""The values of the program by kind: make one, and read the kind of one.

A kind is a word, such as `"tool_definition"` or `"not_answered"`. `tests/kit/_words.py` lists them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeGuard

from tests.kit import _words


def make(kind: str, /, *values: Any, **fields: Any) -> Any:
    """Return a value of the program: `make("tool_definition", "look", "Look.", schema)`.

    Events have functions of their own: `new_event`, `model_event`, and `display_event`.

    A type of answer is the stored kind with `_answer`: `make("select_answer", options=("a", "b"))`.
    Parts of stored entries need no kind: `new_event` takes them as JSON objects, as in
    `new_event("compaction", from_turn=0, to_turn=1, summary={"summary": "S"})`, and marks are in
    `metadata`, as `docs/record.md` describes them.
    """
    return _words.find_value(kind)(*values, **fields)


def is_kind(value: object, *kinds: str) -> TypeGuard[Any]:
    """Return True if `value` is of one of the `kinds`, such as `"chat_request"` or `"notice"`."""
    return isinstance(value, tuple(_find_class(kind) for kind in kinds))


def select_kind(values: Iterable[object], *kinds: str) -> list[Any]:
    """Return the `values` that are of one of the `kinds`, in their order."""
    return [value for value in values if is_kind(value, *kinds)]


def kind_of(value: object) -> str:
    """Return the kind of `value`. For a value without a word, it is the name of its class."""
    words = {class_: word for word, class_ in {**_words.EVENTS, **_words.VALUES}.items()}
    return words.get(type(value), type(value).__name__)


def _find_class(kind: str) -> type[Any]:
    if kind in _words.EVENTS:
        return _words.EVENTS[kind]
    return _words.find_value(kind)
