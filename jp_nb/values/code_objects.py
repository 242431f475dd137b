"""Describes functions, classes and modules.

Source: `docs/values.md`.
"""

from __future__ import annotations

import inspect
import types
from typing import Any

from jp_nb.values.cutting import count, cut_end, cut_middle, in_one_line, without_addresses
from jp_nb.values.own_text import FAILURES, type_name
from jp_nb.values.source_places import is_cell_file, place_of
from jp_nb.values.telling import Telling

MAX_NAMES = 200


def describe_function(value: Any, telling: Telling) -> str:
    """Return signature, docstring and place; of a function of the notebook its source."""
    name = f"{_module(value)}{getattr(value, '__qualname__', type(value).__name__)}"
    code = getattr(inspect.unwrap(value) if inspect.isfunction(value) else value, "__code__", None)
    word = "async def" if inspect.iscoroutinefunction(value) else "function"
    title = f"{word} {name}{_signature(value)}"
    if telling.brief:
        return title
    where = place_of(code.co_filename, code.co_firstlineno) if code is not None else "built in"
    lines = [f"{title}, {where}"]
    source = _source(value) if code is not None and is_cell_file(code.co_filename) else None
    if source is not None:
        room = telling.chars - len(lines[0]) - 2
        return cut_end(f"{lines[0]}\n{cut_middle(source, max(room, 20))}", telling.chars)
    return cut_middle("\n".join([*lines, *_documented(value)]), telling.chars)


def describe_bound_method(value: types.MethodType, telling: Telling) -> str:
    """Return a method as its function is, and whose it is."""
    owner = type_name(value.__self__ if isinstance(value.__self__, type) else type(value.__self__))
    inner = describe_function(value.__func__, telling)
    return cut_end(f"method of {owner}: {inner}", telling.chars)


def describe_class(value: Any, telling: Telling) -> str:
    """Return signature, bases, docstring and public names of a class."""
    bases = ", ".join(type_name(base) for base in value.__bases__ if base is not object)
    title = f"class {type_name(value)}{f', a kind of {bases}' if bases else ''}"
    if telling.brief:
        return title
    lines = [title]
    if signature := _signature(value):
        lines.append(f"{value.__name__}{signature}")
    lines += _documented(value)
    names = [name for name in vars(value) if not name.startswith("_")]
    if names:
        lines.append(f"Own public names: {_listed(names, telling)}")
    return cut_middle("\n".join(lines), telling.chars)


def describe_module(value: types.ModuleType, telling: Telling) -> str:
    """Return name, first line of the docstring and public names of a module."""
    space = types.ModuleType.__getattribute__(value, "__dict__")
    title = f"module {in_one_line(str(space.get('__name__', '?')), 120)}"
    if telling.brief:
        return title
    if isinstance(version := space.get("__version__"), str):
        title = f"{title}, version {in_one_line(version, 40)}"
    doc = inspect.cleandoc(space.get("__doc__") or "") if _is_text(space.get("__doc__")) else ""
    lines_of_doc = [line for line in doc.partition("\n\n")[0].splitlines() if line.strip("=-~ ")]
    first = " ".join(lines_of_doc)
    lines = [title, in_one_line(first, 500)] if first else [title]
    public = space.get("__all__")
    if not isinstance(public, list | tuple):
        public = [name for name in space if not name.startswith("_")]
    if public:
        lines.append(f"Public names: {_listed(sorted(map(str, public)), telling)}")
    return cut_end("\n".join(lines), telling.chars)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _module(value: Any) -> str:
    module = getattr(value, "__module__", None)
    return (
        f"{module}." if isinstance(module, str) and module not in ("__main__", "builtins") else ""
    )


def _signature(value: Any) -> str:
    try:
        return in_one_line(without_addresses(str(inspect.signature(value))), 1000)
    except FAILURES:
        return ""


def _documented(value: Any) -> list[str]:
    doc = value.__doc__
    if not isinstance(doc, str) or not doc.strip():
        return []
    made = doc.startswith(f"{getattr(value, '__name__', '')}(") and "\n" not in doc
    return [] if made else [inspect.cleandoc(doc)]  # that of a dataclass is its signature


def _source(value: Any) -> str | None:
    try:
        return inspect.getsource(value).rstrip()
    except FAILURES:
        return None


def _listed(names: list[str], telling: Telling) -> str:
    """Return names in one line, as many as there is room for, and how many more there are."""
    room, shown = telling.chars // 2, []
    for name in names[:MAX_NAMES]:
        room -= len(name) + 2
        if room < 0:
            break
        shown.append(in_one_line(name, 80))
    text = ", ".join(shown)
    if len(shown) == len(names):
        return text
    return f"{text}, … {count(len(names) - len(shown), 'more name')}; dir({telling.name}) has all"
