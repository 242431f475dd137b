"""Stored fields of dataclasses, named tuples, pydantic models, and attrs classes.

An override of `__getattribute__` in the class is not called, and computed fields are not read.

Source: `docs/values.md`.
"""

from __future__ import annotations

from typing import Any

from jp_nb.values.class_facts import find_method, list_types


def read_record_fields(value: Any) -> dict[str, object] | None:
    """Return the stored fields of a dataclass, a named tuple, a pydantic model, or an attrs class.

    Return None for another value. Fields with `repr=False` are omitted, and computed fields are not
    read.
    """
    names = _list_field_names(value, type(value))
    if names is None:
        return None

    found: dict[str, object] = {}

    for name in names:
        try:
            found[name] = object.__getattribute__(value, name)
        except AttributeError:
            extra = _read_extra_fields(value)
            if name in extra:
                found[name] = extra[name]

    return found


def _list_field_names(value: Any, kind: type) -> list[str] | None:
    """Return the names of the fields that a record shows in its `repr`; None for another value."""
    fields = find_method(value, "__dataclass_fields__")
    if type(fields) is dict:
        return [
            name
            for name, field in fields.items()
            if field.repr and field._field_type.name == "_FIELD"
        ]

    if tuple in list_types(value):
        named = find_method(value, "_fields")
        return list(named) if type(named) is tuple else None

    if find_method(value, "__pydantic_fields__") is not None:
        models = kind.__pydantic_fields__  # type: ignore[attr-defined]
        declared = [name for name, field in models.items() if field.repr]
        return [*declared, *_read_extra_fields(value)]

    if (attributes := find_method(value, "__attrs_attrs__")) is not None:
        return [attribute.name for attribute in attributes if attribute.repr is not False]
    return None


def _read_extra_fields(value: Any) -> dict[str, object]:
    """Return the fields of a pydantic model with `extra="allow"` that are not declared."""
    try:
        extra = object.__getattribute__(value, "__pydantic_extra__")
    except AttributeError:
        return {}
    return extra if type(extra) is dict else {}
