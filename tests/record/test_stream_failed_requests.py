"""Failed requests: kept in the record, omitted from requests, their changes reverted."""

from __future__ import annotations

from typing import Any

import pytest

import jp_nb
from tests.kit.notebook_record import NotebookRecord
from tests.kit.record_view import RecordView
from tests.kit.recorded_settings import RecordedSettings
from tests.kit.records import new_event, parse_event
from tests.support.entries import ASKED, SAID, START, called, new_stream, raw, result


def setting(name: str) -> dict[str, Any]:
    return raw("config_delta", delta={"assistant": {"name": name}})


def asking(text: str) -> list[dict[str, Any]]:
    return [START, raw("chat_request", content=text)]


def failed(takes_back: int = 0, ended: str = "failed") -> dict[str, Any]:
    mark = {"ended": ended, "takes_back": takes_back}
    return raw("config_delta", delta={}, metadata={"no_answer": mark})


THOUGHT = raw("chat_response", reasoning="hm")


def sent(stream: Any) -> list[str]:
    """Return the requests of the user that the next request sends."""
    return [entry["content"] for entry in RecordView(stream).sent() if "content" in entry]


def name(stream: Any) -> Any:
    return RecordedSettings(stream).at("assistant.name")


def turns(stream: Any) -> list[jp_nb.Turn]:
    return RecordView(stream).turns()


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
            [turn] = turns(stream)
            assert turn.left_out is unanswered
            is_sent = "chat_request" in RecordView(stream).sent_kinds()
            assert is_sent is (ASKED in entries and not unanswered)


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
    stream = new_stream(*FAILED)
    exported = NotebookRecord(RecordView(stream).exported_again()).stream
    for again in (new_stream(*stream.raw), exported):
        assert (sent(again), name(again)) == (["first", "second"], "before")
        assert turns(again)[1].status == "failed"


def test_fork_keeps_failed_turns_as_failed() -> None:
    for keep in (1, 2, 3):
        other = RecordView(new_stream(*FAILED)).fork(keep)
        assert sent(other) == ["first", "second"][: 1 + (keep == 3)]
        assert name(other) == "before"
        assert [turn.left_out for turn in turns(other)] == [False, True, False][:keep]


def test_undo_removes_the_mark_with_its_turn() -> None:
    stream = new_stream(*FAILED[:-3])
    other = RecordView(stream).fork(stream.turn_count - 1)
    assert not any("no_answer" in entry.metadata for entry in other.entries)
    assert name(other) == "before"


def test_undo_of_the_first_turn_does_not_restore_reverted_changes() -> None:
    stream = new_stream(setting("before"), setting("wrong"), *asking("unanswered"), failed(1))
    other = RecordView(stream).fork(0)
    assert (name(stream), name(other)) == ("before", "before")
    other = RecordView(new_stream(*FAILED[4:])).fork(0)
    assert name(other) == name(new_stream())


def test_reverted_changes_are_not_carried_to_another_conversation() -> None:
    stream = new_stream(
        setting("before"), setting("wrong"), *asking("unanswered"), failed(1),
        *asking("second"), SAID, setting("later"), setting("wrong too"), failed(1),
    )  # fmt: skip
    expected = [{"assistant": {"name": name}} for name in ("before", "later")]
    assert RecordView(stream).inherited_changes() == expected


def test_turn_has_the_status_of_its_own_mark() -> None:
    never_began = [setting("wrong"), failed(1)]
    interrupted = failed(1, ended="interrupted")
    stream = new_stream(*never_began, setting("twice"), *asking("stopped"), interrupted)
    (turn,) = turns(stream)
    assert (turn.status, turn.taken_back, len(turn.config_changes)) == ("interrupted", 1, 1)
    stream = new_stream(*never_began, setting("kept"), *asking("answered"), SAID)
    (turn,) = turns(stream)
    kept: Any = {"assistant": {"name": "kept"}}
    assert [change.delta for change in turn.config_changes] == [kept]


def test_appended_mark_reverts_changes_at_once() -> None:
    stream = new_stream(*FAILED[:6])
    settings = RecordedSettings(stream, is_local=True)
    stream.start_turn(new_event("chat_request", content="unanswered"))
    assert settings.at("assistant.name") == "wrong"
    stream.append(parse_event(failed(2)))
    assert settings.at("assistant.name") == "before"
    [source] = settings.sources("assistant.name")
    assert source == ("conversation", None, 0, "before")
    stream.append(new_event("config_delta", delta={"assistant": {"name": "after"}}))
    assert settings.at("assistant.name") == "after"


def test_mark_applies_after_provenance_was_read() -> None:
    stream = new_stream(*FAILED[:-3])
    settings = RecordedSettings(stream, is_local=True)
    assert settings.at("assistant.name") == "before"
    stream.append(new_event("config_delta", delta={"assistant": {"name": "after"}}))
    stream.append(parse_event(failed(1)))
    settings.sources("assistant.name")
    assert settings.at("assistant.name") == "before"


def test_reverted_reset_has_no_effect() -> None:
    reset = raw("config_delta", op="reset")
    stream = new_stream(setting("before"), reset, *asking("x"), failed(1))
    assert name(stream) == "before"
    assert [source for source, *_ in RecordedSettings(stream).sources("assistant.name")] == [
        "conversation"
    ]


def test_mark_reverts_nothing_before_the_previous_mark() -> None:
    stream = new_stream(setting("a"), failed(), setting("b"), failed(1 << 40))
    assert name(stream) == "a"
    many = [failed(1 << 40) for _ in range(2000)]
    assert name(new_stream(setting("a"), failed(), *many)) == "a"


def test_malformed_mark_is_ignored() -> None:
    rows: list[Any] = [
        *[None, 1, {}, {"ended": "well", "takes_back": 1}],
        {"ended": "failed", "takes_back": "1"},
    ]
    for value in rows:
        entry = raw("config_delta", delta={}, metadata={"no_answer": value})
        stream = new_stream(setting("a"), *asking("x"), entry)
        assert name(stream) == "a"
        [turn] = turns(stream)
        assert (turn.status, turn.taken_back) == ("", 0)


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
