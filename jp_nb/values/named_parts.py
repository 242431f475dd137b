"""Read the named parts of Python values, for the search for secrets in the user's variables.

The readers run no properties and consume no iterators. `hide_part(name)` returns the text that
replaces a part with the name of a secret; None for other names (`privacy.py`). `_READERS` has the
reader of each class. Each takes the value and `with_plain_cells` (see `PartReader`).

Source: `docs/values.md`, `docs/notebook-tools.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, Protocol

from jp_nb.values.class_facts import FAILURES, ClassTable, is_a
from jp_nb.values.privacy import hide_part
from jp_nb.values.secret_parts import find_hidden_rows
from jp_nb.values.stored_attributes import read_stored_attributes
from jp_nb.values.table_labels import list_label_names

MAX_READ_ITEMS: Final = 10_000
"""Maximum number of items of one container that are read."""
MAX_READ_CELLS: Final = 1_000
"""Maximum number of objects in one column of a frame that are read."""
PLAIN_TYPES: Final = frozenset((bool, int, float, complex, type(None)))
"""Types of values that have neither parts nor a text."""

NamedParts = Iterator[tuple[str | None, object]]
"""Parts of a value with their names. None means that a part has no name."""


class PartReader(Protocol):
    """Function that reads the parts of a value."""

    def __call__(self, value: Any, /, *, with_plain_cells: bool) -> NamedParts:
        """Yield the parts.

        A frame or an array may have millions of plain cells, such as texts and numbers. They are
        read `with_plain_cells`, and otherwise only in columns with the name of a secret.
        """


def find_part_reader(value: object) -> PartReader:
    """Return the reader for values of the type of `value`."""
    return _READERS.find(value) or _read_object


def read_secret_content(value: Any, *, with_plain_cells: bool) -> NamedParts:
    """Yield the content of a value of pydantic's secret types, or of a password field."""
    if is_a(value, "ipywidgets", "Password"):
        yield None, vars(value).get("_trait_values", {}).get("value")
    else:
        yield None, object.__getattribute__(value, "_secret_value")


def _read_partial(value: Any, *, with_plain_cells: bool) -> NamedParts:
    yield from value.keywords.items()
    yield from ((None, argument) for argument in value.args)


def _read_object(value: Any, *, with_plain_cells: bool) -> NamedParts:
    """Yield the attributes of an object of the user; of others only texts with secret names."""
    attributes = read_stored_attributes(value)  # None for most objects of libraries
    if attributes is not None:
        yield from list(attributes.items())
        return

    try:
        stored = object.__getattribute__(value, "__dict__")
    except FAILURES:
        return

    if type(stored) is dict and not isinstance(value, type):
        for name, part in list(stored.items()):
            if type(name) is str and type(part) in (str, bytes) and _is_secret_name(name):
                yield name, part


def _read_mapping(value: Any, *, with_plain_cells: bool) -> NamedParts:
    for key in list(islice(value, MAX_READ_ITEMS)):
        yield _name_of_key(key), value[key]


def _name_of_key(key: object) -> str | None:
    """Return the name that a key of a mapping gives to its value, or None."""
    if isinstance(key, bytes):
        return key.decode(errors="replace")
    if type(key) is tuple:
        texts = (label for label in key if type(label) is str)
        return next(filter(_is_secret_name, texts), None)
    return key if type(key) is str else None


def _read_dict(value: Any, *, with_plain_cells: bool) -> NamedParts:
    # A subclass may define `__iter__` and `__getitem__`: their code does not run for a copy.
    items = dict(islice(dict.items(value), MAX_READ_ITEMS))
    return _read_mapping(items, with_plain_cells=with_plain_cells)


def _read_view(value: Any, *, with_plain_cells: bool) -> NamedParts:
    return _read_mapping(value.mapping, with_plain_cells=with_plain_cells)


def _read_sequence(value: Any, *, with_plain_cells: bool) -> NamedParts:
    """Yield the items. They have names in a pair, and in a table of rows with a header."""
    items = list(islice(value, MAX_READ_ITEMS))
    if len(items) == 2 and type(items[0]) is str:
        yield items[0], items[1]  # a pair of a name and its value

    header: Any = ()
    if items and type(items[0]) in (list, tuple):
        header = items[0]
    secret_columns = [
        index for index, name in enumerate(header) if type(name) is str and _is_secret_name(name)
    ]

    for item in items:
        yield None, item
        # The items may be the rows of a table with a header.
        if type(item) in (list, tuple) and len(item) == len(header) > 1:
            yield from ((header[index], item[index]) for index in secret_columns)


def _read_tuple(value: Any, *, with_plain_cells: bool) -> NamedParts:
    """Yield the fields of a named tuple, or the items of another tuple."""
    fields = read_stored_attributes(value)
    if fields is None:
        return _read_sequence(value, with_plain_cells=with_plain_cells)
    return iter(fields.items())


