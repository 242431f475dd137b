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
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from reprlib import recursive_repr
from types import FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any, Final, Generic, TypeVar

from jp_nb.errors import UsageError
from jp_nb.images import MEDIA_TYPES, PDF, Image, detect_media_type
from jp_nb.values.base import Description, ValueBudget
from jp_nb.values.cut_text import cut_end, cut_middle, to_one_line, without_addresses

FAILURES: Final = (Exception, SystemExit, GeneratorExit)
"""Exceptions of a value's code that are caught. A `KeyboardInterrupt` comes from the user."""
_GENERATOR_FILES: Final = frozenset(
    maker.__code__.co_filename for maker in (dataclass, namedtuple, recursive_repr)
)
"""Files with code that generates or wraps the `__repr__` of a class."""
# Attributes of every class. A metaclass may replace them, so they are read as `type` defines them.
_MRO: Final = type.__dict__["__mro__"]
_MODULE: Final = type.__dict__["__module__"]
_MEMBERS: Final = type.__dict__["__dict__"]
_NAME: Final = type.__dict__["__name__"]
_QUALNAME: Final = type.__dict__["__qualname__"]
_PLAIN_MODULES: Final = ("builtins", "__main__")


def list_types(value: object) -> tuple[type, ...]:
    """Return the real type of `value` and its base classes. `__class__` is ignored."""
    return list_bases(type(value))


def list_bases(kind: type) -> tuple[type, ...]:
    """Return `kind` and its base classes, in the order of the MRO."""
    return tuple(_MRO.__get__(kind))


def read_class_module(kind: type) -> Any:
    """Return the `__module__` of `kind`, usually a text, without running a metaclass's code."""
    return _MODULE.__get__(kind)


def read_class_members(kind: type) -> Mapping[str, Any]:
    """Return the `__dict__` of `kind`, without running a metaclass's code."""
    members: Mapping[str, Any] = _MEMBERS.__get__(kind)
    return members


ClassEntryT = TypeVar("ClassEntryT")


class ClassTable(Generic[ClassEntryT]):
    """Entries for classes, given as module, name, and entry. A lookup imports no module."""

    def __init__(self, rows: Iterable[tuple[str, str, ClassEntryT]]) -> None:
        self._by_name: dict[str, list[tuple[str, ClassEntryT]]] = {}
        for module, name, entry in rows:
            self._by_name.setdefault(name, []).append((module, entry))

    def find(self, value: object) -> ClassEntryT | None:
        """Return the entry of the first class in the MRO of `value` that has one, or None."""
        for cls in list_types(value):
            own: str = _NAME.__get__(cls)
            name = _NAMES_IN_TYPES.get(own, own)
            for module, entry in self._by_name.get(name, ()):
                loaded = sys.modules.get(module)
                if loaded is not None and vars(loaded).get(name) is cls:
                    return entry
        return None


_NAMES_IN_TYPES: Final = {
    "function": "FunctionType",
    "builtin_function_or_method": "BuiltinFunctionType",
    "method": "MethodType",
    "module": "ModuleType",
    "generator": "GeneratorType",
    "coroutine": "CoroutineType",
    "async_generator": "AsyncGeneratorType",
    "mappingproxy": "MappingProxyType",
}
"""Names in the module `types` of classes with another `__name__`."""


def name_type(kind: type) -> str:
    """Return the name of a type, with its module unless it is `builtins` or `__main__`."""
    try:
        module = _MODULE.__get__(kind)
        name = _QUALNAME.__get__(kind)
    except FAILURES:
        return "object"

    name = name.replace("<locals>.", "") if type(name) is str else "object"
    if type(module) is not str or module in _PLAIN_MODULES:
        return to_one_line(name, 120)
    return to_one_line(f"{module}.{name}", 120)


def find_method(value: object, name: str) -> Any:
    """Return the unbound attribute `name` of the type of `value`, or None."""
    for kind in list_types(value):
        members = read_class_members(kind)
        if name in members:
            return members[name]
    return None


def has_own_repr(value: object) -> bool:
    """Return True if the `__repr__` of `value` is neither built in nor generated."""
    method = find_method(value, "__repr__")
    if type(method) is not FunctionType:
        return type(method) not in (WrapperDescriptorType, MethodDescriptorType)

    wrapped = method.__dict__.get("__wrapped__")  # set by `recursive_repr` for dataclasses
    function = wrapped if type(wrapped) is FunctionType else method
    file = function.__code__.co_filename

    return not (
        file in _GENERATOR_FILES
        or file == "<string>"
        or file.startswith(("<attrs", "<frozen"))
        or method.__globals__.get("__name__") == "pydantic.main"
    )


def format_repr(value: object, limit: int) -> str:
    """Return the text of `value` from `repr`, `str`, or IPython, in at most `limit` characters."""
    try:
        text = _get_text(value, limit)
    except FAILURES as exc:
        reason = type(exc).__name__
        message = to_one_line(_message_of(exc, ""), 200)
        end = f": {message}" if message else ""
        text = f"<{name_type(type(value))}: no text available: {reason}{end}>"

    return cut_end(without_addresses(text), limit)


