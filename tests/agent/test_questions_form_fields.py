"""Tools that ask for the fields of a Pydantic model, in whole turns."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, SecretStr, model_validator

import jp_nb as jp
from tests.agent.turn_bench import DONE, call, reply
from tests.kit.kinds import is_kind, make
from tests.kit.models import EventProvider, model_event
from tests.kit.questions import answered, not_answered
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench, new_question_model
from tests.support.fakes import FakePrompter, for_tool


class Trip(BaseModel):
    """Destination of a trip."""

    city: str = Field(description="As on a map.")
    days: int = Field(3, ge=1, le=14)
    with_whom: list[Literal["friends", "family"]] = []

    @model_validator(mode="after")
    def _check_company(self) -> Trip:
        if self.days > 7 and not self.with_whom:
            raise ValueError("a long trip needs company")
        return self


class Login(BaseModel):
    user: str
    password: SecretStr


TRIP = jp.Question.form("trip", Trip)
GOOD = {"city": "Delft", "days": 2, "with_whom": ["family"]}


def make_form_tool(*questions: jp.Question, got: list[Any] | None = None) -> Any:
    """A tool that asks all `questions` at once, and returns the answers."""

    def plan(ctx: jp.ToolContext) -> jp.Outcome:
        if questions[0].id not in ctx.answers:
            return jp.NeedsInput(*questions)
        if got is not None:
            got.extend(each.validated(ctx.answers[each.id]) for each in questions)
        return jp.Success(json.dumps(ctx.answers))

    return new_tool(plan)


def turn(person: FakePrompter, *questions: jp.Question, **more: Any) -> TurnBench:
    got = more.pop("got", None)
    return TurnBench(
        [reply(call("plan")), DONE],
        tools=[make_form_tool(*questions, got=got)],
        person=person,
        **more,
    )


def result(bench: TurnBench) -> tuple[str, bool]:
    [response] = bench.of("tool_call_response")
    return response.content, response.is_error


def form_end(*answers: Any) -> Any:
    return make(
        "form_end", tuple(x if is_kind(x, "not_answered") else answered(x, "form") for x in answers)
    )


async def test_form_and_other_questions_are_one_prompt() -> None:
    got: list[Any] = []
    person = FakePrompter(form_end(GOOD, True))
    bench = turn(person, TRIP, jp.Question.boolean("sure", "Sure?"), got=got)
    await bench.run()
    assert got == [Trip(city="Delft", days=2, with_whom=["family"]), True]
    [prompt] = person.asked
    assert is_kind(prompt, "form_prompt")
    assert [page.question.id for page in prompt.pages] == ["trip", "sure"]
    asked, _ = bench.of("inquiry_request")
    assert asked.question.answer_type.type == "form"
    [first, second] = bench.of("inquiry_response")
    assert (first.id, first.answer) == ("call_1.trip.1", GOOD)
    assert (second.id, second.answer) == ("call_1.sure.1", True)
    assert "check" not in json.dumps([entry.to_raw() for entry in bench.entries])


async def test_open_optional_form_is_none() -> None:
    got: list[Any] = []
    person = FakePrompter(form_end(True, not_answered("declined", "form")))
    questions = [jp.Question.boolean("sure", "Sure?"), TRIP.with_required(False)]
    bench = turn(person, *questions, got=got)
    await bench.run()
    assert got == [True, None]


async def test_secret_field_reaches_the_tool_alone() -> None:
    got: list[Any] = []
    person = FakePrompter(form_end({"user": "ada", "password": "hunter2"}))
    bench = turn(person, jp.Question.form("login", Login), got=got)
    await bench.run()
    assert got == [Login(user="ada", password=SecretStr("hunter2"))]
    assert "hunter2" not in json.dumps([entry.to_raw() for entry in bench.entries])
    [response] = bench.of("inquiry_response")
    assert response.answer == {"user": "ada", "password": "(secret)"}
    assert result(bench) == ('{"login": {"user": "ada", "password": "(secret)"}}', False)


async def test_later_form_hides_a_secret_everywhere() -> None:
    password = jp.Question.secret("password", "Password?")
    later = jp.Question.form("later", Login, "Is it hunter2?").with_header("hunter2").model_copy()
    select = jp.Question.select(
        "which", "Which?", [jp.Option(value="a", description="hunter2"), "b"]
    ).with_default("hunter2")

    class Told(BaseModel):
        """It was hunter2."""

        x: str = Field("hunter2", title="Not hunter2", description="hunter2 is out")

    def plan(ctx: jp.ToolContext) -> jp.Outcome:
        if "password" not in ctx.answers:
            return jp.NeedsInput(password)
        if "later" not in ctx.answers:
            return jp.NeedsInput(later, select, jp.Question.form("told", Told))
        return jp.Success("ok")

    person = FakePrompter(
        answered("hunter2", "form"), form_end({"user": "a", "password": "b"}, "a", {"x": "y"})
    )
    bench = TurnBench([reply(call("plan")), DONE], tools=[new_tool(plan)], person=person)
    await bench.run()
    assert result(bench) == ("ok", False)
    assert "hunter2" not in repr(person.asked[1])
    assert "(secret)" in repr(person.asked[1])
    assert "hunter2" not in json.dumps([entry.to_raw() for entry in bench.entries])


def by_model(answer: Any) -> tuple[Any, EventProvider]:
    text = json.dumps({"inquiry_id": "tool_call.plan.call_1", "answer": answer})
    provider = EventProvider(
        reply([model_event("text", 0, "structured", text), model_event("flush", 0)])
    )
    return new_question_model(provider), provider


async def test_model_fills_in_the_form_without_a_user() -> None:
    backend, provider = by_model(GOOD)
    bench = turn(FakePrompter(away="a test"), TRIP, inquiry=backend)
    await bench.run()
    assert result(bench) == (json.dumps({"trip": GOOD}), False)
    [(_, seen)] = provider.requests
    assert is_kind(seen[-1], "chat_request")
    schema: Any = seen[-1].response_schema
    city = schema["properties"]["answer"]["properties"]["city"]
    assert city == {"title": "City", "description": "As on a map.", "type": "string"}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (GOOD | {"days": 15}, "`days`: expected a whole number from 1 to 14"),
        (GOOD | {"days": 9, "with_whom": []}, "a long trip needs company"),
        (GOOD | {"town": "x"}, "`answer` is not an object with `city`, `days`, `with_whom`"),
    ],
)
async def test_invalid_form_of_a_model_is_refused(answer: Any, why: str) -> None:
    backend, _ = by_model(answer)
    bench = turn(FakePrompter(away="a test"), TRIP, inquiry=backend)
    await bench.run()
    text, _ = result(bench)
    assert why in text


def answers_config(answer: Any) -> dict[str, Any]:
    return for_tool("plan", questions={"trip": {"answer": answer}})


async def test_form_may_be_configured_as_an_object() -> None:
    bench = turn(FakePrompter(), TRIP, config=answers_config(GOOD))
    await bench.run()
    assert result(bench) == (json.dumps({"trip": GOOD}), False)


async def test_invalid_configured_form_names_the_field() -> None:
    bench = turn(FakePrompter(), TRIP, config=answers_config(GOOD | {"days": 0}))
    await bench.run()
    assert result(bench) == (
        "plan: the configured conversation.tools.plan.questions.trip.answer value does not fit: "
        "`days`: expected a whole number from 1 to 14. Update the configuration; do not retry.",
        True,
    )


async def test_optional_form_takes_its_defaults_without_a_user() -> None:
    class Defaults(BaseModel):
        days: int = 3

    got: list[Any] = []
    optional = [jp.Question.form(name, what).with_required(False)
                for name, what in (("a", Defaults), ("b", Trip))]  # fmt: skip
    bench = turn(FakePrompter(away="a test"), *optional, got=got)
    await bench.run()
    assert got == [Defaults(), None]
    assert [entry.outcome for entry in bench.of("inquiry_response")] == ["answered", "cancelled"]
    assert bench.of("inquiry_response")[0].metadata["auto"] is True
