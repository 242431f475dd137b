"""Labels of series and frames: their names, and slices of rows despite them.

Source: `docs/values.md`.
"""

from __future__ import annotations

from typing import Any


def find_slice_access(index: Any) -> str:
    """Return the attribute of a series or frame of pandas whose slices select rows by position.

    It is "" for the value itself. If the labels in `index` are floats, slices of the value select
    the rows by label.
    """
    return ".iloc" if index.dtype.kind == "f" else ""


def list_label_names(value: Any) -> tuple[object, ...]:
    """Return the names of a series or an index. A `MultiIndex` has several names."""
    return tuple(getattr(value, "names", None) or (value.name,))
