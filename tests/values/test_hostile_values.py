"""Values that lie, raise, never end or are huge: described all the same, and asked as little."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any
from unittest.mock import MagicMock

import matplotlib.pyplot as plt
import pandas as pd
import polars as pl
import pytest

from jp_nb.values.describing import describe
from jp_nb.values.description import ValueBudget

CALLS: collections.Counter[str] = collections.Counter()


@pytest.fixture(autouse=True)
def nothing_is_counted_yet() -> None:
    CALLS.clear()


def counted(name: str, result: Any = None, error: BaseException | None = None) -> Any:
    def method(self: object, *args: object) -> Any:
        CALLS[name] += 1
        if error is not None:
            raise error
        return result

    return method


def made(**methods: Any) -> Any:
    return type("Hostile", (), methods)()


def test_the_text_of_a_value_is_asked_for_once() -> None:
    value = made(__repr__=counted("repr", "x" * 100_000))
    for holder in (value, [value], {"a": value}, (1, [value, "y" * 1_000])):
        CALLS.clear()
        assert len(describe(holder, ValueBudget(chars=500)).text) <= 500
        assert CALLS == {"repr": 1}


def test_of_many_values_only_those_that_are_shown_are_asked() -> None:
    values = [made(__repr__=counted("repr", "a value")) for _ in range(10_000)]
    describe(values, ValueBudget(chars=500))
    assert CALLS["repr"] < 100


@pytest.mark.parametrize(
    "error", [ValueError("no"), RecursionError(), MemoryError(), SystemExit(1), AssertionError()]
)
def test_a_text_that_fails_is_said_to(error: BaseException) -> None:
    value = made(__repr__=counted("repr", error=error))
    text = describe([1, value]).text
    assert f"its text cannot be had: {type(error).__name__}" in text


def test_an_interrupt_of_the_person_passes() -> None:
    with pytest.raises(KeyboardInterrupt):
        describe(made(__repr__=counted("repr", error=KeyboardInterrupt())))


def test_nothing_is_looked_up_in_an_object_that_answers_everything() -> None:
    value = made(__getattr__=counted("getattr", MagicMock()), __repr__=counted("repr", "odd"))
    assert describe(value).text == "odd"
    assert "getattr" not in CALLS


def test_what_a_class_says_of_itself_is_not_asked() -> None:
    for lie in (dict, pd.DataFrame, Exception, type):
        value = made(__class__=property(counted("class", lie)), __repr__=counted("repr", "a lie"))
        assert describe(value).text == "a lie"
        assert describe([value]).text == "[a lie]"
    assert "class" not in CALLS


@pytest.mark.parametrize("base", [list, dict, set, tuple, str, int])
def test_what_a_container_overrides_is_not_called(base: type) -> None:
    methods = {
        name: counted(name, error=RuntimeError(name))
        for name in ("__len__", "__iter__", "__getitem__", "items", "keys", "__bool__", "__eq__")
    }
    value = type("Hostile", (base,), {**methods, "__hash__": base.__hash__})()
    describe(value)
    describe([value])
    assert not CALLS


class Sequence:
    def __len__(self) -> int:
        CALLS["len"] += 1
        return 10**12

    def __iter__(self) -> Iterator[int]:
        CALLS["iter"] += 1
        while True:
            yield 1


def test_a_sequence_of_ones_own_is_not_gone_through() -> None:
    assert "Sequence object" in describe(Sequence()).text
    assert not CALLS


class Lying(pd.DataFrame):  # type: ignore[misc]
    @property
    def shape(self) -> tuple[int, int]:
        return 10**12, 10**9


def test_a_frame_that_lies_about_its_shape_is_told_somehow() -> None:
    assert len(describe(Lying({"a": [1]}), ValueBudget(chars=500)).text) <= 500


def test_a_lazy_frame_is_never_computed() -> None:
    def note(frame: pl.DataFrame) -> pl.DataFrame:
        CALLS["computed"] += 1
        return frame

    lazy = pl.DataFrame({"a": [1]}).lazy().map_batches(note, schema={"a": pl.Int64})
    assert "not computed, 1 column: a: Int64" in describe(lazy).text
    assert "not computed" in describe([lazy]).text
    assert not CALLS


def test_nothing_is_taken_from_an_iterator() -> None:
    def numbers() -> Iterator[int]:
        CALLS["next"] += 1
        yield 1

    values = [numbers(), iter([1]), map(int, "12"), zip([1], [2], strict=True)]
    describe(values)
    for value in values:
        describe(value)
    assert not CALLS
    assert list(values[0]) == [1]


def test_a_file_is_not_read_and_not_written(tmp_path: Any) -> None:
    with (tmp_path / "a.txt").open("w", encoding="utf-8") as file:
        file.write("not yet on the disk")
        assert "mode 'w', open, not read" in describe(file).text
        assert (tmp_path / "a.txt").read_text(encoding="utf-8") == ""


def test_drawing_a_figure_changes_nothing() -> None:
    plt.switch_backend("agg")
    figure, axes = plt.subplots(figsize=(20, 5), dpi=150)
    other = plt.figure()
    axes.plot([1, 2])
    canvas, numbers = figure.canvas, plt.get_fignums()
    said = describe(figure, ValueBudget(side=400))
    assert len(said.images) == 1
    assert figure.canvas is canvas
    assert (tuple(figure.get_size_inches()), figure.dpi) == ((20, 5), 150)
    assert plt.get_fignums() == numbers
    assert plt.gcf() is other
    plt.close("all")


def test_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    class Failing:
        def _repr_pretty_(self, *args: object) -> None:
            raise ValueError

        def _ai_repr_(self) -> None:
            raise ValueError

    describe(Failing())
    describe(pd.DataFrame({"a": [1]}))
    assert capsys.readouterr() == ("", "")