def _read_pandas_frame(value: Any, *, with_plain_cells: bool) -> NamedParts:
    for number, name in enumerate(value.columns):
        yield from _read_pandas_column(
            name, value.iloc[:MAX_READ_ITEMS, number], with_plain_cells=with_plain_cells
        )
    yield from _read_pandas_rows(value)


def _read_pandas_series(value: Any, *, with_plain_cells: bool) -> NamedParts:
    yield from _read_pandas_column(
        value.name, value[:MAX_READ_ITEMS], with_plain_cells=with_plain_cells
    )
    yield from _read_pandas_rows(value)


def _read_pandas_rows(value: Any) -> NamedParts:
    """Yield the cells of the rows whose labels are names of secrets, and the labels."""
    for number in find_hidden_rows(value.index):
        row = value.iloc[number]  # of a series: the value itself
        cells = row.tolist() if is_a(row, "pandas", "Series") else row
        yield _find_secret_name(value.index[number]), cells

    yield from _read_pandas_index(value.index, with_plain_cells=False)


def _read_pandas_column(name: object, column: Any, *, with_plain_cells: bool) -> NamedParts:
    secret = _find_secret_name(name)
    if secret is not None or with_plain_cells:
        yield secret, column.tolist()
    elif column.dtype == object:
        yield from _read_objects(column[:MAX_READ_CELLS].tolist())


def _read_pandas_index(value: Any, *, with_plain_cells: bool) -> NamedParts:
    if with_plain_cells:
        yield None, value[:MAX_READ_ITEMS].tolist()
    elif (secret := _find_secret_name(list_label_names(value))) is not None:
        yield secret, value[:MAX_READ_ITEMS].tolist()


def _read_database_row(value: Any, *, with_plain_cells: bool) -> NamedParts:
    return zip(value.keys(), value, strict=True)


def _read_polars_frame(value: Any, *, with_plain_cells: bool) -> NamedParts:
    for column in value[:MAX_READ_ITEMS].get_columns():
        yield from _read_polars_series(column, with_plain_cells=with_plain_cells)


def _read_polars_series(value: Any, *, with_plain_cells: bool) -> NamedParts:
    secret = _find_secret_name(value.name)
    if secret is not None or with_plain_cells:
        yield secret, value[:MAX_READ_ITEMS].to_list()
    elif value.dtype.is_nested() or str(value.dtype) == "Object":
        yield from _read_objects(value[:MAX_READ_CELLS].to_list())


def _read_array(value: Any, *, with_plain_cells: bool) -> NamedParts:
    """Yield the fields of a structured array or row, or the cells of another array."""
    if value.dtype.names:
        for name in value.dtype.names:
            part = value[name]
            if part.dtype.names:
                yield None, part
            elif not (with_plain_cells or _is_secret_name(name)):
                continue
            elif part.shape:
                yield name, part.ravel()[:MAX_READ_ITEMS].tolist()
            else:
                yield name, part.item()
    elif with_plain_cells or value.dtype.kind == "O":
        yield from ((None, cell) for cell in value.ravel()[:MAX_READ_ITEMS].tolist())


def _read_objects(cells: list[object]) -> NamedParts:
    """Yield the cells that may have parts of their own, such as dicts."""
    return (
        (None, cell) for cell in cells if type(cell) is not str and type(cell) not in PLAIN_TYPES
    )


def _find_secret_name(name: object) -> str | None:
    """Return the first part of a label that is the name of a secret."""
    labels = name if type(name) is tuple else (name,)
    names = (label for label in labels if isinstance(label, str))
    return next(filter(_is_secret_name, names), None)


def _is_secret_name(name: str) -> bool:
    return hide_part(name) is not None


_READERS: Final = ClassTable[PartReader](
    (
        ("pydantic", "SecretStr", read_secret_content),
        ("pydantic", "SecretBytes", read_secret_content),
        ("ipywidgets", "Password", read_secret_content),
        ("functools", "partial", _read_partial),
        ("pandas", "DataFrame", _read_pandas_frame),
        ("pandas", "Series", _read_pandas_series),
        ("pandas", "Index", _read_pandas_index),
        ("polars", "DataFrame", _read_polars_frame),
        ("polars", "Series", _read_polars_series),
        ("numpy", "ndarray", _read_array),
        ("numpy", "void", _read_array),
        ("sqlite3", "Row", _read_database_row),
        ("builtins", "dict", _read_dict),
        ("types", "MappingProxyType", _read_mapping),
        ("collections", "UserDict", _read_mapping),
        ("collections", "ChainMap", _read_mapping),
        ("builtins", "tuple", _read_tuple),
        ("builtins", "list", _read_sequence),
        ("builtins", "set", _read_sequence),
        ("builtins", "frozenset", _read_sequence),
        ("collections", "deque", _read_sequence),
        ("_collections_abc", "dict_keys", _read_view),
        ("_collections_abc", "dict_items", _read_view),
        ("_collections_abc", "dict_values", _read_view),
    )
)
