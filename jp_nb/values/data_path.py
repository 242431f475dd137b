"""Follow a path of attributes, keys, and indices through data, without its secrets.

Data are containers, frames, arrays, records, and the stored attributes of the user's classes.
Modules, functions, generators, and objects of libraries, IPython, and the kernel are not data: a
path can end at one of them, but not pass through it. Secret parts of a value are replaced before
each step, so that slices and transposed frames do not contain them.

Source: `docs/notebook-tools.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType, MemberDescriptorType, SimpleNamespace
from typing import Any, Final, NamedTuple

from jp_nb.values.arrays import hidden_fields
from jp_nb.values.base import bytes_without_hidden, hidden_part, hidden_value, without_hidden
from jp_nb.values.containers import record_fields
from jp_nb.values.custom import FAILURES, ClassTable, type_name, types_of
from jp_nb.values.expressions import PathStep, ValuePath, ValuePathError, is_own_code
from jp_nb.values.frames import label_names

SECRET_REFUSAL: Final = "This is a secret. Secrets are never shown."
PRIVATE_REFUSAL: Final = "Names that begin with _ are private and not shown."
MAX_LABELS: Final = 100_000
"""Limit for the rows whose labels are compared with names of secrets."""
_KERNEL: Final = frozenset(
    ("IPython", "ipykernel", "jupyter_client", "tornado", "traitlets", "zmq", "comm", "asyncio")
)
"""Packages whose records are not data."""


class NotShown(ValuePathError):  # noqa: N818 - the name says the reason
    """A path leads to a secret or a private name."""


class NotData(ValuePathError):  # noqa: N818
    """A path passes through something other than data."""


def follow_data(path: ValuePath, namespace: Mapping[str, Any]) -> Any:
    """Return the value at `path` in `namespace`. Call it in the cell's thread.

    Raises:
        NotShown: The path leads to a secret or a private name.
        NotData: It passes through something other than data.
        ValuePathError: There is no such value.
    """
    if path.name.startswith("_"):
        raise NotShown(PRIVATE_REFUSAL)
    value = path.begin(namespace)
    _check_part(path.name, value)
    for step in path.steps:
        value = _follow_step(step, value)
    return value


def _follow_step(step: PathStep, value: Any) -> Any:
    if hidden_value(value) is not None:
        raise NotShown(SECRET_REFUSAL)
    try:
        part = _attribute(value, step.key) if step.kind == "attribute" else _item(value, step.key)
    except ValuePathError:
        raise
    except FAILURES as exc:  # the value's own code may run
        raise ValuePathError(
            f"{step.key!r} cannot be read: {type_name(type(exc))}: {without_hidden(str(exc))}"
        ) from exc
    _check_part(step.key, part)
    return part


def _check_part(key: object, part: object) -> None:
    if hidden_part(key, part) is not None:
        raise NotShown(SECRET_REFUSAL)


def _not_data(value: object) -> NotData:
    return NotData(
        f"a path cannot pass through this {type_name(type(value))}. It can pass only "
        "through data: containers, frames, arrays, dataclasses, and stored "
        "attributes of the user's own classes"
    )


# --- kinds -------------------------------------------------------------------------------------


class _DataKind(NamedTuple):
    """A class of a library whose instances are data.

    Attributes:
        module: Name of the module that has the class. It may not be installed.
        name: Name of the class in that module.
        attributes: The attributes that a path may read.
        has_items: True if a path may read items.
    """

    module: str
    name: str
    attributes: frozenset[str] = frozenset()
    has_items: bool = True


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ARRAY: Final = _names("shape dtype size ndim")
_PANDAS: Final = _ARRAY | _names("index values T iloc loc at iat empty")
_KINDS: Final = ClassTable(
    (
        _DataKind("builtins", "str"),
        _DataKind("builtins", "bytes"),
        _DataKind("builtins", "bytearray"),
        _DataKind("builtins", "list"),
        _DataKind("builtins", "tuple"),
        _DataKind("builtins", "dict"),
        _DataKind("builtins", "set", has_items=False),
        _DataKind("builtins", "frozenset", has_items=False),
        _DataKind("builtins", "range", _names("start stop step")),
        _DataKind("builtins", "memoryview", _names("shape format nbytes")),
        _DataKind("builtins", "complex", _names("real imag"), has_items=False),
        _DataKind("builtins", "BaseException", _names("args"), has_items=False),
        _DataKind("types", "MappingProxyType"),
        _DataKind("collections.abc", "Mapping"),
        _DataKind("collections.abc", "Sequence"),
        _DataKind("collections", "deque", _names("maxlen")),
        _DataKind("array", "array", _names("typecode")),
        _DataKind("sqlite3", "Row"),
        _DataKind("enum", "Enum", _names("name value"), has_items=False),
        _DataKind(
            "datetime",
            "date",
            _names("year month day hour minute second microsecond"),
            has_items=False,
        ),
        _DataKind("pathlib", "PurePath", _names("name stem suffix parent parts"), has_items=False),
        _DataKind("pandas", "DataFrame", _PANDAS | _names("columns dtypes")),
        _DataKind("pandas", "Series", _PANDAS | _names("name hasnans")),
        _DataKind("pandas", "Index", _ARRAY | _names("values T name names levels nlevels")),
        _DataKind("pandas.api.extensions", "ExtensionArray", _ARRAY),
        _DataKind("pandas.core.indexing", "_LocationIndexer"),
        _DataKind("pandas.core.indexing", "_ScalarAccessIndexer"),
        _DataKind("polars", "DataFrame", _names("columns dtypes schema shape height width")),
        _DataKind("polars", "Series", _names("name dtype shape")),
        _DataKind("numpy", "ndarray", _ARRAY | _names("T real imag nbytes")),
        _DataKind("numpy", "void"),
        _DataKind("torch", "Tensor", _names("shape dtype device ndim T")),
        _DataKind("jax", "Array", _ARRAY | _names("T")),
    )
)


def is_a(value: object, module: str, name: str) -> bool:
    """Return True if `value` is of the class `name` of a module that is loaded."""
    loaded = sys.modules.get(module)
    return loaded is not None and vars(loaded).get(name) in types_of(value)


# --- steps -------------------------------------------------------------------------------------


def _attribute(value: Any, name: str) -> Any:
    if name.startswith("_"):
        raise NotShown(PRIVATE_REFUSAL)
    _check_part(name, None)
    kind = _KINDS.find(value)
    if kind is not None and name in kind.attributes:
        return getattr(without_secret_parts(value), name)
    stored = stored_attributes(value)
    if stored is not None and name in stored:
        return stored[name]
    if is_a(value, "pandas", "DataFrame") and name in value.columns:
        return without_secret_parts(value)[name]
    if is_a(value, "numpy", "recarray") and name in (value.dtype.names or ()):
        return value[name]
    if kind is None and stored is None:
        raise _not_data(value)
    raise ValuePathError(
        f"this {type_name(type(value))} has no stored attribute {name!r}. Methods and "
        "computed properties are not read"
    )


def _item(value: Any, key: Any) -> Any:
    kind = _KINDS.find(value)
    if kind is None or not kind.has_items:
        raise _not_data(value)
    for each in key if type(key) is tuple else (key,):
        _check_part(each, None)
    if kind.name == "dict":
        if not dict.__contains__(value, key):
            raise ValuePathError(f"key {key!r} does not exist")
        return dict.__getitem__(value, key)
    if kind.module == "numpy" and isinstance(key, str):
        return value[key]
    names = _item_names(value)
    if names is not None and type(key) is int and -len(names) <= key < len(names):
        _check_part(names[key], None)
    return without_secret_parts(value)[key]


# --- stored attributes -------------------------------------------------------------------------


def stored_attributes(value: Any) -> Mapping[str, Any] | None:
    """Return the stored attributes of a record, or of an object or class of the user.

    Return None for another value. Properties and methods are not included.
    """
    kind = type(value)
    if issubclass(kind, type):
        return _class_attributes(value) if is_own_class(value) else None
    if kind is SimpleNamespace:
        return dict(vars(value))
    if is_own_class(kind):
        own = _class_attributes(kind) | _instance_attributes(value)
        return own | (record_fields(value) or {})
    module = type.__dict__["__module__"].__get__(kind)
    if isinstance(module, str) and module.partition(".")[0] in _KERNEL:
        return None
    return record_fields(value)


def is_own_class(kind: type) -> bool:
    """Return True for a class of the notebook, or of the user's files."""
    try:
        module = type.__dict__["__module__"].__get__(kind)
    except FAILURES:
        return False
    if module == "__main__":
        return True
    found = sys.modules.get(module) if isinstance(module, str) else None
    file = getattr(found, "__file__", None)
    return isinstance(file, str) and is_own_code(file)


