"""Forms in whole turns, most of them asked by the built-in tool `ask`.

Rows of the requirements that are decided differently: RPI-2 and RPI-3 (without a user `ask` is not
offered; a required question without an answer ends the call with an error, and the turn continues,
or fails with `strict`), RPI-62 (a reply sends the answers so far), RPI-67 and RPI-82 (only for
questions that may stay open).
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import JsonValue

import jp_nb as jp
from tests.agent.ask_turns import (
    DATABASE,
    NAME,
    PARTS,
    answers_config,
    ask_call,
    ends,
    make_bench,
    responses,
    structured_result,
)
from tests.agent.turn_bench import DONE, MockInquiryBackend, call, reply
from tests.kit.kinds import is_kind, make
from tests.kit.questions import answered, not_answered
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import FakePrompter, for_tool, until, yes

UNAVAILABLE = (
    "Tool '{}' is not available. It may have been available earlier in this conversation"
    " but is no longer enabled. Do not retry this tool until it is available again in the"
    " list of enabled tools."
)
IGNORES_ANSWERS = (
    "{} asked the question '{}' {} times and got an outcome each time, but it does not"
    " use the outcome. Do not retry this tool call in this turn."
)
MAX_AUTOMATIC_ANSWERS = 20
NEEDS_USER = "it needs a user, and no user is available"
SCHEMA_NAME = "jp_nb.ask"


AWAY = "the kernel's client takes no input"
LEFT_OPEN = not_answered("declined", "form")
LATE = not_answered("timed_out", "form")


@pytest.mark.req("RPI-1", "RPI-24", "RPI-28", "HB-7", "HB-16", "RCP-32", "RCP-34")
async def test_form_is_one_prompt_and_its_answers_are_the_result() -> None:
    person = FakePrompter(make("form_end", (yes("pg"), yes(["Page", "API"]), yes(" Ada\n"))))
    bench = make_bench(person, ask_call(DATABASE, PARTS, NAME))
    assert (await bench.run()).status == "completed"
    [prompt] = person.asked
    assert is_kind(prompt, "form_prompt")
    assert [page.question.id for page in prompt.pages] == ["database", "parts", "name"]
    assert {(page.label, page.tool, page.remember) for page in prompt.pages} == {
        ("Assistant", None, False)
    }
    assert (prompt.partial, prompt.menu) == (True, True)
    told = (
        "User answers:\n"
        "database: PostgreSQL (value: pg)\n"
        "parts: [Page, API]\n"
        "name: custom input:\n   Ada\n  "
    )
    assert responses(bench) == [(told, False)]
    assert bench.provider.requests[1][1][-1] == bench.of("tool_call_response")[0]
    assert (structured_result(bench)["schema"], structured_result(bench)["version"]) == (
        SCHEMA_NAME,
        1,
    )
    kinds = ["tool_call_request", *["inquiry_request"] * 3, *["inquiry_response"] * 3]
    assert bench.kinds()[2:10] == [*kinds, "tool_call_response"]
    assert ends(bench) == [
        (f"call_1.{name}.1", "answered", None, "answered") for name in ("database", "parts", "name")
    ]


@pytest.mark.req("HB-16")
async def test_questions_are_recorded_before_the_prompt_and_answers_before_the_run() -> None:
    recorded: list[tuple[int, int]] = []

    def note() -> None:
        recorded.append((len(bench.of("inquiry_request")), len(bench.of("inquiry_response"))))

    async def answer() -> Any:
        note()
        return make("form_end", (yes("one"), yes("two")))

    def plan(ctx: jp.ToolContext) -> jp.Outcome:
        note()
        if ctx.answers:
            return jp.Success("")
        return jp.NeedsInput(jp.Question.text("a", "A?"), jp.Question.text("b", "B?"))

    bench = make_bench(FakePrompter(answer), call("plan"), tools=[new_tool(plan)])
    await bench.run()
    assert recorded == [(0, 0), (2, 0), (2, 2)]


@pytest.mark.req("HB-19", "RPI-37")
async def test_questions_of_ask_are_recorded_as_the_assistants() -> None:
    label = " <b>$x$</b> {y} "
    question = {**DATABASE, "options": [{"label": label, "description": "d"}], "header": "Store"}
    bench = make_bench(FakePrompter(make("form_end", (yes(label),))), ask_call(question))
    await bench.run()
    raw = next(entry for entry in bench.stream.raw if entry["type"] == "inquiry_request")
    assert raw["source"] == {"source": "assistant"}
    assert raw["question"] == {
        "text": "Which database?",
        "header": "Store",
        "answer_type": {
            "type": "select",
            "options": [{"value": label, "description": "d"}],
            "other": True,
        },
        "exclusive": True,
        "persistence": "none",
    }


async def test_cell_shows_the_questions_and_not_the_call() -> None:
    bench = make_bench(
        FakePrompter(make("form_end", (yes("pg"), LEFT_OPEN))), ask_call(DATABASE, PARTS)
    )
    await bench.run()
    shown = bench.render_cell()["text/plain"]
    assert "Which database?" in shown
    assert "PostgreSQL" in shown
    assert "{" not in shown
    assert [event.hidden for event in bench.shown_of("tool_ends")] == [True]


@pytest.mark.req("RPI-6", "RPI-7", "RPI-47", "HB-13")
async def test_invalid_call_is_an_error_without_a_form() -> None:
    one_option = '{"questions": [{"id": "a", "question": "b", "options": ["c"]}]}'
    for arguments in ('{"questions": []}', "{}", one_option):
        person = FakePrompter()
        bench = make_bench(person, call("ask", text=arguments))
        assert (await bench.run()).status == "completed"
        [(text, is_error)] = responses(bench)
        assert is_error
        assert text.startswith("Nothing was shown to the user because this call is not valid.")
        assert (person.asked, bench.of("inquiry_request")) == ([], [])
        assert structured_result(bench)["outcome"] == "invalid"
        assert bench.turn.text == "Done."


async def test_long_answer_is_truncated_for_the_model_alone() -> None:
    long = "x" * 60_000
    bench = make_bench(FakePrompter(make("form_end", (yes(long),))), ask_call(NAME))
    await bench.run()
    [(text, _)] = responses(bench)
    assert len(text) < 55_000
    assert structured_result(bench)["customInput"] == long


async def test_edited_result_has_no_structured_data() -> None:
    person = FakePrompter(make("form_end", (yes("Ada"),)), yes("edit"), yes("User said nothing."))
    bench = make_bench(person, ask_call(NAME), config=for_tool("ask", result="ask"))
    await bench.run()
    [response] = bench.of("tool_call_response")
    assert response.content == "User said nothing."
    assert "structured" not in response.metadata


@pytest.mark.req("RPI-2", "RPI-3", "RCP-23")
async def test_ask_is_not_offered_without_a_user() -> None:
    bench = make_bench(FakePrompter(away=AWAY), ask_call(DATABASE))
    assert bench.offer().missing["ask"] == NEEDS_USER
    assert (await bench.run()).status == "completed"
    names = [tool.name for tool in bench.provider.requests[0][0].tools]
    assert "ask" not in names
    assert "ask_user" in names
    assert responses(bench) == [(UNAVAILABLE.format("ask"), True)]
    assert bench.of("inquiry_request") == []


@pytest.mark.req("RCP-30")
async def test_presence_of_a_user_is_checked_for_each_turn() -> None:
    person = FakePrompter(make("form_end", (yes("pg"),)))
    bench = TurnBench([DONE, reply(ask_call(DATABASE)), DONE], person=person)
    person.away = AWAY
    await bench.run()
    person.away = None
    again = TurnBench([reply(ask_call(DATABASE)), DONE], person=person)
    await again.run()
    assert "ask" not in [tool.name for tool in bench.provider.requests[0][0].tools]
    assert responses(again) == [("User selected: PostgreSQL (value: pg)", False)]


CONFIGURED: list[tuple[dict[str, Any], JsonValue, str, str]] = [
    (DATABASE, "pg", "", "PostgreSQL (value: pg)"),
    (DATABASE, "PostgreSQL", "", "PostgreSQL (value: pg)"),
    (DATABASE, {"custom": "DuckDB"}, ", as custom input", "DuckDB"),
    (PARTS, ["Page", "API"], "", "[Page, API]"),
    (PARTS, "Page", "", "[Page]"),
    (PARTS, [], "", "[] (none of these)"),
    (NAME, "Ada", ", as custom input", "Ada"),
]


@pytest.mark.req("HB-10")
async def test_configured_answer_is_a_value_a_label_a_list_or_a_text() -> None:
    for number, (question, answer, how, text) in enumerate(CONFIGURED):
        config = answers_config(**{question["id"]: answer})
        away = AWAY if number % 2 else None
        bench = make_bench(FakePrompter(away=away), ask_call(question), config=config)
        await bench.run()
        assert responses(bench) == [(f"Configured by the user in advance{how}: {text}", False)]
        assert structured_result(bench)["channel"] == "configured"


@pytest.mark.req("HB-10")
async def test_invalid_configured_answer_is_an_error_before_the_form() -> None:
    rows: list[tuple[dict[str, Any], JsonValue, str]] = [
        (PARTS, ["API", "Docs"], "is not one of the question's options"),
        (NAME, True, "does not match the question's answer_type"),
    ]
    for question, answer, what in rows:
        person = FakePrompter()
        config = answers_config(**{question["id"]: answer})
        bench = make_bench(person, ask_call({**NAME, "id": "other"}, question), config=config)
        await bench.run()
        path = f"conversation.tools.ask.questions.{question['id']}.answer"
        told = f"ask: the configured {path} value {what}. Update the configuration; do not retry."
        assert responses(bench) == [(told, True)]
        assert person.asked == []


@pytest.mark.req("RPI-3", "RPI-39", "RCP-24", "RCP-25", "HB-9")
@pytest.mark.parametrize("strict", [False, True])
async def test_required_question_without_a_user_fails_the_call(strict: bool) -> None:
    config = answers_config(parts=["API"])
    bench = make_bench(
        FakePrompter(away=AWAY), ask_call(PARTS, DATABASE, NAME), config=config, strict=strict
    )
    if strict:
        with pytest.raises(jp.PromptUnavailable, match="needs a user, and no user is available"):
            await bench.run()
    else:
        assert (await bench.run()).status == "completed"
    [(text, is_error)] = responses(bench)
    assert is_error
    assert text.startswith("ask cannot run because no interactive terminal is available.")
    assert ends(bench) == [
        (f"call_1.{name}.1", "cancelled", "no_prompt_backend", "unavailable")
        for name in ("parts", "database", "name")
    ], "a call that is refused takes nothing for an answer"


@pytest.mark.req("RCP-24", "RCP-29", "HB-3")
async def test_optional_questions_are_answered_automatically_or_left_open() -> None:
    best = {**PARTS, "id": "best", "recommended": 1}
    one = {**DATABASE, "id": "one", "required": False, "recommended": 7}
    free = {**NAME, "id": "free", "required": False}
    own = {**PARTS, "id": "own", "options": []}
    bench = make_bench(
        FakePrompter(away=AWAY), ask_call(PARTS, best, one, free, own), config=answers_config(x="y")
    )
    await bench.run()
    auto = "(chosen automatically, because no user was available)"
    assert responses(bench) == [
        (
            "Answers:\n"
            f"parts {auto}: [API]\n"
            f"best {auto}: [Page]\n"
            f"one {auto}: PostgreSQL (value: pg)\n"
            "free: not answered (no user was available)\n"
            "own: not answered (no user was available)",
            False,
        )
    ]
    marks = [entry.metadata for entry in bench.of("inquiry_response")]
    assert marks[0] == {"end": "answered", "auto": True}


@pytest.mark.req("RPI-81")
async def test_failed_form_is_recorded_as_unavailable() -> None:
    async def breaks() -> Any:
        raise RuntimeError("the page is gone")

    bench = make_bench(FakePrompter(breaks), ask_call(DATABASE))
    assert (await bench.run()).status == "completed"
    assert ends(bench) == [("call_1.database.1", "cancelled", "no_prompt_backend", "unavailable")]


async def test_configured_questions_are_omitted_from_the_form() -> None:
    person = FakePrompter(make("form_end", (yes("pg"), yes("Ada"))))
    bench = make_bench(
        person, ask_call(DATABASE, PARTS, NAME), config=answers_config(parts=["Page"])
    )
    await bench.run()
    [prompt] = person.asked
    assert [page.question.id for page in prompt.pages] == ["database", "name"]
    assert responses(bench) == [
        (
            "User answers:\n"
            "database: PostgreSQL (value: pg)\n"
            "parts (configured by the user in advance): [Page]\n"
            "name: custom input: Ada",
            False,
        )
    ]


async def test_optional_question_may_be_answered_by_a_model() -> None:
    config = for_tool("ask", questions={"parts": {"target": "assistant"}})
    backend = MockInquiryBackend({"call_1.parts.1": ["API"]})
    person = FakePrompter(make("form_end", (yes("pg"),)))
    bench = make_bench(person, ask_call(PARTS, DATABASE), config=config, inquiry=backend)
    await bench.run()
    assert responses(bench) == [
        (
            "User answers:\n"
            "parts (answered by another model, not by the user): [API]\n"
            "database: PostgreSQL (value: pg)",
            False,
        )
    ]


class Asks:
    """A tool that asks two open questions at once and returns the answers."""

    def __init__(self, **more: Any) -> None:
        self.runs: list[dict[str, JsonValue]] = []

        def plan(ctx: jp.ToolContext) -> jp.Outcome:
            self.runs.append(dict(ctx.answers))
            if ctx.answers or ctx.ends:
                return jp.Success(json.dumps(dict(ctx.answers)))
            return jp.NeedsInput(jp.Question.text("a", "A?"), jp.Question.text("b", "B?"), **more)

        self.tool = new_tool(plan)


async def test_models_answer_before_the_user_and_their_failure_ends_the_call() -> None:
    config = for_tool("plan", questions={"a": {"target": "assistant"}})
    asks = Asks()
    person = FakePrompter(make("form_end", (yes("two"),)))
    backend = MockInquiryBackend({"call_1.a.1": "one"})
    bench = make_bench(person, call("plan"), config=config, tools=[asks.tool], inquiry=backend)
    await bench.run()
    assert responses(bench) == [('{"a": "one", "b": "two"}', False)]

    asks = Asks()
    person = FakePrompter()
    bench = make_bench(
        person, call("plan"), config=config, tools=[asks.tool], inquiry=MockInquiryBackend()
    )
    await bench.run()
    [(text, is_error)] = responses(bench)
    assert is_error
    assert "failed to provide a valid answer" in text
    assert person.asked == [], "the form of a failed call is not shown"
    assert [end for *_, end in ends(bench)] == [None, None]


@pytest.mark.parametrize("away", [None, AWAY])
async def test_tool_that_asks_forever_without_a_user_is_stopped(away: str | None) -> None:
    runs: list[int] = []

    def plan(ctx: jp.ToolContext) -> jp.Outcome:
        runs.append(len(runs))
        assert len(runs) < 100
        return jp.NeedsInput(jp.Question.text("a", "A?").with_required(False), partial=True)

    person = FakePrompter(*[LATE] * 30, away=away)
    bench = make_bench(person, call("plan"), tools=[new_tool(plan)])
    await bench.run()
    assert responses(bench) == [(IGNORES_ANSWERS.format("plan", "a", MAX_AUTOMATIC_ANSWERS), True)]
    assert len(runs) == MAX_AUTOMATIC_ANSWERS


@pytest.mark.parametrize("late", ["two", make("inquiry_error", "too late")])
async def test_late_answer_of_a_model_is_ignored(late: Any) -> None:
    async def answer() -> Any:
        await until(lambda: bench.of("inquiry_response"))
        if isinstance(late, Exception):
            raise late
        return late

    async def look() -> str:
        await until(lambda: bench.of("inquiry_response") and not backend.running)
        return "seen"

    config = for_tool("plan", questions={key: {"target": "assistant"} for key in "ab"})
    backend = MockInquiryBackend({"call_1.b.1": answer})
    bench = make_bench(
        FakePrompter(),
        call("plan"),
        call("look", "call_2", index=2),
        config=config,
        tools=[Asks().tool, new_tool(look)],
        inquiry=backend,
    )
    await bench.run()
    assert ends(bench) == [
        (f"call_1.{name}.1", "cancelled", "backend_error", None) for name in "ab"
    ]
    assert [is_error for _, is_error in responses(bench)] == [True, False]
    assert len(bench.shown_of("tool_ends")) == 2  # each call ends once


async def test_call_that_asks_forever_ends_once_with_all_its_questions() -> None:
    def plan(ctx: jp.ToolContext) -> jp.Outcome:
        return jp.NeedsInput(jp.Question.text("a", "A?"), jp.Question.text("b", "B?"))

    config = for_tool("plan", questions={key: {"answer": "x"} for key in "ab"})
    bench = make_bench(FakePrompter(), call("plan"), config=config, tools=[new_tool(plan)])
    await bench.run()
    [(text, is_error)] = responses(bench)
    assert is_error
    assert text == IGNORES_ANSWERS.format("plan", "a", MAX_AUTOMATIC_ANSWERS)
    closed = [key for key, *_ in ends(bench)]
    numbers = range(1, MAX_AUTOMATIC_ANSWERS + 1)
    assert closed == [f"call_1.{name}.{n}" for n in numbers for name in "ab"]
    assert ends(bench)[-1][1:3] == ("cancelled", "backend_error")


def late(value: JsonValue, *marks: Any) -> Any:
    return answered(value, "form", marks=frozenset({"timed_out", *marks}))
