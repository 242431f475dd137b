"""Describe series of pandas and polars, and indexes of pandas, with their first and last values.

A description keeps within its `limits` (`base.py`). With `limits.brief`, it is one line.
`hide_part(key, value)` returns the text that replaces the value of a key with the name of a secret;
None for other keys (`privacy.py`). A tuple has several names.

Source: `docs/values.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jp_nb.values.base import DescriptionLimits
from jp_nb.values.cell_text import format_or_hide, format_table_cell, format_type
from jp_nb.values.class_facts import FAILURES
from jp_nb.values.cut_text import format_quantity
from jp_nb.values.privacy import hide_part
from jp_nb.values.table_labels import find_slice_access, list_label_names
from jp_nb.values.table_text import WHOLE_ROWS, count_chars

MAX_COUNTED_CELLS: Final = 500_000
"""Maximum number of cells in which missing values are counted, or the range is searched."""
WHOLE_VALUES: Final = 2 * WHOLE_ROWS
"""Maximum length of a series whose values are all shown."""
END_VALUES: Final = (WHOLE_ROWS // 2, 5, 3, 2, 1)
"""Numbers of first values, and of last values, of a longer series. The first that fits is used."""
_NEXT_SLICE_LENGTH: Final = 20
"""Length of the slice that a note suggests to see omitted values."""
VALUES_NOTE_CHARS: Final = 60
"""Room for the note about omitted values."""


def describe_series(value: Any, limits: DescriptionLimits) -> str:
    """Describe a series of pandas or polars, or an index of pandas."""
    length = len(value)
    is_polars = hasattr(type(value), "null_count")
    kind = "polars.Series" if is_polars else f"pandas.{type(value).__name__}"

    name = ""
    if value.name is not None and value.name != "":
        name = f" {format_table_cell(value.name)}"

    hidden = hide_part(list_label_names(value))
    title = f"{kind}{name}, {format_quantity(length, 'value')}, {format_type(value.dtype, hidden)}"

    if limits.brief:
        return title
    if hidden is not None:
        return f"{title}: {hidden}"

    # Slices of a pandas series may select by label, those of its `iloc` select by position.
    rows = value if is_polars else getattr(value, "iloc", value)
    facts = [f"{title}, {_count_nulls(value, rows, length)}"]

    range_text = _format_range(value, length)
    if range_text:
        facts.append(range_text)

    index = None if is_polars else getattr(value, "index", None)
    room = limits.chars - count_chars(facts) - VALUES_NOTE_CHARS - len(limits.name)
    return "\n".join([*facts, *_fit_values(rows, length, index, room, limits)])


def _count_nulls(value: Any, rows: Any, length: int) -> str:
    if hasattr(type(value), "null_count"):
        return format_quantity(int(value.null_count()), "null")

    counted = min(length, MAX_COUNTED_CELLS)
    nulls = format_quantity(int(rows[:counted].isna().sum()), "null")
    return nulls if counted == length else f"{nulls} among the first {counted:,}"


def _fit_values(
    rows: Any, length: int, index: Any, room: int, limits: DescriptionLimits
) -> list[str]:
    """Return all values if they fit, else as many first and last ones as fit, with a note."""
    if length <= WHOLE_VALUES:
        lines = _format_values(rows[0:length], index, 0)
        if count_chars(lines) <= room:
            return lines

    access = "" if index is None else find_slice_access(index)
    for ends in END_VALUES:
        if 2 * ends >= length:
            continue

        top = _format_values(rows[0:ends], index, 0)
        bottom = _format_values(rows[length - ends : length], index, length - ends)
        # For example: `… 80 more values; prices[5:25] has the next`
        end = f"{access}[{ends}:{ends + _NEXT_SLICE_LENGTH}] has the next"
        note = limits.format_omitted(length - 2 * ends, "value", end)
        lines = [*top, "…", *bottom, note]
        if count_chars(lines) <= room:
            return lines

    return [
        limits.format_omitted(length, "value", f"{access}[:{_NEXT_SLICE_LENGTH}] has the first")
    ]


def _format_range(value: Any, length: int) -> str:
    """Return the minimum and maximum of numbers or times; "" for other or too many values."""
    if not 0 < length <= MAX_COUNTED_CELLS:
        return ""

    # Other types, such as objects and categories, may have no order.
    dtype_name = str(value.dtype).lower()
    if not dtype_name.startswith(("int", "uint", "float", "date", "time", "decimal")):
        return ""

    try:
        return f"min {format_table_cell(value.min())}, max {format_table_cell(value.max())}"
    except FAILURES:
        return ""


def _format_values(part: Any, index: Any, start: int) -> list[str]:
    """Return a line for each value of `part`, whose first value is at the position `start`.

    The label of a value is the one in `index`, or else its position.
    """
    values = part.to_list()
    labels: Sequence[object] = range(start, start + len(values))
    if index is not None and type(index).__name__ != "RangeIndex":
        labels = index[start : start + len(values)].tolist()

    hidden = None if index is None else hide_part(list_label_names(index))
    return [
        f"{format_or_hide(label, hidden)}: {format_or_hide(cell, hide_part(label, cell))}"
        for label, cell in zip(labels, values, strict=False)
    ]
