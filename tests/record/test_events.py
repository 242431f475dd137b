"""Entries: what is read, what is written, what is an error."""

from __future__ import annotations

from typing import Any

import pytest

from jp_nb.agent.questions import inquiry_request
from jp_nb.errors import StorageError
from jp_nb.record import events
from jp_nb.record.events import (
    ChatRequest,
    ChatResponse,
    Compaction,
    ConfigDelta,
    InquiryRequest,
    InquiryResponse,
    InquirySource,
    Summary,
    ToolCallPolicy,
    ToolCallRequest,
    ToolCallResponse,
    Unknown,
    claim_of,
    decode,
)
from jp_nb.record.notices import notices
from jp_nb.tooling import question as in_flight
from jp_nb.tooling.question import Question
from tests.support.entries import open_inquiries
from tests.support.fakes import new_stream

T = "2026-03-18 13:19:06.841464"


def read(**raw: Any) -> Any:
    return decode({"timestamp": T, **raw}, 3)


# --- inquiries -------------------------------------------------------------------------------

QUESTION = {"text": "Sure?", "answer_type": {"type": "boolean"}}


def inquiry(**question: Any) -> InquiryRequest:
    entry = read(
        type="inquiry_request",
        id="c.q.1",
        source={"source": "assistant"},
        question={**QUESTION, **question},
    )
    assert isinstance(entry, InquiryRequest)
    return entry


@pytest.mark.req("R083-69")
def test_a_question_without_the_new_keys_reads_with_their_defaults() -> None:
    question = inquiry().question
    assert (question.context, question.exclusive, question.persistence) == (None, False, "turn")


@pytest.mark.req("R083-67", "R083-68", "R083-71")
@pytest.mark.parametrize(
    ("question", "recorded"),
    [
        (Question.boolean("q", "Sure?"), {}),
        (
            Question.boolean("q", "Sure?").with_exclusive().with_persistence("none"),
            {"exclusive": True, "persistence": "none"},
        ),
        (
            Question.boolean("q", "Sure?").with_context("a\nb").with_default(False),
            {"context": "a\nb", "default": False},
        ),
    ],
)
def test_what_a_tool_declared_is_recorded_and_defaults_are_not(
    question: Question, recorded: dict[str, Any]
) -> None:
    entry = inquiry_request("c.q.1", InquirySource.tool("t"), question).stamped(T)
    assert entry.to_raw()["question"] == {**QUESTION, **recorded}
    assert decode(entry.to_raw(), 0) == entry


@pytest.mark.req("R083-70")
def test_the_recorded_policy_is_a_type_of_the_record() -> None:
    names = {*vars(events)} & {*vars(in_flight)}
    assert "InquiryAnswerReusePolicy" not in names
    assert "Persistence" not in names
    for policy in ("none", "turn"):
        question = Question.boolean("q", "?").with_persistence(policy)
        entry = inquiry_request("c.q.1", InquirySource.tool("t"), question)
        assert entry.question.persistence == policy
    with pytest.raises(StorageError):
        inquiry(persistence="conversation")


@pytest.mark.parametrize(
    ("question", "place"),
    [
        ({"answer_type": {"type": "select"}}, r"question\.answer_type: .*needs `options`"),
        ({"answer_type": {"type": "colour"}}, r"question\.answer_type\.type"),
        ({"exclusive": "yes"}, r"question\.exclusive"),
        ({"text": None}, r"question\.text"),
    ],
)
def test_a_malformed_question_names_its_place(question: dict[str, Any], place: str) -> None:
    with pytest.raises(StorageError, match=r"events\[3\]\." + place):
        inquiry(**question)


@pytest.mark.parametrize(
    "source",
    [
        {"source": "tool", "name": "t"},
        {"source": "assistant"},
        {"source": "user"},
        {"source": "other", "name": "script"},
    ],
)
def test_every_source_of_a_question_is_read_and_written(source: dict[str, Any]) -> None:
    entry = read(type="inquiry_request", id="c.q.1", source=source, question=QUESTION)
    assert entry.to_raw()["source"] == source


