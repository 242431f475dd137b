"""Merge copies of the `jp` object."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from tests.kit.notebook_record import NotebookRecord

CASES: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("merge_cases.json").read_text(encoding="utf-8")
)


def test_merge_of_each_case(subtests: pytest.Subtests) -> None:
    for case in CASES:
        with subtests.test(case=case):
            before = copy.deepcopy(case)
            merged = NotebookRecord.merge(case.get("stored"), case["carried"], case.get("seen"))
            assert merged == case["merged"]
            assert case == before


@pytest.mark.deep
def test_merging_conversations_of_one_id_takes_linear_time() -> None:
    def seconds(count: int) -> float:
        one = {"type": "chat_request", "timestamp": "t", "id": "1"}
        others = [{"conversation": {"id": "x"}, "events": [one, {"id": n}]} for n in range(count)]
        mine = [{"conversation": {"id": "x"}, "events": [one, {"id": -n}]} for n in range(count)]
        carried: dict[str, Any] = {"conversation": {"id": "a"}, "events": [one], "others": mine}
        stored: dict[str, Any] = {"conversation": {"id": "b"}, "events": [one], "others": others}
        found = []
        for _ in range(3):
            began = process_time()
            merged = NotebookRecord.merge(stored, carried)
            found.append(process_time() - began)
            assert len(merged["others"]) == 2 * count  # one is in both, one was the active one
        return min(found)

    assert seconds(2000) < 12 * max(seconds(500), 0.005)


def test_merging_twice_changes_nothing(subtests: pytest.Subtests) -> None:
    for case in CASES:
        with subtests.test(case=case):
            again = NotebookRecord.merge(case["merged"], case["carried"], case.get("seen"))
            assert again == case["merged"]


def test_shape_of_a_stored_object(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, str]] = [
        ({"conversation": {"id": "a"}}, "readable"),
        ({"version": 1, "conversation": {"id": "a"}, "events": [], "others": []}, "readable"),
        ({"version": 2}, "newer"),
        ({"version": "1"}, "newer"),
        ({"conversation": {"id": ""}}, "damaged"),
        ({"conversation": {"id": 5}}, "damaged"),
        ({"conversation": {"id": "a"}, "events": {}}, "damaged"),
        ([], "damaged"),
        (None, "damaged"),
    ]
    for value, expected in rows:
        with subtests.test(value=value):
            assert NotebookRecord.state(value) == expected


def test_entries_of_headless_runs_are_not_counted_as_seen() -> None:
    """A second run replaces the entries of the first one: their number must not matter."""
    one: dict[str, Any] = {"type": "turn_start"}
    live: dict[str, Any] = {"conversation": {"id": "a", "made": "live"}, "events": [one, one]}
    run: dict[str, Any] = {"conversation": {"id": "b", "made": "headless"}, "events": [one]}
    assert NotebookRecord.count_entries({**run, "others": [live]}) == {"a": 2}
    assert NotebookRecord.count_entries(live) == {"a": 2}
