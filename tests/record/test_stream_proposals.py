"""Configuration changes that tools proposed: the tool and the approval are recorded."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from tests.interop.jp_directories import imported
from tests.kit.kinds import make
from tests.kit.notebook_record import NotebookRecord
from tests.kit.record_view import RecordView
from tests.kit.recorded_settings import RecordedSettings
from tests.kit.records import parse_event
from tests.support.entries import (
    ASKED,
    SAID,
    START,
    called,
    new_stream,
    raw,
    result,
)

ID = "assistant.model.id"
MODEL: dict[str, Any] = {"assistant": {"model": {"id": {"provider": "openai", "name": "by-tool"}}}}
PERSON = {
    "tool": "change_model",
    "call_id": "call_1",
    "paths": [f"{ID}.provider", f"{ID}.name"],
    "applied_by": "person",
    "channel": "form",
}
GRANT = {"tool": "rename", "call_id": "call_2", "paths": ["user.name"], "applied_by": "grant"}
BY_TOOLS = raw(
    "config_delta",
    delta=MODEL,
    unsets=["user.name"],
    claims=dict.fromkeys([f"{ID}.provider", f"{ID}.name", "user.name"]),
    metadata={"proposed_by": [PERSON, GRANT]},
)
FIRST = [START, ASKED, called(), result(), BY_TOOLS, SAID]
SECOND = [START, ASKED, SAID]


def explained(stream: Any, path: str) -> list[tuple[str | None, list[str]]]:
    """Return the time of each change of `path`, and the tools that proposed it."""
    return RecordedSettings(stream, {"user": {"name": "file"}}).times(path)


def proposals_of(*entries: Any) -> list[Any]:
    """Return the calls that proposed the only change of a turn, as code reads them."""
    [turn] = RecordView(new_stream(START, ASKED, *entries)).turns()
    [change] = turn.config_changes
    return [without_none(asdict(proposal)) for proposal in change.proposed_by]


def without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: list(x) if name == "paths" else x for name, x in fields.items() if x is not None}


# --- writing and reading -----------------------------------------------------------------------


def test_proposals_of_a_change_are_read() -> None:
    assert proposals_of(BY_TOOLS) == [PERSON, GRANT]
    by_ada = {**GRANT, "by": "Ada"}
    assert proposals_of({**BY_TOOLS, "metadata": {"proposed_by": [by_ada]}}) == [by_ada]


WHOLE: dict[str, Any] = {"tool": "t", "call_id": "c", "paths": ["a"], "applied_by": "grant"}


def test_malformed_proposals_are_ignored(subtests: pytest.Subtests) -> None:
    rows: list[Any] = [
        None,
        "text",
        {},
        {"tool": "t"},
        [None, 5, [], {}],
        [],
        *([{k: v for k, v in WHOLE.items() if k != key}] for key in WHOLE),
        *([{**WHOLE, key: {}}] for key in WHOLE),
        [{**WHOLE, "applied_by": "other"}],
    ]
    for found in rows:
        with subtests.test(found=found):
            change = raw("config_delta", delta=MODEL, metadata={"proposed_by": found})
            assert proposals_of(change, SAID) == []

    odd = {**WHOLE, "paths": ["a", 5, None, "]["], "channel": ["form"], "later": 1}
    change = raw("config_delta", delta=MODEL, metadata={"proposed_by": [3, odd]})
    assert proposals_of(change) == [{**WHOLE, "paths": ["a", "]["]}]


def test_malformed_metadata_does_not_hide_the_change() -> None:
    malformed = raw("config_delta", delta=MODEL, metadata=["x"])
    assert (parse_event(malformed).delta, proposals_of(malformed, SAID)) == (MODEL, [])

    # The configuration is on the entry itself.
    flat = raw("config_delta", **MODEL, metadata=BY_TOOLS["metadata"])
    assert (parse_event(flat).delta, proposals_of(flat)) == (MODEL, [PERSON, GRANT])


# --- as code and people see it -----------------------------------------------------------------


def test_turn_lists_config_changes_of_tools() -> None:
    [turn] = RecordView(new_stream(*FIRST)).turns()
    proposed = tuple(
        make("proposal", **{**each, "paths": tuple(each["paths"])}) for each in (PERSON, GRANT)
    )
    change = make("config_change", MODEL, ("user.name",), proposed_by=proposed)
    assert turn.config_changes == (change,)


def test_provenance_of_a_path_names_the_tools_that_set_it() -> None:
    for path, tool in [
        (f"{ID}.name", "change_model"),
        (ID, "change_model"),
        ("assistant.model", "change_model"),
        ("user.name", "rename"),
    ]:
        (found,) = explained(new_stream(*SECOND, *FIRST), path)
        assert found == ("in turn 2", [tool])
    odd = {**WHOLE, "tool": "odd", "paths": ["][", "", "user..name"]}
    delta = raw("config_delta", delta={"user": {"name": "x"}}, metadata={"proposed_by": [odd]})
    assert explained(new_stream(*FIRST[:-2], delta, SAID), "user.name") == [("in turn 1", [])]


def test_change_of_the_user_is_for_the_next_turn_and_of_a_tool_in_its_turn() -> None:
    mine = raw("config_delta", delta={"user": {"name": "me"}})
    tools = raw("config_delta", delta={"user": {"name": "t"}}, metadata={"proposed_by": [GRANT]})
    failed = FIRST[:-2]  # the turn ended with the change of the tool
    stream = new_stream(mine, *failed, tools, mine, START, ASKED, mine, tools, SAID, tools, mine)
    assert [when for when, _ in explained(stream, "user.name")] == [
        "for turn 1",
        "in turn 1",
        "for turn 2",
        "for turn 2",
        "in turn 2",
        "in turn 2",
        "for turn 3",
    ]


# --- wherever the record goes ------------------------------------------------------------------


@pytest.mark.req("R078-138")
def test_proposals_survive_a_fork_and_a_reload() -> None:
    stream = new_stream(*FIRST, *SECOND)
    forked = RecordView(stream).fork(1)
    notebook = NotebookRecord()
    notebook.stream = forked
    loaded = NotebookRecord(notebook.stored).stream

    below = {"user": {"name": "file"}, "assistant": {"name": "kept"}}
    for one in (stream, forked, loaded):
        assert one.raw[: len(FIRST)] == FIRST
        settings = RecordedSettings(one, below).table()
        assert settings == {"user": {}, "assistant": {"name": "kept", **MODEL["assistant"]}}


BY_PERSON = raw("config_delta", delta={"user": {"name": "Ada"}})
STOPPED = [START, ASKED, called(), result(), BY_TOOLS]


def test_change_of_a_tool_at_the_end_of_a_turn_belongs_to_that_turn() -> None:
    """The turn may have been interrupted. A later change of the user belongs to the next turn."""
    stream = new_stream(*STOPPED)
    last = stream.last_turn()
    assert last is not None
    assert last.entries[-1] == parse_event(BY_TOOLS)

    stream = new_stream(*STOPPED, BY_PERSON, *SECOND)
    first, second = stream.turns()
    assert [entry.type for entry in first.entries][-1] == "config_delta"
    assert [entry.type for entry in second.entries][:2] == ["config_delta", "turn_start"]
    assert stream.last_turn() == second


def test_change_of_a_tool_after_one_of_the_user_belongs_to_the_next_turn() -> None:
    stream = new_stream(*STOPPED, BY_TOOLS, BY_PERSON, BY_TOOLS, *SECOND)
    first, second = stream.turns()
    assert [entry.type for entry in first.entries].count("config_delta") == 2
    assert second == stream.last_turn()

    stream = new_stream(*STOPPED, BY_PERSON, BY_TOOLS)
    [only] = stream.turns()
    assert only == stream.last_turn()
    assert len(RecordView(new_stream(BY_TOOLS, *STOPPED)).fork(0).deltas) == 1


def test_number_of_proposals_read_is_bounded() -> None:
    many = {**BY_TOOLS, "metadata": {"proposed_by": [PERSON] * 5000}}
    assert len(proposals_of(many)) == 1000


def test_fork_keeps_the_change_of_a_tool_at_its_end() -> None:
    made = RecordView(new_stream(*STOPPED, BY_PERSON, *SECOND)).fork(1)
    assert [delta.metadata for delta in made.deltas] == [BY_TOOLS["metadata"]]


@pytest.mark.req("R078-138")
def test_undo_drops_the_change_of_a_tool() -> None:
    stream = new_stream(*SECOND, *FIRST)
    assert not RecordView(stream).fork(stream.turn_count - 1).deltas
    assert len(stream.deltas) == 1


ODD: dict[str, Any] = {**BY_TOOLS["metadata"], "note": "YQ==", "deep": {"b": 1, "a": ["Yg=="]}}


def exported() -> RecordView:
    """Return a conversation with proposals that can be exported."""
    base = {**MODEL, "conversation": {"tools": {"*": {"run": "ask"}}}}
    request = {**ASKED, "metadata": {"cell_id": "c"}}
    delta = raw("config_delta", delta={"user": {"name": "t"}}, metadata=ODD)
    events = [START, request, called(), result(), delta, SAID]
    return RecordView(new_stream(*events, base_config=base))


def test_native_export_keeps_proposals() -> None:
    files, dropped = exported().export()
    assert dropped == []
    metadata: Any = json.loads(files["events.json"])[4]["metadata"]
    assert metadata == ODD  # JP encodes that of events alone

    back = imported(files)
    assert back["events"][4]["metadata"] == metadata
    again, _ = RecordView(NotebookRecord(back).stream).export()
    assert again["events.json"] == files["events.json"]


def test_export_to_jp_reports_dropped_proposals() -> None:
    files, dropped = exported().export("jp-head")
    assert dropped == ["events[4].metadata: JP has no such field"]
    entries = json.loads(files["events.json"])
    assert entries[4].keys() == {"type", "timestamp", "delta"}
    assert "metadata" in entries[1]
