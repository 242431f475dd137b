"""Configuration changes that tools proposed: the tool and the approval are recorded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jp_nb.config.layers import Layer
from jp_nb.interop.files import Directory, write_directory
from jp_nb.record.change_marks import ProposedBy, make_proposal_metadata, read_proposed_by
from jp_nb.record.config_history import Projection
from jp_nb.record.conversation_fork import fork_conversation
from jp_nb.record.document import Document
from jp_nb.record.events import decode_event
from jp_nb.record.stream import ConversationStream
from jp_nb.record.turn_view import ConfigChange, read_turn
from tests.interop.jp_directories import imported
from tests.kit.kinds import is_kind
from tests.kit.records import new_event
from tests.support.entries import (
    ASKED,
    SAID,
    START,
    FakeClock,
    NumberedIds,
    T,
    called,
    new_stream,
    raw,
    result,
)

ID = "assistant.model.id"
MODEL: dict[str, Any] = {"assistant": {"model": {"id": {"provider": "openai", "name": "by-tool"}}}}
PERSON = ProposedBy("change_model", "call_1", (f"{ID}.provider", f"{ID}.name"), "person", "form")
GRANT = ProposedBy("rename", "call_2", ("user.name",), "grant")
TOUCHED = (*PERSON.paths, *GRANT.paths)
BY_TOOLS = new_event(
    "config_delta",
    timestamp=T,
    delta=MODEL,
    unsets=("user.name",),
    claims=dict.fromkeys(TOUCHED),
    metadata=make_proposal_metadata([PERSON, GRANT]),
)
FIRST = [START, ASKED, called(), result(), BY_TOOLS.to_raw(), SAID]
SECOND = [START, ASKED, SAID]


def explained(stream: ConversationStream, path: str) -> list[tuple[str | None, list[str]]]:
    below = [Layer("file", {"user": {"name": "file"}})]
    said = Projection(stream, lambda: below, trusted=True).explain([path])[path]
    return [(x.when, [call.tool for call in x.tools(path)]) for x in said if x.delta is not None]


# --- writing and reading -----------------------------------------------------------------------


def test_proposal_is_stored_with_tool_call_paths_and_approval() -> None:
    assert BY_TOOLS.metadata == {
        "proposed_by": [
            {
                "tool": "change_model",
                "call_id": "call_1",
                "paths": ["assistant.model.id.provider", "assistant.model.id.name"],
                "applied_by": "person",
                "channel": "form",
            },
            {"tool": "rename", "call_id": "call_2", "paths": ["user.name"], "applied_by": "grant"},
        ]
    }
    stored = decode_event(json.loads(json.dumps(BY_TOOLS.to_raw())), 0)
    assert is_kind(stored, "config_delta")
    assert read_proposed_by(stored) == (PERSON, GRANT)


WHOLE: dict[str, Any] = {"tool": "t", "call_id": "c", "paths": ["a"], "applied_by": "grant"}


def test_malformed_proposals_are_ignored(subtests: pytest.Subtests) -> None:
    assert make_proposal_metadata([]) == {}
    assert read_proposed_by(new_event("config_delta")) == ()
    rows: list[Any] = [
        *(None, "text", {}, {"tool": "t"}, [None, 5, [], {}]),
        *([{k: v for k, v in WHOLE.items() if k != key}] for key in WHOLE),
        *([{**WHOLE, key: {}}] for key in WHOLE),
        [{**WHOLE, "applied_by": "other"}],
    ]
    for found in rows:
        with subtests.test(found=found):
            assert (
                read_proposed_by(new_event("config_delta", metadata={"proposed_by": found})) == ()
            )
    odd = {**WHOLE, "paths": ["a", 5, None, "]["], "channel": ["form"], "later": 1}
    read = read_proposed_by(new_event("config_delta", metadata={"proposed_by": [3, odd]}))
    assert read == (ProposedBy("t", "c", ("a", "]["), "grant"),)


def test_malformed_metadata_does_not_hide_the_change() -> None:
    flat = {"type": "config_delta", "timestamp": T, **MODEL, "metadata": BY_TOOLS.metadata}
    for entry, proposals in (
        (decode_event(raw("config_delta", delta=MODEL, metadata=["x"]), 0), ()),
        (decode_event(flat, 0), (PERSON, GRANT)),  # the configuration is on the entry itself
    ):
        assert is_kind(entry, "config_delta")
        assert (entry.delta, read_proposed_by(entry)) == (MODEL, proposals)


# --- as code and people see it -----------------------------------------------------------------


def test_turn_lists_config_changes_of_tools() -> None:
    (turn,) = new_stream(*FIRST).turns()
    assert read_turn(turn.number, turn.entries).config_changes == (
        ConfigChange(MODEL, ("user.name",), proposed_by=(PERSON, GRANT)),
    )


def test_provenance_of_a_path_names_the_tools_that_set_it() -> None:
    for path, tool in [
        (f"{ID}.name", "change_model"),
        (ID, "change_model"),
        ("assistant.model", "change_model"),
        ("user.name", "rename"),
    ]:
        (found,) = explained(new_stream(*SECOND, *FIRST), path)
        assert found == ("in turn 2", [tool])
    odd = ProposedBy("odd", "c", ("][", "", "user..name"), "grant")
    delta = new_event(
        "config_delta", delta={"user": {"name": "x"}}, metadata=make_proposal_metadata([odd])
    )
    assert explained(new_stream(*FIRST[:-2], delta.to_raw(), SAID), "user.name") == [
        ("in turn 1", [])
    ]


def test_change_of_the_user_is_for_the_next_turn_and_of_a_tool_in_its_turn() -> None:
    mine = raw("config_delta", delta={"user": {"name": "me"}})
    tools = raw(
        "config_delta", delta={"user": {"name": "t"}}, metadata=make_proposal_metadata([GRANT])
    )
    failed = FIRST[:-2]  # the turn ended with the change of the tool
    stream = new_stream(mine, *failed, tools, mine, START, ASKED, mine, tools, SAID, tools, mine)
    assert [when for when, _ in explained(stream, "user.name")] == [
        *("for turn 1", "in turn 1", "for turn 2"),
        *("for turn 2", "in turn 2", "in turn 2", "for turn 3"),
    ]


# --- wherever the record goes ------------------------------------------------------------------


@pytest.mark.req("R078-138")
def test_proposals_survive_a_fork_and_a_reload() -> None:
    clock = FakeClock()
    stream = new_stream(*FIRST, *SECOND)
    forked = fork_conversation(
        stream, keep_turns=1, clock=clock, made="live", taken_ids=set(), new_id=NumberedIds()
    )
    document = Document.new(clock=clock, made="live")
    document.conversation = forked
    loaded = Document.load(json.loads(json.dumps(document.to_json())), clock=clock).conversation
    for one in (stream, forked, loaded):
        assert one.raw[: len(FIRST)] == FIRST
        assert [read_proposed_by(delta) for delta in one.deltas] == [(PERSON, GRANT)]
        below = [Layer("file", {"user": {"name": "file"}, "assistant": {"name": "kept"}})]
        partial = Projection(one, lambda: below, trusted=True).partial()
        assert partial == {"user": {}, "assistant": {"name": "kept", **MODEL["assistant"]}}


BY_PERSON = new_event("config_delta", timestamp=T, delta={"user": {"name": "Ada"}}).to_raw()
STOPPED = [START, ASKED, called(), result(), BY_TOOLS.to_raw()]


def test_change_of_a_tool_at_the_end_of_a_turn_belongs_to_that_turn() -> None:
    """The turn may have been interrupted. A later change of the user belongs to the next turn."""
    stream = new_stream(*STOPPED)
    last = stream.last_turn()
    assert last is not None
    assert last.entries[-1] == BY_TOOLS
    stream = new_stream(*STOPPED, BY_PERSON, *SECOND)
    first, second = stream.turns()
    assert [entry.type for entry in first.entries][-1] == "config_delta"
    assert [entry.type for entry in second.entries][:2] == ["config_delta", "turn_start"]
    assert stream.last_turn() == second
    assert read_turn(0, first.entries).config_changes[0].proposed_by == (PERSON, GRANT)


def test_change_of_a_tool_after_one_of_the_user_belongs_to_the_next_turn() -> None:
    stream = new_stream(*STOPPED, BY_TOOLS.to_raw(), BY_PERSON, BY_TOOLS.to_raw(), *SECOND)
    first, second = stream.turns()
    assert [entry.type for entry in first.entries].count("config_delta") == 2
    assert second == stream.last_turn()
    stream = new_stream(*STOPPED, BY_PERSON, BY_TOOLS.to_raw())
    [only] = stream.turns()
    assert only == stream.last_turn()
    made = fork_conversation(
        new_stream(BY_TOOLS.to_raw(), *STOPPED),
        keep_turns=0,
        clock=FakeClock(),
        made="live",
        taken_ids=(),
    )
    assert len(made.deltas) == 1


def test_number_of_proposals_read_is_bounded() -> None:
    item = BY_TOOLS.metadata["proposed_by"][0]
    entry = BY_TOOLS.model_copy(update={"metadata": {"proposed_by": [item] * 5000}})
    assert len(read_proposed_by(entry)) == 1000


def test_fork_keeps_the_change_of_a_tool_at_its_end() -> None:
    stream = new_stream(*STOPPED, BY_PERSON, *SECOND)
    made = fork_conversation(
        stream, keep_turns=1, clock=FakeClock(), made="live", taken_ids=(stream.id,)
    )
    assert [delta.metadata for delta in made.deltas] == [BY_TOOLS.metadata]


@pytest.mark.req("R078-138")
def test_undo_drops_the_change_of_a_tool() -> None:
    stream = new_stream(*SECOND, *FIRST)
    keep = stream.turn_count - 1
    kept = fork_conversation(stream, keep_turns=keep, clock=FakeClock(), made="live", taken_ids=())
    assert not kept.deltas
    assert len(stream.deltas) == 1


def exported(dialect: Any) -> Directory:
    base = {**MODEL, "conversation": {"tools": {"*": {"run": "ask"}}}}
    head = {"id": "jp-c17700000001", "made": "live"}
    odd: Any = {**BY_TOOLS.metadata, "note": "YQ==", "deep": {"b": 1, "a": ["Yg=="]}}
    request = {**ASKED, "metadata": {"cell_id": "c"}}
    delta = raw("config_delta", delta={"user": {"name": "t"}}, metadata=odd)
    events = [START, request, called(), result(), delta, SAID]
    jp: Any = {"conversation": head, "base_config": base, "events": events}
    return write_directory(jp, dialect=dialect)


def test_native_export_keeps_proposals() -> None:
    written = exported("native")
    assert written.dropped == []
    metadata: Any = json.loads(written.files["events.json"])[4]["metadata"]
    extra: Any = {"note": "YQ==", "deep": {"b": 1, "a": ["Yg=="]}}
    assert metadata == {**BY_TOOLS.metadata, **extra}  # JP encodes that of events alone
    back = imported(written.files)
    assert back["events"][4]["metadata"] == metadata
    assert write_directory(back).files["events.json"] == written.files["events.json"]


def test_export_to_jp_reports_dropped_proposals() -> None:
    written = exported("jp-head")
    assert written.dropped == ["events[4].metadata: JP has no such field"]
    entries = json.loads(written.files["events.json"])
    assert entries[4].keys() == {"type", "timestamp", "delta"}
    assert "metadata" in entries[1]
