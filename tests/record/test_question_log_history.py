"""The answers of a record: numbered, listed, looked up, searched."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from tests.kit.record_view import RecordView
from tests.kit.records import parse_event
from tests.support.entries import new_stream


def pair(name: str, answer: Any, *, text: str = "Which?", **more: Any) -> list[dict[str, Any]]:
    kind = {"type": "select", "options": [{"value": "pg", "label": "Postgres"}, {"value": "li"}]}
    return [
        {
            "type": "inquiry_request", "timestamp": "2026-03-18 13:19:06.0", "id": name,
            "source": {"source": "assistant"}, "question": {"text": text, "answer_type": kind},
        },
        {
            "type": "inquiry_response", "timestamp": "2026-03-18 13:19:07.0", "id": name,
            "outcome": "answered", "answer": answer,
            "metadata": {"end": "answered", "channel": "form"}, **more,
        },
    ]  # fmt: skip


def recorded_answers(raw: list[dict[str, Any]]) -> Any:
    return RecordView(new_stream(*raw)).answers().answers


def ended_answers(raw: list[dict[str, Any]], start: int = 0) -> list[Any]:
    return [entry["answer"] for entry in RecordView(new_stream(*raw)).logged_questions(start)]


def turn(*entries: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "turn_start", "timestamp": "2026-03-18 13:19:05.0"}, *entries]


def history(*answers: Any) -> Any:
    raw = turn(*(e for n, answer in enumerate(answers) for e in pair(f"c.q.{n}", answer)))
    return RecordView(new_stream(*raw)).answers()


@pytest.mark.req("RCP-42", "HB-14")
def test_ids_number_the_answers_in_their_order_and_stay() -> None:
    first = pair("c.a.1", "pg")
    second = pair("c.b.1", "li")
    raw = turn(first[0], second[0], second[1])
    assert [(x.id, x.answer) for x in recorded_answers(raw)] == [(1, "li")]
    raw += [first[1]]  # it was asked first, and answered last
    assert [(x.id, x.answer, x.words) for x in recorded_answers(raw)] == [
        (1, "li", "li"),
        (2, "pg", "Postgres"),
    ]


@pytest.mark.req("RCP-52")
def test_unanswered_questions_and_secrets_are_not_listed() -> None:
    left = {"end": "cancelled", "channel": "form"}
    cancelled = pair("c.a.1", None, outcome="cancelled", reason="user", metadata=left)
    secret = pair("c.s.1", None, outcome="redacted")
    raw = turn(*cancelled, *secret, *pair("c.b.1", "pg"))
    assert [(x.id, x.answer) for x in recorded_answers(raw)] == [(1, "pg")]


def test_questions_pair_within_their_turn_and_halves_are_ignored() -> None:
    request, response = pair("c.a.1", "pg")
    assert ended_answers(turn(request) + turn(response)) == []
    both = turn(request, response) + turn(*pair("c.a.1", "li"))
    assert [x.answer for x in recorded_answers(both)] == ["pg", "li"]
    assert ended_answers(both, start=5) == ["li"]
    assert ended_answers(both, start=len(both)) == []
    one_turn = turn(request, response, *pair("c.b.1", "li"))
    assert ended_answers(one_turn, start=4) == ["li"]


def test_records_with_and_without_outcomes_are_read() -> None:
    raw = turn(*pair("c.a.1", "pg"))
    del raw[2]["outcome"]
    assert [x.words for x in recorded_answers(raw)] == ["Postgres"]
    stream = new_stream(*turn())
    stream.append(*(parse_event(raw) for raw in pair("c.a.1", "pg")))
    assert [x.words for x in RecordView(stream).answers().answers] == ["Postgres"]


@pytest.mark.req("RCP-74", "RCP-75", "RCP-81")
def test_latest_answers_are_listed_oldest_first_with_their_ids() -> None:
    many = history(*map(str, range(30)))
    assert [x.id for x in many.latest()] == list(range(11, 31))
    assert [x.id for x in many.latest(2)] == [29, 30]
    assert [x.id for x in many.latest(200)] == list(range(1, 31))


@pytest.mark.req("RCP-74")
def test_invalid_limit_is_rejected() -> None:
    limits: list[Any] = [0, -1, 201, True, 1.0, "5"]
    for limit in limits:
        with pytest.raises(jp.UsageError, match="a whole number from 1 to 200"):
            history("a").latest(limit)


@pytest.mark.req("RCP-77")
def test_unknown_id_and_empty_history_have_different_messages() -> None:
    assert [x.answer for x in history("a", "b").get(2)] == ["b"]
    assert history("a").get(2) == ()
    assert history("a").format_unknown_id(2) == (
        "There is no answer with the id 2: the highest id is 1."
    )
    [older, newer] = history("a", "b").answers
    imported = replace(history(), answers=(newer, older))  # the older one came later, in a table
    assert imported.format_unknown_id(3).endswith("the highest id is 2.")
    assert "there is no history" in history().format_unknown_id(2)


@pytest.mark.req("RCP-79", "RCP-80", "RCP-78")
def test_search_ignores_case_in_questions_and_answers() -> None:
    found = history("STRASSE", "pg", "other")
    assert [x.id for x in found.containing("straße")] == [1]
    assert [x.id for x in found.containing("postGRES")] == [2]  # by its label
    assert [x.id for x in found.containing(" WHICH ")] == [1, 2, 3]
    assert found.containing("nothing") == ()
    assert found.containing("which?postgres") == ()  # the end of one text, the start of another
    assert found.format_no_match("nothing") == "No question and no answer contains 'nothing'."
    assert "there is no history" in history().format_no_match("nothing")
    with pytest.raises(jp.UsageError, match="cannot be blank"):
        found.containing("  ")


@given(st.lists(st.sampled_from(["ask", "answer", "turn"]), max_size=30))
def test_appended_entries_keep_the_ids_of_earlier_answers(steps: list[str]) -> None:
    raw: list[dict[str, Any]] = turn()
    waiting: list[dict[str, Any]] = []
    before: tuple[Any, ...] = ()
    for number, step in enumerate(steps):
        if step == "turn":
            raw += turn()
            waiting = []
        elif step == "ask":
            request, response = pair(f"c.{number}.1", number)
            raw.append(request)
            waiting.append(response)
        elif waiting:
            raw.append(waiting.pop(0))
        now = recorded_answers(raw)
        assert now[: len(before)] == before
        assert [answer.id for answer in now] == list(range(1, len(now) + 1))
        before = now
