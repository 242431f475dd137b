"""Follow the paths of the model, which lead only through data, and hide secret parts.

Data are containers, frames, arrays, records, and the stored attributes of the user's classes. A
path can end at another value, such as a module, a function, or an object of a library, but not pass
through it. Secret parts of a value are replaced before each step, so that slices and transposed
frames do not contain them.

Properties and `__getitem__` of the value's class run, so this happens in the cell's thread.

Source: `docs/notebook-tools.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from types import FunctionType, MemberDescriptorType, SimpleNamespace
from typing import Any, Final, NamedTuple

from jp_nb.values.arrays import find_hidden_fields
from jp_nb.values.contents import read_record_fields
from jp_nb.values.custom import (
    FAILURES,
    ClassTable,
    find_method,
    list_bases,
    list_types,
    name_type,
    read_class_members,
    read_class_module,
)
from jp_nb.values.privacy import hide_part, hide_value, read_bytes_without_hidden, without_hidden
from jp_nb.values.series import list_label_names
from jp_nb.values.source_locations import is_own_code
from jp_nb.values.value_path import ValuePath, ValuePathError

SECRET_REFUSAL: Final = "This is a secret. Secrets are never shown."
PRIVATE_REFUSAL: Final = "Names that begin with _ are private and not shown."
MAX_LABELS: Final = 100_000  # limit for the rows whose labels are compared with names of secrets
_KERNEL: Final = frozenset(
    ("IPython", "ipykernel", "jupyter_client", "tornado", "traitlets", "zmq", "comm", "asyncio")
)
"""Packages whose records are not data."""


class NotShown(ValuePathError):  # noqa: N818 - the name says the reason
    """A path leads to a secret or a private name."""


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
    if hide_part(key, part) is not None:
        raise NotShown(SECRET_REFUSAL)


def _make_not_data_error(value: object) -> ValuePathError:
    return ValuePathError(
        f"a path cannot pass through this {name_type(type(value))}. It can pass only "
        "through data: containers, frames, arrays, dataclasses, and stored "
        "attributes of the user's own classes"
    )


class _DataKind(NamedTuple):
    """Class whose instances are data: a path may read the named attributes, and items."""

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


def is_a(value: object, module: str, name: str) -> bool:
    """Return True if `value` is of the class `name` of a module that is loaded."""
    loaded = sys.modules.get(module)
    return loaded is not None and vars(loaded).get(name) in list_types(value)


def _read_attribute(value: Any, name: str) -> Any:
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
        return without_secret_parts(value)[name]
    if is_a(value, "numpy", "recarray") and name in (value.dtype.names or ()):
        return value[name]

    if kind is None and stored is None:
        raise _make_not_data_error(value)
    raise ValuePathError(
        f"this {name_type(type(value))} has no stored attribute {name!r}. Methods and "
        "computed properties are not read"
    )


def _read_item(value: Any, key: Any) -> Any:
    kind = _KINDS.find(value)
    if kind is None or not kind.has_items:
        raise _make_not_data_error(value)
    keys = key if type(key) is tuple else (key,)
    for each in keys:
        _check_part(each)

    if dict in list_types(value):
        if not dict.__contains__(value, key):
            raise ValuePathError(f"key {key!r} does not exist")
        return dict.__getitem__(value, key)

    if isinstance(key, str) and (is_a(value, "numpy", "ndarray") or is_a(value, "numpy", "void")):
        return value[key]

    names = _read_item_names(value)
    if names is not None and type(key) is int and -len(names) <= key < len(names):
        _check_part(names[key])

    return without_secret_parts(value)[key]


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
        own = _read_class_attributes(kind) | _read_instance_attributes(value)
        return own | (read_record_fields(value) or {})

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

    found = sys.modules.get(module) if isinstance(module, str) else None
    file = getattr(found, "__file__", None)
    return isinstance(file, str) and is_own_code(file)


def _read_class_attributes(kind: type) -> dict[str, Any]:
    # The values in the user's classes, without methods and properties.
    found: dict[str, Any] = {}

    for cls in reversed(list_bases(kind)):
        if not is_own_class(cls):
            continue
        for name, part in read_class_members(cls).items():
            is_computed = find_method(part, "__get__") is not None
            if not name.startswith("__") and (not is_computed or type(part) is FunctionType):
                found[name] = part

    members = found.get("_member_map_")  # of an enumeration
    return found | members if type(members) is dict else found


def _read_instance_attributes(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}

    for cls in reversed(list_types(value)):
        for name, part in read_class_members(cls).items():
            if type(part) is MemberDescriptorType and not name.startswith("__"):
                try:
                    found[name] = part.__get__(value, cls)
                except AttributeError:
                    continue  # a slot without a value

    for name in ("__dict__", "__pydantic_extra__"):
        try:
            stored = object.__getattribute__(value, name)
        except AttributeError:
            continue
        if type(stored) is dict:
            found |= stored

    return found


def without_secret_parts(value: Any) -> Any:
    """Return `value`, or a copy in which secret parts are replaced.

    Raise `NotShown` if the whole value is secret.
    """
    if hide_value(value) is not None:
        raise NotShown(SECRET_REFUSAL)

    if is_a(value, "builtins", "str"):
        return without_hidden(str.__str__(value))
    if is_a(value, "builtins", "bytes") or is_a(value, "builtins", "bytearray"):
        return read_bytes_without_hidden(value)

    names = _read_item_names(value)
    if names is not None:
        items = list(value)
        hidden = map(hide_part, names, items)
        pairs = zip(items, hidden, strict=True)
        kept = [_replace_hidden(item, why) for item, why in pairs]
        return kept if is_a(value, "builtins", "list") else tuple(kept)

    clear = _CLEARED.find(value)
    return value if clear is None else clear(value)


def clear_for_selection(value: Any) -> Any:
    """Return `value` without secret parts, to select items.

    Raise a `ValuePathError` if the value is secret, or a container of an unknown class.
    """
    if _KINDS.find(value) is None and hasattr(type(value), "__len__"):
        raise _make_not_data_error(value)
    return without_secret_parts(value)


def _replace_hidden(item: object, replacement: str | None) -> object:
    return item if replacement is None else replacement


def _read_item_names(value: Any) -> Sequence[object] | None:
    # The names of the items of a row, a named tuple, or a pair.
    if is_a(value, "sqlite3", "Row"):
        return list(value.keys())

    is_tuple = is_a(value, "builtins", "tuple")
    if is_tuple and isinstance(fields := getattr(type(value), "_fields", None), tuple):
        return fields

    if (is_tuple or is_a(value, "builtins", "list")) and len(value) == 2:
        return (None, value[0])  # a pair may be a name and its value
    return None


def _clear_frame(value: Any) -> Any:
    columns = [n for n, name in enumerate(value.columns) if hide_part(name) is not None]
    if columns:
        copy = value.copy(deep=False)
        for number in columns:
            copy.isetitem(number, hide_part(value.columns[number]))
        value = copy
    return _clear_rows(value)


def _clear_series(value: Any) -> Any:
    return _clear_rows(_require_shown_names(value))


def _clear_rows(value: Any) -> Any:
    # Of a frame or a series of pandas.
    if rows := list(find_hidden_rows(value.index)):
        value = value.astype(object)
        for number in rows:
            value.iloc[number] = hide_part(value.index[number])
    is_hidden = hide_part(list_label_names(value.index)) is not None
    return value.reset_index(drop=True) if is_hidden else value


def find_hidden_rows(index: Any) -> Iterator[int]:
    """Yield the positions of the hidden labels in a pandas index.

    Labels after the first `MAX_LABELS` are not read: rows under them are not hidden by their label.
    """
    if str(index.dtype) not in ("object", "str", "string", "category"):
        return
    for number, label in enumerate(index[:MAX_LABELS]):
        if hide_part(label) is not None:
            yield number


def _require_shown_names(value: Any) -> Any:
    # Return the series or index, unless its name is a secret's.
    if hide_part(list_label_names(value)) is not None:
        raise NotShown(SECRET_REFUSAL)
    return value


def _clear_polars_frame(value: Any) -> Any:
    literal = sys.modules["polars"].lit
    hidden = {name: hide_part(name) for name in value.columns}
    return value.with_columns(
        literal(why).alias(name) for name, why in hidden.items() if why is not None
    )


def _clear_structured_array(value: Any) -> Any:
    hidden = find_hidden_fields(value.dtype)
    if not hidden:
        return value
    shown = [name for name in value.dtype.names if name not in hidden]
    if not shown:
        raise NotShown(SECRET_REFUSAL)
    return value[shown]


def _clear_indexer(value: Any) -> Any:
    # The user may have stored an `iloc` or `loc` in a variable.
    cleared = without_secret_parts(value.obj)
    return value if cleared is value.obj else type(value)(value.name, cleared)


_CLEARED: Final = ClassTable[Callable[[Any], Any]](
    (
        ("pandas", "DataFrame", _clear_frame),
        ("pandas", "Series", _clear_series),
        ("pandas", "Index", _require_shown_names),
        ("pandas.core.indexing", "_LocationIndexer", _clear_indexer),
        ("pandas.core.indexing", "_ScalarAccessIndexer", _clear_indexer),
        ("polars", "DataFrame", _clear_polars_frame),
        ("polars", "Series", _require_shown_names),
        ("numpy", "ndarray", _clear_structured_array),
        ("numpy", "void", _clear_structured_array),
    )
)
