"""Secret answers that tools repeat: nowhere to be read, and nothing else is changed by that."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import pytest
from pydantic import JsonValue

from jp_nb.agent.ports import QuestionPrompt, ToolEnds
from jp_nb.agent.secrets import HIDDEN, Secrets
from jp_nb.record.events import ToolCallResponse
from jp_nb.tools.base import RUN
from jp_nb.tools.context import ToolContext
from jp_nb.tools.outcome import Failure, NeedsInput, Outcome, Success
from jp_nb.tools.python import PythonTool
from jp_nb.tools.question import Question
from tests.fakes import Bench, FakePrompter, call, for_tool, reply, say, yes

PASSWORD = 'hunter2 "é"'
ASKED = Question.secret("pass", "Password?")
DONE = reply(say("Done."))


def login_then(then: Callable[[str], Outcome]) -> PythonTool:
    """A tool that asks for a password and does `then` with it."""

    def login(ctx: ToolContext) -> Outcome:
        return then(str(ctx.answers["pass"])) if "pass" in ctx.answers else NeedsInput(ASKED)

    return PythonTool(login, name="login")


def bench_of(then: Callable[[str], Outcome], *answers: Any) -> Bench:
    return Bench(
        [reply(call("login")), DONE],
        tools=[login_then(then)],
        person=FakePrompter(yes(PASSWORD), *answers),
    )


def response(bench: Bench) -> str:
    [made] = bench.of(ToolCallResponse)
    return made.content


def everything(bench: Bench) -> str:
    seen: list[Any] = [bench.stream.raw, bench.shown, bench.provider.requests, bench.person.asked]
    return repr(seen) + json.dumps(bench.stream.raw) + json.dumps(seen[0], ensure_ascii=False)


def fail(password: str) -> Outcome:
    raise ValueError(f"no such user: {password}")


@pytest.mark.parametrize(
    ("then", "read"),
    [
        (lambda p: Success(f"in with {p}, and {p}"), f"in with {HIDDEN}, and {HIDDEN}"),
        (lambda p: Success(json.dumps({"got": p})), f'{{"got": "{HIDDEN}"}}'),
        (lambda p: Success(json.dumps([p], ensure_ascii=False)), f'["{HIDDEN}"]'),
        (lambda p: Success(repr({"got": p + "'"})), f"{{'got': '{HIDDEN}\\''}}"),
        (
            lambda p: Failure(f"{p}?", trace=("at 1", f"at {p}")),
            f"{HIDDEN}?\n\nTrace:\nat 1\nat {HIDDEN}",
        ),
        (fail, f"ValueError: no such user: {HIDDEN}"),
    ],
    ids=["text", "json", "json as it is", "repr", "failure", "exception"],
)
async def test_no_outcome_repeats_a_secret(then: Callable[[str], Outcome], read: str) -> None:
    bench = bench_of(then)
    assert (await bench.run()).status == "completed"
    assert response(bench) == read
    assert "hunter2" not in everything(bench)
    if then is fail:
        [shown] = bench.shown_of(ToolEnds)
        assert f"no such user: {HIDDEN}" in (shown.traceback or "")


async def test_no_later_question_repeats_a_secret() -> None:
    def then(password: str) -> Outcome:
        question = Question.select("keep", f"Keep {password}?", [password, "no"])
        return NeedsInput(question.with_context(f"It is {password}.").with_default(password))

    bench = bench_of(then, yes("no"), *[yes("no")] * 30)
    await bench.run()
    asked = bench.person.asked[1]
    assert isinstance(asked, QuestionPrompt)
    assert asked.question.text == f"Keep {HIDDEN}?"
    assert asked.question.context == f"It is {HIDDEN}."
    assert "hunter2" not in everything(bench)


async def test_no_change_of_the_configuration_holds_a_secret() -> None:
    rights = {"config": [{"path": "assistant.name", "read": True, "write": True}]}
    runs: list[Any] = []

    def login(ctx: ToolContext) -> Outcome:
        runs.append(ctx.delta_rejection)
        if "pass" not in ctx.answers:
            return NeedsInput(ASKED)
        if ctx.delta_rejection is not None:
            return Success("left alone")
        return Success("named", config={"assistant": {"name": f"I am {ctx.answers['pass']}"}})

    bench = Bench(
        [reply(call("login")), DONE],
        tools=[PythonTool(login, name="login")],
        person=FakePrompter(yes(PASSWORD)),
        config=for_tool("login", access=rights),
    )
    await bench.run()
    assert response(bench) == "left alone"
    assert runs[-1].reason == "invalid_config"
    assert "secret" in runs[-1].detail
    assert "hunter2" not in everything(bench)


async def test_a_secret_that_the_tool_asked_for_itself_is_hidden_from_its_first_result_on() -> None:
    def login() -> str:
        run = RUN.get()
        assert run is not None
        run.secrets.append(PASSWORD)
        return f"in with {PASSWORD}"

    bench = Bench([reply(call("login")), DONE], tools=[PythonTool(login)])
    await bench.run()
    assert response(bench) == f"in with {HIDDEN}"


async def test_what_the_cell_does_afterwards_belongs_to_no_tool() -> None:
    cell_context = copy_context()  # of the thread on which the cell runs
    runs: list[Any] = []

    class Cell:
        async def call(self, function: Callable[[], Any]) -> Any:
            return cell_context.run(function)

        def release(self) -> None:
            pass

    def look() -> str:
        runs.append(RUN.get())
        return "seen"

    bench = Bench([reply(call("look")), DONE], tools=[PythonTool(look)])
    bench.loop.cell = Cell()
    await bench.run()
    assert response(bench) == "seen"
    assert runs != [None]
    assert cell_context.run(RUN.get) is None


async def test_another_call_of_the_turn_does_not_repeat_it_either() -> None:
    kept: list[str] = []

    def keep(password: str) -> Outcome:
        kept.append(password)
        return Success("kept")

    login, tell = login_then(keep), PythonTool(lambda: kept[0], name="tell")
    bench = Bench(
        [reply(call("login")), reply(call("tell", "c2")), DONE],
        tools=[login, tell],
        person=FakePrompter(yes(PASSWORD)),
    )
    await bench.run()
    assert [r.content for r in bench.of(ToolCallResponse)] == ["kept", HIDDEN]


@pytest.mark.parametrize("answer", ["", "abc", None, True, 12345])
def test_what_is_short_or_no_text_is_no_secret(answer: JsonValue) -> None:
    secrets = Secrets()
    secrets.add(answer)
    outcome = Success("abc None True 12345")
    assert secrets.hide_in(outcome) is outcome


def test_the_longer_of_two_secrets_is_hidden_whole() -> None:
    secrets = Secrets()
    secrets.add("pass")
    secrets.add("password")
    assert secrets.hide("the password, to pass") == f"the {HIDDEN}, to {HIDDEN}"


def test_a_secret_is_hidden_as_python_writes_it() -> None:
    secrets = Secrets()
    secrets.add('it\'s "so"')
    assert secrets.hide(repr(['it\'s "so"'])) == f"['{HIDDEN}']"


def test_the_shape_of_a_question_is_not_text() -> None:
    secrets = Secrets()
    for word in ("text", "secret", "select", "options"):
        secrets.add(word)
    asked = NeedsInput(Question.select("text", "Which?", ["one", "two"]))
    assert secrets.hide_in(asked) == asked
