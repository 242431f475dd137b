"""Failed requests: kept in the record, omitted from requests, their changes reverted."""

from __future__ import annotations

import json
from typing import Any

import pytest

import jp_nb
from jp_nb.interop.files import read_directory, write_directory
from jp_nb.record.change_marks import (
    NoAnswer,
    RevertedChanges,
    is_unanswered,
    make_no_answer,
    read_no_answer,
)
from jp_nb.record.clock import utc_now
from jp_nb.record.config_changes import (
    select_changes_before_first_turn,
    select_changes_since_last_turn,
)
from jp_nb.record.config_history import Projection
from jp_nb.record.context import build_context
from jp_nb.record.conversation_fork import fork_conversation
from jp_nb.record.document import Document
from jp_nb.record.stream import ConversationStream
from jp_nb.record.turn_view import read_turn
from tests.kit.kinds import is_kind
from tests.kit.records import new_event
from tests.support.entries import ASKED, SAID, START, FakeClock, called, new_stream, raw, result


def setting(name: str) -> dict[str, Any]:
    return raw("config_delta", delta={"assistant": {"name": name}})


def asking(text: str) -> list[dict[str, Any]]:
    return [START, raw("chat_request", content=text)]


def failed(takes_back: int = 0) -> dict[str, Any]:
    return {
        **make_no_answer(NoAnswer("failed", takes_back)).to_raw(),
        "timestamp": START["timestamp"],
    }


THOUGHT = raw("chat_response", reasoning="hm")


def sent(stream: ConversationStream) -> list[str]:
    return [
        item.entry.content for item in build_context(stream) if is_kind(item.entry, "chat_request")
    ]


def name(stream: ConversationStream) -> str | None:
    return Projection(stream, list, trusted=True).config().assistant.name


def turns(stream: ConversationStream) -> list[jp_nb.Turn]:
    return [read_turn(turn.number, turn.entries, status="") for turn in stream.turns()]


FAILED = [
    setting("before"),
    *asking("first"),
    SAID,
    setting("twice"),
    setting("wrong"),
    *asking("unanswered"),
    failed(2),
    *asking("second"),
    SAID,
]


def test_text_data_or_a_call_is_an_answer(subtests: pytest.Subtests) -> None:
    for entries, unanswered in [
        ([START], False),
        ([START, ASKED], True),
        ([START, ASKED, ASKED], True),
        ([START, ASKED, THOUGHT], True),
        ([START, ASKED, SAID], False),
        ([START, ASKED, raw("chat_response", data=None)], False),
        ([START, ASKED, called(), result()], False),
        ([SAID], False),
    ]:
        with subtests.test(entries=entries):
            stream = new_stream(*entries)
            assert is_unanswered(stream.entries) is unanswered
            assert bool(sent(stream)) is (ASKED in entries and not unanswered)


def test_failed_request_is_not_sent_and_its_changes_do_not_apply() -> None:
    stream = new_stream(*FAILED)
    assert sent(stream) == ["first", "second"]
    assert name(stream) == "before"
    first, second, third = turns(stream)
    assert (second.request, second.status, second.left_out) == ("unanswered", "failed", True)
    assert (second.taken_back, len(second.config_changes)) == (2, 2)
    assert [(turn.left_out, turn.taken_back, turn.status) for turn in (first, third)] == [
        (False, 0, "")
    ] * 2
    assert stream.last_turn() == list(stream.turns())[-1]


def test_failed_turn_survives_a_reload_and_an_export() -> None:
    jp = Document(new_stream(*FAILED)).to_json()
    exported = read_directory("17700000001-x", write_directory(jp).files, clock=utc_now)
    for stored in (json.loads(json.dumps(jp)), exported):
        again = Document.load(stored, clock=FakeClock()).conversation
        assert (sent(again), name(again)) == (["first", "second"], "before")
        assert turns(again)[1].status == "failed"


def test_fork_keeps_failed_turns_as_failed() -> None:
    for keep in (1, 2, 3):
        stream = new_stream(*FAILED)
        other = fork_conversation(
            stream, keep_turns=keep, clock=FakeClock(), made="live", taken_ids=()
        )
        assert sent(other) == ["first", "second"][: 1 + (keep == 3)]
        assert name(other) == "before"
        assert [turn.left_out for turn in turns(other)] == [False, True, False][:keep]


def test_undo_removes_the_mark_with_its_turn() -> None:
    stream = new_stream(*FAILED[:-3])
    keep = stream.turn_count - 1
    other = fork_conversation(stream, keep_turns=keep, clock=FakeClock(), made="live", taken_ids=())
    assert [read_no_answer(entry) for entry in other.entries] == [None] * len(other)
    assert name(other) == "before"


