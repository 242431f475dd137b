"""Routes of a question: the configuration, an answers file, memory, a model, the user."""

from __future__ import annotations

from typing import Any

import pytest

import jp_nb as jp
from tests.agent.turn_bench import DONE, MockInquiryBackend, call, reply
from tests.kit.kinds import make
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import FakePrompter, for_tool, yes

SURE = jp.Question.boolean("sure", "Sure?")
TO_MODEL = {"target": "assistant"}
SET = {"answer": False}
GIVEN = make("given_answer", True, "a.toml, line 1")
DECLINED = make("declined_by_file", "a.toml, line 1")
INVALID = make("invalid_answer", "a.toml, line 1: no")


class Prepared:
    """An answers file with one answer, for each question of every tool."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def find_answer(self, tool: str, question: jp.Question) -> Any:
        return self._answer

    def answers_questions_of(self, tool: str) -> bool:
        return self._answer is not None

    def find_decision(self, kind: str, tool: str, arguments: object = None) -> Any:
        return None

    def find_edit_decision(self, names: object) -> Any:
        return None

    def note_open(self, decision: Any) -> None:
        """Note nothing."""


async def ask(
    config: dict[str, Any] | None,
    prepared: Any,
    *,
    question: jp.Question = SURE,
    away: str | None = None,
) -> TurnBench:
    """Return a turn in which a tool has asked `question`."""

    def deploy(ctx: jp.ToolContext) -> jp.Outcome:
        return jp.Success("Done.") if ctx.answers else jp.NeedsInput(question)

    bench = TurnBench(
        [reply(call("deploy")), DONE],
        tools=[new_tool(deploy)],
        person=FakePrompter(yes(True), away=away),
        config=for_tool("deploy", questions={"sure": config}) if config else {},
        inquiry=MockInquiryBackend({"tool_call.deploy.call_1": True}),
    )
    bench.use(prepared=Prepared(prepared))
    await bench.run()
    return bench


@pytest.mark.parametrize(
    ("config", "prepared", "answer", "channel"),
    [
        (SET, GIVEN, False, "configured"),
        (None, GIVEN, True, "answers"),
        (TO_MODEL, GIVEN, True, "answers"),
        (TO_MODEL, None, True, "model"),
        (None, DECLINED, None, "answers"),
        (None, None, True, "form"),
    ],
)
async def test_prepared_answer_comes_after_the_configuration_and_before_all_else(
    config: dict[str, Any] | None, prepared: Any, answer: bool | None, channel: str
) -> None:
    bench = await ask(config, prepared)
    [end] = bench.of("inquiry_response")
    assert (end.answer, end.metadata.get("channel")) == (answer, channel)
    assert len(bench.person.asked) == (channel == "form")


@pytest.mark.parametrize(
    ("question", "away"),
    [
        (SURE, None),
        (SURE.with_exclusive(), "it runs headless"),
        (SURE.with_required(False), "it runs headless"),
    ],
)
async def test_invalid_prepared_answer_is_refused(question: jp.Question, away: str | None) -> None:
    bench = await ask(TO_MODEL, INVALID, question=question, away=away)
    [end] = bench.of("inquiry_response")
    assert end.answer is None
    assert "a.toml, line 1: no" in str([*bench.shown, end])
    assert bench.person.asked == []


async def test_remembered_answer_applies_without_a_user() -> None:
    def deploy(ctx: jp.ToolContext) -> jp.Outcome:
        return jp.Success("Done.") if ctx.answers else jp.NeedsInput(SURE)

    async def answer_and_leave() -> Any:
        person.away = "it runs headless"
        return yes(True, remember=True)

    person = FakePrompter(answer_and_leave)
    bench = TurnBench(
        [reply(call("deploy", "c1")), reply(call("deploy", "c2")), DONE],
        tools=[new_tool(deploy)],
        person=person,
    )
    await bench.run()
    ends = [(end.answer, end.metadata["channel"]) for end in bench.of("inquiry_response")]
    assert ends == [(True, "form"), (True, "remembered")]
