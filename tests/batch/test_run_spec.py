"""Ids of runs: readable, stable, safe as file names, and different for different runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.batches import BatchBench


@pytest.mark.req("BATCH-3")
def test_id_names_notebook_parameters_and_model() -> None:
    assert BatchBench.run_id().startswith("walk-city=Delft-")
    assert BatchBench.run_id() == BatchBench.run_id()
    found = BatchBench.run_id(
        "far/walk.ipynb",
        parameters={"days": 3, "fast": True},
        overrides={"assistant.model.id": "openai/gpt"},
    )
    assert found.startswith("far-walk-days=3-fast=true-model=openai-gpt-")


@pytest.mark.req("BATCH-3")
@pytest.mark.parametrize(
    "change",
    [
        {"notebook": "far/walk.ipynb"},
        {"content": "other"},
        {"parameters": {"city": "Delft", "days": 1}},
        {"parameters": {"city": "Delft "}},
        {"parameters": {"city": 3}},
        {"overrides": {"assistant.model.id": "a"}},
        {"cassette": ""},
        {"answers": "other"},
    ],
)
def test_each_input_of_a_run_changes_its_id(change: dict[str, Any]) -> None:
    assert BatchBench.run_id(**change) != BatchBench.run_id()


@pytest.mark.parametrize(
    "value", ["../../etc/passwd", "a/b\\c", "\x1b[2J\n", "x" * 500, "ü☃", "", "-", ".", "CON:"]
)
def test_id_is_a_safe_file_name(value: str) -> None:
    found = BatchBench.run_id(parameters={"name": value})
    assert len(found) < 120
    assert set(found) <= set("=-._") | set(map(chr, range(48, 58))) | {
        *map(chr, range(65, 91)),
        *map(chr, range(97, 123)),
    }
    assert found.startswith("walk-name")


@pytest.mark.req("BATCH-3")
def test_order_of_names_does_not_change_the_id() -> None:
    found = BatchBench.run_id(parameters={"x": 1, "a": 2}, overrides={"d": "1", "c": "2"})
    assert found.startswith("walk-a=2-x=1-c=2-d=1-")
    assert found == BatchBench.run_id(parameters={"a": 2, "x": 1}, overrides={"c": "2", "d": "1"})


@pytest.mark.req("BATCH-3")
@pytest.mark.parametrize(
    ("notebook", "begin"),
    [
        ("日本語.ipynb", "notebook-city=Delft-"),
        ("-f.ipynb", "f-city=Delft-"),
        ("...ipynb", "notebook-city=Delft-"),
        ("Café.ipynb", "Cafe-city=Delft-"),
        ("a b.ipynb", "a-b-city=Delft-"),
    ],
)
def test_notebook_without_letters_for_an_id_has_a_name_and_a_long_digest(
    notebook: str, begin: str
) -> None:
    found = BatchBench.run_id(notebook)
    assert found.startswith(begin)
    assert len(found.removeprefix(begin)) == 16


@pytest.mark.req("BATCH-3")
def test_parameter_without_letters_for_an_id_has_a_name() -> None:
    found = BatchBench.run_id(parameters={"城市": "Zürich"})
    assert found.startswith("walk-parameter=Zurich-")
    assert len(found.rpartition("-")[2]) == 16


def test_types_of_values_tell_runs_apart() -> None:
    values: list[Any] = [3, 3.0, "3", True, "true", None, "null", [3]]
    assert len({BatchBench.run_id(parameters={"days": each}) for each in values}) == len(values)


def test_ids_of_values_with_the_same_readable_part_have_a_long_digest() -> None:
    cut = BatchBench.run_id(parameters={"text": "x" * 40})
    assert len(cut.rpartition("-")[2]) == 16