@pytest.mark.parametrize("source", [{"source": "tool"}, {"source": "page"}, {}, "tool"])
def test_a_source_that_is_none_is_an_error(source: Any) -> None:
    with pytest.raises(StorageError, match=r"events\[3\]\.source"):
        read(type="inquiry_request", id="c.q.1", source=source, question=QUESTION)


def test_an_option_and_a_default_may_be_anything() -> None:
    options = [{"value": None}, {"value": {"a": None}, "description": "d"}]
    question = {"answer_type": {"type": "select", "options": options}, "default": {"a": None}}
    entry = inquiry(**question)
    assert entry.to_raw()["question"] == {**QUESTION, **question}


def test_bare_options_of_older_records_are_read() -> None:
    entry = inquiry(answer_type={"type": "select", "options": ["a", 1, {"value": "b"}]})
    assert entry.question.answer_type.options is not None
    assert [option.value for option in entry.question.answer_type.options] == ["a", 1, "b"]
    bare = inquiry(answer_type={"type": "select", "options": [None, {"a": 1}]})
    assert bare.question.answer_type.to_raw() == {
        "type": "select",
        "options": [{"value": None}, {"value": {"a": 1}}],
    }


@pytest.mark.req("R083-74")
def test_every_form_of_a_closed_inquiry_is_read(subtests: pytest.Subtests) -> None:
    for raw, outcome, reason in [
        ({"outcome": "answered", "answer": None}, "answered", None),
        ({"outcome": "answered"}, "answered", None),
        ({"answer": False}, "answered", None),
        ({"outcome": "cancelled"}, "cancelled", "user"),
        (
            {"outcome": "cancelled", "reason": "invalid_static_answer"},
            "cancelled",
            "invalid_static_answer",
        ),
        ({"outcome": "cancelled", "reason": "from_the_future"}, "cancelled", "from_the_future"),
        ({"outcome": "cancelled", "reason": None}, "cancelled", "user"),
        ({"outcome": "redacted"}, "redacted", None),
        ({"outcome": "redacted", "answer": "x", "reason": "y"}, "redacted", None),
        ({"outcome": "from_the_future", "x": 1}, "cancelled", "from_the_future"),
    ]:
        with subtests.test(raw=raw):
            entry = read(type="inquiry_response", id="c.q.1", **raw)
            assert isinstance(entry, InquiryResponse)
            assert (entry.outcome, entry.reason) == (outcome, reason)
            if outcome == "redacted":
                assert "x" not in repr(entry)


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"outcome": None},
        {"outcome": None, "answer": 1},
        {"outcome": 5},
        {"outcome": "cancelled", "reason": 5},
    ],
)
def test_a_response_that_says_nothing_is_an_error(raw: dict[str, Any]) -> None:
    with pytest.raises(StorageError, match=r"events\[3\]"):
        read(type="inquiry_response", id="c.q.1", **raw)


def test_an_outcome_that_is_not_known_closes_the_inquiry_and_is_told() -> None:
    stored = {"timestamp": T, "type": "inquiry_response", "id": "c.q.1", "outcome": "delegated"}
    stream = new_stream(
        {"timestamp": T, "type": "turn_start"}, inquiry().to_raw(), {**stored, "to": {"who": 1}}
    )
    assert open_inquiries(stream) == []
    with pytest.raises(StorageError, match="Duplicate"):
        stream.append(InquiryResponse(id="c.q.1", outcome="redacted"))
    [notice] = notices(stream)
    assert notice.startswith("events[2].outcome: 'delegated' is not known")
    assert stream.raw[2] == {**stored, "to": {"who": 1}}


def test_a_redacted_answer_leaves_no_trace_of_one() -> None:
    raw = InquiryResponse(id="i", outcome="redacted", timestamp=T).to_raw()
    assert raw == {
        "timestamp": T,
        "type": "inquiry_response",
        "outcome": "redacted",
        "id": "i",
    }


# --- the other kinds -------------------------------------------------------------------------


