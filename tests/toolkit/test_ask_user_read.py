"""Tests of the tool `ask_user_read`: earlier questions and answers for the model."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import is_kind, make
from tests.kit.tools import configured, new_tool, offer_now
from tests.support.fakes import InlineCell

MAX_HISTORY_CHARS = 40_000


MOMENT = datetime(2026, 3, 18, 13, 19, 6, tzinfo=UTC)
FORM = make("question_outcome", "answered", "form")
STDIN = make("question_outcome", "answered", "stdin")
TWO = make(
    "question_history",
    (
        make(
            "logged_answer", 1, MOMENT, "Which database?", "pg", "Postgres", "choice", outcome=FORM
        ),
        make(
            "logged_answer",
            2,
            MOMENT,
            "Why?",
            "It is\nfast",
            "It is\nfast",
            "freetext",
            outcome=STDIN,
        ),
    ),
)


async def run(arguments: dict[str, Any], history: Any | None = TWO) -> jp.Outcome:
    async def read() -> Any:
        assert history is not None
        return history

    context = jp.ToolContext("ask_user_read", history=None if history is None else read)
    outcome: jp.Outcome = await new_tool("ask_user_read").run(arguments, context, InlineCell())
    return outcome


async def read_entries(arguments: dict[str, Any], history: Any = TWO) -> dict[str, Any]:
    outcome = await run(arguments, history)
    assert isinstance(outcome, jp.Success), outcome
    body: dict[str, Any] = json.loads(outcome.content)
    return body


@pytest.mark.req("RCP-1", "RCP-2")
def test_both_question_tools_are_offered_with_a_description() -> None:
    tools = offer_now(configured({})).tools
    assert {"ask_user", "ask_user_read"} <= set(tools)
    assert "before you ask" in tools["ask_user_read"].definition.description
    assert tools["ask_user_read"].run == "unattended"


@pytest.mark.req("RCP-72", "RCP-75", "RCP-28", "RCP-37")
async def test_list_has_ids_values_labels_and_the_total() -> None:
    assert await read_entries({"action": "list", "limit": 1}) == {
        "of": "this conversation",
        "total": 2,
        "entries": [
            {
                "id": 2,
                "timestamp": "2026-03-18T13:19:06.0Z",
                "question": "Why?",
                "answer": "It is\nfast",
                "mode": "freetext",
                "answered_by": "the user",
            }
        ],
    }
    first, second = (await read_entries({"action": "list"}))["entries"]
    assert (first["answer"], first["label"]) == ("pg", "Postgres")
    assert "label" not in second


@pytest.mark.req("RCP-72", "RCP-77")
async def test_answer_is_found_by_id_and_an_unknown_id_is_an_error() -> None:
    assert [x["id"] for x in (await read_entries({"action": "get", "id": 2}))["entries"]] == [2]
    unknown = await run({"action": "get", "id": 9})
    empty = None
    assert unknown == make("failure", "There is no answer with the id 9: the highest id is 2.")
    empty = await run({"action": "get", "id": 9}, make("question_history"))
    assert empty == make("failure", "No question has been answered yet: there is no history.")


@pytest.mark.req("RCP-72", "RCP-79", "RCP-80")
async def test_search_without_a_hit_is_no_error() -> None:
    by_label = await read_entries({"action": "query", "text": "POSTGRES"})
    assert [x["id"] for x in by_label["entries"]] == [1]
    newest = await read_entries({"action": "query", "text": "?", "limit": 1})
    assert ([x["id"] for x in newest["entries"]], newest["total"]) == ([2], 2)
    none = await read_entries({"action": "query", "text": "mongo"})
    assert none == {
        "message": "No question and no answer contains 'mongo'.",
        "of": "this conversation", "total": 0, "entries": [],
    }  # fmt: skip
    empty = await read_entries({"action": "query", "text": "x"}, make("question_history"))
    assert empty["message"] == "No question has been answered yet: there is no history."
    assert (await read_entries({"action": "list"}, make("question_history")))["message"] == empty[
        "message"
    ]


@pytest.mark.req("RCP-73", "RCP-74", "RCP-76", "RCP-78")
async def test_invalid_call_explains_the_arguments_and_reads_nothing(
    subtests: pytest.Subtests,
) -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        ({}, 'use "list", "get", or "query"'),
        ({"action": "drop"}, 'use "list", "get", or "query"'),
        ({"action": 5}, 'use "list", "get", or "query"'),
        ({"action": "get"}, 'The action "get" needs `id`'),
        ({"action": "get", "id": "2"}, 'The action "get" needs `id`'),
        ({"action": "get", "id": 0}, 'The action "get" needs `id`'),
        ({"action": "get", "id": True}, 'The action "get" needs `id`'),
        ({"action": "query"}, 'The action "query" needs `text`'),
        ({"action": "query", "text": "  "}, 'The action "query" needs `text`'),
        ({"action": "query", "text": 5}, 'The action "query" needs `text`'),
        ({"action": "list", "limit": 0}, "a whole number from 1 to 200"),
        ({"action": "list", "limit": -3}, "a whole number from 1 to 200"),
        ({"action": "list", "limit": 201}, "a whole number from 1 to 200"),
        ({"action": "list", "limit": "5"}, "a whole number from 1 to 200"),
    ]
    for arguments, says in rows:
        with subtests.test(arguments=arguments):

            async def read() -> Any:
                raise AssertionError("something was read")

            tool = new_tool("ask_user_read")
            context = jp.ToolContext("ask_user_read", history=read)
            outcome = await tool.run(arguments, context, InlineCell())
            assert is_kind(outcome, "failure")
            assert says in outcome.message


@pytest.mark.req("RCP-66", "RCP-67", "HB-14")
async def test_untrusted_notebook_has_no_entries(subtests: pytest.Subtests) -> None:
    rows: list[dict[str, Any]] = [
        {"action": "list"},
        {"action": "get", "id": 1},
        {"action": "query", "text": "a"},
    ]
    for arguments in rows:
        with subtests.test(arguments=arguments):
            outcome = await run(arguments, make("question_history", TWO.answers, trusted=False))
            assert is_kind(outcome, "failure")
            body = json.loads(outcome.message)
            assert (body["untrusted"], body["total"], body["entries"]) == (True, 0, [])
            assert "%jp trust" in body["message"]


async def test_without_a_history_the_list_is_empty() -> None:
    outcome = await run({"action": "list"}, None)
    assert isinstance(outcome, jp.Success)
    assert json.loads(outcome.content)["total"] == 0


@pytest.mark.req("RCP-68")
async def test_number_of_omitted_foreign_answers_is_reported() -> None:
    body = await read_entries({"action": "list"}, make("question_history", TWO.answers, left_out=3))
    assert body["left_out"].startswith("3 by other authors")


async def test_long_result_is_complete_json_with_the_newest_answers() -> None:
    long = [make("logged_answer", n, MOMENT, "Q?", "x" * 9000, "x" * 9000) for n in range(1, 21)]
    outcome = await run({"action": "list"}, make("question_history", tuple(long)))
    assert isinstance(outcome, jp.Success)
    assert len(outcome.content) < MAX_HISTORY_CHARS + 1000
    body = json.loads(outcome.content)
    assert [x["id"] for x in body["entries"]] == [17, 18, 19, 20]
    assert body["shortened"].startswith("only the newest 4 of 20")
    longer = make(
        "logged_answer", 21, MOMENT, "Q?", "x" * MAX_HISTORY_CHARS, "x" * MAX_HISTORY_CHARS
    )
    one = await read_entries({"action": "get", "id": 21}, make("question_history", (*long, longer)))
    assert [x["answer"] for x in one["entries"]] == ["x" * MAX_HISTORY_CHARS]
    assert "shortened" not in one
