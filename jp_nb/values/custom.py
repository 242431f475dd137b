"""Descriptions that the user's code provides: registered describers, `_ai_repr_`, `repr`.

The type of a value is always `type(value)`, and methods are looked up in the type: an instance may
answer any `getattr`, and claim another `__class__`.

Source: `docs/values.md`, https://github.com/jupyter/enhancement-proposals/pull/129.
"""

from __future__ import annotations

import asyncio
import base64
import contextvars
import inspect
import io
import json
import sys
import threading
from collections import namedtuple
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from reprlib import recursive_repr
from types import FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any, Final, TypeVar

from jp_nb.errors import UsageError
from jp_nb.images import MEDIA_TYPES, Image, detect_media_type
from jp_nb.values.base import (
    Description,
    ValueBudget,
    to_one_line,
    truncate_end,
    truncate_middle,
    without_addresses,
)

FAILURES: Final = (Exception, SystemExit, GeneratorExit)
"""What a value's own code may raise; a `KeyboardInterrupt` is the person's."""
_GENERATORS: Final = frozenset(
    maker.__code__.co_filename for maker in (dataclass, namedtuple, recursive_repr)
)
"""Files of what writes the `__repr__` of a class, or wraps one that it wrote."""
_MRO: Final = type.__dict__["__mro__"]
_MODULE: Final = type.__dict__["__module__"]
_QUALNAME: Final = type.__dict__["__qualname__"]
_PLAIN_MODULES: Final = ("builtins", "__main__")


def types_of(value: object) -> tuple[type, ...]:
    """Return the type of `value` and those it inherits from, whatever it says itself."""
    return tuple(_MRO.__get__(type(value)))


def type_name(kind: type) -> str:
    """Return the name of a type, with its module unless that says nothing."""
    try:
        module, name = _MODULE.__get__(kind), _QUALNAME.__get__(kind)
    except FAILURES:
        return "object"
    name = name.replace("<locals>.", "") if type(name) is str else "object"
    if type(module) is not str or module in _PLAIN_MODULES:
        return to_one_line(name, 120)
    return to_one_line(f"{module}.{name}", 120)


def method_of(value: object, name: str) -> Any:
    """Return what the type of `value` has under `name`, not bound; None if it has nothing."""
    for kind in types_of(value):
        space = type.__dict__["__dict__"].__get__(kind)
        if name in space:
            return space[name]
    return None


def has_own_repr(value: object) -> bool:
    """Return True if somebody wrote a `__repr__` for `value`: it was not generated."""
    method = method_of(value, "__repr__")
    if type(method) is not FunctionType:
        return type(method) not in (WrapperDescriptorType, MethodDescriptorType)
    wrapped = method.__dict__.get("__wrapped__")  # of a dataclass: what `recursive_repr` guards
    file = (wrapped if type(wrapped) is FunctionType else method).__code__.co_filename
    return not (
        file in _GENERATORS
        or file == "<string>"
        or file.startswith(("<attrs", "<frozen"))
        or method.__globals__.get("__name__") == "pydantic.main"
    )


def repr_text(value: object, limit: int) -> str:
    """Return what `value` says of itself, in at most `limit` characters; its code runs once."""
    try:
        text = _text(value, limit)
    except FAILURES as exc:
        text = _unsaid(value, exc)
    return truncate_end(without_addresses(text), limit)


def _text(value: object, limit: int) -> str:
    printed = method_of(value, "__str__")
    is_bare = method_of(value, "__repr__") is object.__repr__
    if is_bare and method_of(value, "_repr_pretty_") is None:
        if printed not in (None, object.__str__):
            return _exact(str(value))
        return attributes_text(value)
    # IPython asks a value for its class: one that has words of its own for that may lie, or raise.
    is_honest = method_of(value, "__class__") is object.__dict__["__class__"]
    pretty = _pretty(value, limit) if is_honest else None
    return _exact(repr(value)) if pretty is None else pretty


def attributes_text(value: object) -> str:
    """Return the type of `value` and the names of its attributes: not what they are."""
    try:
        names = [name for name in object.__getattribute__(value, "__dict__") if name[:1] != "_"]
    except FAILURES:
        names = []
    more = f" and {len(names) - 200:,} more" if len(names) > 200 else ""
    end = f", attributes: {', '.join(names[:200])}{more}" if names else ""
    return f"<{type_name(type(value))} object{end}>"


def _exact(text: str) -> str:
    return str.__str__(text)


def _unsaid(value: object, exc: BaseException) -> str:
    why = type(exc).__name__
    try:
        said = to_one_line(str(exc), 200)
    except FAILURES:
        said = ""
    return f"<{type_name(type(value))}: no text available: {why}{said and f': {said}'}>"


class _FullError(Exception):
    """More was written than is wanted."""


class _BoundedText(io.StringIO):
    """Takes a text up to a length, and raises what ends the writing there."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._left = limit

    def write(self, text: str) -> int:
        super().write(text[: self._left])
        self._left -= len(text)
        if self._left < 0:
            super().write("…")
            raise _FullError
        return len(text)


def _pretty(value: object, limit: int) -> str | None:
    """Return IPython's `text/plain` of `value`; None if IPython is not loaded.

    Not by the shell's formatter itself: that prints a traceback where a value fails.
    """
    module = sys.modules.get("IPython.core.getipython")
    shell = module.get_ipython() if module is not None else None
    library = sys.modules.get("IPython.lib.pretty")
    if shell is None or library is None:
        return None
    own = shell.display_formatter.formatters["text/plain"]
    out = _BoundedText(limit * 2 + 200)
    printer = library.RepresentationPrinter(
        out,
        max_seq_length=1000,
        singleton_pprinters=own.singleton_printers,
        type_pprinters=own.type_printers,
        deferred_pprinters=own.deferred_printers,
    )
    try:
        printer.pretty(value)
        printer.flush()
    except _FullError:
        pass  # what is written so far is more than is shown
    return out.getvalue()


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


def has_custom_description(value: object) -> bool:
    """Return True if a describer is registered for `value`, or it has an `_ai_repr_`."""
    return _registered(value) is not None or _is_method(method_of(value, AI_REPR))


def custom_description(value: object, budget: ValueBudget) -> tuple[Description | None, list[str]]:
    """Return what somebody else says of `value`, None: nobody does; and what went wrong."""
    problems: list[str] = []
    for name, ask in (("describer", _ask_describer), (AI_REPR, _ask_value)):
        try:
            said = ask(value, budget)
        except FAILURES as exc:
            why = to_one_line(f"{type(exc).__name__}: {_text_of(exc)}", 200)
            problems.append(f"(Its {name} failed: {why})")
            continue
        if said is not None:
            images = said.images[: max(budget.images, 0)]
            return Description(truncate_middle(said.text, budget.chars), images), problems
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
    kind = detect_media_type(image)
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
        kinds = to_one_line(", ".join(map(str, list(said)[:5])), 100) or "none"
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