def _get_text(value: object, limit: int) -> str:
    has_default_repr = find_method(value, "__repr__") is object.__repr__

    # `str.__str__` converts an instance of a subclass to a plain `str`.
    if has_default_repr and find_method(value, "_repr_pretty_") is None:
        if find_method(value, "__str__") not in (None, object.__str__):
            return str.__str__(str(value))
        return _format_attribute_names(value)

    # IPython reads `__class__`, so it is not used for a class that overrides it.
    has_real_class = find_method(value, "__class__") is object.__dict__["__class__"]
    pretty = _pretty(value, limit) if has_real_class else None
    return str.__str__(repr(value)) if pretty is None else pretty


def _format_attribute_names(value: object) -> str:
    try:
        names = [name for name in object.__getattribute__(value, "__dict__") if name[:1] != "_"]
    except FAILURES:
        names = []
    more = f" and {len(names) - 200:,} more" if len(names) > 200 else ""
    end = f", attributes: {', '.join(names[:200])}{more}" if names else ""
    return f"<{name_type(type(value))} object{end}>"


def _message_of(exc: BaseException, default: str) -> str:
    try:
        return str.__str__(str(exc))
    except FAILURES:
        return default


class _FullError(Exception):
    """The text has reached its limit."""


class _BoundedText(io.StringIO):
    """Text stream that raises `_FullError` at its limit."""

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
    # Like the shell's `text/plain` formatter, which would print a traceback if the value fails.
    module = sys.modules.get("IPython.core.getipython")
    shell = module.get_ipython() if module is not None else None
    library = sys.modules.get("IPython.lib.pretty")
    if shell is None or library is None:
        return None

    formatter = shell.display_formatter.formatters["text/plain"]
    out = _BoundedText(limit * 2 + 200)
    printer = library.RepresentationPrinter(
        out,
        max_seq_length=1000,
        singleton_pprinters=formatter.singleton_printers,
        type_pprinters=formatter.type_printers,
        deferred_pprinters=formatter.deferred_printers,
    )

    try:
        printer.pretty(value)
        printer.flush()
    except _FullError:
        pass  # the text so far is sufficient

    return out.getvalue()


AI_REPR: Final = "_ai_repr_"
AI_REPR_SECONDS: Final = 10.0  # time limit for an `async` `_ai_repr_`
_TEXTS: Final = ("text/markdown", "text/plain", "text/html", "application/json")

Registered = Callable[[Any, ValueBudget], Any]
_Function = TypeVar("_Function", bound=Registered)
_Result = TypeVar("_Result")
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
    return _registered(value) is not None or _is_method(find_method(value, AI_REPR))


def make_custom_description(
    value: object, budget: ValueBudget
) -> tuple[Description | None, list[str]]:
    """Return the description by a describer or `_ai_repr_`, or None, and the errors of both."""
    problems: list[str] = []
    for name, describe in (("describer", _call_describer), (AI_REPR, _call_ai_repr)):
        try:
            found = describe(value, budget)
        except FAILURES as exc:
            why = to_one_line(f"{type(exc).__name__}: {_message_of(exc, '…')}", 200)
            problems.append(f"(Its {name} failed: {why})")
            continue

        if found is not None:
            images = found.images[: max(budget.images, 0)]
            return Description(cut_middle(found.text, budget.chars), images), problems

    return None, problems


def _registered(value: object) -> Registered | None:
    if not _DESCRIBERS:
        return None
    return next((_DESCRIBERS[kind] for kind in list_types(value) if kind in _DESCRIBERS), None)


def _call_describer(value: object, budget: ValueBudget) -> Description | None:
    function = _registered(value)
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


def _is_method(found: object) -> bool:
    return callable(found) or isinstance(found, classmethod | staticmethod)


def _call_ai_repr(value: object, budget: ValueBudget) -> Description | None:
    found = find_method(value, AI_REPR)
    if not _is_method(found):
        return None

    method = found.__get__(value, type(value)) if hasattr(type(found), "__get__") else found

    # The hints that the method accepts: the proposal does not define a fixed set.
    hints: dict[str, object] = {"multimodal": budget.images > 0, "max_chars": budget.chars}
    parameters = inspect.signature(method).parameters

    if not any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        hints = {name: hint for name, hint in hints.items() if name in parameters}

    result = method(**hints)
    if inspect.isawaitable(result):
        result = _wait_for(result)
    return _read_bundle(result)


def _wait_for(awaitable: Any) -> object:
    async def wait() -> object:
        return await asyncio.wait_for(awaitable, AI_REPR_SECONDS)

    try:
        # The cell's thread already runs an event loop.
        return start_thread(lambda: asyncio.run(wait()), AI_REPR).result(AI_REPR_SECONDS + 1)
    except TimeoutError:
        raise TimeoutError(f"no answer within {AI_REPR_SECONDS:g} s") from None


def start_thread(function: Callable[[], _Result], name: str) -> Future[_Result]:
    """Run `function` in a new thread, with a copy of the current context."""
    future: Future[_Result] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = context.run(function)
        except BaseException as exc:
            # A future cannot raise these in a coroutine.
            is_stop = isinstance(exc, (StopIteration, GeneratorExit))
            error = RuntimeError(f"{name} raised {exc!r}") if is_stop else exc
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=work, name=f"jp_nb {name}", daemon=True).start()
    return future


def _read_bundle(bundle: Any) -> Description | None:
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
        found = to_one_line(", ".join(map(str, list(bundle)[:5])), 100) or "none"
        raise TypeError(f"its MIME bundle has no text, image, or PDF (kinds: {found})")

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
