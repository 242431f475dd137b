"""Series and frames of pandas or polars with the answers to prompts, for `Completions`.

A result is of the library of its *source*, the series or frame with the prompts. Neither library is
imported before it is needed.

Source: `docs/rows.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from jp_nb.errors import UsageError
from jp_nb.session.rows.frame_libraries import find_frame_library


def make_series(answers: Sequence[Any], source: object) -> Any:
    """Return `answers` as a series with the index of `source`. It has the name of a source series.

    Raises:
        UsageError: `source` is no series or frame of pandas or polars.
    """
    library = find_frame_library(source)
    if library is None:
        raise UsageError(
            "`series` needs prompts from a series or a frame of pandas or polars. "
            "Use `to_frame()`, or the list itself"
        )

    known: Any = source
    name = "answer"
    is_series = not hasattr(known, "columns")
    if is_series and known.name not in (None, ""):  # pandas can have the number 0 as a name
        name = known.name

    module = sys.modules[library]
    if library == "polars":
        plain_answers = [_to_plain(answer) for answer in answers]
        return module.Series(name, plain_answers, strict=False)
    # Fewer answers than rows if the requests were interrupted.
    return module.Series(answers, index=known.index[: len(answers)], name=name)


def make_frame(
    rows: Sequence[Mapping[str, Any]], failures: Sequence[str | None], source: Any
) -> Any:
    """Return a frame with the cells of `rows` by column, and a last column with `failures`.

    It is a frame of pandas without a `source` (None).

    Raises:
        UsageError: pandas is not installed.
    """
    names: dict[str, None] = {}  # an ordered set
    for row in rows:
        names |= dict.fromkeys(row)

    columns: dict[str, Sequence[Any]] = {name: [row.get(name) for row in rows] for name in names}
    free_names = (name for name in _list_failure_names() if name not in names)
    columns[next(free_names)] = failures

    library = find_frame_library(source) or "pandas"
    if library == "polars":
        polars_columns = {name: _make_polars_column(values) for name, values in columns.items()}
        return sys.modules["polars"].DataFrame(polars_columns, strict=False)

    try:
        import pandas  # type: ignore[import-untyped,unused-ignore]
    except ImportError as exc:
        raise UsageError("`to_frame` needs pandas: `pip install pandas`") from exc
    index = None if source is None else source.index[: len(rows)]
    pandas_columns = {name: _make_pandas_column(pandas, values) for name, values in columns.items()}
    return pandas.DataFrame(pandas_columns, index=index)


def _list_failure_names() -> Iterator[str]:
    """Yield the names of the column of failures, the best first."""
    yield "error"
    yield "failure"
    for number in count(2):
        yield f"failure_{number}"


def _to_plain(value: Any) -> Any:
    """Return a value that polars can store: its JSON instead of an object of a class."""
    from pydantic import TypeAdapter

    if value is None or isinstance(value, str | int | float | bool):
        return value
    return TypeAdapter(Any).dump_python(value, mode="json")


def _make_polars_column(values: Sequence[Any]) -> list[Any]:
    """Return a column with dictionaries, of which polars makes structs, instead of models.

    Other values, such as dates, have types of polars.
    """
    from pydantic import TypeAdapter

    adapter = TypeAdapter(Any)
    return [adapter.dump_python(value) for value in values]


def _make_pandas_column(pandas: Any, values: Sequence[Any]) -> Any:
    """Return a column in which whole numbers stay whole numbers beside a row without an answer."""
    numbers = [value for value in values if value is not None]
    is_whole = all(isinstance(value, int) and not isinstance(value, bool) for value in numbers)
    has_range = is_whole and all(abs(number) < 2**63 for number in numbers)
    if numbers and has_range and len(numbers) < len(values):
        return pandas.array(values, dtype="Int64")
    return values
