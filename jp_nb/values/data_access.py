"""Follow the paths of the model, which lead only through data, and hide secret parts.

Data are containers, frames, arrays, records, and the stored attributes of the user's classes. A
path can end at another value, such as a module, a function, or an object of a library, but not pass
through it. Secret parts of a value are replaced before each step, so that slices and transposed
frames do not contain them.

Properties and `__getitem__` of the value's class run, so this happens in the cell's thread.

A step of a path is an attribute or an item, with its `key` (`value_path.py`). These functions hide
secrets (`privacy.py`, `secret_parts.py`):

    hide_part(key, value)        the text that replaces a part with the name of a secret, or None
    hide_value(value)            the text that replaces a value that is a secret, or None
    without_hidden(text)         `text` without the secrets in it
    without_secret_parts(value)  `value`, or a copy without secret parts; `NotShown` if it is secret

`NotShown` is a `ValuePathError`.

Source: `docs/notebook-tools.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, Final, NamedTuple

from jp_nb.values.class_facts import FAILURES, ClassTable, is_a, list_types, name_type
from jp_nb.values.privacy import hide_part, hide_value, without_hidden
from jp_nb.values.secret_parts import (
    SECRET_REFUSAL,
    NotShown,
    read_item_names,
    without_secret_parts,
)
from jp_nb.values.stored_attributes import read_stored_attributes
from jp_nb.values.value_path import ValuePath, ValuePathError

PRIVATE_REFUSAL: Final = "Names that begin with _ are private and not shown."


def follow_data(path: ValuePath, namespace: Mapping[str, Any]) -> Any:
    """Return the value at `path` in `namespace`. Call it in the cell's thread.

    Raises:
        NotShown: The path leads to a secret or a private name.
        ValuePathError: There is no such value, or the path passes through something other than
            data.
    """
    if path.name.startswith("_"):
        raise NotShown(PRIVATE_REFUSAL)

    value = path.read_variable(namespace)
    _check_part(path.name, value)

    for step in path.steps:
        # A part of a secret value, such as one character of a key, is not recognized as a secret.
        if hide_value(value) is not None:
            raise NotShown(SECRET_REFUSAL)

        try:
            read_part = _read_attribute if step.kind == "attribute" else _read_item
            value = read_part(value, step.key)
        except ValuePathError:
            raise
        except FAILURES as exc:  # the value's own code may run
            raise ValuePathError(
                f"{step.key!r} cannot be read: {name_type(type(exc))}: {without_hidden(str(exc))}"
            ) from exc

        _check_part(step.key, value)
    return value


def _check_part(key: object, part: object = None) -> None:
    """Raise `NotShown` if `key` is the name of a secret, or its value `part` is one."""
    if hide_part(key, part) is not None:
        raise NotShown(SECRET_REFUSAL)


def _make_not_data_error(value: object) -> ValuePathError:
    return ValuePathError(
        f"a path cannot pass through this {name_type(type(value))}. It can pass only "
        "through data: containers, frames, arrays, dataclasses, and stored "
        "attributes of the user's own classes"
    )


class _DataKind(NamedTuple):
    """Class whose instances are data.

    Attributes:
        attributes: The computed attributes that a path may read.
        has_items: True if a path may read items, as in `rows[0]`.
    """

    attributes: Set[str] = frozenset()
    has_items: bool = True


_ARRAY: Final = frozenset({"shape", "dtype", "size", "ndim"})
_PANDAS: Final = _ARRAY | {"index", "values", "T", "iloc", "loc", "at", "iat", "empty"}
_PANDAS_INDEX: Final = _ARRAY | {"values", "T", "name", "names", "levels", "nlevels"}
_POLARS: Final = frozenset({"columns", "dtypes", "schema", "shape", "height", "width"})
_TENSOR: Final = frozenset({"shape", "dtype", "device", "ndim", "T"})
_DATE: Final = frozenset({"year", "month", "day", "hour", "minute", "second", "microsecond"})
_PATH: Final = frozenset({"name", "stem", "suffix", "parent", "parts"})
_KINDS: Final = ClassTable(
    (
        ("builtins", "str", _DataKind()),
        ("builtins", "bytes", _DataKind()),
        ("builtins", "bytearray", _DataKind()),
        ("builtins", "list", _DataKind()),
        ("builtins", "tuple", _DataKind()),
        ("builtins", "dict", _DataKind()),
        ("builtins", "set", _DataKind(has_items=False)),
        ("builtins", "frozenset", _DataKind(has_items=False)),
        ("builtins", "range", _DataKind({"start", "stop", "step"})),
        ("builtins", "memoryview", _DataKind({"shape", "format", "nbytes"})),
        ("builtins", "complex", _DataKind({"real", "imag"}, has_items=False)),
        ("builtins", "BaseException", _DataKind({"args"}, has_items=False)),
        ("types", "MappingProxyType", _DataKind()),
        ("collections.abc", "Mapping", _DataKind()),
        ("collections.abc", "Sequence", _DataKind()),
        ("collections", "deque", _DataKind({"maxlen"})),
        ("array", "array", _DataKind({"typecode"})),
        ("sqlite3", "Row", _DataKind()),
        ("enum", "Enum", _DataKind({"name", "value"}, has_items=False)),
        ("datetime", "date", _DataKind(_DATE, has_items=False)),
        ("pathlib", "PurePath", _DataKind(_PATH, has_items=False)),
        ("pandas", "DataFrame", _DataKind(_PANDAS | {"columns", "dtypes"})),
        ("pandas", "Series", _DataKind(_PANDAS | {"name", "hasnans"})),
        ("pandas", "Index", _DataKind(_PANDAS_INDEX)),
        ("pandas.api.extensions", "ExtensionArray", _DataKind(_ARRAY)),
        ("pandas.core.indexing", "_LocationIndexer", _DataKind()),
        ("pandas.core.indexing", "_ScalarAccessIndexer", _DataKind()),
        ("polars", "DataFrame", _DataKind(_POLARS)),
        ("polars", "Series", _DataKind({"name", "dtype", "shape"})),
        ("numpy", "ndarray", _DataKind(_ARRAY | {"T", "real", "imag", "nbytes"})),
        ("numpy", "void", _DataKind()),
        ("torch", "Tensor", _DataKind(_TENSOR)),
        ("jax", "Array", _DataKind(_ARRAY | {"T"})),
    )
)


def _read_attribute(value: Any, name: str) -> Any:
    """Return a listed attribute of data, a stored attribute, or a column of a frame.

    Raises:
        NotShown: The name is private or that of a secret.
        ValuePathError: There is no such attribute, or the value is no data.
    """
    if name.startswith("_"):
        raise NotShown(PRIVATE_REFUSAL)
    _check_part(name)

    kind = _KINDS.find(value)
    if kind is not None and name in kind.attributes:
        return getattr(without_secret_parts(value), name)

    stored = read_stored_attributes(value)
    if stored is not None and name in stored:
        return stored[name]

    if is_a(value, "pandas", "DataFrame") and name in value.columns:
        return without_secret_parts(value)[name]  # rows may be secret parts too
    if is_a(value, "numpy", "recarray") and name in (value.dtype.names or ()):
        return value[name]  # only fields can be secret parts, and this one is not

    if kind is None and stored is None:
        raise _make_not_data_error(value)
    raise ValuePathError(
        f"this {name_type(type(value))} has no stored attribute {name!r}. Methods and "
        "computed properties are not read"
    )


def _read_item(value: Any, key: Any) -> Any:
    """Return the item at `key` of data, without secret parts.

    Raises:
        NotShown: The key, or the name of the item, is that of a secret.
        ValuePathError: There is no such key, or the value is no data with items.
    """
    kind = _KINDS.find(value)
    if kind is None or not kind.has_items:
        raise _make_not_data_error(value)

    keys = key if type(key) is tuple else (key,)
    for single_key in keys:
        _check_part(single_key)

    if dict in list_types(value):
        # The key is checked, and the caller checks the item: the other items need not be replaced.
        # A missing key would be added to a `defaultdict`.
        if not dict.__contains__(value, key):
            raise ValuePathError(f"key {key!r} does not exist")
        return dict.__getitem__(value, key)

    # A field of a structured array, which is not a secret part, as its name is checked.
    if isinstance(key, str) and (is_a(value, "numpy", "ndarray") or is_a(value, "numpy", "void")):
        return value[key]

    # The item of a row or a named tuple also has a name.
    names = read_item_names(value)
    if names is not None and type(key) is int and -len(names) <= key < len(names):
        _check_part(names[key])

    return without_secret_parts(value)[key]


def clear_for_selection(value: Any) -> Any:
    """Return `value` without secret parts, for `take_part`, which selects the first or last items.

    Raises:
        NotShown: The value is a secret.
        ValuePathError: It is a container of an unknown class, whose items cannot be checked.
    """
    # A value without a length has no items to select: `take_part` refuses it.
    if _KINDS.find(value) is None and hasattr(type(value), "__len__"):
        raise _make_not_data_error(value)
    return without_secret_parts(value)
