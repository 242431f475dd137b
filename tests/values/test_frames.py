"""Descriptions of frames and series."""

from __future__ import annotations

import re
import sys
import types
from typing import Any

import pandas as pd
import pytest

import jp_nb as jp
from tests.kit.values import describe_value
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


def test_nulls_of_a_long_frame_are_counted_at_its_beginning() -> None:
    rows = 300_000
    made = pd.DataFrame({"a": [None] * rows, "b": range(rows)}, dtype="float64")
    assert "a: float64, 250,000 nulls in the first 250,000 rows" in text(made)

    series = text(pd.Series([None, *range(500_000)], dtype="float64"))
    assert "1 null among the first 500,000" in series
    assert "min" not in series


def read_caption(described: str) -> str:
    """Return the line above the rows of a table."""
    return next(line for line in described.splitlines() if re.match("Rows|The first", line))


@pytest.mark.parametrize("rows", [5, 12, 20])
def test_short_table_that_does_not_fit_says_that_its_first_rows_are_shown(rows: int) -> None:
    columns = {f"column {number}": ["x" * 40] * rows for number in range(3)}
    described = text(pd.DataFrame(columns), chars=600)

    caption = read_caption(described)
    shown = re.match(r"The first (\d+ rows|row)[,:]", caption)
    assert shown is not None
    number = 1 if shown[1] == "row" else int(shown[1].split()[0])
    labels = [line.split()[0] for line in described.partition(caption)[2].splitlines() if line]
    assert labels[:-2][1:] == [str(label) for label in range(number)]
    assert labels[-2:] == ["…", "…"]
    assert f"{rows - number} more row" in described


def test_long_table_says_that_its_first_and_last_rows_are_shown() -> None:
    described = text(pd.DataFrame({"a": range(100)}))
    assert read_caption(described) == "The first and the last 5 rows:"


@pytest.mark.parametrize("length", [8, 30, 40, 41, 100])
def test_series_of_long_values_shows_its_ends(length: int) -> None:
    made = pd.Series([f"{number} {'x' * 60}" for number in range(length)])
    described = text(made, chars=400)

    assert len(described) <= 400
    assert "\n0: 0 xxx" in described
    assert f"\n{length - 1}: {length - 1} xxx" in described
    assert "\n…\n" in described


def test_polars_series_of_long_values_shows_its_ends() -> None:
    pl = pytest.importorskip("polars", reason="pip install -e '.[tiers]'")
    described = text(pl.Series([f"{number} {'x' * 60}" for number in range(30)]), chars=400)
    assert "\n0: 0 xxx" in described
    assert "\n29: 29 xxx" in described


class SlicedByLabel(pd.Series):  # type: ignore[misc]
    """Series whose slices select labels, as in pandas 2 for an index of floats."""

    def __getitem__(self, key: Any) -> Any:
        return self.loc[key] if isinstance(key, slice) else super().__getitem__(key)


@pytest.mark.parametrize("first", [0.5, 1_000.5, -50.5])
@pytest.mark.parametrize("length", [5, 100])
def test_values_are_selected_by_position(first: float, length: int) -> None:
    index = [first + number for number in range(length)]
    described = text(SlicedByLabel(range(length), index=index))

    assert f"\n{first}: 0\n" in described
    last = f"\n{index[-1]}: {length - 1}"
    assert f"{described}\n".count(f"{last}\n") == 1


class Scores(pd.Series):  # type: ignore[misc]
    pass


def test_rows_of_a_subclass_of_a_series_are_hidden_by_their_labels() -> None:
    made = Scores(["hunter22", "ada"], index=["password", "user"])
    described = describe_value(made, hide=["password"]).text

    assert described.endswith("\npassword: (hidden)\nuser: ada")


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
    assert "not computed, 1 column: a: Int64" in jp.describe(lazy).text
    assert "not computed" in jp.describe([lazy]).text
    assert not computed


def test_type_of_a_hidden_column_of_a_lazy_frame_has_no_values() -> None:
    pl = pytest.importorskip("polars", reason="pip install -e '.[tiers]'")
    kinds = {"user": pl.Enum(["ada"]), "password": pl.Enum(["hunter22"])}
    described = describe_value(pl.LazyFrame(schema=kinds), hide=["password"]).text

    assert "user: Enum(categories=['ada']), password: Enum\n" in described
    assert "hunter22" not in described


def test_dask_frame_is_described_with_its_types() -> None:
    dataframes = pytest.importorskip("dask.dataframe", reason="pip install -e '.[tiers]'")
    frame = dataframes.from_pandas(pd.DataFrame({"a": [1], "b": [0.5]}), npartitions=1)
    assert text(frame) == "dask DataFrame, not computed, 2 columns: a: int64, b: float64"


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
