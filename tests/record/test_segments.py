"""Records in segments are put together again, or said to be broken."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import nbformat
import pytest

from jp_nb.errors import StorageError
from jp_nb.record import carrier, segments
from jp_nb.record.document import Document, NewerVersionError
from jp_nb.record.jp_object import shape_of
from jp_nb.record.timestamps import utc_now
from tests.support.segments import in_segments

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


def load(metadata: dict[str, Any]) -> Document:
    return Document.load(carrier.read(metadata), clock=utc_now)


@pytest.mark.parametrize("sizes", [(), (7,), (2, 3), (1, 1, 1, 1, 1, 1, 1)])
def test_a_record_in_segments_is_the_record(sizes: tuple[int, ...]) -> None:
    whole = doc(others=[SHELVED], signature="2:ab", later="kept")
    assert carrier.read(in_segments(whole, *sizes)) == whole


def test_an_earlier_conversation_may_be_in_segments() -> None:
    metadata = in_segments(doc(), 3)
    other = in_segments(doc() | {"conversation": {"id": "jp-c0"}}, 2, 5)
    metadata["jp.2"], metadata["jp.3"] = other["jp.1"], other["jp.2"]
    shelf = {key: item for key, item in other["jp"].items() if key != "version"}
    for seal in shelf["sealed"]:
        seal["segment"] += 1
    metadata["jp"]["others"] = [shelf]
    read: Any = carrier.read(metadata)
    assert read["events"] == read["others"][0]["events"] == doc()["events"]
    assert "sealed" not in read["others"][0]


def test_a_file_says_the_same_though_its_numbers_and_keys_are_spelled_anew() -> None:
    event = {"type": "chat_response", "data": {"b": 1, "é": 2.5e20, "a": 3.0, "\ud800": -0.0}}
    metadata = in_segments(doc() | {"events": [event]}, 1)
    text = json.dumps(metadata, sort_keys=True).replace(" 3.0", " 3").replace("-0.0", "0")
    assert shape_of(carrier.read(json.loads(text))) == "readable"


def _gone(metadata: dict[str, Any]) -> None:
    del metadata["jp.2"]


def _changed(metadata: dict[str, Any]) -> None:
    metadata["jp.2"]["events"][0]["content"] = "something else"


def _shorter(metadata: dict[str, Any]) -> None:
    metadata["jp.2"]["events"].pop()


def _swapped(metadata: dict[str, Any]) -> None:
    metadata["jp.2"], metadata["jp.3"] = metadata["jp.3"], metadata["jp.2"]


def _of_another(metadata: dict[str, Any]) -> None:
    metadata["jp.2"]["conversation"] = "jp-c2"


def _twice(metadata: dict[str, Any]) -> None:
    metadata["jp"]["sealed"][1] = metadata["jp"]["sealed"][0]


def _no_segment(metadata: dict[str, Any]) -> None:
    metadata["jp.2"] = "text"


@pytest.mark.parametrize(
    "damage", [_gone, _changed, _shorter, _swapped, _of_another, _twice, _no_segment]
)
def test_a_broken_segment_is_said_and_nothing_of_it_is_lost(damage: Any) -> None:
    metadata = in_segments(doc(others=[SHELVED]), 2, 2, 2)
    damage(metadata)
    read: Any = carrier.read(metadata)
    assert shape_of(read) == "damaged"
    with pytest.raises(StorageError, match=r"jp\.[12]: a segment is missing or was changed"):
        load(metadata)
    kept = {key: metadata[key] for key in metadata if key != "jp"}
    assert {key: read["segments"][key] for key in read["segments"] if key != "jp"} == kept
    assert read["segments"]["jp"]["events"] == metadata["jp"]["events"]
    assert read["others"] == [SHELVED]


def test_a_broken_segment_of_an_earlier_conversation_leaves_the_active_one_alone() -> None:
    metadata = in_segments(doc(2), 1)
    shelf = {**SHELVED, "sealed": [{"segment": 2, "length": 1, "check": "00000000"}]}
    metadata["jp"]["others"] = [shelf, SHELVED]
    found = load(metadata)
    assert len(found.conversation) == 2
    assert found.others == [{"segments": {"jp": shelf}, "broken": 2}, SHELVED]


@pytest.mark.parametrize("sealed", [None, 1, "jp.1", [1], [None], [{}], [{"segment": [1]}]])
def test_what_does_not_say_which_segments_it_has_is_damaged(sealed: Any) -> None:
    metadata = in_segments(doc(), 2)
    metadata["jp"]["sealed"] = sealed
    assert shape_of(carrier.read(metadata)) == "damaged"


def test_a_segment_that_is_named_again_and_again_is_read_once() -> None:
    metadata = in_segments(doc(), 7)
    seal = metadata["jp"]["sealed"][0]
    shelf = {"conversation": {"id": "jp-c1"}, "sealed": [seal] * 1000, "events": []}
    metadata["jp"]["others"] = [deepcopy(shelf) for _ in range(100)]
    read: Any = carrier.read(metadata)
    assert read["events"] == doc()["events"]
    assert all("jp.1" not in other["segments"] for other in read["others"])


def test_who_does_not_put_segments_together_reads_a_newer_version() -> None:
    stored = in_segments(doc(), 2)["jp"]
    assert shape_of(stored) == "newer"
    with pytest.raises(NewerVersionError, match="load the page again"):
        Document.load(stored, clock=utc_now)


def test_a_headless_run_leaves_no_segment_behind() -> None:
    run = doc(8)
    state = {"jp": {k: v for k, v in run.items() if k != "events"}, "events.0": run["events"]}
    model = {"model_module": "jp-nb", "state": state}
    widgets = {carrier.WIDGET_STATE: {"state": {"ab": model}}}
    metadata = {**in_segments(doc(), 2, 3), "jp.x": "somebody's", "widgets": widgets}
    notebook = nbformat.v4.new_notebook(metadata=metadata)
    assert carrier.lift(notebook.metadata)
    assert notebook.metadata == {"jp": run, "jp.x": "somebody's"}


def test_only_names_of_segments_are_taken_for_segments() -> None:
    names = ["jp.1", "jp.120", "jp.0", "jp.01", "jp", "jp.x", "jp.1\n", "jp.12345678", "jp.1.2"]
    assert [name for name in names if segments.is_segment(name)] == ["jp.1", "jp.120"]
