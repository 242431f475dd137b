"""Describers: functions that the user registers to describe values of a type, with `jp.describer`.

Source: `docs/values.md`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from jp_nb.errors import UsageError
from jp_nb.image_headers import detect_media_type
from jp_nb.images import Image
from jp_nb.values.base import Description, ValueBudget
from jp_nb.values.class_facts import list_types, name_type

Registered = Callable[[Any, ValueBudget], Any]
_Function = TypeVar("_Function", bound=Registered)
_DESCRIBERS: dict[type, Registered] = {}
"""The registered describers, by the type of the values."""


def describer(kind: type) -> Callable[[_Function], _Function]:
    """Register a function that describes values of a type, and of its subclasses, for the model.

    Example:
        >>> class Shelf(list): ...
        >>> @describer(Shelf)
        ... def describe_shelf(value, budget):
        ...     return f"a shelf of {len(value)} books"

    The function runs in the cell's thread. It gets the value and a budget with the attributes
    `chars`, `side` (pixels), and `images`. It returns a text, a `Description`, or a tuple of a text
    and a list of images. An image is an `Image`, or the bytes of a PNG, JPEG, GIF, WebP, or PDF
    file.

    A result above the budget is truncated. If the function fails, the description reports the error
    and describes the value without it. The describer of the nearest type is used. A second
    describer for the same type replaces the first.

    Raises:
        UsageError: If `kind` is not a type, or if the function does not take two arguments.
    """
    if not isinstance(kind, type):
        raise UsageError(
            "`jp.describer` needs a type, such as `@jp.describer(Table)`, not "
            f"{name_type(type(kind))}"
        )

    def register(function: _Function) -> _Function:
        try:
            inspect.signature(function).bind(None, None)
        except TypeError as exc:
            name = getattr(function, "__name__", "the function")
            raise UsageError(
                f"{name}: a describer takes the value and the budget: `def {name}(value, budget)`"
            ) from exc

        _DESCRIBERS[kind] = function
        return function

    return register


def find_describer(value: object) -> Registered | None:
    """Return the describer of the nearest type of `value`; None if none is registered."""
    if not _DESCRIBERS:
        return None
    return next((_DESCRIBERS[kind] for kind in list_types(value) if kind in _DESCRIBERS), None)


def call_describer(value: object, budget: ValueBudget) -> Description | None:
    """Return the description by the function of the user; None if there is no function.

    Raises:
        TypeError: It returned something else than a description.
        Exception: The function raised it.
    """
    function = find_describer(value)
    if function is None:
        return None

    result = function(value, budget)
    if isinstance(result, Description):
        return result
    if isinstance(result, str):
        return Description(result)
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], str):
        return Description(result[0], tuple(map(convert_image, result[1])))

    raise TypeError(
        f"it returned {name_type(type(result))}: expected a text, a Description, "
        "or a text and a list of images"
    )


def convert_image(image: Any) -> Image:
    """Return an `Image`, or the bytes of an image's file as one.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(image, Image):
        return image
    if not isinstance(image, bytes):
        raise TypeError(f"expected an Image or its bytes, found {name_type(type(image))}")

    kind = detect_media_type(image)
    if kind is None:
        raise TypeError("expected the bytes of a PNG, JPEG, GIF, WebP, or PDF file")
    return Image(kind, image)