def test_undo_of_the_first_turn_does_not_restore_reverted_changes() -> None:
    stream = new_stream(setting("before"), setting("wrong"), *asking("unanswered"), failed(1))
    keep = stream.turn_count - 1
    other = fork_conversation(stream, keep_turns=keep, clock=FakeClock(), made="live", taken_ids=())
    assert (name(stream), name(other)) == ("before", "before")
    other = fork_conversation(
        new_stream(*FAILED[4:]), keep_turns=0, clock=FakeClock(), made="live", taken_ids=()
    )
    assert name(other) == name(new_stream())


def test_reverted_changes_are_not_carried_to_another_conversation() -> None:
    stream = new_stream(
        setting("before"), setting("wrong"), *asking("unanswered"), failed(1),
        *asking("second"), SAID, setting("later"), setting("wrong too"), failed(1),
    )  # fmt: skip
    first = select_changes_before_first_turn(stream)
    since = select_changes_since_last_turn(stream)
    expected: list[Any] = [{"assistant": {"name": name}} for name in ("before", "later")]
    assert [delta.delta for delta in (*first, *since)] == expected


def test_turn_has_the_status_of_its_own_mark() -> None:
    never_began = [setting("wrong"), failed(1)]
    interrupted = {
        **make_no_answer(NoAnswer("interrupted", 1)).to_raw(),
        "timestamp": START["timestamp"],
    }
    stream = new_stream(*never_began, setting("twice"), *asking("stopped"), interrupted)
    (turn,) = turns(stream)
    assert (turn.status, turn.taken_back, len(turn.config_changes)) == ("interrupted", 1, 1)
    stream = new_stream(*never_began, setting("kept"), *asking("answered"), SAID)
    (turn,) = turns(stream)
    kept: Any = {"assistant": {"name": "kept"}}
    assert [change.delta for change in turn.config_changes] == [kept]


def test_appended_mark_reverts_changes_at_once() -> None:
    stream = new_stream(*FAILED[:6])
    projection = Projection(stream, list, is_local=True)
    stream.start_turn(new_event("chat_request", content="unanswered"))
    assert projection.config().assistant.name == "wrong"
    stream.append(make_no_answer(NoAnswer("failed", 2)))
    assert projection.config().assistant.name == "before"
    [said] = projection.explain(["assistant.name"])["assistant.name"]
    assert said.value == "before"
    stream.append(new_event("config_delta", delta={"assistant": {"name": "after"}}))
    assert projection.config().assistant.name == "after"


def test_mark_applies_after_provenance_was_read() -> None:
    stream = new_stream(*FAILED[:-3])
    projection = Projection(stream, list, is_local=True)
    assert projection.config().assistant.name == "before"
    stream.append(new_event("config_delta", delta={"assistant": {"name": "after"}}))
    stream.append(make_no_answer(NoAnswer("failed", 1)))
    projection.explain(["assistant.name"])
    assert projection.config().assistant.name == "before"


def test_reverted_reset_has_no_effect() -> None:
    reset = raw("config_delta", op="reset")
    stream = new_stream(setting("before"), reset, *asking("x"), failed(1))
    assert name(stream) == "before"
    steps = Projection(stream, list, trusted=True).steps()
    assert [step.is_reset for step in steps] == [True, False, False]


def test_mark_reverts_nothing_before_the_previous_mark() -> None:
    deltas = new_stream(setting("a"), failed(), setting("b"), failed(1 << 40)).deltas
    assert RevertedChanges().follow(deltas) == {2}
    many = new_stream(*(failed(1 << 40) for _ in range(2000))).deltas
    assert RevertedChanges().follow(many) == set()


def test_malformed_mark_is_ignored() -> None:
    rows: list[Any] = [
        *[None, 1, {}, {"ended": "well", "takes_back": 1}],
        {"ended": "failed", "takes_back": "1"},
    ]
    for value in rows:
        entry = raw("config_delta", delta={}, metadata={"no_answer": value})
        stream = new_stream(setting("a"), *asking("x"), SAID, entry)
        assert read_no_answer(stream.entries[-1]) is None
        assert name(stream) == "a"


def test_mark_in_an_answered_turn_does_not_change_its_status() -> None:
    stream = new_stream(*asking("x"), SAID, failed())
    assert sent(stream) == ["x"]
    [turn] = turns(stream)
    assert (turn.status, turn.left_out) == ("", False)


def test_summary_of_turns_that_begin_with_a_failed_one_is_sent() -> None:
    compaction = raw("compaction", from_turn=0, to_turn=1, summary={"summary": "so far"})
    stream = new_stream(*asking("lost"), *asking("found"), SAID, compaction, *asking("now"), SAID)
    assert sent(stream) == ["[Summary of previous conversation]", "now"]


def test_mark_before_the_request_of_its_turn_removes_no_call() -> None:
    [turn] = turns(new_stream(START, called(), failed(1), result(), ASKED))
    assert [call.content for call in turn.tool_calls] == ["r"]
