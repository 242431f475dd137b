"""Describes frames and series of pandas and polars, and tables that are not computed yet.

Every column is named, with its type and how many of its values are missing; then come the first
and the last rows. Lazy ones are never computed.

Source: `docs/values.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jp_nb.values.base import (
    DescriptionLimits,
    count,
    hidden_part,
    hidden_value,
    to_one_line,
    truncate_end,
    without_addresses,
)
from jp_nb.values.custom import FAILURES, type_name

MAX_COUNTED: Final = 500_000
"""Cells that are looked at to count missing values."""
CELL_CHARS: Final = 40
MAX_SHOWN_COLUMNS: Final = 20
"""Columns whose values are shown."""
ENDS: Final = 5
"""Rows at the beginning, and at the end."""
WHOLE: Final = 20
"""Rows up to which all are shown."""


@dataclass(frozen=True, slots=True)
class _Table:
    """A frame, whichever library it comes from.

    Attributes:
        title: What it is and how large.
        rows: How many.
        names: Of all columns, as they are written.
        keys: The names of all columns themselves.
        types: Of all columns.
        nulls: Missing values of each column; None where nobody counted.
        counted: How many rows were looked at for that.
        cells: Returns the rows from one number up to another, of the columns that are shown.
        labels: Returns the labels of these rows.
    """

    title: str
    rows: int
    names: Sequence[str]
    keys: Sequence[object]
    types: Sequence[str]
    nulls: Sequence[int] | None
    counted: int
    cells: Callable[[int, int, int], list[list[object]]]
    labels: Callable[[int, int], Sequence[object]]


def describe_pandas_frame(value: Any, limits: DescriptionLimits) -> str:
    """Return shape, columns with types and missing values, first and last rows."""
    rows, columns = value.shape
    title = (
        f"{_named(value, 'pandas.DataFrame')}, {count(rows, 'row')} x {count(columns, 'column')}"
    )
    if limits.brief:
        return f"{title}: {_names(value.columns, limits.chars)}"
    index = type(value.index).__name__
    label = "" if index == "RangeIndex" else f"; index {_index_words(value.index)}"
    counted = min(rows, MAX_COUNTED // max(columns, 1))
    start = value if counted == rows else value.iloc[:counted]
    table = _Table(
        title + label,
        rows,
        [_cell(name) for name in value.columns],
        list(value.columns),
        [str(kind) for kind in value.dtypes],
        [int(number) for number in start.isna().sum()],
        counted,
        lambda low, high, width: _by_row(
            [value.iloc[low:high, column].tolist() for column in range(width)], high - low
        ),
        lambda low, high: _labels(value.index, low, high),
    )
    return _written(table, limits)


def _labels(index: Any, low: int, high: int) -> list[object]:
    hidden = hidden_part(label_names(index))
    return index[low:high].tolist() if hidden is None else [hidden] * (high - low)


def _named(value: object, kind: str) -> str:
    """Return the name of a frame's type; of one that inherits from a known one, both."""
    own = type(value).__name__
    return kind if own == kind.rpartition(".")[2] else f"{type_name(type(value))} (a {kind})"


def _index_words(index: Any) -> str:
    names = [_cell(name) for name in index.names if name is not None]
    named = f" {', '.join(names)}" if names else ""
    return f"{type(index).__name__}{named} ({index.dtype})"


def describe_polars_frame(value: Any, limits: DescriptionLimits) -> str:
    """Return shape, columns with types and missing values, first and last rows."""
    rows, columns = value.shape
    title = (
        f"{_named(value, 'polars.DataFrame')}, {count(rows, 'row')} x {count(columns, 'column')}"
    )
    if limits.brief:
        return f"{title}: {_names(value.columns, limits.chars)}"
    table = _Table(
        title,
        rows,
        [_cell(name) for name in value.columns],
        list(value.columns),
        [
            _type_text(kind, hidden_part(name))
            for name, kind in zip(value.columns, value.dtypes, strict=True)
        ],
        [int(column.null_count()) for column in value.get_columns()],
        rows,
        lambda low, high, width: [
            list(row) for row in value[low:high].select(value.columns[:width]).rows()
        ],
        lambda low, high: range(low, high),
    )
    return _written(table, limits)


def describe_pandas_series(value: Any, limits: DescriptionLimits) -> str:
    """Return name, length, type, missing values, range, first and last values."""
    kind = f"pandas.{type(value).__name__}"
    counted = min(len(value), MAX_COUNTED)
    missing = int(value[:counted].isna().sum())
    label = value.index if hasattr(type(value), "index") and kind == "pandas.Series" else None
    return _column(
        kind, value, limits, missing, counted, lambda low, high: value[low:high].tolist(), label
    )


def describe_polars_series(value: Any, limits: DescriptionLimits) -> str:
    """Return name, length, type, missing values, range, first and last values."""
    return _column(
        "polars.Series",
        value,
        limits,
        int(value.null_count()),
        len(value),
        lambda low, high: value[low:high].to_list(),
        None,
    )


