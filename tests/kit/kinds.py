"""The kinds of values, by the words of the kit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeGuard

from tests.kit import _words


def is_kind(value: object, *kinds: str) -> TypeGuard[Any]:
    """Return True if `value` is of one of the `kinds`, such as `"chat_request"` or `"notice"`."""
    return isinstance(value, tuple(_find_class(kind) for kind in kinds))


def select_kind(values: Iterable[object], *kinds: str) -> list[Any]:
    """Return the `values` that are of one of the `kinds`, in their order."""
    return [value for value in values if is_kind(value, *kinds)]


def kind_of(value: object) -> str:
    """Return the kind of `value`. For a value without a word, it is the name of its class."""
    words = {class_: word for word, class_ in _words.ALL.items()}
    return words.get(type(value), type(value).__name__)


def list_kinds(values: Iterable[object]) -> list[str]:
    """Return the kind of each of the `values`, in their order."""
    return [kind_of(value) for value in values]


def _find_class(kind: str) -> type[Any]:
    if kind in _words.ALL:
        return _words.ALL[kind]

    # Only tests of MCP servers load the modules of servers.
    from tests.kit.servers import SERVER_VALUES

    return _words.find({**_words.ALL, **SERVER_VALUES}, kind)
