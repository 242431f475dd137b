"""Tools that ask for the fields of a Pydantic model, in whole turns."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, SecretStr, model_validator

from jp_nb.agent.chat_model import ChatModel
from jp_nb.agent.inquiry import LlmInquiryBackend
from jp_nb.agent.prompts import Answered, FormEnd, FormPrompt, NotAnswered
from jp_nb.agent.provider import Flush, TextPart
from jp_nb.config.partial import Partial
from jp_nb.record.events import ChatRequest, InquiryRequest, InquiryResponse, ToolCallResponse
from jp_nb.toolkit.answer_types import Option
from jp_nb.toolkit.base import ToolContext
from jp_nb.toolkit.outcome import NeedsInput, Outcome, Success
from jp_nb.toolkit.python import PythonTool
from jp_nb.toolkit.question import Question
from tests.agent.turn_bench import (
    DONE,
    Bench,
    EventProvider,
    call,
    reply,
)
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


TRIP = Question.form("trip", Trip)
GOOD = {"city": "Delft", "days": 2, "with_whom": ["family"]}


def make_form_tool(*questions: Question, got: list[Any] | None = None) -> PythonTool:
    """A tool that asks all `questions` at once, and returns the answers."""

    def plan(ctx: ToolContext) -> Outcome:
        if questions[0].id not in ctx.answers:
            return NeedsInput(*questions)
        if got is not None:
            got.extend(each.validated(ctx.answers[each.id]) for each in questions)
        return Success(json.dumps(ctx.answers))

    return PythonTool(plan)


def turn(person: FakePrompter, *questions: Question, **more: Any) -> Bench:
    got = more.pop("got", None)
    return Bench(
        [reply(call("plan")), DONE],
        tools=[make_form_tool(*questions, got=got)],
        person=person,
        **more,
    )


def result(bench: Bench) -> tuple[str, bool]:
    [response] = bench.of(ToolCallResponse)
    return response.content, response.is_error


def form_end(*answers: Any) -> FormEnd:
    return FormEnd(tuple(x if isinstance(x, NotAnswered) else Answered(x, "form") for x in answers))


async def test_form_and_other_questions_are_one_prompt() -> None:
    got: list[Any] = []
    person = FakePrompter(form_end(GOOD, True))
    bench = turn(person, TRIP, Question.boolean("sure", "Sure?"), got=got)
    await bench.run()
    assert got == [Trip(city="Delft", days=2, with_whom=["family"]), True]
    [prompt] = person.asked
    assert isinstance(prompt, FormPrompt)
    assert [page.question.id for page in prompt.pages] == ["trip", "sure"]
    asked, _ = bench.of(InquiryRequest)
    assert asked.question.answer_type.type == "form"
    [first, second] = bench.of(InquiryResponse)
    assert (first.id, first.answer) == ("call_1.trip.1", GOOD)
    assert (second.id, second.answer) == ("call_1.sure.1", True)
    assert "check" not in json.dumps([entry.to_raw() for entry in bench.entries])


async def test_open_optional_form_is_none() -> None:
    got: list[Any] = []
    person = FakePrompter(form_end(True, NotAnswered("declined", "form")))
    questions = [Question.boolean("sure", "Sure?"), TRIP.with_required(False)]
    bench = turn(person, *questions, got=got)
    await bench.run()
    assert got == [True, None]


async def test_secret_field_reaches_the_tool_alone() -> None:
    got: list[Any] = []
    person = FakePrompter(form_end({"user": "ada", "password": "hunter2"}))
    bench = turn(person, Question.form("login", Login), got=got)
    await bench.run()
    assert got == [Login(user="ada", password=SecretStr("hunter2"))]
    assert "hunter2" not in json.dumps([entry.to_raw() for entry in bench.entries])
    [response] = bench.of(InquiryResponse)
    assert response.answer == {"user": "ada", "password": "(secret)"}
    assert result(bench) == ('{"login": {"user": "ada", "password": "(secret)"}}', False)


async def test_later_form_hides_a_secret_everywhere() -> None:
    password = Question.secret("password", "Password?")
    later = Question.form("later", Login, "Is it hunter2?").with_header("hunter2").model_copy()
    select = Question.select(
        "which", "Which?", [Option(value="a", description="hunter2"), "b"]
    ).with_default("hunter2")

    class Told(BaseModel):
        """It was hunter2."""

        x: str = Field("hunter2", title="Not hunter2", description="hunter2 is out")

    def plan(ctx: ToolContext) -> Outcome:
        if "password" not in ctx.answers:
            return NeedsInput(password)
        if "later" not in ctx.answers:
            return NeedsInput(later, select, Question.form("told", Told))
        return Success("ok")

    person = FakePrompter(
        Answered("hunter2", "form"), form_end({"user": "a", "password": "b"}, "a", {"x": "y"})
    )
    bench = Bench([reply(call("plan")), DONE], tools=[PythonTool(plan)], person=person)
    await bench.run()
    assert result(bench) == ("ok", False)
    assert "hunter2" not in repr(person.asked[1])
    assert "(secret)" in repr(person.asked[1])
    assert "hunter2" not in json.dumps([entry.to_raw() for entry in bench.entries])


def by_model(answer: Any) -> tuple[LlmInquiryBackend, EventProvider]:
    text = json.dumps({"inquiry_id": "tool_call.plan.call_1", "answer": answer})
    provider = EventProvider(reply([TextPart(0, "structured", text), Flush(0)]))
    return LlmInquiryBackend(ChatModel(provider, "small")), provider


async def test_model_fills_in_the_form_without_a_user() -> None:
    backend, provider = by_model(GOOD)
    bench = turn(FakePrompter(away="a test"), TRIP, inquiry=backend)
    await bench.run()
    assert result(bench) == (json.dumps({"trip": GOOD}), False)
    [(_, seen)] = provider.requests
    assert isinstance(seen[-1], ChatRequest)
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


def answers_config(answer: Any) -> Partial:
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
    optional = [Question.form(name, what).with_required(False)
                for name, what in (("a", Defaults), ("b", Trip))]  # fmt: skip
    bench = turn(FakePrompter(away="a test"), *optional, got=got)
    await bench.run()
    assert got == [Defaults(), None]
    assert [entry.outcome for entry in bench.of(InquiryResponse)] == ["answered", "cancelled"]
    assert bench.of(InquiryResponse)[0].metadata["auto"] is True
