"""Answers files: precedence over the user, decisions, notices, reloading."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.agent.turn_bench import call, reply, say
from tests.kit.kinds import make
from tests.kit.runs import RunReport
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import FakePrompter, for_tool, yes

SURE = jp.Question.boolean("sure", "Sure?")
GIVEN = make("given_answer", True, "a.toml, line 1")


def make_deploy_bench(tmp_path: Path, text: str, person: FakePrompter, **config: Any) -> TurnBench:
    """A turn in which the model calls a tool that asks and then changes the configuration."""

    def deploy(ctx: jp.ToolContext) -> jp.Success | jp.NeedsInput:
        if "sure" not in ctx.answers:
            return jp.NeedsInput(SURE.with_exclusive())
        if ctx.delta_rejection is not None:
            return jp.Success(f"not changed: {ctx.delta_rejection.reason}")
        return jp.Success("deployed", config={"assistant": {"name": "Ada"}})

    tool = new_tool(deploy, access=[jp.ConfigRule("assistant.name", write=True)])
    bench = TurnBench(
        [reply(call("deploy", "c1")), reply(say("Done."))],
        tools=[tool],
        person=person,
        config=for_tool("deploy", run="ask", result="ask", **config),
    )
    (tmp_path / "a.toml").write_text(text, encoding="utf-8")
    bench.use_answers("a.toml", tmp_path)
    return bench


ALL = (
    '[permissions]\ndeploy = "run"\n[questions.deploy]\nsure = true\n'
    '[changes]\ndeploy = "apply"\n[results]\ndeploy = "deliver"\n'
)


@pytest.mark.parametrize("away", [None, "it runs headless"])
async def test_answers_file_decides_with_and_without_a_user(
    tmp_path: Path, away: str | None
) -> None:
    person = FakePrompter(away=away)
    bench = make_deploy_bench(tmp_path, ALL, person)
    await bench.run()
    assert person.asked == []
    [response] = bench.of("tool_call_response")
    assert (response.content, response.is_error) == ("deployed", False)
    assert [end.outcome.channel for end in bench.shown_of("question_ends")] == ["answers"]
    assert [end.channel for end in bench.shown_of("change_ends")] == ["answers"]
    assert [notice.text for notice in bench.shown_of("notice")] == [
        "▸ a.toml, line 2 allows deploy to run",
        "▸ a.toml, line 8 allows the model to read the result of deploy",
    ]
    assert bench.app_config().assistant.name == "Ada"


@pytest.mark.parametrize(
    ("section", "content"),
    [
        ("permissions", "Tool skipped by user."),
        ("results", "Result delivery skipped by user."),
        ("changes", "not changed: user_rejected"),
    ],
)
async def test_answers_file_may_skip_each_step(tmp_path: Path, section: str, content: str) -> None:
    word = {"permissions": "run", "results": "deliver", "changes": "apply"}[section]
    person = FakePrompter()
    bench = make_deploy_bench(
        tmp_path, ALL.replace(f'deploy = "{word}"', 'deploy = "skip"'), person
    )
    await bench.run()
    assert person.asked == []
    [response] = bench.of("tool_call_response")
    assert response.content == content
    applied = "Ada" if section == "results" else None
    assert bench.app_config().assistant.name == applied


async def test_question_missing_in_the_answers_file_is_asked(tmp_path: Path) -> None:
    without = ALL.replace("[questions.deploy]\nsure = true\n", "")
    person = FakePrompter(yes(True))
    bench = make_deploy_bench(tmp_path, without, person)
    await bench.run()
    assert [prompt.question.id for prompt in person.asked] == ["sure"]
    [end] = bench.of("inquiry_response")
    assert end.metadata["channel"] == "form"


def test_changed_answers_file_is_read_again(tmp_path: Path) -> None:
    bench = TurnBench([])
    (tmp_path / "a.toml").write_text("[questions.t]\nsure = true\n", encoding="utf-8")
    found = bench.use_answers("a.toml", tmp_path)
    assert found.find_answer("t", SURE) == make("given_answer", True, "a.toml, line 2")
    (tmp_path / "a.toml").write_text("\n[questions.t]\nsure = false\n", encoding="utf-8")
    bench.use_answers("a.toml", tmp_path)
    assert found.find_answer("t", SURE) == replace(GIVEN, value=False, place="a.toml, line 3")
    bench.use_answers(None, tmp_path)
    assert found.find_answer("t", SURE) is None
    with pytest.raises(Exception, match=r"no such answers file\. .*--answers-template FILE`"):
        bench.use_answers("b.toml", tmp_path)


@pytest.mark.req("INBOX-1", "INBOX-3")
async def test_open_decision_is_reported_with_its_call_turn_and_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text('{"cell": 2, "id": "c3"}\n', encoding="utf-8")
    monkeypatch.setenv("JP_NB_EVENTS", str(events))

    def pay(amount: int) -> str:
        return f"paid {amount}"

    calls = [
        say("I pay both."),
        call("pay", "c1", index=2, text='{"amount": 5}'),
        call("pay", "c2", index=3, text='{"amount": 6}'),
        call("pay", "c3", index=4, text='{"amount": 5}'),
    ]
    bench = TurnBench(
        [reply(*calls), reply(say("Done."))],
        tools=[new_tool(pay)],
        person=FakePrompter(away="it runs headless"),
        config=for_tool("pay", run="ask"),
    )
    await bench.run()

    [decision] = RunReport.read_events(events).undecided.values()
    assert decision.to_json() == {
        "kind": "permission",
        "tool": "pay",
        "why": "it runs headless",
        "times": 3,
        "question": None,
        "asked": [
            {
                "cell": 2,
                "cell_id": "c3",
                "turn": 0,
                "words": "I pay both.",
                "arguments": {"amount": amount},
            }
            for amount in (5, 6)
        ],
    }


@pytest.mark.req("INBOX-4", "INBOX-5")
async def test_run_of_a_batch_uses_its_own_table_and_only_exact_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JP_NB_RUN", "walk-1")
    ran: list[int] = []

    def pay(amount: int) -> str:
        ran.append(amount)
        return "paid"

    parts = [
        call("pay", f"c{amount}", index=amount, text=f'{{"amount": {amount}}}')
        for amount in (1, 2, 3)
    ]
    bench = TurnBench(
        [reply(*parts), reply(say("Done."))],
        tools=[new_tool(pay)],
        person=FakePrompter(away="it runs headless"),
        config=for_tool("pay", run="ask"),
    )
    exact = '[[{}permissions.pay]]\ndecision = "{}"\narguments = {{ amount = {} }}\n'
    text = (
        exact.format("", "skip", 1)
        + exact.format("", "run", 2)
        + exact.format("runs.walk-1.", "run", 1)
        + exact.format("runs.walk-2.", "run", 3)
    )
    (tmp_path / "a.toml").write_text(text, encoding="utf-8")
    bench.use_answers("a.toml", tmp_path)
    await bench.run()

    assert ran == [1, 2]
    [*_, refused] = bench.of("tool_call_response")
    assert "needs the user's permission" in refused.content
