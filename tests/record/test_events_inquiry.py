"""Stored questions and their ends: reading, writing, errors."""

from __future__ import annotations

from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import is_kind
from tests.kit.record_view import RecordView
from tests.kit.records import new_event, parse_event
from tests.support.entries import ASKED, START, new_stream

T = "2026-03-18 13:19:06.841464"


def read(**raw: Any) -> Any:
    return parse_event({"timestamp": T, **raw}, 3)


QUESTION = {"text": "Sure?", "answer_type": {"type": "boolean"}}


def inquiry(**question: Any) -> Any:
    entry = read(
        type="inquiry_request",
        id="c.q.1",
        source={"source": "assistant"},
        question={**QUESTION, **question},
    )
    assert is_kind(entry, "inquiry_request")
    return entry


def record(question: jp.Question) -> Any:
    """Return the stored request of the question of a tool."""
    stream = new_stream(START, ASKED)
    RecordView(stream).record_question(question, True)
    assert stream.entries[2] == parse_event(stream.raw[2])
    return stream.raw[2]


@pytest.mark.req("R083-69")
def test_missing_keys_of_a_question_have_defaults() -> None:
    question = inquiry().question
    assert (question.context, question.exclusive, question.persistence) == (None, False, "turn")


@pytest.mark.req("R083-67", "R083-68", "R083-71")
def test_declared_fields_of_a_question_are_recorded_without_defaults(
    subtests: pytest.Subtests,
) -> None:
    rows: list[tuple[jp.Question, dict[str, Any]]] = [
        (jp.Question.boolean("q", "Sure?"), {}),
        (
            jp.Question.boolean("q", "Sure?").with_exclusive().with_persistence("none"),
            {"exclusive": True, "persistence": "none"},
        ),
        (
            jp.Question.boolean("q", "Sure?").with_context("a\nb").with_default(False),
            {"context": "a\nb", "default": False},
        ),
    ]
    for question, recorded in rows:
        with subtests.test(recorded=recorded):
            assert record(question)["question"] == {**QUESTION, **recorded}


@pytest.mark.req("R083-70")
def test_persistence_of_the_record_has_its_own_type() -> None:
    for policy in ("none", "turn"):
        question = jp.Question.boolean("q", "?").with_persistence(policy)
        assert parse_event(record(question)).question.persistence == policy
    for other in ("conversation", "", None):
        with pytest.raises(jp.StorageError, match=r"question\.persistence"):
            inquiry(persistence=other)


def test_malformed_question_or_source_is_an_error_with_its_place(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        ({"answer_type": {"type": "select"}}, r"question\.answer_type: .*needs `options`"),
        ({"answer_type": {"type": "colour"}}, r"question\.answer_type\.type"),
        ({"exclusive": "yes"}, r"question\.exclusive"),
        ({"text": None}, r"question\.text"),
    ]
    for question, place in rows:
        with (
            subtests.test(question=question),
            pytest.raises(jp.StorageError, match=r"events\[3\]\." + place),
        ):
            inquiry(**question)
    sources: list[Any] = [{"source": "tool"}, {"source": "page"}, {}, "tool"]
    for source in sources:
        with (
            subtests.test(source=source),
            pytest.raises(jp.StorageError, match=r"events\[3\]\.source"),
        ):
            read(type="inquiry_request", id="c.q.1", source=source, question=QUESTION)


def test_every_source_of_a_question_is_read_and_written() -> None:
    for source in (
        {"source": "tool", "name": "t"},
        {"source": "assistant"},
        {"source": "user"},
        {"source": "other", "name": "script"},
    ):
        entry = read(type="inquiry_request", id="c.q.1", source=source, question=QUESTION)
        assert entry.to_raw()["source"] == source


def test_options_and_defaults_are_any_json() -> None:
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
    rows: list[tuple[dict[str, Any], str, str | None]] = [
        ({"outcome": "answered", "answer": None}, "answered", None),
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
    ]
    for raw, outcome, reason in rows:
        with subtests.test(raw=raw):
            entry = read(type="inquiry_response", id="c.q.1", **raw)
            assert is_kind(entry, "inquiry_response")
            assert (entry.outcome, entry.reason) == (outcome, reason)
            if outcome == "redacted":
                assert "x" not in repr(entry)


def test_response_without_an_outcome_is_an_error(subtests: pytest.Subtests) -> None:
    rows: list[dict[str, Any]] = [
        {},
        {"outcome": None, "answer": 1},
        {"outcome": 5},
        {"outcome": "cancelled", "reason": 5},
    ]
    for raw in rows:
        with subtests.test(raw=raw), pytest.raises(jp.StorageError, match=r"events\[3\]"):
            read(type="inquiry_response", id="c.q.1", **raw)


def test_unknown_outcome_closes_the_inquiry_with_a_notice() -> None:
    stored = {"timestamp": T, "type": "inquiry_response", "id": "c.q.1", "outcome": "delegated"}
    stream = new_stream(
        {"timestamp": T, "type": "turn_start"}, inquiry().to_raw(), {**stored, "to": {"who": 1}}
    )
    assert RecordView(stream).open_inquiries() == []
    with pytest.raises(jp.StorageError, match="Duplicate"):
        stream.append(new_event("inquiry_response", id="c.q.1", outcome="redacted"))
    [notice] = RecordView(stream).notices()
    assert notice.startswith("events[2].outcome: this jp_nb does not know 'delegated'")
    assert stream.raw[2] == {**stored, "to": {"who": 1}}


def test_redacted_response_has_no_answer_and_no_reason() -> None:
    raw = new_event("inquiry_response", id="i", outcome="redacted", timestamp=T).to_raw()
    assert raw == {"timestamp": T, "type": "inquiry_response", "outcome": "redacted", "id": "i"}