def _class_attributes(kind: type) -> dict[str, Any]:
    # The values in the user's classes, without methods and properties.
    found: dict[str, Any] = {}
    for cls in reversed(type.__dict__["__mro__"].__get__(kind)):
        if not is_own_class(cls):
            continue
        for name, part in type.__dict__["__dict__"].__get__(cls).items():
            if name.startswith("__") or (_is_computed(part) and type(part) is not FunctionType):
                continue
            found[name] = part
    members = found.get("_member_map_")  # of an enumeration
    return found | members if type(members) is dict else found


def _is_computed(part: object) -> bool:
    return any("__get__" in type.__dict__["__dict__"].__get__(cls) for cls in types_of(part))


def _instance_attributes(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for cls in reversed(types_of(value)):
        for name, part in type.__dict__["__dict__"].__get__(cls).items():
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


# --- without secrets ---------------------------------------------------------------------------


def without_secret_parts(value: Any) -> Any:
    """Return `value`, or a copy in which secret parts are replaced.

    Raises:
        NotShown: The whole value is secret.
    """
    if hidden_value(value) is not None:
        raise NotShown(SECRET_REFUSAL)
    if is_a(value, "builtins", "str"):
        return without_hidden(str.__str__(value))
    if is_a(value, "builtins", "bytes") or is_a(value, "builtins", "bytearray"):
        return bytes_without_hidden(value)
    names = _item_names(value)
    if names is not None:
        items = list(value)
        hidden = map(hidden_part, names, items)
        kept = [item if why is None else why for item, why in zip(items, hidden, strict=True)]
        return kept if is_a(value, "builtins", "list") else tuple(kept)
    for module, name, cleared in _CLEARED:
        if is_a(value, module, name):
            return cleared(value)
    return value


def readable_items(value: Any) -> Any:
    """Return `value` without secret parts, to select items.

    Raises:
        NotData: The value is a container of an unknown class, whose code would run.
        NotShown: The whole value is secret.
    """
    if _KINDS.find(value) is None and hasattr(type(value), "__len__"):
        raise _not_data(value)
    return without_secret_parts(value)


def _item_names(value: Any) -> Sequence[object] | None:
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
    columns = [n for n, name in enumerate(value.columns) if hidden_part(name) is not None]
    rows = list(hidden_rows(value.index))
    is_hidden = hidden_part(label_names(value.index)) is not None
    if not (columns or rows or is_hidden):
        return value
    copy = value.copy(deep=False)
    for number in columns:
        copy.isetitem(number, hidden_part(value.columns[number]))
    if rows:
        copy = copy.astype(object)
        for number in rows:
            copy.iloc[number, :] = hidden_part(value.index[number])
    return copy.reset_index(drop=True) if is_hidden else copy


def hidden_rows(index: Any) -> Iterator[int]:
    """Yield the positions of the hidden labels in a pandas index."""
    if str(index.dtype) not in ("object", "str", "string", "category"):
        return
    for number, label in enumerate(index[:MAX_LABELS]):
        if hidden_part(label) is not None:
            yield number


def _clear_series(value: Any) -> Any:
    _check_names(value)
    rows = list(hidden_rows(value.index))
    is_hidden = hidden_part(label_names(value.index)) is not None
    if rows:
        value = value.astype(object)
        for number in rows:
            value.iloc[number] = hidden_part(value.index[number])
    return value.reset_index(drop=True) if is_hidden else value


def _check_names(value: Any) -> Any:
    if hidden_part(label_names(value)) is not None:
        raise NotShown(SECRET_REFUSAL)
    return value


def _clear_polars_frame(value: Any) -> Any:
    literal = sys.modules["polars"].lit
    hidden = {name: hidden_part(name) for name in value.columns}
    return value.with_columns(
        literal(why).alias(name) for name, why in hidden.items() if why is not None
    )


def _clear_structured_array(value: Any) -> Any:
    hidden = hidden_fields(value.dtype)
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


_CLEARED: Final[tuple[tuple[str, str, Callable[[Any], Any]], ...]] = (
    ("pandas", "DataFrame", _clear_frame),
    ("pandas", "Series", _clear_series),
    ("pandas", "Index", _check_names),
    ("pandas.core.indexing", "_LocationIndexer", _clear_indexer),
    ("pandas.core.indexing", "_ScalarAccessIndexer", _clear_indexer),
    ("polars", "DataFrame", _clear_polars_frame),
    ("polars", "Series", _check_names),
    ("numpy", "ndarray", _clear_structured_array),
    ("numpy", "void", _clear_structured_array),
)
