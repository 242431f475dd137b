"""Describe frames and series of pandas and polars, and lazy tables.

The description of a frame has each column with its type and number of missing values, then the
first and last rows. Lazy tables are not computed.

Source: `docs/values.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from jp_nb.values.base import (
    DescriptionLimits,
    ValueKind,
    ValueKinds,
    count,
    cut_end,
    hide_part,
    hide_value,
    to_one_line,
    without_addresses,
)
from jp_nb.values.custom import FAILURES, name_type

MAX_COUNTED_CELLS: Final = 500_000  # limit for the cells in which missing values are counted
CELL_CHARS: Final = 40
END_ROWS: Final = 5  # number of first rows, and of last rows, of a long table
SHORTER_END_ROWS: Final = (4, 3, 2, 1)  # the same if those do not fit
WHOLE_ROWS: Final = 20  # maximum length of a table whose rows are all shown
END_VALUES: Final = (WHOLE_ROWS // 2, 5, 3, 2, 1)  # the same for a series; the first that fit
WHOLE_VALUES: Final = 2 * WHOLE_ROWS  # maximum length of a series whose values are all shown

VALUES_NOTE_CHARS: Final = 60  # room for the note about omitted values of a series
ROWS_NOTE_CHARS: Final = 40  # room for the note about omitted rows of a table
COLUMNS_NOTE_CHARS: Final = 40  # room for the note about omitted columns, without its expression
MIN_ROWS_CHARS: Final = 40  # with less room, no rows are shown
MIN_ROW_CHARS: Final = 30  # minimum room that the columns of a row get
MIN_COLUMNS_CHARS: Final = 40  # minimum room that the list of columns gets


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
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


def _describe_pandas_frame(value: Any, limits: DescriptionLimits) -> str:
    rows, columns = value.shape
    title = _format_title(value, "pandas.DataFrame")
    if limits.brief:
        return f"{title}: {_join_names(value.columns, limits.chars)}"

    index = type(value.index).__name__
    if index != "RangeIndex":
        names = [_format_table_cell(name) for name in value.index.names if name is not None]
        named = f" {', '.join(names)}" if names else ""
        title += f"; index {index}{named} ({value.index.dtype})"

    counted = min(rows, MAX_COUNTED_CELLS // max(columns, 1))
    start = value if counted == rows else value.iloc[:counted]
    hidden = hide_part(list_label_names(value.index))

    def read_cells(low: int, high: int, width: int) -> Iterable[Sequence[object]]:
        # Column by column, because a row of mixed types would convert its values.
        cells = [value.iloc[low:high, column].tolist() for column in range(width)]
        return zip(*cells, strict=True)

    def read_labels(low: int, high: int) -> Sequence[object]:
        if hidden is not None:
            return [hidden] * (high - low)

        labels: list[object] = value.index[low:high].tolist()
        return labels

    table = _Table(
        title=title,
        rows=rows,
        names=[_format_table_cell(name) for name in value.columns],
        keys=list(value.columns),
        types=[str(kind) for kind in value.dtypes],
        nulls=[int(number) for number in start.isna().sum()],
        counted=counted,
        read_cells=read_cells,
        read_labels=read_labels,
    )

    return _format_table(table, limits)


def _format_title(value: Any, kind: str) -> str:
    rows, columns = value.shape
    is_subclass = type(value).__name__ != kind.rpartition(".")[2]
    name = f"{name_type(type(value))} (a {kind})" if is_subclass else kind
    return f"{name}, {count(rows, 'row')} x {count(columns, 'column')}"


def _describe_polars_frame(value: Any, limits: DescriptionLimits) -> str:
    title = _format_title(value, "polars.DataFrame")
    if limits.brief:
        return f"{title}: {_join_names(value.columns, limits.chars)}"

    def read_cells(low: int, high: int, width: int) -> Iterable[Sequence[object]]:
        rows: list[tuple[object, ...]] = value[low:high].select(value.columns[:width]).rows()
        return rows

    types = [
        _format_type(kind, hide_part(name))
        for name, kind in zip(value.columns, value.dtypes, strict=True)
    ]
    table = _Table(
        title=title,
        rows=value.height,
        names=[_format_table_cell(name) for name in value.columns],
        keys=list(value.columns),
        types=types,
        nulls=[int(column.null_count()) for column in value.get_columns()],
        counted=value.height,
        read_cells=read_cells,
        read_labels=range,
    )

    return _format_table(table, limits)


def _describe_series(value: Any, limits: DescriptionLimits) -> str:
    # A series of pandas or polars, or an index of pandas.
    length = len(value)
    is_polars = hasattr(type(value), "null_count")
    kind = "polars.Series" if is_polars else f"pandas.{type(value).__name__}"

    name = ""
    if value.name is not None and value.name != "":
        name = f" {_format_table_cell(value.name)}"

    hidden = hide_part(list_label_names(value))
    title = f"{kind}{name}, {count(length, 'value')}, {_format_type(value.dtype, hidden)}"

    if limits.brief:
        return title
    if hidden is not None:
        return f"{title}: {hidden}"

    # Slices of a pandas series may select by label, those of its `iloc` select by position.
    rows = value if is_polars else getattr(value, "iloc", value)

    counted = length if is_polars else min(length, MAX_COUNTED_CELLS)
    of = "" if counted == length else f" among the first {counted:,}"
    nulls = value.null_count() if is_polars else rows[:counted].isna().sum()
    facts = [f"{title}, {count(int(nulls), 'null')}{of}"]

    if range_text := _format_range(value, length):
        facts.append(range_text)

    index = None if is_polars else getattr(value, "index", None)
    room = limits.chars - _count_chars(facts) - VALUES_NOTE_CHARS - len(limits.name)

    if length <= WHOLE_VALUES:
        lines = _format_values(rows[0:length], index, 0)
        if _count_chars(lines) <= room:
            return "\n".join([*facts, *lines])

    for ends in END_VALUES:
        if 2 * ends >= length:
            continue

        top = _format_values(rows[0:ends], index, 0)
        bottom = _format_values(rows[length - ends : length], index, length - ends)
        note = limits.more(length - 2 * ends, "value", f"[{ends}:{ends + 20}] has the next")

        lines = [*top, "…", *bottom, note]
        if _count_chars(lines) <= room:
            return "\n".join([*facts, *lines])

    return "\n".join([*facts, limits.more(length, "value", "[:20] has the first")])


def _count_chars(lines: Iterable[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def _format_range(value: Any, length: int) -> str:
    if not 0 < length <= MAX_COUNTED_CELLS:
        return ""
    kind = str(value.dtype).lower()

    if not kind.startswith(("int", "uint", "float", "date", "time", "decimal")):
        return ""
    try:
        return f"min {_format_table_cell(value.min())}, max {_format_table_cell(value.max())}"
    except FAILURES:
        return ""


def _format_values(part: Any, index: Any, start: int) -> list[str]:
    values = part.to_list()
    labels: Sequence[object] = range(start, start + len(values))
    if index is not None and type(index).__name__ != "RangeIndex":
        labels = index[start : start + len(values)].tolist()

    hidden = None if index is None else hide_part(list_label_names(index))
    return [
        f"{_format_or_hide(label, hidden)}: {_format_or_hide(each, hide_part(label, each))}"
        for label, each in zip(labels, values, strict=False)
    ]


def list_label_names(value: Any) -> tuple[object, ...]:
    """Return the names of a series or an index. A `MultiIndex` has several names."""
    return tuple(getattr(value, "names", None) or (value.name,))


def _format_type(dtype: object, hidden: str | None) -> str:
    # Some types list the values of the column, such as `Enum(categories=['a', 'b'])`.
    return str(dtype) if hidden is None else str(dtype).partition("(")[0]


def _describe_lazy_polars(value: Any, limits: DescriptionLimits) -> str:
    if limits.brief:
        return "polars.LazyFrame, not computed"

    schema = value.collect_schema()
    columns = [f"{_format_table_cell(name)}: {kind}" for name, kind in schema.items()]
    plan = without_addresses(value.explain(optimized=False))
    title = f"polars.LazyFrame, not computed, {count(len(columns), 'column')}"

    room = limits.chars - len(title) - 20
    listed = _list_columns(columns, room * 2 // 3, limits.expression(".collect_schema()"))

    return f"{title}: {listed}\nPlan:\n{cut_end(plan, max(room - len(listed), 20))}"


def _describe_lazy_table(value: Any, limits: DescriptionLimits) -> str:
    kind = type(value)
    title = f"{kind.__module__.partition('.')[0]} {kind.__name__}, not computed"
    if limits.brief:
        return title

    names = [_format_table_cell(name) for name in value.columns]
    types = getattr(value, "dtypes", None) or getattr(value, "types", None)
    if types is not None and len(list(types)) == len(names):
        given = map(_last_of_tuple, types)
        names = [f"{name}: {one!s}" for name, one in zip(names, given, strict=True)]

    room = limits.chars - len(title) - 20
    listed = _list_columns(names, room, limits.expression(".columns"))
    return f"{title}, {count(len(names), 'column')}: {listed}"


def _last_of_tuple(one: Any) -> Any:
    return one[-1] if isinstance(one, tuple) else one


def _format_table(table: _Table, limits: DescriptionLimits) -> str:
    head = [table.title, *_format_columns(table, limits.chars * 3 // 5 - len(table.title), limits)]
    room = limits.chars - _count_chars(head) - ROWS_NOTE_CHARS

    if not table.rows or not table.names or room < MIN_ROWS_CHARS:
        return "\n".join(head)

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

    names = ["", *table.names[:width]]
    for ends in (len(top), *SHORTER_END_ROWS):
        chosen = _choose_rows(top, bottom, ends)
        lines = [*head, f"{chosen.caption}{columns}:", *_align([names, *chosen.rows])]

        if chosen.shown_count < table.rows:
            end = f"[{ends}:{ends + 20}] has the next"
            lines.append(limits.more(table.rows - chosen.shown_count, "row", end))

        if _count_chars(lines) <= limits.chars:
            return "\n".join(lines)
    return "\n".join([*head, limits.more(table.rows, "row", "[:20] has the first")])


class _ChosenRows(NamedTuple):
    """Rows of a table that may fit, with their number and the line above them."""

    rows: list[list[str]]
    shown_count: int
    caption: str


def _choose_rows(top: list[list[str]], bottom: list[list[str]], ends: int) -> _ChosenRows:
    # A short table has all of its rows in `top`, and none in `bottom`.
    if not bottom and ends >= len(top):
        return _ChosenRows(top, len(top), "Rows")

    first = top[:ends]
    last = bottom[-ends:]
    number = count(ends, "row") if ends > 1 else "row"
    caption = f"The first and the last {number}" if bottom else f"The first {number}"

    return _ChosenRows([*first, ["…"], *last], len(first) + len(last), caption)


def _count_shown_columns(names: Sequence[str], room: int) -> int:
    width = 0
    used = 8

    for name in names[:20]:  # values of at most 20 columns are shown
        used += max(len(name), 8) + 2
        if used > room and width:
            break
        width += 1

    return width


def _format_rows(
    table: _Table, low: int, high: int, columns: Sequence[str | None]
) -> list[list[str]]:
    # `columns` has the replacement for each hidden column.
    labels = table.read_labels(low, high)
    cells_of_rows = table.read_cells(low, high, len(columns))

    rows = []
    for label, row in zip(labels, cells_of_rows, strict=False):
        cells = zip(row, columns, strict=False)
        shown = [_format_or_hide(cell, hidden or hide_part(label, cell)) for cell, hidden in cells]
        rows.append([_format_table_cell(label), *shown])
    return rows


def _format_or_hide(cell: object, hidden: str | None) -> str:
    return _format_table_cell(cell) if hidden is None else to_one_line(hidden, CELL_CHARS)


def _format_columns(table: _Table, room: int, limits: DescriptionLimits) -> list[str]:
    # All columns with types and missing values, or only names if there is little room.
    of = "" if table.counted == table.rows else f" in the first {table.counted:,} rows"
    full: list[str] = []
    for name, kind, missing in zip(table.names, table.types, table.nulls, strict=True):
        nulls = f", {count(missing, 'null')}{of}" if missing else ""
        full.append(f"{name}: {kind}{nulls}")

    if not full:
        return []

    lines = [f"Columns (nulls{of}, if any):", *full]
    if sum(map(len, lines)) + len(lines) <= room:
        return lines

    room = max(room, MIN_COLUMNS_CHARS)
    expression = limits.expression(".columns")
    return [f"Columns: {_list_columns(table.names, room, expression)}"]


def _list_columns(names: Sequence[str], room: int, expression: str) -> str:
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

    more = f"… {count(len(names) - shown, 'more column')}; {expression} has all"
    return f"{text}, {more}" if text else more


def _join_names(columns: Any, room: int) -> str:
    return ", ".join(_format_table_cell(name) for name in list(columns[: room // 3]))


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


def _format_table_cell(value: object) -> str:
    kind = type(value)
    if (hidden := hide_value(value)) is not None:
        return to_one_line(hidden, CELL_CHARS)

    if kind is float:
        text = repr(value)
        return text if len(text) <= 12 else f"{value:.8g}"

    if kind is str:
        return to_one_line(value, CELL_CHARS)  # type: ignore[arg-type]

    if kind is tuple and len(value) <= 5:  # type: ignore[arg-type]
        cells = map(_format_table_cell, value)  # type: ignore[call-overload]
        return to_one_line(", ".join(cells), CELL_CHARS)

    if kind is list or kind is dict or kind is tuple:
        return f"{kind.__name__} of {len(value)}"  # type: ignore[arg-type]

    try:
        return to_one_line(without_addresses(str(value)), CELL_CHARS)
    except FAILURES as exc:
        return f"<{kind.__name__}: {type(exc).__name__}>"


FRAME_KINDS: Final[ValueKinds] = (
    ("pandas", "DataFrame", ValueKind(_describe_pandas_frame, is_rich=True)),
    ("pandas", "Series", ValueKind(_describe_series, is_rich=True)),
    ("pandas", "Index", ValueKind(_describe_series, is_rich=True)),
    ("polars", "DataFrame", ValueKind(_describe_polars_frame, is_rich=True)),
    ("polars", "LazyFrame", ValueKind(_describe_lazy_polars, is_rich=True)),
    ("polars", "Series", ValueKind(_describe_series, is_rich=True)),
    ("dask.dataframe", "DataFrame", ValueKind(_describe_lazy_table, is_rich=True)),
    ("duckdb", "DuckDBPyRelation", ValueKind(_describe_lazy_table, is_rich=True)),
    ("ibis.expr.types", "Table", ValueKind(_describe_lazy_table, is_rich=True)),
    ("pyspark.sql", "DataFrame", ValueKind(_describe_lazy_table, is_rich=True)),
)
