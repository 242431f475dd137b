"""Descriptions that the user's code provides: registered describers, and `_ai_repr_`.

`_ai_repr_` is a method that a class may have, also one of a library. It returns a text, or data by
MIME type, and may be `async`.

Source: `docs/values.md`, https://github.com/jupyter/enhancement-proposals/pull/129.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from jp_nb.daemon_threads import start_thread
from jp_nb.errors import UsageError
from jp_nb.image_headers import MEDIA_TYPES, PDF, detect_media_type
from jp_nb.images import Image
from jp_nb.values.base import Description, ValueBudget
from jp_nb.values.class_facts import FAILURES, find_method, list_types, name_type
from jp_nb.values.cut_text import cut_middle, to_one_line
from jp_nb.values.repr_text import read_message

AI_REPR: Final = "_ai_repr_"
AI_REPR_SECONDS: Final = 10.0
"""Time limit for an `async` `_ai_repr_`."""
_TEXTS: Final = ("text/markdown", "text/plain", "text/html", "application/json")
"""Kinds of texts in a MIME bundle. The first that it has is used."""

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


def has_custom_description(value: object) -> bool:
    """Return True if a describer is registered for `value`, or it has an `_ai_repr_`."""
    return _find_describer(value) is not None or _is_method(find_method(value, AI_REPR))


def make_custom_description(
    value: object, budget: ValueBudget
) -> tuple[Description | None, list[str]]:
    """Return the description by a describer or `_ai_repr_`, or None, and the errors of both.

    The errors are sentences for the description: the user's code may raise anything.
    """
    problems: list[str] = []
    for name, describe in (("describer", _call_describer), (AI_REPR, _call_ai_repr)):
        try:
            description = describe(value, budget)
        except FAILURES as exc:
            reason = to_one_line(f"{type(exc).__name__}: {read_message(exc, '…')}", 200)
            problems.append(f"(Its {name} failed: {reason})")
            continue

        if description is not None:
            images = description.images[: max(budget.images, 0)]
            return Description(cut_middle(description.text, budget.chars), images), problems

    return None, problems


def _find_describer(value: object) -> Registered | None:
    if not _DESCRIBERS:
        return None
    return next((_DESCRIBERS[kind] for kind in list_types(value) if kind in _DESCRIBERS), None)


def _call_describer(value: object, budget: ValueBudget) -> Description | None:
    """Return the description by the function of the user; None if there is no function.

    Raises:
        TypeError: It returned something else than a description.
        Exception: The function raised it.
    """
    function = _find_describer(value)
    if function is None:
        return None

    result = function(value, budget)
    if isinstance(result, Description):
        return result
    if isinstance(result, str):
        return Description(result)
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], str):
        return Description(result[0], tuple(map(_as_image, result[1])))

    raise TypeError(
        f"it returned {name_type(type(result))}: expected a text, a Description, "
        "or a text and a list of images"
    )


def _as_image(image: Any) -> Image:
    if isinstance(image, Image):
        return image
    if not isinstance(image, bytes):
        raise TypeError(f"expected an Image or its bytes, found {name_type(type(image))}")

    kind = detect_media_type(image)
    if kind is None:
        raise TypeError("expected the bytes of a PNG, JPEG, GIF, WebP, or PDF file")
    return Image(kind, image)


def _is_method(member: object) -> bool:
    return callable(member) or isinstance(member, classmethod | staticmethod)


def _call_ai_repr(value: object, budget: ValueBudget) -> Description | None:
    """Return the description by the method `_ai_repr_` of the type of `value`, or None."""
    method = find_method(value, AI_REPR)
    if not _is_method(method):
        return None
    if hasattr(type(method), "__get__"):  # bind it, as an access by the instance does
        method = method.__get__(value, type(value))

    # Keyword arguments for the method. The proposal has no fixed set, so a method may accept only
    # some of them.
    hints: dict[str, object] = {"multimodal": budget.images > 0, "max_chars": budget.chars}
    parameters = inspect.signature(method).parameters
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if not takes_all:
        hints = {name: hint for name, hint in hints.items() if name in parameters}

    result = method(**hints)
    if inspect.isawaitable(result):
        result = _wait_for(result)
    return _read_bundle(result)


def _wait_for(awaitable: Any) -> object:
    """Return the result of `awaitable`, within the time limit.

    It runs in another thread, because this one, the cell's, already runs an event loop.
    """

    async def wait() -> object:
        return await asyncio.wait_for(awaitable, AI_REPR_SECONDS)

    try:
        return start_thread(lambda: asyncio.run(wait()), AI_REPR).result(AI_REPR_SECONDS + 1)
    except TimeoutError:
        raise TimeoutError(f"no answer within {AI_REPR_SECONDS:g} s") from None


def _read_bundle(bundle: Any) -> Description | None:
    """Return the description in the result of `_ai_repr_`: a text, or data by MIME type."""
    if isinstance(bundle, tuple) and bundle and isinstance(bundle[0], Mapping):
        bundle = bundle[0]  # IPython allows a tuple of data and metadata

    if bundle is None:
        return None
    if isinstance(bundle, str):
        return Description(bundle)
    if not isinstance(bundle, Mapping):
        raise TypeError(f"it returned {name_type(type(bundle))}: expected a MIME bundle (a dict)")

    kinds = [kind for kind in MEDIA_TYPES if kind in bundle]
    if not kinds and PDF in bundle:
        kinds = [PDF]
    images = tuple(_read_image(bundle[kind]) for kind in kinds)
    text = next((bundle[kind] for kind in _TEXTS if kind in bundle), None)

    if text is None and not images:
        listed = to_one_line(", ".join(map(str, list(bundle)[:5])), 100) or "none"
        raise TypeError(f"its MIME bundle has no text, image, or PDF (kinds: {listed})")

    if text is not None and not isinstance(text, str):
        text = json.dumps(text, ensure_ascii=False)
    return Description(text or "", images)


def _read_image(content: Any) -> Image:
    if isinstance(content, str):
        try:
            content = base64.b64decode(content, validate=False)
        except ValueError as exc:
            raise TypeError("its image is not Base64") from exc
    return _as_image(content)
