"""Replace the secret parts of a value by copying it: items, columns, rows, and fields.

`hide_part(name, value)` returns the text that replaces a part with the name of a secret, or with a
secret as its value, if it is given; None for other parts. `hide_value` does the same for a value
that is secret as a whole (`privacy.py`). A name may be a tuple, such as that of a column of several
levels.

Source: `docs/notebook-tools.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from jp_nb.values.arrays import find_hidden_fields
from jp_nb.values.class_facts import ClassTable, is_a
from jp_nb.values.privacy import hide_part, hide_value, read_bytes_without_hidden, without_hidden
from jp_nb.values.table_labels import list_label_names
from jp_nb.values.value_path import ValuePathError

SECRET_REFUSAL: Final = "This is a secret. Secrets are never shown."
MAX_LABELS: Final = 100_000
"""Maximum number of rows whose labels are compared with the names of secrets."""


class NotShown(ValuePathError):  # noqa: N818 - the name says the reason
    """A path leads to a secret or a private name."""


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

    names = read_item_names(value)
    if names is not None:
        kept: list[object] = []
        for name, item in zip(names, list(value), strict=True):
            replacement = hide_part(name, item)
            shown = item if replacement is None else replacement
            kept.append(shown)
        return kept if is_a(value, "builtins", "list") else tuple(kept)

    clear = _CLEARERS.find(value)
    return value if clear is None else clear(value)


def read_item_names(value: Any) -> Sequence[object] | None:
    """Return the names of the items of a row, a named tuple, or a pair; None for other values."""
    if is_a(value, "sqlite3", "Row"):
        return list(value.keys())

    is_tuple = is_a(value, "builtins", "tuple")
    if is_tuple and isinstance(fields := getattr(type(value), "_fields", None), tuple):
        return fields

    if (is_tuple or is_a(value, "builtins", "list")) and len(value) == 2:
        return (None, value[0])  # a pair may be a name and its value
    return None


# --- frames and arrays -----------------------------------------------------------------------
# Each function returns the value, or a copy without the parts whose names are those of secrets.


def _clear_frame(value: Any) -> Any:
    hidden = [index for index, name in enumerate(value.columns) if hide_part(name) is not None]
    if hidden:
        copy = value.copy(deep=False)
        for index in hidden:
            copy.isetitem(index, hide_part(value.columns[index]))
        value = copy
    return _clear_rows(value)


def _clear_series(value: Any) -> Any:
    return _clear_rows(_require_shown_names(value))


def _clear_rows(value: Any) -> Any:
    """Return a frame or series of pandas without the rows and labels of secrets."""
    rows = list(find_hidden_rows(value.index))
    if rows:
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
    """Return the series or index, unless its name is that of a secret."""
    if hide_part(list_label_names(value)) is not None:
        raise NotShown(SECRET_REFUSAL)
    return value


def _clear_polars_frame(value: Any) -> Any:
    literal = sys.modules["polars"].lit
    replacements = {name: hide_part(name) for name in value.columns}
    return value.with_columns(
        literal(text).alias(name) for name, text in replacements.items() if text is not None
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


_CLEARERS: Final = ClassTable[Callable[[Any], Any]](
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