def test_what_is_absent_has_its_default(subtests: pytest.Subtests) -> None:
    for raw, fields in [
        ({"type": "turn_start"}, {"metadata": {}}),
        ({"type": "chat_request", "content": "q"}, {"response_schema": None, "author": None}),
        (
            {"type": "chat_request", "content": "q", "schema": {"a": 1}, "author": "Ada"},
            {"response_schema": {"a": 1}, "author": "Ada"},
        ),
        ({"type": "chat_response", "message": "m", "data": 1}, {"kind": "message", "message": "m"}),
        ({"type": "chat_response", "reasoning": "", "data": 1}, {"kind": "reasoning"}),
        ({"type": "chat_response", "data": None}, {"kind": "structured", "data": None}),
        (
            {"type": "tool_call_request", "id": "a", "name": "t", "tool_answers": {"q": "eA=="}},
            {"arguments": {}},
        ),
        (
            {"type": "config_delta"},
            {"op": None, "timestamp": T, "delta": {}, "unsets": (), "claims": {}},
        ),
        (
            {"type": "compaction", "from_turn": 0, "to_turn": 2},
            {"summary": None, "reasoning": None, "tool_calls": None},
        ),
    ]:
        with subtests.test(raw=raw):
            entry = read(**raw)
            assert {name: getattr(entry, name) for name in fields} == fields


def test_a_payload_of_the_wrong_shape_is_an_error(subtests: pytest.Subtests) -> None:
    for raw in [
        {"type": "chat_request", "content": ["q"]},
        {"type": "chat_request", "content": "q", "schema": "s"},
        {"type": "chat_request", "content": "q", "metadata": None},
        {"type": "chat_response", "message": None, "data": 1},
        {"type": "tool_call_request", "id": "a", "name": "t", "arguments": []},
        {"type": "tool_call_response", "id": "a", "content": "c"},
        {"type": "tool_call_response", "id": "a", "content": "c", "is_error": "no"},
        {"type": "tool_call_response", "id": "a", "content": None, "is_error": False},
        {"type": "config_delta", "delta": []},
        {"type": "config_delta", "delta": {}, "unsets": "a.b"},
        {"type": "compaction", "from_turn": -1, "to_turn": 0},
        {"type": "compaction", "from_turn": 0, "to_turn": 1.5},
        {"type": "compaction", "from_turn": 0, "to_turn": 1, "reasoning": "omit"},
        {"type": "compaction", "from_turn": 0, "to_turn": 1, "summary": "text"},
        {"type": "compaction", "from_turn": 0, "to_turn": 1, "tool_calls": {"policy": "strip"}},
    ]:
        with subtests.test(raw=raw), pytest.raises(StorageError, match=r"events\[3\]"):
            read(**raw)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ([{"type": "text", "text": "a"}, "b", {"image": 1}, 5], 'a\nb\n{"image": 1}\n5'),
        ({"$blob": "sha256:ab"}, '{"$blob": "sha256:ab"}'),
        ({"text": "t"}, "t"),
        ([], ""),
    ],
)
def test_a_result_that_is_no_text_is_read_as_far_as_it_is_one(content: Any, text: str) -> None:
    raw = {
        "timestamp": T,
        "type": "tool_call_response",
        "id": "a",
        "content": content,
        "is_error": False,
    }
    stream = new_stream(raw)
    assert stream.entries == [ToolCallResponse(timestamp=T, id="a", content=text, is_error=False)]
    assert stream.raw == [raw]


@pytest.mark.parametrize(
    ("stored", "delta"),
    [
        ({"assistant": {"name": "JP"}, "user": {}}, {"assistant": {"name": "JP"}, "user": {}}),
        (
            {"event_id": "e", "request_id": "r", "user": 1, "unsets": ["a"], "claims": {"a": []}},
            {"user": 1},
        ),
        ({"unsets": ["a"], "verbatim": [], "spelling": {}, "metadata": 5}, {}),
        ({"delta": {"a": 1}, "user": {}}, {"a": 1}),
        ({"op": "reset", "user": {}}, {}),
        ({"op": None, "user": 1}, {"user": 1}),
    ],
)
def test_a_configuration_that_stands_on_the_entry_itself_is_its_delta(
    stored: dict[str, Any], delta: dict[str, Any]
) -> None:
    raw = {"type": "config_delta", "timestamp": T, **stored}
    stream = new_stream(raw)
    assert [entry.delta for entry in stream.deltas] == [delta]
    assert stream.raw == [raw]


