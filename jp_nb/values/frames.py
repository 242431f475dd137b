"""Describe frames of pandas and polars, and lazy tables, which are not computed.

Each library has a function that reads a frame into a `Table`, whose layout is in `table_text.py`. A
`Table` has the displayed `names` of the columns, and the names as the frame has them (`keys`), by
which `format_table` hides the cells of secrets.
`nulls` are the numbers of missing values in the first `counted` rows. The rows are read later, only
those that are shown: `read_cells(low, high, width)` returns the cells of rows from `low` to `high`
in the first `width` columns. `FRAME_KINDS` lists the classes that are described here.

A *describer* returns the text of a value for the model, within its `limits` (`base.py`). With
`limits.brief`, the text is one line. `hide_part(name)` returns the text that replaces a
column or row of a secret; None for other names (`privacy.py`).

Source: `docs/values.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from jp_nb.values.base import DescriptionLimits, ValueKind, ValueKinds
from jp_nb.values.cell_text import format_table_cell, format_type
from jp_nb.values.class_facts import name_type
from jp_nb.values.cut_text import cut_end, format_quantity, without_addresses
from jp_nb.values.privacy import hide_part
from jp_nb.values.series import MAX_COUNTED_CELLS, describe_series
from jp_nb.values.table_labels import find_slice_access, list_label_names
from jp_nb.values.table_text import Table, format_table, list_columns


def _describe_pandas_frame(value: Any, limits: DescriptionLimits) -> str:
    rows, columns = value.shape
    title = _format_title(value, "pandas.DataFrame")
    if limits.brief:
        return f"{title}: {_join_names(value.columns, limits.chars)}"

    index = type(value.index).__name__
    if index != "RangeIndex":
        names = [format_table_cell(name) for name in value.index.names if name is not None]
        named = f" {', '.join(names)}" if names else ""
        title += f"; index {index}{named} ({value.index.dtype})"

    # Missing values are counted in as many rows as the limit for cells permits.
    counted = min(rows, MAX_COUNTED_CELLS // max(columns, 1))
    start = value if counted == rows else value.iloc[:counted]
    hidden = hide_part(list_label_names(value.index))  # a text in place of the labels, or None

    def read_cells(low: int, high: int, width: int) -> Iterable[Sequence[object]]:
        # Column by column, because a row of mixed types would convert its values.
        cells = [value.iloc[low:high, column].tolist() for column in range(width)]
        return zip(*cells, strict=True)

    def read_labels(low: int, high: int) -> Sequence[object]:
        if hidden is not None:
            return [hidden] * (high - low)

        labels: list[object] = value.index[low:high].tolist()
        return labels

    table = Table(
        title=title,
        rows=rows,
        names=[format_table_cell(name) for name in value.columns],
        keys=list(value.columns),
        types=[str(kind) for kind in value.dtypes],  # lists no values: `category`
        nulls=[int(number) for number in start.isna().sum()],
        counted=counted,
        read_cells=read_cells,
        read_labels=read_labels,
        slice_access=find_slice_access(value.index),
    )

    return format_table(table, limits)


def _format_title(value: Any, kind: str) -> str:
    rows, columns = value.shape
    is_subclass = type(value).__name__ != kind.rpartition(".")[2]
    name = f"{name_type(type(value))} (a {kind})" if is_subclass else kind
    return f"{name}, {format_quantity(rows, 'row')} x {format_quantity(columns, 'column')}"


def _describe_polars_frame(value: Any, limits: DescriptionLimits) -> str:
    title = _format_title(value, "polars.DataFrame")
    if limits.brief:
        return f"{title}: {_join_names(value.columns, limits.chars)}"

    def read_cells(low: int, high: int, width: int) -> Iterable[Sequence[object]]:
        rows: list[tuple[object, ...]] = value[low:high].select(value.columns[:width]).rows()
        return rows

    table = Table(
        title=title,
        rows=value.height,
        names=[format_table_cell(name) for name in value.columns],
        keys=list(value.columns),
        types=_list_polars_types(value.schema),
        nulls=[int(column.null_count()) for column in value.get_columns()],
        counted=value.height,
        read_cells=read_cells,
        read_labels=range,
    )

    return format_table(table, limits)


def _list_polars_types(schema: Any) -> list[str]:
    """Return the types of columns. An `Enum` lists its values, unless its column is hidden."""
    return [format_type(kind, hide_part(name)) for name, kind in schema.items()]


def _join_names(columns: Any, room: int) -> str:
    # Each name takes at least three characters with its comma and space.
    return ", ".join(format_table_cell(name) for name in list(columns[: room // 3]))


def _describe_lazy_polars(value: Any, limits: DescriptionLimits) -> str:
    if limits.brief:
        return "polars.LazyFrame, not computed"

    schema = value.collect_schema()
    types = _list_polars_types(schema)
    columns = [
        f"{format_table_cell(name)}: {kind}" for name, kind in zip(schema, types, strict=True)
    ]
    plan = without_addresses(value.explain(optimized=False))
    title = f"polars.LazyFrame, not computed, {format_quantity(len(columns), 'column')}"

    room = limits.chars - len(title) - 20
    listed = list_columns(columns, room * 2 // 3, limits.format_expression(".collect_schema()"))

    return f"{title}: {listed}\nPlan:\n{cut_end(plan, max(room - len(listed), 20))}"


def _describe_lazy_table(value: Any, limits: DescriptionLimits) -> str:
    kind = type(value)
    title = f"{kind.__module__.partition('.')[0]} {kind.__name__}, not computed"
    if limits.brief:
        return title

    names = [format_table_cell(name) for name in value.columns]
    types = getattr(value, "dtypes", None)
    if types is None:
        types = getattr(value, "types", None)
    if types is not None and len(list(types)) == len(names):
        kinds = map(_get_column_type, types)
        names = [f"{name}: {kind!s}" for name, kind in zip(names, kinds, strict=True)]

    room = limits.chars - len(title) - 20
    listed = list_columns(names, room, limits.format_expression(".columns"))
    return f"{title}, {format_quantity(len(names), 'column')}: {listed}"


def _get_column_type(stored: Any) -> Any:
    """Return the type in an item of `dtypes`. Spark has pairs of name and type there."""
    return stored[-1] if isinstance(stored, tuple) else stored


FRAME_KINDS: Final[ValueKinds] = (
    ("pandas", "DataFrame", ValueKind(_describe_pandas_frame, is_rich=True)),
    ("pandas", "Series", ValueKind(describe_series, is_rich=True)),
    ("pandas", "Index", ValueKind(describe_series, is_rich=True)),
    ("polars", "DataFrame", ValueKind(_describe_polars_frame, is_rich=True)),
    ("polars", "LazyFrame", ValueKind(_describe_lazy_polars, is_rich=True)),
    ("polars", "Series", ValueKind(describe_series, is_rich=True)),
    ("dask.dataframe", "DataFrame", ValueKind(_describe_lazy_table, is_rich=True)),
    ("duckdb", "DuckDBPyRelation", ValueKind(_describe_lazy_table, is_rich=True)),
    ("ibis.expr.types", "Table", ValueKind(_describe_lazy_table, is_rich=True)),
    ("pyspark.sql", "DataFrame", ValueKind(_describe_lazy_table, is_rich=True)),
)
