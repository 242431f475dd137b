"""`Table`: lay out a frame of any library as text, its columns and then its first and last rows.

A frame is read into a `Table` (`frames.py`). The description names omitted rows and columns, with
an expression for them: `… 80 more rows; df[5:25] has the next`.

Source: `docs/values.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from jp_nb.values.base import DescriptionLimits
from jp_nb.values.cell_text import format_or_hide, format_table_cell
from jp_nb.values.cut_text import format_quantity
from jp_nb.values.privacy import hide_part

WHOLE_ROWS: Final = 20
"""Maximum length of a table whose rows are all shown."""
END_ROWS: Final = 5
"""Number of first rows, and of last rows, that are shown of a longer table."""
SHORTER_END_ROWS: Final = (4, 3, 2, 1)
"""Smaller numbers, which are tried if those do not fit."""
MAX_SHOWN_COLUMNS: Final = 20
"""Maximum number of columns whose values are shown."""

ROWS_NOTE_CHARS: Final = 40
"""Room for the note about omitted rows."""
COLUMNS_NOTE_CHARS: Final = 40
"""Room for the note about omitted columns, without its expression."""
MIN_ROWS_CHARS: Final = 40
"""With less room, no rows are shown."""
MIN_ROW_CHARS: Final = 30
"""Minimum room that the columns of a row get."""
MIN_COLUMNS_CHARS: Final = 40
"""Minimum room that the list of columns gets."""
LABEL_CHARS: Final = 8
"""Room for the label of a row, by estimate."""
MIN_COLUMN_CHARS: Final = 8
"""Width of a column with a short name, by estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A frame of any library.

    Attributes:
        title: First line of the description.
        rows: Number of rows.
        names: Displayed names of the columns.
        keys: Names of the columns as the frame has them, to compare with the names of secrets.
        types: Displayed types of the columns.
        nulls: Number of missing values in each column, in the first `counted` rows.
        counted: Number of rows in which missing values are counted.
        read_cells: Function of first row, end row, and number of columns. It returns the rows.
        read_labels: Function of first row and end row. It returns the labels of the rows.
        slice_access: The attribute whose slices select rows by position; "" for the frame itself.
    """

    title: str
    rows: int
    names: Sequence[str]
    keys: Sequence[object]
    types: Sequence[str]
    nulls: Sequence[int]
    counted: int
    read_cells: Callable[[int, int, int], Iterable[Sequence[object]]]
    read_labels: Callable[[int, int], Sequence[object]]
    slice_access: str = ""


def format_table(table: Table, limits: DescriptionLimits) -> str:
    """Return the columns of `table`, and as many first and last rows as fit."""
    # At most three fifths for the columns, so that rows fit as well.
    columns_room = limits.chars * 3 // 5 - len(table.title)
    head = [table.title, *_format_columns(table, columns_room, limits)]
    room = limits.chars - count_chars(head) - ROWS_NOTE_CHARS

    if not table.rows or not table.names or room < MIN_ROWS_CHARS:
        return "\n".join(head)

    # As many columns as fit if all lines get the same room: the rows, the names of the columns, and
    # the `…` between the first and the last rows.
    is_whole = table.rows <= WHOLE_ROWS
    row_count = table.rows if is_whole else 2 * END_ROWS
    width = _count_shown_columns(table.names, max(room // (row_count + 2), MIN_ROW_CHARS))
    columns = f", {width} of {len(table.names):,} columns" if width < len(table.names) else ""

    hidden = [hide_part(name) for name in table.keys[:width]]
    top_count = table.rows if is_whole else END_ROWS
    top = _format_rows(table, 0, top_count, hidden)
    bottom: list[list[str]] = []
    if not is_whole:
        bottom = _format_rows(table, table.rows - END_ROWS, table.rows, hidden)

    # Fewer rows, until the text fits.
    names = ["", *table.names[:width]]
    for ends in (len(top), *SHORTER_END_ROWS):
        chosen = _choose_rows(top, bottom, ends)
        lines = [*head, f"{chosen.caption}{columns}:", *_align([names, *chosen.rows])]

        # For example: `… 80 more rows; df[5:25] has the next`
        if chosen.shown_count < table.rows:
            end = f"{table.slice_access}[{ends}:{ends + 20}] has the next"
            lines.append(limits.format_omitted(table.rows - chosen.shown_count, "row", end))

        if count_chars(lines) <= limits.chars:
            return "\n".join(lines)

    end = f"{table.slice_access}[:20] has the first"
    return "\n".join([*head, limits.format_omitted(table.rows, "row", end)])


class _ChosenRows(NamedTuple):
    """Rows of a table that may fit, with their number and the line above them."""

    rows: list[list[str]]
    shown_count: int
    caption: str


def _choose_rows(top: list[list[str]], bottom: list[list[str]], ends: int) -> _ChosenRows:
    """Return the first and the last `ends` rows.

    A short table has all of its rows in `top`, and none in `bottom`. So it has only first rows, and
    all of them if `ends` is their number.
    """
    if not bottom and ends >= len(top):
        return _ChosenRows(top, len(top), "Rows")

    first = top[:ends]
    last = bottom[-ends:]
    number = format_quantity(ends, "row") if ends > 1 else "row"
    caption = f"The first and the last {number}" if bottom else f"The first {number}"

    return _ChosenRows([*first, ["…"], *last], len(first) + len(last), caption)


def _count_shown_columns(names: Sequence[str], room: int) -> int:
    """Return how many of the first columns fit into `room`. The first one always counts."""
    width = 0
    used = LABEL_CHARS

    for name in names[:MAX_SHOWN_COLUMNS]:
        used += max(len(name), MIN_COLUMN_CHARS) + 2
        if used > room and width > 0:
            break
        width += 1

    return width


def _format_rows(
    table: Table, low: int, high: int, columns: Sequence[str | None]
) -> list[list[str]]:
    """Return the texts of rows. `columns` has the replacement for each hidden column."""
    labels = table.read_labels(low, high)
    cells_of_rows = table.read_cells(low, high, len(columns))

    rows = []
    for label, row in zip(labels, cells_of_rows, strict=False):
        cells = zip(row, columns, strict=False)
        shown = [format_or_hide(cell, hidden or hide_part(label, cell)) for cell, hidden in cells]
        rows.append([format_table_cell(label), *shown])
    return rows


def _format_columns(table: Table, room: int, limits: DescriptionLimits) -> list[str]:
    """Return all columns with types and missing values, or only names if there is little room."""
    of = "" if table.counted == table.rows else f" in the first {table.counted:,} rows"
    full: list[str] = []
    for name, kind, missing in zip(table.names, table.types, table.nulls, strict=True):
        nulls = f", {format_quantity(missing, 'null')}{of}" if missing else ""
        full.append(f"{name}: {kind}{nulls}")

    if not full:
        return []

    lines = [f"Columns (nulls{of}, if any):", *full]
    if sum(map(len, lines)) + len(lines) <= room:
        return lines

    room = max(room, MIN_COLUMNS_CHARS)
    expression = limits.format_expression(".columns")
    return [f"Columns: {list_columns(table.names, room, expression)}"]


def list_columns(names: Sequence[str], room: int, expression: str) -> str:
    """Return the first `names` that fit. `expression` is the Python code that has all of them."""
    shown = 0
    used = 0

    for name in names:
        used += len(name) + 2
        is_last = shown == len(names) - 1
        room_after = 0 if is_last else COLUMNS_NOTE_CHARS + len(expression)
        if used > room - room_after:
            break
        shown += 1

    text = ", ".join(names[:shown])
    if shown == len(names):
        return text

    more = f"… {format_quantity(len(names) - shown, 'more column')}; {expression} has all"
    return f"{text}, {more}" if text else more


def _align(rows: list[list[str]]) -> list[str]:
    widths = [0] * max(map(len, rows))

    for row in rows:
        for index, cell in enumerate(row):
            widths[index] = max(widths[index], len(cell))

    lines = []
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        lines.append("  ".join(cells).rstrip())
    return lines


def count_chars(lines: Iterable[str]) -> int:
    """Return the number of characters of `lines`, with their line breaks."""
    return sum(len(line) + 1 for line in lines)
