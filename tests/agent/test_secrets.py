"""Secret answers that tools repeat are hidden; other texts stay unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from pydantic import JsonValue

import jp_nb as jp
from tests.agent.turn_bench import DONE, call, reply
from tests.kit.kinds import is_kind, make
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import FakePrompter, for_tool, yes

SECRET_ANSWER = "(secret)"


PASSWORD = 'hunter2 "é"'
ASKED = jp.Question.secret("pass", "Password?")


def make_login_tool(then: Callable[[str], jp.Outcome]) -> Any:
    """A tool that asks for a password and does `then` with it."""

    def login(ctx: jp.ToolContext) -> jp.Outcome:
        return then(str(ctx.answers["pass"])) if "pass" in ctx.answers else jp.NeedsInput(ASKED)

    return new_tool(login, name="login")


def make_bench(then: Callable[[str], jp.Outcome], *answers: Any) -> TurnBench:
    return TurnBench(
        [reply(call("login")), DONE],
        tools=[make_login_tool(then)],
        person=FakePrompter(yes(PASSWORD), *answers),
    )


def response(bench: TurnBench) -> Any:
    [made] = bench.of("tool_call_response")
    return made.content


def everything(bench: TurnBench) -> str:
    seen: list[Any] = [bench.stream.raw, bench.shown, bench.provider.requests, bench.person.asked]
    return repr(seen) + json.dumps(bench.stream.raw) + json.dumps(seen[0], ensure_ascii=False)


def fail(password: str) -> jp.Outcome:
    raise ValueError(f"no such user: {password}")


@pytest.mark.parametrize(
    ("then", "read"),
    [
        (
            lambda p: jp.Success(f"in with {p}, and {p}"),
            f"in with {SECRET_ANSWER}, and {SECRET_ANSWER}",
        ),
        (lambda p: jp.Success(json.dumps({"got": p})), f'{{"got": "{SECRET_ANSWER}"}}'),
        (lambda p: jp.Success(json.dumps([p], ensure_ascii=False)), f'["{SECRET_ANSWER}"]'),
        (lambda p: jp.Success(repr({"got": p + "'"})), f"{{'got': '{SECRET_ANSWER}\\''}}"),
        (
            lambda p: make("failure", f"{p}?", trace=("at 1", f"at {p}")),
            f"{SECRET_ANSWER}?\n\nTrace:\nat 1\nat {SECRET_ANSWER}",
        ),
        (fail, f"ValueError: no such user: {SECRET_ANSWER}"),
    ],
    ids=["text", "json", "json as it is", "repr", "failure", "exception"],
)
async def test_secret_is_hidden_in_every_outcome(
    then: Callable[[str], jp.Outcome], read: str
) -> None:
    bench = make_bench(then)
    assert (await bench.run()).status == "completed"
    assert response(bench) == read
    assert "hunter2" not in everything(bench)
    if then is fail:
        [shown] = bench.shown_of("tool_ends")
        assert f"no such user: {SECRET_ANSWER}" in (shown.traceback or "")


async def test_secret_is_hidden_in_later_questions() -> None:
    def then(password: str) -> jp.Outcome:
        question = jp.Question.select("keep", f"Keep {password}?", ["yes", "no"])
        return jp.NeedsInput(question.with_context(f"It is {password}.").with_default(password))

    bench = make_bench(then, yes("no"), *[yes("no")] * 30)
    await bench.run()
    asked = bench.person.asked[1]
    assert is_kind(asked, "question_prompt")
    assert asked.question.text == f"Keep {SECRET_ANSWER}?"
    assert asked.question.context == f"It is {SECRET_ANSWER}."
    assert asked.question.default is None
    assert "hunter2" not in everything(bench)


@pytest.mark.parametrize("where", ["id", "option", "value", "label"])
async def test_question_with_a_secret_in_its_id_or_options_is_refused(where: str) -> None:
    def then(password: str) -> jp.Outcome:
        if where == "id":
            return jp.NeedsInput(jp.Question.boolean(password, f"Sure of {password}?"))
        options: dict[str, jp.Option | str] = {
            "option": password,
            "value": jp.Option(value=password, label="yes"),
            "label": jp.Option(value="yes", label=password),
        }
        return jp.NeedsInput(
            jp.Question.select("x", f"Sure of {password}?", [options[where], "no"])
        )

    bench = make_bench(then)
    await bench.run()
    told = f"The tool put a secret into a required part of a question: Sure of {SECRET_ANSWER}?"
    assert response(bench) == told
    assert len(bench.person.asked) == 1
    assert "hunter2" not in everything(bench)


@pytest.mark.parametrize(
    ("secret", "change"),
    [
        (PASSWORD, {"config": {"assistant": {"name": f"I am {PASSWORD}"}}}),
        ("hunter2", {"config": {"conversation": {"labels": {"hunter2": "x"}}}}),
        ("731942", {"config": {"assistant": {"model": {"parameters": {"max_tokens": 731942}}}}}),
        ("hunter2", {"unset": ("conversation.labels.hunter2",)}),
    ],
    ids=["text", "key", "number", "unset"],
)
async def test_configuration_change_with_a_secret_is_rejected(
    secret: str, change: dict[str, Any]
) -> None:
    paths = ("assistant", "conversation.labels")
    rights = {"config": [{"path": p, "read": True, "write": True, "delete": True} for p in paths]}
    runs: list[Any] = []

    def login(ctx: jp.ToolContext) -> jp.Outcome:
        runs.append(ctx.delta_rejection)
        if "pass" not in ctx.answers:
            return jp.NeedsInput(ASKED)
        if ctx.delta_rejection is not None:
            return jp.Success("left alone")
        return jp.Success("done", **change)

    bench = TurnBench(
        [reply(call("login")), DONE],
        tools=[new_tool(login, name="login")],
        person=FakePrompter(yes(secret)),
        config=for_tool("login", access=rights),
    )
    await bench.run()
    assert response(bench) == "left alone"
    assert runs[-1].reason == "invalid_config"
    assert "secret" in runs[-1].detail
    assert secret not in everything(bench)


async def test_secret_of_an_earlier_turn_is_hidden() -> None:
    bench = TurnBench([reply(call("tell")), DONE], tools=[new_tool(lambda: PASSWORD, name="tell")])
    bench.loop.turn.secrets.add(PASSWORD)
    await bench.run()
    assert response(bench) == SECRET_ANSWER


async def test_secret_is_hidden_in_results_of_other_calls() -> None:
    kept: list[str] = []

    def keep(password: str) -> jp.Outcome:
        kept.append(password)
        return jp.Success("kept")

    login = make_login_tool(keep)
    tell = new_tool(lambda: kept[0], name="tell")
    bench = TurnBench(
        [reply(call("login")), reply(call("tell", "c2")), DONE],
        tools=[login, tell],
        person=FakePrompter(yes(PASSWORD)),
    )
    await bench.run()
    assert [r.content for r in bench.of("tool_call_response")] == ["kept", SECRET_ANSWER]


async def test_answer_to_a_plain_question_is_not_hidden() -> None:
    def stay(ctx: jp.ToolContext) -> jp.Outcome:
        if "where" not in ctx.answers:
            return jp.NeedsInput(jp.Question.text("where", "Where?"))
        return jp.Success(f"in {ctx.answers['where']}")

    person = FakePrompter(yes("Delft"))
    bench = TurnBench([reply(call("stay")), DONE], tools=[new_tool(stay)], person=person)
    await bench.run()
    assert response(bench) == "in Delft"


def new_secrets() -> Any:
    """Return the secrets of a turn, which has none yet."""
    return TurnBench([]).loop.turn.secrets


def test_short_answers_and_other_types_are_not_hidden() -> None:
    outcome = jp.Success("abc     None\n\n\n\nTrue 12345")
    answers: list[JsonValue] = ["", "abc", "    ", "\n\n\n\n", None, True, 12345]
    for answer in answers:
        secrets = new_secrets()
        secrets.add_answer(ASKED, answer)
        assert secrets.hide_in_outcome(outcome) is outcome


QUOTES: list[Callable[[str], object]] = [
    json.dumps,
    repr,
    ascii,
    str.encode,
    lambda s: json.dumps(s, ensure_ascii=False),
    lambda s: json.dumps({"stderr": f"KeyError: {s!r}"}),
    lambda s: json.dumps(json.dumps([s])),
    lambda s: repr(f"it's {s}"),
    lambda s: repr(f"it's \"{s}"),
    lambda s: f"https://me:{quote(s, safe='')}@example.org",
    lambda s: urlencode({"key": s}),
]


def test_quoted_secret_is_hidden(subtests: pytest.Subtests) -> None:
    for secret in ["hunter2", 'hunter2\\x"y', "hun'te\"r2", "größe 2\t%", "a\nb c d"]:
        for number, quoted in enumerate(QUOTES):
            with subtests.test(secret=secret, number=number):
                secrets = new_secrets()
                secrets.add(secret)
                left = secrets.hide(f"It was {quoted(secret)!s}.")
                assert SECRET_ANSWER in left
                parts = ("unter2", "te\\", "r2", "gr", "b c d")
                assert not any(part in left for part in parts), left


def test_lines_of_a_multi_line_secret_are_hidden() -> None:
    secrets = new_secrets()
    secrets.add("-----BEGIN KEY-----\nMIIEowIBAAKCAQ\nabc\n")
    assert secrets.hide("  | MIIEowIBAAKCAQ\n  | abc") == f"  | {SECRET_ANSWER}\n  | abc"
    assert secrets.hide("-----BEGIN KEY-----\nMIIEowIBAAKCAQ\nabc") == SECRET_ANSWER


def test_other_texts_are_not_hidden() -> None:
    secrets = new_secrets()
    secrets.add("hunter2")
    asked = jp.NeedsInput(jp.Question.select("text", "Which?", ["one", "two"]).with_default("one"))
    assert secrets.hide_in_outcome(asked) == asked
    change = jp.Success("x", config={"user": {"name": "x"}, "n": [1, True, None]}, unset=("a",))
    assert secrets.hide_in_outcome(change) == change
    malformed = jp.Success("x", malformed="no hunter2")
    hidden = secrets.hide_in_outcome(malformed)
    assert isinstance(hidden, jp.Success)
    assert hidden.malformed == f"no {SECRET_ANSWER}"


def test_longer_of_two_secrets_is_hidden_whole() -> None:
    secrets = new_secrets()
    secrets.add("pass")
    secrets.add("password")
    assert secrets.hide("the password, to pass") == f"the {SECRET_ANSWER}, to {SECRET_ANSWER}"
