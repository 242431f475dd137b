"""Describe functions, methods, classes, and modules.

A *describer* returns the text of a value for the model, within its `limits` (`base.py`). With
`limits.brief`, the text is one line. The caller cuts a longer text in its middle, so a describer
itself cuts only where another part should be omitted.

Source: `docs/values.md`.
"""

from __future__ import annotations

import inspect
import types
from contextlib import suppress
from typing import Any, Final

from jp_nb.values.base import DescriptionLimits, ValueKind, ValueKinds
from jp_nb.values.class_facts import FAILURES, name_type
from jp_nb.values.cut_text import (
    cut_end,
    cut_middle,
    format_quantity,
    to_one_line,
    without_addresses,
)
from jp_nb.values.repr_text import format_repr
from jp_nb.values.source_locations import format_location, is_cell_file


def _describe_function(value: Any, limits: DescriptionLimits) -> str:
    module = getattr(value, "__module__", None)
    is_qualified = isinstance(module, str) and module not in ("__main__", "builtins")
    prefix = f"{module}." if is_qualified else ""
    name = f"{prefix}{getattr(value, '__qualname__', type(value).__name__)}"

    function = inspect.unwrap(value) if inspect.isfunction(value) else value
    code = getattr(function, "__code__", None)
    word = "async def" if inspect.iscoroutinefunction(value) else "function"
    title = f"{word} {name}{_format_signature(value)}"
    if limits.brief:
        return title

    place = None if code is None else format_location(code.co_filename, code.co_firstlineno)
    title = f"{title}, {place or 'built in'}"

    if code is not None and is_cell_file(code.co_filename):
        with suppress(*FAILURES):
            source = inspect.getsource(value).rstrip()
            room = limits.chars - len(title) - 2
            return cut_end(f"{title}\n{cut_middle(source, max(room, 20))}", limits.chars)

    return cut_middle("\n".join([title, *_read_docstring(value)]), limits.chars)


def _describe_bound_method(value: types.MethodType, limits: DescriptionLimits) -> str:
    owner = value.__self__
    kind = owner if isinstance(owner, type) else type(owner)
    inner = _describe_function(value.__func__, limits)
    return cut_end(f"method of {name_type(kind)}: {inner}", limits.chars)


def _describe_class(value: Any, limits: DescriptionLimits) -> str:
    bases = ", ".join(name_type(base) for base in value.__bases__ if base is not object)
    kinds = f", a kind of {bases}" if bases else ""
    title = f"class {name_type(value)}{kinds}"
    if limits.brief:
        return title

    lines = [title]
    if signature := _format_signature(value):
        lines.append(f"{value.__name__}{signature}")

    lines += _read_docstring(value)
    names = [name for name in vars(value) if not name.startswith("_")]

    if names:
        lines.append(f"Own public names: {_list_names(names, limits)}")

    return "\n".join(lines)


def _describe_module(value: types.ModuleType, limits: DescriptionLimits) -> str:
    space = types.ModuleType.__getattribute__(value, "__dict__")
    title = f"module {to_one_line(str(space.get('__name__', '?')), 120)}"
    if limits.brief:
        return title

    if isinstance(version := space.get("__version__"), str):
        title = f"{title}, version {to_one_line(version, 40)}"

    lines = [title]
    first_paragraph = _read_first_paragraph(space.get("__doc__"))
    if first_paragraph:
        lines.append(to_one_line(first_paragraph, 500))

    public = space.get("__all__")
    if not isinstance(public, list | tuple):
        public = [name for name in space if not name.startswith("_")]

    if public:
        lines.append(f"Public names: {_list_names(sorted(map(str, public)), limits)}")

    return cut_end("\n".join(lines), limits.chars)


def _read_first_paragraph(doc: object) -> str:
    """Return the first paragraph of the docstring `doc` in one line; "" without one."""
    if not isinstance(doc, str):
        return ""
    paragraph, _, _ = inspect.cleandoc(doc).partition("\n\n")
    # A title may be underlined: that line has no words.
    return " ".join(line for line in paragraph.splitlines() if line.strip("=-~ "))


def _format_signature(value: Any) -> str:
    try:
        return to_one_line(without_addresses(str(inspect.signature(value))), 1000)
    except FAILURES:
        return ""


def _read_docstring(value: Any) -> list[str]:
    """Return the docstring as one item; none if there is no docstring, or only a default one."""
    doc = value.__doc__
    if not isinstance(doc, str) or not doc.strip():
        return []
    # The default docstring of a dataclass is its signature.
    is_default = doc.startswith(f"{getattr(value, '__name__', '')}(") and "\n" not in doc
    return [] if is_default else [inspect.cleandoc(doc)]


def _list_names(names: list[str], limits: DescriptionLimits) -> str:
    """Return as many names as fit in half of the room, with an expression for all of them."""
    room = limits.chars // 2

    shown = []
    for name in names[:200]:  # a module may have very many names
        room -= len(name) + 2
        if room < 0:
            break
        shown.append(to_one_line(name, 80))

    text = ", ".join(shown)
    if len(shown) == len(names):
        return text

    omitted = format_quantity(len(names) - len(shown), "more name")
    return f"{text}, … {omitted}; dir({limits.name}) has all"


CODE_KINDS: Final[ValueKinds] = (
    ("builtins", "type", ValueKind(_describe_class)),
    ("types", "ModuleType", ValueKind(_describe_module)),
    ("types", "FunctionType", ValueKind(_describe_function)),
    ("types", "BuiltinFunctionType", ValueKind(_describe_function)),
    ("types", "MethodType", ValueKind(_describe_bound_method)),
    ("numpy", "ufunc", ValueKind(lambda value, limits: format_repr(value, limits.chars))),
)
