"""Read facts about the class of a value, without running code of the value.

The type of a value is always `type(value)`, and methods are looked up in the type: an instance may
answer any `getattr`, and claim another `__class__`.

Source: `docs/values.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from jp_nb.values.cut_text import to_one_line

FAILURES: Final = (Exception, SystemExit, GeneratorExit)
"""Exceptions of a value's code that are caught. A `KeyboardInterrupt` comes from the user."""

# Attributes of every class. A metaclass may replace them, so they are read as `type` defines them.
_MRO: Final = type.__dict__["__mro__"]
_MODULE: Final = type.__dict__["__module__"]
_MEMBERS: Final = type.__dict__["__dict__"]
_NAME: Final = type.__dict__["__name__"]
_QUALNAME: Final = type.__dict__["__qualname__"]
_PLAIN_MODULES: Final = ("builtins", "__main__")
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
    """Entries for classes, given as module, name, and entry.

    A lookup imports no module: the class of a value can be in the table only if its module is
    loaded. The order of the rows has no meaning.
    """

    def __init__(self, rows: Iterable[tuple[str, str, ClassEntryT]]) -> None:
        self._by_name: dict[str, list[tuple[str, ClassEntryT]]] = {}
        for module, name, entry in rows:
            self._by_name.setdefault(name, []).append((module, entry))

    def find(self, value: object) -> ClassEntryT | None:
        """Return the entry of the first class in the MRO of `value` that has one, or None."""
        for kind in list_types(value):
            own_name: str = _NAME.__get__(kind)
            name = _NAMES_IN_TYPES.get(own_name, own_name)
            for module, entry in self._by_name.get(name, ()):
                loaded = sys.modules.get(module)
                if loaded is not None and vars(loaded).get(name) is kind:
                    return entry
        return None


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


def is_a(value: object, module: str, name: str) -> bool:
    """Return True if `value` is of the class `name` of a module that is loaded."""
    loaded = sys.modules.get(module)
    return loaded is not None and vars(loaded).get(name) in list_types(value)
