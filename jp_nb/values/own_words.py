"""Custom descriptions of values: a registered describer, or the method `_ai_repr_` of the value.

Source: `docs/values.md`, https://github.com/jupyter/enhancement-proposals/pull/129.
"""

from __future__ import annotations

import asyncio
import base64
import contextvars
import inspect
import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from jp_nb.errors import UsageError
from jp_nb.image import MEDIA_TYPES, Image, media_type_of
from jp_nb.values.cutting import cut_middle, in_one_line
from jp_nb.values.description import Description, ValueBudget
from jp_nb.values.own_text import FAILURES, method_of, type_name, types_of

AI_REPR: Final = "_ai_repr_"
AI_REPR_SECONDS: Final = 10.0
"""How long an `async` `_ai_repr_` may take."""
_TEXTS: Final = ("text/markdown", "text/plain", "text/html", "application/json")

Registered = Callable[[Any, ValueBudget], Any]
_Function = TypeVar("_Function", bound=Registered)
_DESCRIBERS: dict[type, Registered] = {}


def describer(kind: type) -> Callable[[_Function], _Function]:
    """Register a function that describes values of a type, and of its subclasses, for the model.

    Example:
        >>> class Shelf(list): ...
        >>> @describer(Shelf)
        ... def describe_shelf(value, budget):
        ...     return f"a shelf of {len(value)} books"

    The function runs in the cell's thread. It gets the value and a budget with the attributes
    `chars`, `side` (pixels), and `images`. It returns a text, a `Description`, or a tuple of a text
    and a list of images. An image is an `Image`, or the bytes of a PNG, JPEG, GIF, or WebP file.

    A result above the budget is truncated. If the function fails, the description reports the error
    and describes the value without it. The describer of the nearest type is used. A second
    describer for the same type replaces the first.

    Raises:
        UsageError: If `kind` is not a type, or if the function does not take two arguments.
    """
    if not isinstance(kind, type):
        raise UsageError(
            "`jp.describer` needs a type, such as `@jp.describer(Table)`, not "
            f"{type_name(type(kind))}"
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


def has_own_words(value: object) -> bool:
    """Return True if a describer is registered for `value`, or it has an `_ai_repr_`."""
    return _registered(value) is not None or _is_method(method_of(value, AI_REPR))


def own_words(value: object, budget: ValueBudget) -> tuple[Description | None, list[str]]:
    """Return what somebody else says of `value`, None: nobody does; and what went wrong."""
    problems: list[str] = []
    for name, ask in (("describer", _ask_describer), (AI_REPR, _ask_value)):
        try:
            said = ask(value, budget)
        except FAILURES as exc:
            why = in_one_line(f"{type(exc).__name__}: {_text_of(exc)}", 200)
            problems.append(f"(Its {name} failed: {why})")
            continue
        if said is not None:
            images = said.images[: max(budget.images, 0)]
            return Description(cut_middle(said.text, budget.chars), images), problems
    return None, problems


def _text_of(exc: BaseException) -> str:
    try:
        return str(exc)
    except FAILURES:
        return "…"


# --- registered ones -------------------------------------------------------------------------


def _registered(value: object) -> Registered | None:
    if not _DESCRIBERS:
        return None
    return next((_DESCRIBERS[kind] for kind in types_of(value) if kind in _DESCRIBERS), None)


def _ask_describer(value: object, budget: ValueBudget) -> Description | None:
    function = _registered(value)
    return None if function is None else _as_description(function(value, budget))


def _as_description(said: Any) -> Description:
    if isinstance(said, Description):
        return said
    if isinstance(said, str):
        return Description(said)
    if isinstance(said, tuple) and len(said) == 2 and isinstance(said[0], str):
        return Description(said[0], tuple(map(_as_image, said[1])))
    raise TypeError(
        f"it returned {type_name(type(said))}: expected a text, a Description, "
        "or a text and a list of images"
    )


def _as_image(image: Any) -> Image:
    if isinstance(image, Image):
        return image
    if not isinstance(image, bytes):
        raise TypeError(f"expected an Image or its bytes, found {type_name(type(image))}")
    kind = media_type_of(image)
    if kind is None:
        raise TypeError("expected the bytes of a PNG, JPEG, GIF or WebP image")
    return Image(kind, image)


# --- `_ai_repr_` -----------------------------------------------------------------------------


def _is_method(found: object) -> bool:
    return callable(found) or isinstance(found, classmethod | staticmethod)


def _ask_value(value: object, budget: ValueBudget) -> Description | None:
    found = method_of(value, AI_REPR)
    if not _is_method(found):
        return None
    method = found.__get__(value, type(value)) if hasattr(type(found), "__get__") else found
    said = method(**_hints(method, budget))
    if inspect.isawaitable(said):
        said = _awaited(said)
    return _of_bundle(said)


def _hints(method: Any, budget: ValueBudget) -> dict[str, object]:
    """Return the hints that the method takes; the proposal leaves open which there are."""
    hints = {"multimodal": budget.images > 0, "max_chars": budget.chars}
    parameters = inspect.signature(method).parameters
    if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return dict(hints)
    return {name: hint for name, hint in hints.items() if name in parameters}


def _awaited(waiting: Any) -> object:
    """Return what `waiting` comes to, on a loop of its own: the cell's thread runs one already."""
    future: Future[object] = Future()
    context = contextvars.copy_context()

    async def wait() -> object:
        return await asyncio.wait_for(waiting, AI_REPR_SECONDS)

    def work() -> None:
        try:
            future.set_result(context.run(asyncio.run, wait()))
        except BaseException as exc:
            refused = isinstance(exc, StopIteration)  # by futures
            future.set_exception(RuntimeError(repr(exc)) if refused else exc)

    threading.Thread(target=work, name="jp_nb _ai_repr_", daemon=True).start()
    try:
        return future.result(AI_REPR_SECONDS + 1)
    except TimeoutError:
        raise TimeoutError(f"no answer within {AI_REPR_SECONDS:g} s") from None


def _of_bundle(said: Any) -> Description | None:
    """Return what a MIME bundle holds; None if the value has nothing to say."""
    if isinstance(said, tuple) and said and isinstance(said[0], Mapping):
        said = said[0]  # with metadata, as in IPython
    if said is None:
        return None
    if isinstance(said, str):
        return Description(said)
    if not isinstance(said, Mapping):
        raise TypeError(f"it returned {type_name(type(said))}: expected a MIME bundle (a dict)")
    images = tuple(_bundled(said[kind]) for kind in MEDIA_TYPES if kind in said)
    text = next((said[kind] for kind in _TEXTS if kind in said), None)
    if text is None and not images:
        kinds = in_one_line(", ".join(map(str, list(said)[:5])), 100) or "none"
        raise TypeError(f"its MIME bundle has no text and no image (kinds: {kinds})")
    if text is not None and not isinstance(text, str):
        text = json.dumps(text, ensure_ascii=False)
    return Description(text or "", images)


def _bundled(content: Any) -> Image:
    if isinstance(content, str):
        try:
            content = base64.b64decode(content, validate=False)
        except ValueError as exc:
            raise TypeError("its image is not Base64") from exc
    return _as_image(content)
