"""Descriptions of frames and series."""

from __future__ import annotations

import sys
import types
from typing import Any

import pandas as pd
import pytest

from jp_nb.values import frames
from jp_nb.values.describe import describe
from tests.values.helpers import text


class Measured(pd.DataFrame):  # type: ignore[misc]
    pass


def test_subclass_of_a_frame_is_named_with_its_base() -> None:
    assert text(Measured({"a": [1]})).startswith(
        "tests.values.test_frames.Measured (a pandas.DataFrame), 1 row x 1 column\n"
    )


def test_containers_in_cells_have_their_length() -> None:
    made = pd.DataFrame({"l": [[1, 2]], "d": [{"a": 1}], "t": [tuple(range(6))], "p": [(1, 2)]})
    assert text(made).endswith("0  list of 2  dict of 1  tuple of 6  1, 2")


def test_nulls_of_a_long_frame_are_counted_at_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frames, "MAX_COUNTED_CELLS", 100)
    made = pd.DataFrame({"a": [None] * 60 + [1.0] * 40, "b": range(100)})
    assert "a: float64, 50 nulls in the first 50 rows" in text(made)
    series = text(pd.Series([None, *range(200)], dtype="float64"))
    assert "1 null among the first 100" in series
    assert "min" not in series


def test_named_index_is_described() -> None:
    made = pd.DataFrame({"a": [1]}, index=pd.Index(["x"], name="k"))
    assert text(made).startswith("pandas.DataFrame, 1 row x 1 column; index Index k (")


def test_polars_series_has_its_range() -> None:
    pl = pytest.importorskip("polars", reason="pip install -e '.[tiers]'")
    assert "min 0, max 99" in text(pl.Series(range(100)))


def test_lazy_frame_is_not_computed() -> None:
    pl = pytest.importorskip("polars", reason="pip install -e '.[tiers]'")
    computed: list[Any] = []

    def note(frame: Any) -> Any:
        computed.append(frame)
        return frame

    lazy = pl.DataFrame({"a": [1]}).lazy().map_batches(note, schema={"a": pl.Int64})
    assert "not computed, 1 column: a: Int64" in describe(lazy).text
    assert "not computed" in describe([lazy]).text
    assert not computed


class LazyTable:
    """Fake of a lazy table, such as a table of Ibis or DuckDB."""

    columns = ("a", "b")
    dtypes = ("int64", "str")

    def __getattr__(self, name: str) -> object:
        raise AssertionError("nothing is computed")


def test_lazy_table_of_another_library_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("duckdb")
    LazyTable.__module__ = "duckdb"
    LazyTable.__name__ = "DuckDBPyRelation"
    module.DuckDBPyRelation = LazyTable  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "duckdb", module)
    expected = "duckdb DuckDBPyRelation, not computed, 2 columns: a: int64, b: str"
    assert text(LazyTable()) == expected