def _column(
    kind: str,
    value: Any,
    limits: DescriptionLimits,
    missing: int,
    counted: int,
    part: Callable[[int, int], list[object]],
    index: Any,
) -> str:
    length = len(value)
    name = "" if value.name is None or value.name == "" else f" {_cell(value.name)}"
    hidden = hidden_part(label_names(value))
    title = f"{kind}{name}, {count(length, 'value')}, {_type_text(value.dtype, hidden)}"
    if limits.brief:
        return title
    of = "" if counted == length else f" among the first {counted:,}"
    if hidden is not None:
        return f"{title}: {hidden}"
    facts = [f"{title}, {count(missing, 'null')}{of}"]
    if facts_of_range := _range(value, length):
        facts.append(facts_of_range)
    whole = length <= 2 * WHOLE
    room = limits.chars - sum(len(fact) + 1 for fact in facts) - 60 - len(limits.name)
    for ends in (length,) if whole else (WHOLE // 2, 5, 3, 2, 1):
        lines = _values(part(0, ends), index, 0)
        if not whole:
            lines += ["…", *_values(part(length - ends, length), index, length - ends)]
            end = f"[{ends}:{ends + 20}] has the next"
            lines.append(limits.more(length - 2 * ends, "value", end))
        if sum(len(line) + 1 for line in lines) <= room:
            return "\n".join([*facts, *lines])
    return "\n".join([*facts, limits.more(length, "value", "[:20] has the first")])


def _range(value: Any, length: int) -> str:
    """Return the range of numbers or times; "" for anything else, and of a very long column."""
    if not 0 < length <= MAX_COUNTED:
        return ""
    kind = str(value.dtype).lower()
    if not kind.startswith(("int", "uint", "float", "date", "time", "decimal")):
        return ""
    try:
        return f"min {_cell(value.min())}, max {_cell(value.max())}"
    except FAILURES:
        return ""


def _values(values: list[object], index: Any, start: int) -> list[str]:
    """Return values with their labels, without those of hidden labels."""
    labels: Sequence[object] = range(start, start + len(values))
    if index is not None and type(index).__name__ != "RangeIndex":
        labels = index[start : start + len(values)].tolist()
    hidden = None if index is None else hidden_part(label_names(index))
    return [
        f"{_shown(label, hidden)}: {_shown(one, hidden_part(label, one))}"
        for label, one in zip(labels, values, strict=False)
    ]


def label_names(value: Any) -> tuple[object, ...]:
    """Return the names of a series or an index; an index of several levels has several."""
    return tuple(getattr(value, "names", None) or (value.name,))


def _type_text(dtype: object, hidden: str | None) -> str:
    """Return the type of a column; the types of some hidden ones would list their values."""
    return str(dtype) if hidden is None else str(dtype).partition("(")[0]


# --- lazy ones -------------------------------------------------------------------------------


def describe_lazy_polars(value: Any, limits: DescriptionLimits) -> str:
    """Return the schema and the plan of a lazy frame, which is not computed."""
    if limits.brief:
        return "polars.LazyFrame, not computed"
    schema = value.collect_schema()
    columns = [f"{_cell(name)}: {kind}" for name, kind in schema.items()]
    plan = without_addresses(value.explain(optimized=False))
    title = f"polars.LazyFrame, not computed, {count(len(columns), 'column')}"
    room = limits.chars - len(title) - 20
    listed = _listed(columns, room * 2 // 3, limits.expression(".collect_schema()"))
    return f"{title}: {listed}\nPlan:\n{truncate_end(plan, max(room - len(listed), 20))}"


def describe_lazy_table(value: Any, limits: DescriptionLimits) -> str:
    """Return the columns of a table that would be computed; it is not."""
    kind = type(value)
    title = f"{kind.__module__.partition('.')[0]} {kind.__name__}, not computed"
    if limits.brief:
        return title
    names = [_cell(name) for name in value.columns]
    types = getattr(value, "dtypes", None) or getattr(value, "types", None)
    if types is not None and len(list(types)) == len(names):
        given = [one[-1] if isinstance(one, tuple) else one for one in types]
        names = [f"{name}: {one!s}" for name, one in zip(names, given, strict=True)]
    room = limits.chars - len(title) - 20
    listed = _listed(names, room, limits.expression(".columns"))
    return f"{title}, {count(len(names), 'column')}: {listed}"


# --- writing ---------------------------------------------------------------------------------


def _written(table: _Table, limits: DescriptionLimits) -> str:
    head = [table.title, *_columns(table, limits.chars * 3 // 5 - len(table.title), limits)]
    room = limits.chars - sum(len(line) + 1 for line in head) - 40
    if not table.rows or not table.names or room < 40:
        return "\n".join(head)
    whole = table.rows <= WHOLE
    rows = table.rows if whole else 2 * ENDS
    width = _shown_width(table.names, max(room // (rows + 2), 30))
    hidden = [hidden_part(name) for name in table.keys[:width]]
    top = _labelled(table, 0, table.rows if whole else ENDS, hidden)
    bottom = [] if whole else _labelled(table, table.rows - ENDS, table.rows, hidden)
    names = [["", *table.names[:width]]]
    for ends in (len(top), 4, 3, 2, 1):
        parts = [*top[:ends], ["…"], *bottom[-ends:]] if bottom or ends < len(top) else top
        told = len(parts) - (["…"] in parts)
        lines = [_rows_title(table, ends, width, told), *_aligned(names + parts)]
        if told < table.rows:
            end = f"[{ends}:{ends + 20}] has the next"
            lines.append(limits.more(table.rows - told, "row", end))
        if sum(len(line) + 1 for line in [*head, *lines]) <= limits.chars:
            return "\n".join([*head, *lines])
    return "\n".join([*head, limits.more(table.rows, "row", "[:20] has the first")])


def _shown_width(names: Sequence[str], room: int) -> int:
    """Return how many columns have their values shown, in rows of so many characters."""
    width, used = 0, 8
    for name in names[:MAX_SHOWN_COLUMNS]:
        used += max(len(name), 8) + 2
        if used > room and width:
            break
        width += 1
    return width


def _rows_title(table: _Table, ends: int, width: int, told: int) -> str:
    columns = f", {width} of {len(table.names):,} columns" if width < len(table.names) else ""
    if told == table.rows:
        return f"Rows{columns}:"
    return f"The first and the last {count(ends, 'row') if ends > 1 else 'row'}{columns}:"


def _labelled(table: _Table, low: int, high: int, columns: Sequence[str | None]) -> list[list[str]]:
    """Return the label and the values of rows, without those of hidden columns and rows."""
    labels = table.labels(low, high)
    cells = table.cells(low, high, len(columns))
    return [
        [
            _cell(label),
            *(
                _shown(cell, hidden or hidden_part(label, cell))
                for cell, hidden in zip(row, columns, strict=False)
            ),
        ]
        for label, row in zip(labels, cells, strict=False)
    ]


def _shown(cell: object, hidden: str | None) -> str:
    return _cell(cell) if hidden is None else to_one_line(hidden, CELL_CHARS)


def _columns(table: _Table, room: int, limits: DescriptionLimits) -> list[str]:
    """Return all columns with types and missing values; only names if there is little room."""
    of = "" if table.counted == table.rows else f" in the first {table.counted:,} rows"
    nulls = table.nulls or [0] * len(table.names)
    full = [
        f"{name}: {kind}" + (f", {count(missing, 'null')}{of}" if missing else "")
        for name, kind, missing in zip(table.names, table.types, nulls, strict=True)
    ]
    if not full:
        return []
    lines = [f"Columns (nulls{of}, if any):", *full]
    if sum(map(len, lines)) + len(lines) <= room:
        return lines
    return [f"Columns: {_listed(table.names, max(room, 40), limits.expression('.columns'))}"]


def _listed(names: Sequence[str], room: int, expression: str) -> str:
    """Return names in one line; how many are left out, and the expression that has all."""
    shown, used = 0, 0
    for name in names:
        used += len(name) + 2
        if used > room - (0 if shown == len(names) - 1 else 40 + len(expression)):
            break
        shown += 1
    text = ", ".join(names[:shown])
    if shown == len(names):
        return text
    more = f"… {count(len(names) - shown, 'more column')}; {expression} has all"
    return f"{text}, {more}" if text else more


def _names(columns: Any, room: int) -> str:
    return ", ".join(_cell(name) for name in list(columns[: room // 3]))


def _aligned(rows: list[list[str]]) -> list[str]:
    """Return the rows of a table with their columns below one another."""
    widths = [0] * max(map(len, rows))
    for row in rows:
        for place, cell in enumerate(row):
            widths[place] = max(widths[place], len(cell))
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in rows
    ]


def _by_row(columns: list[list[object]], rows: int) -> list[list[object]]:
    return [[column[row] for column in columns] for row in range(rows)]


def _cell(value: object) -> str:
    """Return the value of one cell in one line."""
    kind = type(value)
    if (hidden := hidden_value(value)) is not None:
        return to_one_line(hidden, CELL_CHARS)
    if kind is float:
        text = repr(value)
        return text if len(text) <= 12 else f"{value:.8g}"
    if kind is str:
        return to_one_line(value, CELL_CHARS)  # type: ignore[arg-type]
    if kind is tuple and len(value) <= 5:  # type: ignore[arg-type]
        return to_one_line(", ".join(map(_cell, value)), CELL_CHARS)  # type: ignore[call-overload]
    if kind is list or kind is dict or kind is tuple:
        return f"{kind.__name__} of {len(value)}"  # type: ignore[arg-type]
    try:
        return to_one_line(without_addresses(str(value)), CELL_CHARS)
    except FAILURES as exc:
        return f"<{kind.__name__}: {type(exc).__name__}>"
