"""Take parts of a value: its first, last, or evenly spaced items, or all of its rows in pieces.

A tool shows such parts to the model: `head`, `tail`, or `sample`.

Source: `docs/notebook-tools.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from itertools import islice
from typing import Any, Final, Literal

from jp_nb.values.value_path import ValuePathError

DataPart = Literal["head", "tail", "sample"]
MAX_INDEXED: Final = 100_000
"""Maximum size of a set or a mapping from which items are selected."""


def take_part(value: Any, part: DataPart, count: int) -> Any:
    """Return `count` items or rows of `value`, of the same type if possible.

    A `sample` is evenly spaced, so the same value has the same sample. Raise a `ValuePathError` if
    the items have no order or length, or cannot be read.
    """
    kind = type(value).__name__
    if not hasattr(type(value), "__len__"):
        raise ValuePathError(f"this {kind} has no {part}: its length is unknown")

    try:
        length = len(value)
        count = min(count, length)
        indices: range | list[int] = range(count)
        if part == "tail":
            indices = range(length - count, length)
        elif part == "sample":
            indices = [i * length // count for i in range(count)]

        # A set has no `__getitem__`, but its items can be sorted.
        if isinstance(value, Set) or hasattr(type(value), "__getitem__"):
            return _take_items(value, indices)
    except ValuePathError:
        raise
    except Exception as exc:  # the value's code may raise anything
        raise ValuePathError(
            f"cannot take the {part} of this {kind}: {type(exc).__name__}: {exc}"
        ) from exc

    raise ValuePathError(f"this {kind} has no {part}: its items have no order")


def split_rows(value: Any, size: int) -> list[Any]:
    """Split a frame, or a series of pandas, into pieces of `size` rows; others are one piece.

    Raise a `ValuePathError` if the rows cannot be read.
    """
    kind = type(value)
    is_frame = hasattr(kind, "columns") and hasattr(kind, "shape")
    if not is_frame and not _has_rows(value):
        return [value]

    try:
        starts = range(0, max(len(value), 1), size)
        rows = value.iloc if _has_rows(value) else value
        return [rows[start : start + size] for start in starts]
    except Exception as exc:  # the value's code may raise anything
        raise ValuePathError(f"cannot read its rows: {type(exc).__name__}: {exc}") from exc


def _has_rows(value: Any) -> bool:
    """Return True for frames and series of pandas, whose rows `iloc` selects."""
    return hasattr(type(value), "iloc")


def _take_items(value: Any, indices: range | list[int]) -> Any:
    """Return the items of `value` at `indices`: a range for its head or tail, a list for a sample.

    Raises:
        ValuePathError: The value has too many items, or a sample of it has no meaning.
    """
    if isinstance(value, Mapping):
        return {key: value[key] for key in _select(_list_items(value), indices)}

    if isinstance(value, Set):
        ordered = sorted(_list_items(value), key=lambda item: (type(item).__name__, repr(item)))
        return _select(ordered, indices)

    if isinstance(value, tuple | list):
        kind = tuple if isinstance(value, tuple) else list
        return kind(value[index] for index in indices)

    rows = value.iloc if _has_rows(value) else value
    if isinstance(indices, range):
        try:
            return rows[indices.start : indices.stop]
        except (TypeError, KeyError):  # a deque does not support slices
            return _select(value, indices)

    if isinstance(value, (str, bytes, bytearray)):
        raise ValuePathError(
            "a sample of single characters has no meaning: use head, tail, or a slice"
        )
    if hasattr(type(value), "shape"):  # an array, a frame
        return rows[indices]
    return _select(value, indices)


def _select(items: Any, indices: range | list[int]) -> list[Any]:
    return [items[index] for index in indices]


def _list_items(items: Any) -> list[Any]:
    """Return the keys of a mapping or the elements of a set, if there are not too many."""
    if len(items) > MAX_INDEXED:
        raise ValuePathError(f"it has more than {MAX_INDEXED:,} items: give a key")
    return list(islice(items, MAX_INDEXED))
