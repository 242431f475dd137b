"""Records in segments: put together again, or reported as broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import nbformat
import pytest

import jp_nb as jp
from tests.kit.notebook_record import NotebookRecord

in_segments = NotebookRecord.store_in_segments
read_metadata = NotebookRecord.read_metadata
WIDGET_STATE = "application/vnd.jupyter.widget-state+json"

SHELVED = {
    "conversation": {"id": "jp-c0"},
    "base_config": {},
    "events": [{"type": "turn_start", "timestamp": "2025-01-30 09:00:00.0"}],
}


def doc(count: int = 7, **more: Any) -> dict[str, Any]:
    events = [
        {"type": "chat_request", "timestamp": f"2025-01-31 09:00:0{i}.0", "content": f"{i} é 𝄞"}
        for i in range(count)
    ]
    head = {"version": 1, "conversation": {"id": "jp-c1"}, "base_config": {"a": 1.0}}
    return {**head, "events": events, **more}


def load(metadata: dict[str, Any]) -> NotebookRecord:
    return NotebookRecord(read_metadata(metadata))


def test_record_in_segments_is_read_whole() -> None:
    whole = doc(others=[SHELVED], signature="2:ab", later="kept")
    sizes: list[tuple[int, ...]] = [(), (7,), (2, 3), (1,) * 7]
    for each in sizes:
        assert read_metadata(in_segments(whole, *each)) == whole


def test_earlier_conversation_in_segments_is_read_whole() -> None:
    metadata = in_segments(doc(), 3)
    other = in_segments(doc() | {"conversation": {"id": "jp-c0"}}, 2, 5)
    metadata["jp.2"], metadata["jp.3"] = other["jp.1"], other["jp.2"]
    shelf = {key: item for key, item in other["jp"].items() if key != "version"}
    for seal in shelf["sealed"]:
        seal["segment"] += 1
    metadata["jp"]["others"] = [shelf]
    read: Any = read_metadata(metadata)
    assert read["events"] == read["others"][0]["events"] == doc()["events"]
    assert "sealed" not in read["others"][0]


def test_check_of_a_segment_ignores_number_and_key_spelling() -> None:
    event = {"type": "chat_response", "data": {"b": 1, "é": 2.5e20, "a": 3.0, "\ud800": -0.0}}
    metadata = in_segments(doc() | {"events": [event]}, 1)
    text = json.dumps(metadata, sort_keys=True).replace(" 3.0", " 3").replace("-0.0", "0")
    assert NotebookRecord.state(read_metadata(json.loads(text))) == "readable"


def test_broken_segment_is_reported_and_kept(subtests: pytest.Subtests) -> None:
    damages: dict[str, Callable[[Any], object]] = {
        "missing": lambda m: m.pop("jp.2"),
        "changed": lambda m: m["jp.2"]["events"][0].update(content="something else"),
        "shorter": lambda m: m["jp.2"]["events"].pop(),
        "swapped": lambda m: m.update({"jp.2": m["jp.3"], "jp.3": m["jp.2"]}),
        "of another conversation": lambda m: m["jp.2"].update(conversation="jp-c2"),
        "sealed twice": lambda m: m["jp"]["sealed"].__setitem__(1, m["jp"]["sealed"][0]),
        "no object": lambda m: m.update({"jp.2": "text"}),
    }
    for name, damage in damages.items():
        with subtests.test(name):
            metadata = in_segments(doc(others=[SHELVED]), 2, 2, 2)
            damage(metadata)
            read: Any = read_metadata(metadata)
            assert NotebookRecord.state(read) == "damaged"
            with pytest.raises(
                jp.StorageError, match=r"jp\.[12]: a segment is missing or was changed"
            ):
                load(metadata)
            kept = {key: metadata[key] for key in metadata if key != "jp"}
            assert {key: read["segments"][key] for key in read["segments"] if key != "jp"} == kept
            assert read["segments"]["jp"]["events"] == metadata["jp"]["events"]
            assert read["others"] == [SHELVED]


def test_broken_earlier_conversation_does_not_affect_the_active_one() -> None:
    metadata = in_segments(doc(2), 1)
    shelf = {**SHELVED, "sealed": [{"segment": 2, "length": 1, "check": "00000000"}]}
    metadata["jp"]["others"] = [shelf, SHELVED]
    found = load(metadata)
    assert len(found.stream) == 2
    assert found.others == [{"segments": {"jp": shelf}, "broken": 2}, SHELVED]


def test_malformed_list_of_segments_is_damage() -> None:
    rows: list[Any] = [None, "jp.1", [1], [{}], [{"segment": [1]}]]
    for sealed in rows:
        metadata = in_segments(doc(), 2)
        metadata["jp"]["sealed"] = sealed
        assert NotebookRecord.state(read_metadata(metadata)) == "damaged"


def test_segment_named_repeatedly_is_read_once() -> None:
    metadata = in_segments(doc(), 7)
    seal = metadata["jp"]["sealed"][0]
    shelf = {"conversation": {"id": "jp-c1"}, "sealed": [seal] * 1000, "events": []}
    metadata["jp"]["others"] = [deepcopy(shelf) for _ in range(100)]
    read: Any = read_metadata(metadata)
    assert read["events"] == doc()["events"]
    assert all("jp.1" not in other["segments"] for other in read["others"])


def test_unassembled_record_has_a_newer_version() -> None:
    stored = in_segments(doc(), 2)["jp"]
    assert NotebookRecord.state(stored) == "newer"
    with pytest.raises(jp.StorageError, match="reload the page"):
        NotebookRecord(stored)


def test_headless_run_removes_segments() -> None:
    run = doc(8)
    state = {"jp": {k: v for k, v in run.items() if k != "events"}, "events.0": run["events"]}
    model = {"model_module": "jp-nb", "state": state}
    widgets = {WIDGET_STATE: {"state": {"ab": model}}}
    metadata = {**in_segments(doc(), 2, 3), "jp.x": "other", "widgets": widgets}
    notebook = nbformat.v4.new_notebook(metadata=metadata)
    assert NotebookRecord.lift_carrier(notebook.metadata)
    assert notebook.metadata == {"jp": run, "jp.x": "other"}


def test_names_of_segments() -> None:
    """A run moves its record from a widget into the metadata, and removes earlier segments."""
    run = doc(1)
    state = {"jp": {k: v for k, v in run.items() if k != "events"}, "events.0": run["events"]}
    widgets = {WIDGET_STATE: {"state": {"ab": {"model_module": "jp-nb", "state": state}}}}
    names = ["jp.1", "jp.120", "jp.0", "jp.01", "jp.x", "jp.1\n", "jp.12345678", "jp.1.2"]
    metadata: dict[str, Any] = {**{name: {} for name in names}, "widgets": widgets}
    assert NotebookRecord.lift_carrier(metadata)
    assert [name for name in names if name not in metadata] == ["jp.1", "jp.120"]
