"""Attributes of a session that are made on first use, by any thread, and only once.

`functools.cached_property` does not ensure this since Python 3.12: threads that use the attribute
at the same time each make an object of their own. The threads of one cell would then have different
turn runners, and an interrupt would reach only one of them.

Source: https://docs.python.org/3/library/functools.html#functools.cached_property
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from threading import RLock
from typing import Any, Final, TypeVar

T = TypeVar("T")

# One for all attributes, because making one may use others.
_LOCK: Final = RLock()


class _SharedProperty(cached_property[Any]):
    """A cached property that is computed with the lock held.

    The value becomes an attribute of the instance with the same name. Python then finds the
    attribute first, and does not call `__get__` any more.
    """

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        with _LOCK:
            return super().__get__(instance, owner)


def shared_property(function: Callable[[Any], T]) -> cached_property[T]:
    """Return a cached property that all threads share: `function` makes its value once."""
    return _SharedProperty(function)


def is_made(instance: object, name: str) -> bool:
    """Return True if the cached property `name` has been used, so that its value was made."""
    return name in vars(instance)


def forget_made(instance: object, name: str) -> None:
    """Let the cached property `name` make its value again when it is used next."""
    vars(instance).pop(name, None)
