"""Format the cells and labels of tables and series: short, on one line, and without secrets.

`hidden` is the text that replaces the cells of a column or row of a secret; None if they are shown.

Source: `docs/values.md`.
"""

from __future__ import annotations

from typing import Final

from jp_nb.values.class_facts import FAILURES
from jp_nb.values.cut_text import to_one_line, without_addresses
from jp_nb.values.privacy import hide_value

CELL_CHARS: Final = 40
_EXACT_FLOAT_CHARS: Final = 12  # a longer number is rounded
_SHOWN_TUPLE_ITEMS: Final = 5  # of a longer tuple, only the length is shown


def format_table_cell(value: object) -> str:
    """Return the text of a cell, a label, or a name."""
    kind = type(value)  # exactly: a subclass has its own code, and is formatted by it
    if (hidden := hide_value(value)) is not None:
        return to_one_line(hidden, CELL_CHARS)

    if kind is float:
        text = repr(value)
        return text if len(text) <= _EXACT_FLOAT_CHARS else f"{value:.8g}"

    if kind is str:
        return to_one_line(value, CELL_CHARS)  # type: ignore[arg-type]

    if kind is tuple and len(value) <= _SHOWN_TUPLE_ITEMS:  # type: ignore[arg-type]
        cells = map(format_table_cell, value)  # type: ignore[call-overload]
        return to_one_line(", ".join(cells), CELL_CHARS)

    if kind is list or kind is dict or kind is tuple:
        return f"{kind.__name__} of {len(value)}"  # type: ignore[arg-type]

    try:
        return to_one_line(without_addresses(str(value)), CELL_CHARS)
    except FAILURES as exc:
        return f"<{kind.__name__}: {type(exc).__name__}>"


def format_or_hide(cell: object, hidden: str | None) -> str:
    """Return the text of `cell`, or the text that replaces it."""
    return format_table_cell(cell) if hidden is None else to_one_line(hidden, CELL_CHARS)


def format_type(dtype: object, hidden: str | None) -> str:
    """Return the type of a column. It has no values if the column is hidden."""
    # Some types list the values of the column, such as `Enum(categories=['a', 'b'])`.
    return str(dtype) if hidden is None else str(dtype).partition("(")[0]
