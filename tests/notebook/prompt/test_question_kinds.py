"""Each kind of question has an entry in every table, and a new one needs nothing else."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from pydantic import JsonValue, ValidationError

import jp_nb as jp
from tests.agent.turn_bench import reply
from tests.kit.consoles import ConsoleUser
from tests.kit.forms import FormUser
from tests.kit.kinds import is_kind, make
from tests.kit.models import EventProvider, model_event
from tests.kit.questions import answered
from tests.kit.records import parse_event
from tests.kit.renderings import render
from tests.kit.turn_bench import new_question_model
from tests.kit.version_kind import VersionAnswer
from tests.providers.helpers import called, make_context
from tests.support.fakes import model_inquiry

WHICH = {"options": [{"value": "a"}, {"value": "b"}]}
CITY = {"fields": [{"id": "city", "text": "Which city?", "answer_type": "text"}]}
LINK = {"url": "https://example.org/a"}

# For each kind: its settings, the state of its control, typed lines, and the answer.
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any], list[str], JsonValue]] = {
    "boolean": ({}, {"index": 0}, ["y"], True),
    "select": (WHICH, {"index": 1}, ["2"], "b"),
    "text": ({}, {"value": "so"}, ["so"], "so"),
    "secret": ({}, {"value": "hunter2"}, ["hunter2"], "hunter2"),
    "number": ({}, {"value": "2.5"}, ["2.5"], 2.5),
    "integer": ({}, {"value": "7"}, ["7"], 7),
    "url": (LINK, {}, ["y"], True),
    "form": (CITY, {"value": "Delft"}, ["Delft"], {"city": "Delft"}),
}


def ask(kind: str) -> jp.Question:
    """Return a question of the `kind`."""
    answer_type = {"type": kind, **KINDS[kind][0]}
    return jp.Question.model_validate({"id": "q", "text": "What?", "answer_type": answer_type})


def request_with(answer_type: dict[str, JsonValue]) -> dict[str, Any]:
    """Return the stored entry of a question of a tool."""
    return {
        "type": "inquiry_request",
        "timestamp": "2026-11-29 09:00:00.0",
        "id": "q",
        "source": {"source": "tool", "name": "t"},
        "question": {"text": "What?", "answer_type": answer_type},
    }


def test_every_kind_is_known_here() -> None:
    with pytest.raises(ValidationError) as caught:
        jp.Question.model_validate({"id": "q", "text": "?", "answer_type": {"type": "x"}})
    _, _, known = str(caught.value).partition("expected one of: ")
    assert KINDS.keys() == set(re.findall("`([a-z]+)`", known))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_asked_on_a_form_and_on_stdin_and_recorded(kind: str) -> None:
    _, state, lines, answer = KINDS[kind]
    question = ask(kind)

    user = FormUser(question)
    user.send("submit", **state)
    [end] = user.ends
    assert [each.value for each in end.ends] == [answer]

    page = make("question_prompt", question)
    end = ConsoleUser(*lines, "s").ask(make("form_prompt", (page,)))
    assert [each.value for each in end.ends] == [answer]

    recorded = question.answer_type.to_record()
    assert recorded["type"] == kind
    read = parse_event(request_with(recorded))
    assert read.to_raw()["question"]["answer_type"]["type"] == kind


# --- one more kind ---------------------------------------------------------------------------


@pytest.fixture
def prompt(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A question of a kind that has one entry in each table."""
    return make("question_prompt", VersionAnswer.register(monkeypatch))


def test_new_kind_is_answered_on_a_form(prompt: Any) -> None:
    user = FormUser(prompt=prompt)
    user.send("submit", value=2)
    assert (user.problems, user.ends) == (["Too small."], [])
    user.send("submit", value=3)
    user.close()
    assert user.ends == [answered(3, "form")]
    assert render("prompt", prompt, user.ends[0]).plain == "How many? → No. 3"


def test_new_kind_is_answered_on_stdin(prompt: Any) -> None:
    console = ConsoleUser("2", "7")
    assert console.ask(prompt) == answered(7, "stdin")
    assert console.shown == ["How many?", "Number: ", "Too small.", "Number: "]


def answer_with(value: JsonValue) -> list[Any]:
    """Return the response of a model that answers the question with `value`."""
    text = json.dumps({"inquiry_id": "tool_call.count.c", "answer": value})
    return reply([model_event("text", 0, "structured", text)])


async def test_new_kind_is_answered_by_a_model(prompt: Any) -> None:
    asked = model_inquiry("c.n.1", "c", "count", prompt.question)
    context = make_context(called("c", "count"), provider="test")
    provider = EventProvider(answer_with(4))
    assert await new_question_model(provider).inquire(context, asked) == 4
    [(request, _)] = provider.requests
    assert request.schema["properties"]["answer"] == {"type": "integer", "minimum": 3}

    provider = EventProvider(*[answer_with("4")] * 10)
    with pytest.raises(jp.JpNbError, match="`answer` is not an integer"):
        await new_question_model(provider).inquire(context, asked)


def test_new_kind_is_recorded_and_read(prompt: Any) -> None:
    recorded = prompt.question.answer_type.to_record()
    assert recorded == {"type": "version", "least": 3}
    raw = request_with(recorded)
    read = parse_event(raw)
    assert is_kind(read, "inquiry_request")
    assert read.to_raw() == raw
    with pytest.raises(jp.StorageError, match="a version question needs `least`"):
        parse_event(request_with({"type": "version"}))


# --- an unknown kind --------------------------------------------------------------------------

KNOWN = "expected one of: `boolean`, `select`, `text`, `secret`"


@pytest.mark.parametrize("spelled", [{"type": "date"}, "Date", {"Date": {"format": "iso"}}])
def test_unknown_kind_is_an_error_that_names_it_and_the_known_ones(
    spelled: Any,
) -> None:
    why = f"unknown question type 'date', {KNOWN}"
    asked = {"id": "q", "text": "When?", "answer_type": spelled}
    with pytest.raises(ValidationError, match=why):
        jp.Question.model_validate(asked)


def test_class_that_is_in_no_table_is_such_a_kind() -> None:
    with pytest.raises(ValidationError, match=f"unknown question type 'version', {KNOWN}"):
        jp.Question(id="q", text="How many?", answer_type=VersionAnswer())

    class Impostor(type(ask("text").answer_type)):  # type: ignore[misc]  # a kind of the program
        """Has the name of another kind."""

    with pytest.raises(ValidationError, match="unknown question type 'text'"):
        jp.Question(id="q", text="Why?", answer_type=Impostor())


def test_record_with_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(
        jp.StorageError, match="'date' is not a kind of question: known are `boolean`"
    ):
        parse_event(request_with({"type": "date"}))
