"""The text of a value by its own code: `repr`, `str`, or IPython's `text/plain`, with a limit.

A description falls back to this text if nothing else describes the value. The code of the value may
fail or write without an end.

Source: `docs/values.md`.
"""

from __future__ import annotations

import io
import sys
from collections import namedtuple
from dataclasses import dataclass
from reprlib import recursive_repr
from types import FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Final

from jp_nb.values.class_facts import FAILURES, find_method, name_type
from jp_nb.values.cut_text import cut_end, to_one_line, without_addresses

_GENERATOR_FILES: Final = frozenset(
    maker.__code__.co_filename for maker in (dataclass, namedtuple, recursive_repr)
)
"""Files with code that generates or wraps the `__repr__` of a class."""


def has_own_repr(value: object) -> bool:
    """Return True if the `__repr__` of `value` is neither built in nor generated."""
    method = find_method(value, "__repr__")
    if type(method) is not FunctionType:
        return type(method) not in (WrapperDescriptorType, MethodDescriptorType)
    return not _is_generated(method)


def _is_generated(method: FunctionType) -> bool:
    """Return True if a library made this `__repr__` of a class, as `dataclass` does."""
    if method.__globals__.get("__name__") == "pydantic.main":
        return True

    wrapped = method.__dict__.get("__wrapped__")  # set by `recursive_repr` for dataclasses
    function = wrapped if type(wrapped) is FunctionType else method
    file = function.__code__.co_filename
    if file in _GENERATOR_FILES:
        return True

    # Code compiled from a text, code of `attrs`, and frozen modules of Python.
    return file == "<string>" or file.startswith(("<attrs", "<frozen"))


def format_repr(value: object, limit: int) -> str:
    """Return the text of `value` from `repr`, `str`, or IPython, in at most `limit` characters."""
    try:
        text = _get_text(value, limit)
    except FAILURES as exc:
        reason = type(exc).__name__
        message = to_one_line(read_exception_message(exc, ""), 200)
        end = f": {message}" if message else ""
        text = f"<{name_type(type(value))}: no text available: {reason}{end}>"

    return cut_end(without_addresses(text), limit)


def _get_text(value: object, limit: int) -> str:
    """Return the text by the value's own code: the first of IPython, `__repr__`, and `__str__`.

    A value with none of its own is described by its class and the names of its attributes.
    """
    has_default_repr = find_method(value, "__repr__") is object.__repr__

    if has_default_repr and find_method(value, "_repr_pretty_") is None:
        if find_method(value, "__str__") not in (None, object.__str__):
            # `str.__str__` converts an instance of a subclass to a plain `str`.
            return str.__str__(str(value))
        return _format_attribute_names(value)

    # IPython reads `__class__`, so it is not used for a class that overrides it.
    has_real_class = find_method(value, "__class__") is object.__dict__["__class__"]
    text = _format_with_ipython(value, limit) if has_real_class else None
    return str.__str__(repr(value)) if text is None else text


def _format_attribute_names(value: object) -> str:
    try:
        names = [name for name in object.__getattribute__(value, "__dict__") if name[:1] != "_"]
    except FAILURES:
        names = []
    more = f" and {len(names) - 200:,} more" if len(names) > 200 else ""
    end = f", attributes: {', '.join(names[:200])}{more}" if names else ""
    return f"<{name_type(type(value))} object{end}>"


def read_exception_message(exc: BaseException, default: str) -> str:
    """Return the message of `exc`; `default` if its own code fails."""
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


def _format_with_ipython(value: object, limit: int) -> str | None:
    """Return the text of the shell's `text/plain` formatter; None without IPython.

    The formatter itself would print a traceback if the value fails.
    """
    module = sys.modules.get("IPython.core.getipython")
    shell = module.get_ipython() if module is not None else None
    library = sys.modules.get("IPython.lib.pretty")
    if shell is None or library is None:
        return None

    formatter = shell.display_formatter.formatters["text/plain"]
    # More than `limit`, because `format_repr` then removes addresses.
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
