"""Some of the items of a value: the first, the last, or some spread over all of it.

Nothing is imported, nothing is computed that was put off, and no iterator is used up.

Source: `docs/notebook-tools.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from itertools import islice
from typing import Any, Final, Literal

from jp_nb.values.value_path import ValuePathError

Part = Literal["head", "tail", "sample"]
MAX_SORTED: Final = 100_000
"""Items of a set, or keys of a mapping, that are listed to take some of them."""


def part_of(value: Any, part: Part, count: int) -> Any:
    """Return `count` items or rows of `value`, of the same kind where that can be.

    `sample` is spread evenly over the whole: the same value gives the same items.

    Raises:
        ValuePathError: If it has no items in an order, or they cannot be taken.
    """
    kind = type(value).__name__
    if not hasattr(type(value), "__len__"):
        raise ValuePathError(f"this {kind} has no {part}: its length is unknown")
    try:
        length = len(value)
        take = _taker(value)
        if take is not None:
            return take(_places(part, count, length))
    except Exception as exc:  # whatever the value's own code raises
        raise ValuePathError(
            f"cannot take the {part} of this {kind}: {type(exc).__name__}: {exc}"
        ) from exc
    raise ValuePathError(f"this {kind} has no {part}: its items have no order")


def pieces_of(value: Any, size: int) -> list[Any]:
    """Return a frame or a series in pieces of `size` rows, as a description shows all of; else it.

    Raises:
        ValuePathError: If it cannot be cut.
    """
    of_pandas = hasattr(type(value), "iloc")
    if not of_pandas and not (hasattr(type(value), "columns") and hasattr(type(value), "shape")):
        return [value]
    try:
        starts = range(0, max(len(value), 1), size)
        rows = value.iloc if of_pandas else value
        return [rows[start : start + size] for start in starts]
    except Exception as exc:  # whatever the value's own code raises
        raise ValuePathError(f"cannot read its rows: {type(exc).__name__}: {exc}") from exc


def _places(part: Part, count: int, length: int) -> range | list[int]:
    count = min(count, length)
    match part:
        case "head":
            return range(count)
        case "tail":
            return range(length - count, length)
        case "sample":
            return [i * length // count for i in range(count)]


def _taker(value: Any) -> Callable[[range | list[int]], Any] | None:
    """Return what takes the items at some places; None if `value` has no order."""
    if isinstance(value, Mapping):
        return lambda places: {key: value[key] for key in _picked(list(_few(value)), places)}
    if isinstance(value, Set):
        ordered = sorted(_few(value), key=lambda item: (type(item).__name__, repr(item)))
        return lambda places: _picked(ordered, places)
    if hasattr(type(value), "iloc"):  # frames and series of pandas
        return lambda places: value.iloc[_index(places)]
    if not hasattr(type(value), "__getitem__"):
        return None
    if isinstance(value, (list, tuple)):
        return lambda places: _kind_of(value)(_picked(value, places))
    return lambda places: _of_sequence(value, places)


def _kind_of(value: Any) -> type[list[Any]] | type[tuple[Any, ...]]:
    return tuple if isinstance(value, tuple) else list


def _of_sequence(value: Any, places: range | list[int]) -> Any:
    if isinstance(places, range):
        try:
            return value[places.start : places.stop]
        except (TypeError, KeyError):  # a deque takes no slices
            return _picked(value, places)
    if isinstance(value, (str, bytes, bytearray)):
        raise ValueError("a sample of single characters has no meaning: use head, tail or a slice")
    if hasattr(type(value), "shape"):  # an array, a frame
        return value[places]
    return _picked(value, places)


def _index(places: range | list[int]) -> slice | list[int]:
    return slice(places.start, places.stop) if isinstance(places, range) else places


def _picked(items: Any, places: range | list[int]) -> list[Any]:
    return [items[i] for i in places]


def _few(items: Any) -> Any:
    if len(items) > MAX_SORTED:
        raise ValueError(f"it has more than {MAX_SORTED:,} items: give a key")
    return islice(items, MAX_SORTED)
