"""What a value says of itself: `text/plain` as IPython has it, else its `repr`.

A value's type is always `type(value)`, and what is looked up is looked up in the type: an object
may answer anything to `getattr`, and lie about its class.

Source: `docs/values.md`.
"""

from __future__ import annotations

import io
import sys
from collections import namedtuple
from dataclasses import dataclass
from reprlib import recursive_repr
from types import FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any, Final

from jp_nb.values.cutting import cut_end, in_one_line, without_addresses

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
        return in_one_line(name, 120)
    return in_one_line(f"{module}.{name}", 120)


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


def own_text(value: object, limit: int) -> str:
    """Return what `value` says of itself, in at most `limit` characters; its code runs once."""
    try:
        text = _text(value, limit)
    except FAILURES as exc:
        text = _unsaid(value, exc)
    return cut_end(without_addresses(text), limit)


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
        said = in_one_line(str(exc), 200)
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