@pytest.mark.parametrize("timestamp", [None, 5, {}])
def test_a_change_of_the_configuration_needs_no_time(timestamp: Any) -> None:
    for raw in ({}, {"timestamp": timestamp}):
        entry = decode({"type": "config_delta", "delta": {"a": 1}, **raw}, 0)
        assert isinstance(entry, ConfigDelta)
        assert (entry.timestamp, entry.delta) == ("", {"a": 1})


def test_a_claim_is_read_in_all_its_forms(subtests: pytest.Subtests) -> None:
    for claim, owners in [
        (None, None),
        ([], None),
        ("h:dev", ("h:dev",)),
        (["h:dev", "i:dev"], ("h:dev", "i:dev")),
        ([5, "h:dev", ""], ("h:dev",)),
        ("", None),
        (5, None),
        ({"h": 1}, None),
    ]:
        with subtests.test(claim=claim):
            assert claim_of(claim) == owners


# --- what is written -------------------------------------------------------------------------


def test_entries_are_written_in_the_order_that_jp_has(subtests: pytest.Subtests) -> None:
    for entry, keys in [
        (ChatRequest(content="x"), ["timestamp", "type", "content"]),
        (
            ChatRequest(content="x", schema={"type": "object"}, author="Ada", metadata={"a": 1}),
            ["timestamp", "type", "content", "schema", "author", "metadata"],
        ),
        (ChatResponse(message=""), ["timestamp", "type", "message"]),
        (ChatResponse(data=None), ["timestamp", "type", "data"]),
        (
            ToolCallRequest(id="a", name="t"),
            ["timestamp", "type", "id", "name", "arguments"],
        ),
        (
            InquiryResponse(id="i", outcome="answered", answer=None),
            ["timestamp", "type", "outcome", "id", "answer"],
        ),
        (ConfigDelta(delta={}), ["type", "timestamp", "delta"]),
        (
            ConfigDelta(delta={"a": 1}, unsets=("x",), claims={"b": None, "a": None}),
            ["type", "timestamp", "delta", "unsets", "claims"],
        ),
        (ConfigDelta(op="reset"), ["type", "timestamp", "op"]),
        (
            Compaction(from_turn=0, to_turn=1, summary=Summary(summary="s"), reasoning="strip"),
            ["type", "timestamp", "from_turn", "to_turn", "summary", "reasoning"],
        ),
        (
            Compaction(from_turn=0, to_turn=1, tool_calls=ToolCallPolicy(policy="omit")),
            ["type", "timestamp", "from_turn", "to_turn", "tool_calls"],
        ),
    ]:
        with subtests.test(entry=entry):
            raw = entry.stamped(T).to_raw()
            assert list(raw) == keys
            assert decode(raw, 0) == entry.stamped(T)


# --- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        ({"type": "tool_call_request", "timestamp": T, "name": "t"}, r"events\[3\]\.id"),
        ({"type": "chat_request", "content": "x"}, r"events\[3\]\.timestamp"),
        ({"type": "chat_response", "timestamp": T}, r"events\[3\]: "),
        ({"type": "inquiry_response", "timestamp": T, "id": "x"}, r"events\[3\]\.outcome"),
        ({"type": "turn_start", "timestamp": 5}, r"events\[3\]\.timestamp"),
        ("text", r"events\[3\]: expected an object, found str"),
    ],
)
def test_a_malformed_entry_of_a_known_kind_names_its_place(raw: Any, place: str) -> None:
    with pytest.raises(StorageError, match=place):
        decode(raw, 3)


@pytest.mark.parametrize(
    "raw",
    [{}, {"type": 5}, {"type": "hologram"}, {"type": "config_delta", "op": "merge", "delta": 1}],
)
def test_what_we_do_not_know_is_no_error(raw: Any) -> None:
    assert isinstance(decode(raw, 0), Unknown)
