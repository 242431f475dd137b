"""Read the stored attributes of records, and of objects and classes of the user.

A *record* is here a value with declared fields: a dataclass, a named tuple, a pydantic model, or an
instance of an attrs class. No property and no method runs.

Source: `docs/notebook-tools.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FunctionType, MemberDescriptorType, SimpleNamespace
from typing import Any, Final

from jp_nb.values.class_facts import (
    FAILURES,
    find_method,
    list_bases,
    list_types,
    read_class_members,
    read_class_module,
)
from jp_nb.values.instance_fields import read_record_fields
from jp_nb.values.source_locations import is_own_code

_KERNEL: Final = frozenset(
    ("IPython", "ipykernel", "jupyter_client", "tornado", "traitlets", "zmq", "comm", "asyncio")
)
"""Packages whose records are not data."""


def read_stored_attributes(value: Any) -> Mapping[str, Any] | None:
    """Return the stored attributes of a record, or of an object or class of the user.

    Return None for another value. Properties and methods are not included.
    """
    kind = type(value)
    if issubclass(kind, type):
        return _read_class_attributes(value) if is_own_class(value) else None

    if kind is SimpleNamespace:
        return dict(vars(value))
    if is_own_class(kind):
        attributes = _read_class_attributes(kind) | _read_instance_attributes(value)
        # Its fields hide attributes of the same name in the class, such as their defaults.
        return attributes | (read_record_fields(value) or {})

    module = read_class_module(kind)
    if isinstance(module, str) and module.partition(".")[0] in _KERNEL:
        return None
    return read_record_fields(value)


def is_own_class(kind: type) -> bool:
    """Return True for a class of the notebook, or of the user's files."""
    try:
        module = read_class_module(kind)
    except FAILURES:
        return False

    if module == "__main__":
        return True

    loaded = sys.modules.get(module) if isinstance(module, str) else None
    file = getattr(loaded, "__file__", None)
    return isinstance(file, str) and is_own_code(file)


def _read_class_attributes(kind: type) -> dict[str, Any]:
    """Return the values and functions in the user's classes, without properties."""
    attributes: dict[str, Any] = {}

    for base in reversed(list_bases(kind)):
        if not is_own_class(base):
            continue
        for name, part in read_class_members(base).items():
            is_computed = find_method(part, "__get__") is not None
            if not name.startswith("__") and (not is_computed or type(part) is FunctionType):
                attributes[name] = part

    # The members of an enumeration. In its class they may be descriptors, which were omitted.
    members = attributes.get("_member_map_")
    return attributes | members if type(members) is dict else attributes


def _read_instance_attributes(value: Any) -> dict[str, Any]:
    """Return the values in the slots and in the `__dict__` of an instance."""
    attributes: dict[str, Any] = {}

    for kind in reversed(list_types(value)):
        for name, part in read_class_members(kind).items():
            if type(part) is MemberDescriptorType and not name.startswith("__"):
                try:
                    attributes[name] = part.__get__(value, kind)
                except AttributeError:
                    continue  # a slot without a value

    for name in ("__dict__", "__pydantic_extra__"):
        try:
            stored = object.__getattribute__(value, name)
        except AttributeError:
            continue
        if type(stored) is dict:
            attributes |= stored

    return attributes
