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
    ConfigDelta,
    InquiryRequest,
    InquiryResponse,
    InquirySource,
    ToolCallRequest,
    Unknown,
    decode,
)
from jp_nb.tools import question as in_flight
from jp_nb.tools.question import Question

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


def test_bare_options_of_older_records_are_read() -> None:
    entry = inquiry(answer_type={"type": "select", "options": ["a", 1, {"value": "b"}]})
    assert entry.question.answer_type.options is not None
    assert [option.value for option in entry.question.answer_type.options] == ["a", 1, "b"]


@pytest.mark.req("R083-74")
@pytest.mark.parametrize(
    ("raw", "outcome", "reason"),
    [
        ({"outcome": "answered", "answer": None}, "answered", None),
        ({"answer": False}, "answered", None),
        ({"outcome": "cancelled"}, "cancelled", "user"),
        (
            {"outcome": "cancelled", "reason": "invalid_static_answer"},
            "cancelled",
            "invalid_static_answer",
        ),
        ({"outcome": "cancelled", "reason": "from_the_future"}, "cancelled", "from_the_future"),
        ({"outcome": "redacted"}, "redacted", None),
        ({"outcome": "from_the_future", "x": 1}, "cancelled", "from_the_future"),
    ],
)
def test_every_form_of_a_closed_inquiry_is_read(
    raw: dict[str, Any], outcome: str, reason: str | None
) -> None:
    entry = read(type="inquiry_response", id="c.q.1", **raw)
    assert isinstance(entry, InquiryResponse)
    assert (entry.outcome, entry.reason) == (outcome, reason)


def test_a_redacted_answer_leaves_no_trace_of_one() -> None:
    raw = InquiryResponse(id="i", outcome="redacted", timestamp=T).to_raw()
    assert raw == {
        "timestamp": T,
        "type": "inquiry_response",
        "outcome": "redacted",
        "id": "i",
    }


# --- what is written -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "keys"),
    [
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
    ],
)
def test_entries_are_written_in_the_order_that_jp_has(entry: Any, keys: list[str]) -> None:
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
