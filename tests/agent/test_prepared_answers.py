"""What an answers file decides goes before a person who is there, and never before what is set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jp_nb.agent.display_events import ChangeEnds, Notice, QuestionEnds
from jp_nb.agent.prepared_answers import Declined, Given, Unfit
from jp_nb.agent.routes import AskModel, AskPerson, Decline, Refuse, Route, UseAnswer, route
from jp_nb.config.tree.access_config import ConfigRule
from jp_nb.config.tree.tool_config import QuestionConfig
from jp_nb.record.events import InquiryResponse, ToolCallResponse
from jp_nb.session.prepared import SessionAnswers
from jp_nb.tooling.context import ToolContext
from jp_nb.tooling.outcome import NeedsInput, Success
from jp_nb.tooling.python import PythonTool
from jp_nb.tooling.question import Question
from jp_nb.workspace.config_files import ConfigFiles
from tests.support.fakes import Bench, FakePrompter, call, for_tool, reply, say, yes

SURE = Question.boolean("sure", "Sure?")
TO_MODEL = QuestionConfig.model_validate({"target": "assistant"})
SET = QuestionConfig.model_validate({"answer": False})
GIVEN = Given(True, "a.toml, line 1")


@pytest.mark.parametrize(
    ("config", "remembered", "prepared", "way"),
    [
        (SET, None, GIVEN, UseAnswer(False, "configured")),
        (None, False, GIVEN, UseAnswer(True, "answers")),
        (TO_MODEL, None, GIVEN, UseAnswer(True, "answers")),
        (TO_MODEL, None, None, AskModel()),
        (None, None, GIVEN, UseAnswer(True, "answers")),
        (None, None, Declined("a.toml, line 1"), Decline()),
        (None, None, None, AskPerson()),
    ],
)
def test_the_file_goes_before_memory_model_and_person_and_behind_what_is_configured(
    config: QuestionConfig | None, remembered: Any, prepared: Any, way: Route
) -> None:
    found = route("t", SURE, config, remembered=remembered, nobody=None, prepared=prepared)
    assert found == way


@pytest.mark.parametrize("question", [SURE, SURE.with_exclusive(), SURE.with_required(False)])
@pytest.mark.parametrize("nobody", [None, "it runs headless"])
def test_what_does_not_fit_is_refused_and_nobody_else_is_asked(
    question: Question, nobody: str | None
) -> None:
    prepared = Unfit("a.toml, line 1: no")
    found = route("t", question, TO_MODEL, remembered=None, nobody=nobody, prepared=prepared)
    assert isinstance(found, Refuse)
    assert found.open == "a.toml, line 1: no"


def answers(tmp_path: Path, text: str) -> SessionAnswers:
    (tmp_path / "a.toml").write_text(text, encoding="utf-8")
    found = SessionAnswers()
    found.load("a.toml", ConfigFiles(tmp_path))
    return found


def deploying(tmp_path: Path, text: str, person: FakePrompter, **config: Any) -> Bench:
    """A turn in which the model calls a tool that asks and then changes the configuration."""

    def deploy(ctx: ToolContext) -> Success | NeedsInput:
        if "sure" not in ctx.answers:
            return NeedsInput(SURE.with_exclusive())
        if ctx.delta_rejection is not None:
            return Success(f"not changed: {ctx.delta_rejection.reason}")
        return Success("deployed", config={"assistant": {"name": "Ada"}})

    tool = PythonTool(deploy, access=[ConfigRule("assistant.name", write=True)])
    bench = Bench(
        [reply(call("deploy", "c1")), reply(say("Done."))],
        tools=[tool],
        person=person,
        config=for_tool("deploy", run="ask", result="ask", **config),
    )
    bench.loop.prepared = answers(tmp_path, text)
    return bench


ALL = (
    '[permissions]\ndeploy = "run"\n[questions.deploy]\nsure = true\n'
    '[changes]\ndeploy = "apply"\n[results]\ndeploy = "deliver"\n'
)


def of(bench: Bench, kind: type[Any]) -> list[Any]:
    return [event for event in bench.shown if isinstance(event, kind)]


@pytest.mark.parametrize("away", [None, "it runs headless"])
async def test_whether_somebody_is_there_or_not_the_file_decides_and_is_named(
    tmp_path: Path, away: str | None
) -> None:
    person = FakePrompter(away=away)
    bench = deploying(tmp_path, ALL, person)
    await bench.run()
    assert person.asked == []
    [response] = bench.of(ToolCallResponse)
    assert (response.content, response.is_error) == ("deployed", False)
    assert [end.channel for end in of(bench, QuestionEnds) + of(bench, ChangeEnds)] == [
        "answers",
        "answers",
    ]
    assert [notice.text for notice in of(bench, Notice)] == [
        "▸ a.toml, line 2 lets deploy run",
        "▸ a.toml, line 8 lets the model read the result of deploy",
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
async def test_what_the_file_skips_does_not_happen(
    tmp_path: Path, section: str, content: str
) -> None:
    word = {"permissions": "run", "results": "deliver", "changes": "apply"}[section]
    person = FakePrompter()
    bench = deploying(tmp_path, ALL.replace(f'deploy = "{word}"', 'deploy = "skip"'), person)
    await bench.run()
    assert person.asked == []
    [response] = bench.of(ToolCallResponse)
    assert response.content == content
    applied = "Ada" if section == "results" else None
    assert bench.app_config().assistant.name == applied


async def test_what_the_file_says_nothing_of_is_asked(tmp_path: Path) -> None:
    without = ALL.replace("[questions.deploy]\nsure = true\n", "")
    person = FakePrompter(yes(True))
    bench = deploying(tmp_path, without, person)
    await bench.run()
    assert [prompt.question.id for prompt in person.asked] == ["sure"]
    [end] = bench.of(InquiryResponse)
    assert end.metadata["channel"] == "form"


def test_a_file_that_changes_is_read_again_and_one_that_is_gone_is_an_error(tmp_path: Path) -> None:
    found = answers(tmp_path, "[questions.t]\nsure = true\n")
    assert found.answer("t", SURE) == Given(True, "a.toml, line 2")
    (tmp_path / "a.toml").write_text("\n[questions.t]\nsure = false\n", encoding="utf-8")
    found.load("a.toml", ConfigFiles(tmp_path))
    assert found.answer("t", SURE) == replace(GIVEN, value=False, place="a.toml, line 3")
    found.load(None, ConfigFiles(tmp_path))
    assert found.answer("t", SURE) is None
    with pytest.raises(Exception, match=r"no such answers file: .*--answers-template FILE. writes"):
        found.load("b.toml", ConfigFiles(tmp_path))
