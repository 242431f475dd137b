"""Decisions of the user about a call: permission, edits, delivery, configuration changes."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

import jp_nb as jp
from tests.agent.proposers import TO_GPT, Proposer, make_bench
from tests.agent.turn_bench import DONE, call, make_result_tool, reply, say
from tests.kit.kinds import is_kind, make
from tests.kit.questions import answered, decision_prompt, not_answered
from tests.kit.renderings import render
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import CANCELLED, FakePrompter, for_tool, yes
from tests.support.partials import merge

DELFT = '{"city": "Delft"}'
TIMED_OUT = not_answered("timed_out", "form")
TOO_LATE = "Tool not run: the user did not answer in time."
GONE = make("unavailable", "gone")


class Weather:
    """A tool that records its arguments."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

        def weather(city: str, days: int = 1, ctx: jp.ToolContext | None = None) -> str:
            self.seen.append({"city": city, "days": days})
            return f"rain in {city}"

        self.tool = new_tool(weather)


async def run_with_decisions(
    *ends: Any, mode: str = "ask", calls: int = 1
) -> tuple[TurnBench, Weather]:
    """A turn that calls the tool `weather`, with these outcomes of prompts."""
    weather = Weather()
    made = [call("weather", f"c{n}", index=n, text=DELFT) for n in range(calls)]
    bench = TurnBench(
        [reply(*made), DONE],
        tools=[weather.tool],
        person=FakePrompter(*ends),
        config=for_tool("weather", run=mode),
    )
    await bench.run()
    return bench, weather


def response(bench: TurnBench) -> Any:
    return bench.of("tool_call_response")[0]


def texts(prompts: list[Any]) -> list[str]:
    return [p.text if is_kind(p, "decision_prompt") else p.question.text for p in prompts]


ASK = "Run the tool `weather`?"
EDIT = "Arguments of weather"
CMD = "Run the tool `cmd`?"
TO_APPLY = "⟳ Configuration delta proposed by tool 'changes'"
WHY = "Why should weather not run? (sent to the model)"


# --- permission ------------------------------------------------------------------------------


async def test_permission_prompt_shows_arguments_and_choices() -> None:
    bench, _ = await run_with_decisions(yes("run"))
    [prompt] = bench.person.asked
    assert is_kind(prompt, "decision_prompt")
    assert prompt.exhibits == (make("prompt_detail", "Arguments", {"city": "Delft"}),)
    assert [(a.key, a.label, a.on_form) for a in prompt.actions] == [
        ("y", "Run weather", True),
        ("Y", "Allow weather for this turn", True),
        ("n", "Skip weather", True),
        ("N", "Skip all calls of weather in this turn", True),
        ("p", "Print the arguments", False),
        ("r", "Skip and say why …", True),
        ("e", "Edit the arguments …", True),
    ]


async def test_printing_the_arguments_asks_again() -> None:
    bench, weather = await run_with_decisions(yes("print"), yes("run"))
    assert texts(bench.person.asked) == [ASK, ASK]
    assert len(weather.seen) == 1


async def test_reason_of_a_skipped_call_is_reported_to_the_model() -> None:
    bench, weather = await run_with_decisions(yes("reason"), yes(" It is dry. "))
    assert texts(bench.person.asked) == [ASK, WHY]
    assert response(bench).content == "Tool skipped by user: It is dry."
    assert (response(bench).is_error, weather.seen) == (False, [])
    assert bench.shown_of("tool_ends")[0].skipped
    assert response(bench).metadata == {"skipped": True}


async def test_unanswered_prompts_run_nothing(subtests: pytest.Subtests) -> None:
    rows: list[tuple[list[Any], str]] = [
        ([yes("skip")], "Tool skipped by user."),
        ([CANCELLED], "Tool skipped by user."),
        ([yes("reason"), yes("  ")], "Tool skipped by user."),
        ([yes("reason"), CANCELLED, yes("run")], "rain in Delft"),
        ([yes("reason"), TIMED_OUT], TOO_LATE),
        ([yes("edit"), CANCELLED, yes("skip")], "Tool skipped by user."),
        ([yes("edit"), TIMED_OUT], TOO_LATE),
        ([yes("reason"), GONE], "Tool not run: no user is available: gone."),
        ([yes("edit"), GONE], "Tool not run: no user is available: gone."),
        ([TIMED_OUT], TOO_LATE),
        ([not_answered("interrupted", "form")], "Tool not run: an interrupt came first."),
    ]
    for ends, content in rows:
        with subtests.test(ends=ends):
            bench, weather = await run_with_decisions(*ends)
            assert (response(bench).content, response(bench).is_error) == (content, False)
            assert len(weather.seen) == (content == "rain in Delft")
            assert len(bench.person.asked) == len(ends)


async def test_edited_arguments_run_and_are_recorded() -> None:
    edited = {"city": "Gouda", "days": "3"}
    bench, weather = await run_with_decisions(yes("edit"), yes(edited))
    prompt = bench.person.asked[1]
    assert is_kind(prompt, "question_prompt")
    assert prompt.question.default == {"city": "Delft"}
    assert prompt.submit == "Run with these arguments"
    assert weather.seen == [{"city": "Gouda", "days": 3}]
    assert bench.of("tool_call_request")[0].arguments == {"city": "Delft"}
    assert response(bench).metadata == {
        "edited_arguments": {"city": "Gouda", "days": 3},
        "edited_by": "person",
        "channel": "form",
    }
    shown = [begins.arguments for begins in bench.shown_of("tool_begins")]
    assert shown == [{"city": "Delft"}, {"city": "Gouda", "days": 3}]
    assert [begins.edited for begins in bench.shown_of("tool_begins")] == [False, True]


async def test_unchanged_arguments_are_not_recorded_as_edited() -> None:
    bench, _ = await run_with_decisions(yes("edit"), yes({"city": "Delft"}))
    assert response(bench).metadata == {}


async def test_edit_that_is_not_json_is_asked_for_again() -> None:
    for typed in ("many", "{", "NaN", "[" * 100_000):
        ends = yes({"city": "Delft", "days": typed}), yes({"city": "Gouda"})
        bench, weather = await run_with_decisions(yes("edit"), *ends)
        assert texts(bench.person.asked) == [ASK, EDIT, EDIT]
        assert weather.seen == [{"city": "Gouda", "days": 1}]


async def test_form_of_the_arguments_has_a_box_for_each(subtests: pytest.Subtests) -> None:
    bench, _ = await run_with_decisions(yes("edit"), yes({"city": "Gouda"}))
    page = bench.person.asked[1]
    boxes = [(each.question.text, each.question.default, each.is_code) for each in page.fields]
    assert boxes == [("city", "Delft", False), ("days (JSON)", None, True)]

    kind = page.question.answer_type
    for answer, problems in (
        ({"city": "Gouda", "days": "3"}, {}),
        ({"city": ""}, {}),
        ({"days": "3"}, {"city": "an answer is required"}),
        ({"city": "Gouda", "days": "x"}, {"days": "Invalid JSON: Expecting value"}),
    ):
        with subtests.test(answer=answer):
            found = kind.problems(answer)
            assert found.keys() == problems.keys()
            assert all(found[name].startswith(words) for name, words in problems.items())


async def test_edit_mode_starts_with_the_arguments() -> None:
    bench, weather = await run_with_decisions(yes({"city": "Gouda"}), mode="edit")
    assert texts(bench.person.asked) == [EDIT]
    assert weather.seen == [{"city": "Gouda", "days": 1}]


async def test_closed_edit_skips_the_call() -> None:
    bench, weather = await run_with_decisions(CANCELLED, mode="edit")
    assert response(bench).content == "Tool skipped by user: Edit cancelled"
    assert weather.seen == []


@pytest.mark.parametrize(
    ("mode", "end"), [("ask", make("unavailable", "no page")), ("edit", RuntimeError("gone"))]
)
async def test_failed_permission_prompt_is_an_error(mode: str, end: Any) -> None:
    bench, weather = await run_with_decisions(end, mode=mode)
    assert response(bench).is_error
    assert 'conversation.tools.weather.run = "unattended"' in response(bench).content
    assert weather.seen == []


async def test_steps_of_a_decision_keep_the_screen() -> None:
    bench, _ = await run_with_decisions(
        yes("edit"), yes({"city": "Delft"}), yes("reason"), yes("No."), calls=2
    )
    assert texts(bench.person.asked) == [ASK, EDIT, ASK, WHY]
    saved = [render("prompt_without_form", prompt) for prompt in bench.person.asked]
    assert not any("asked by tool" in text for text in saved)  # the tool has not even begun
    contents = [r.content for r in bench.of("tool_call_response")]
    assert contents == ["rain in Delft", "Tool skipped by user: No."]


# --- delivery --------------------------------------------------------------------------------


async def delivered(
    *ends: Any, mode: str = "ask", outcome: jp.Outcome | None = None, away: str | None = None
) -> tuple[TurnBench, Any]:
    made = outcome or jp.Success("a secret")
    bench = TurnBench(
        [reply(call("t")), DONE],
        tools=[new_tool(lambda: made, name="t")],
        person=FakePrompter(*ends, away=away),
        config=for_tool("t", result=mode),
    )
    await bench.run()
    return bench, response(bench)


async def test_delivery_prompt_shows_the_whole_result() -> None:
    bench, delivered_ = await delivered(yes("deliver"))
    [prompt] = bench.person.asked
    assert is_kind(prompt, "decision_prompt")
    assert prompt.text == "Deliver t result to assistant?"
    assert prompt.exhibits == (make("prompt_detail", "Result", "a secret"),)
    assert [(a.key, a.label) for a in prompt.actions] == [
        ("y", "Deliver the result"),
        ("n", "Withhold the result"),
        ("e", "Edit the result …"),
    ]
    assert delivered_.content == "a secret"


async def test_user_decides_which_result_the_model_reads(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, list[Any], str]] = [
        ("ask", [yes("skip")], "Result delivery skipped by user."),
        ("ask", [CANCELLED], "Result delivery skipped by user."),
        ("ask", [yes("edit"), yes("no secret")], "no secret"),
        ("ask", [yes("edit"), yes(" "), yes("deliver")], "a secret"),
        ("ask", [yes("edit"), CANCELLED, yes("skip")], "Result delivery skipped by user."),
        ("ask", [yes("edit"), make("unavailable", "gone")], "Result edit cancelled."),
        ("edit", [yes("no secret")], "no secret"),
        ("edit", [yes(""), yes("skip")], "Result delivery skipped by user."),
        ("edit", [CANCELLED, CANCELLED], "Result delivery skipped by user."),
        ("edit", [CANCELLED, yes("deliver")], "a secret"),
    ]
    for mode, ends, content in rows:
        with subtests.test(mode=mode, ends=ends):
            bench, got = await delivered(*ends, mode=mode)
            assert (got.content, got.is_error) == (content, False)
            assert len(bench.person.asked) == len(ends)


async def test_edit_of_a_result_starts_with_its_text() -> None:
    bench, _ = await delivered(yes("x"), mode="edit")
    [prompt] = bench.person.asked
    assert is_kind(prompt, "question_prompt")
    assert prompt.question.default == "a secret"
    assert prompt.submit == "Deliver this text"


@pytest.mark.parametrize(
    ("ends", "content", "is_error"),
    [
        ([yes("failed: x")], "failed: x", True),
        ([yes("fine")], "fine", False),
        ([CANCELLED, yes("deliver")], "failed: x", True),
    ],
)
async def test_unedited_error_stays_an_error(ends: list[Any], content: str, is_error: bool) -> None:
    _, got = await delivered(*ends, mode="edit", outcome=make("failure", "failed: x"))
    assert (got.content, got.is_error) == (content, is_error)


# --- configuration changes -----------------------------------------------------------------------

CHANGES = (
    make("proposed_change", "assistant.model.id", '"a/opus"', '"a/sonnet"'),
    make("proposed_change", "conversation.attachments", '["a.txt"]', '"b.txt"', added=True),
    make("proposed_change", "assistant.model.parameters.temperature", "0.5", None),
)


@pytest.mark.req("R078-75")
def test_one_prompt_about_all_changes_names_the_tool() -> None:
    prompt = decision_prompt("approval", "change_model", *CHANGES)
    assert prompt.changes == CHANGES
    assert prompt.text == "⟳ Configuration delta proposed by tool 'change_model'"
    assert [(a.key, a.label, a.on_form) for a in prompt.actions] == [
        ("y", "Apply changes", True),
        ("n", "Reject changes", True),
    ]


@pytest.mark.req("R078-77")
async def test_changes_are_applied_only_with_apply(subtests: pytest.Subtests) -> None:
    no = yes("reject")
    rows: list[tuple[list[Any], tuple[object, ...]]] = [
        ([answered("apply", "form")], (True, "person", "form", None)),
        ([answered("reject", "stdin")], (False, "person", "stdin", None)),
        ([answered("a value of no button", "form")], (False, "person", "form", None)),
        ([not_answered("cancelled", "terminal")], (False, "person", "terminal", None)),
        ([not_answered("declined", "form")], (False, "person", "form", None)),
        ([not_answered("interrupted", "stdin"), no], (False, "person", "form", None)),
        (
            [not_answered("timed_out", "stdin")],
            (False, "nobody", None, "the user did not answer in time"),
        ),
        ([make("unavailable", "headless")], (False, "nobody", None, "headless")),
    ]
    for ends, decided in rows:
        with subtests.test(end=ends[0]):
            person = FakePrompter(*ends)
            bench = make_bench(Proposer(jp.Success("", config=TO_GPT), "done"), person=person)
            await bench.run()
            (shown,) = bench.shown_of("change_ends")
            assert (shown.applied, shown.by, shown.channel, shown.reason) == decided
            assert len(person.asked) == len(ends)
            assert len(bench.of("config_delta")) == shown.applied


# --- display -------------------------------------------------------------------------------------


async def test_call_is_shown_before_its_permission_prompt() -> None:
    shown: list[str] = []

    async def run() -> Any:
        shown.extend(begins.name for begins in bench.shown_of("tool_begins"))
        return yes("run")

    bench = TurnBench(
        [reply(call("t")), DONE],
        tools=[new_tool(lambda: "x", name="t")],
        person=FakePrompter(run),
        config=for_tool("t", run="ask"),
    )
    await bench.run()
    assert shown == ["t"]
    assert len(bench.shown_of("tool_begins")) == 1


@pytest.mark.parametrize(
    ("how", "why", "mode"),
    [
        ("interrupted", "an interrupt came first", "ask"),
        ("timed_out", "the user did not answer in time", "edit"),
    ],
)
async def test_result_without_a_decision_is_not_delivered(how: Any, why: str, mode: Any) -> None:
    bench, got = await delivered(not_answered(how, "form"), mode=mode)
    assert got.content == f"The tool ran. Its result is not delivered: {why}."
    assert "a secret" not in json.dumps(bench.stream.raw)


# --- permission for the turn ---------------------------------------------------------------------

CONFIGURES: dict[str, Any] = {"path": "conversation.tools.cmd", "write": "insecure_allow"}
COMMAND: dict[str, Any] = {"source": "local", "command": "echo a", "run": "ask"}


async def tools_asked_about(change: Any) -> list[str]:
    """The tools that are asked about: `cmd`, approved for the turn, and again after `change`."""

    def changes() -> Any:
        return jp.Success("Changed.", config=change)

    made = for_tool("cmd", **COMMAND)
    rules = [CONFIGURES, {"path": "assistant", "write": True}]
    bench = TurnBench(
        [
            reply(call("cmd", "c1")),
            reply(call("changes", "c2")),
            reply(call("cmd", "c3"), call("cmd", "c4", index=2)),
            DONE,
        ],
        tools=[new_tool(changes)],
        person=FakePrompter(yes("run_turn"), yes("apply"), yes("skip"), yes("skip")),
        config=merge(made, for_tool("changes", access={"config": rules})),
    )
    await bench.run()
    return texts(bench.person.asked)


async def test_permission_for_the_turn_ends_when_the_tool_is_reconfigured() -> None:
    for settings in [
        {"command": "echo b"},
        {"command": {"program": "echo", "args": ["a"], "shell": True}},
        {"options": {"where": "live"}},
        {"access": {"fs": [{"path": "/", "write": True}]}},
        {"result": "ask"},
        {"parameters": {"x": {"type": "string", "default": "y"}}},
    ]:
        change = {"conversation": {"tools": {"cmd": settings}}}
        assert await tools_asked_about(change) == [CMD, TO_APPLY, CMD, CMD], settings


async def test_permission_for_the_turn_survives_other_changes() -> None:
    assert await tools_asked_about({"assistant": {"name": "Bo"}}) == [CMD, TO_APPLY]


async def test_permission_for_the_turn_ends_when_the_function_is_redefined() -> None:
    seen: list[str] = []
    tools: dict[str, Any] = {}

    def define(word: str) -> None:
        def greet() -> str:
            seen.append(word)
            return word

        tools["greet"] = new_tool(greet)

    def redefine() -> jp.Success:
        define("new")
        return jp.Success("Done.", config={"assistant": {"name": "Bo"}})

    define("old")
    tools["redefine"] = new_tool(redefine)
    rules = [{"path": "assistant", "write": True, "apply": "unattended"}]
    bench = TurnBench(
        [
            reply(call("greet", "c1")),
            reply(call("greet", "c2")),
            reply(call("redefine", "c3")),
            reply(call("greet", "c4")),
            DONE,
        ],
        executors={"python": tools},
        person=FakePrompter(yes("run_turn"), yes("skip")),
        config=merge(
            for_tool("greet", source="python", run="ask"),
            for_tool("redefine", source="python", access={"config": rules}),
        ),
    )
    await bench.run()
    assert seen == ["old", "old"]
    assert texts(bench.person.asked) == 2 * ["Run the tool `greet`?"]


async def asked_about_code(*codes: str, ends: list[Any], **settings: Any) -> tuple[list[Any], Any]:
    """Run a turn that calls a tool with each of `codes`; return the prompts and the runs."""
    seen: list[str] = []

    def run_sql(query: str) -> str:
        seen.append(query)
        return query

    made = [
        call("run_sql", f"c{n}", text=json.dumps({"query": code})) for n, code in enumerate(codes)
    ]
    bench = TurnBench(
        [*(reply(each) for each in made), DONE],
        tools=[new_tool(run_sql, covers="arguments")],
        person=FakePrompter(*ends),
        config=for_tool("run_sql", run="ask", **settings),
    )
    await bench.run()
    return bench.person.asked, seen


async def test_permission_for_the_turn_may_cover_the_same_arguments_alone() -> None:
    codes = ("select 1", "drop table a", "select 1")
    asked, seen = await asked_about_code(*codes, ends=[yes("run_turn"), yes("skip")])
    assert [prompt.exhibits[0].value for prompt in asked] == [
        {"query": "select 1"},
        {"query": "drop table a"},
    ]
    assert seen == ["select 1", "select 1"]
    assert asked[0].actions[1].label == "Allow this exact call for this turn"


async def test_refusal_for_the_turn_covers_all_calls_of_the_tool() -> None:
    codes = ("drop table a", "drop table b")
    asked, seen = await asked_about_code(*codes, ends=[yes("skip_turn")])
    assert (len(asked), seen) == (1, [])


async def test_calls_covered_by_a_permission_are_configurable() -> None:
    codes = ("select 1", "drop table a")
    asked, seen = await asked_about_code(*codes, ends=[yes("run_turn")], covers="tool")
    assert (len(asked), seen) == (1, ["select 1", "drop table a"])
    assert asked[0].actions[1].label == "Allow run_sql for this turn"


async def test_permission_for_the_turn_covers_one_command_line() -> None:
    made: dict[str, Any] = {"source": "local", "run": "ask"}
    made["command"] = {"program": "sh", "args": ["-c", "{{ tool.arguments.line }}"]}
    made["parameters"] = {"line": {"type": "string", "required": True}}
    lines = [json.dumps({"line": line}) for line in ("echo a", "echo a", "echo b")]
    bench = TurnBench(
        [*(reply(call("cmd", f"c{n}", text=line)) for n, line in enumerate(lines)), DONE],
        person=FakePrompter(yes("run_turn"), yes("skip")),
        config=for_tool("cmd", **made),
    )
    await bench.run()
    assert [
        prompt.exhibits[0].value
        for prompt in bench.person.asked
        if is_kind(prompt, "decision_prompt")
    ] == ["sh -c 'echo a'", "sh -c 'echo b'"]


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_tool_time_does_not_include_the_time_of_its_permission(kind: str) -> None:
    def slow() -> str:
        time.sleep(0.05)
        return "done"

    async def slow_too() -> str:
        await asyncio.sleep(0.05)
        return "done"

    async def thinks() -> Any:
        await asyncio.sleep(0.5)
        return yes("run")

    tool = new_tool(slow if kind == "def" else slow_too, name="slow", run="ask")
    bench = TurnBench(
        [reply(call("slow")), reply(say("Done."))], tools=[tool], person=FakePrompter(thinks)
    )
    await bench.run()
    [ends] = bench.shown_of("tool_ends")
    assert 0.05 <= ends.seconds < 0.45


@pytest.mark.parametrize(
    ("decision", "contents"),
    [
        ("run_turn", ["x", "x", "x"]),
        (
            "skip_turn",
            [
                "Tool skipped by user.",
                "Tool skipped by user (remembered).",
                "Tool skipped by user (remembered).",
            ],
        ),
    ],
)
async def test_decision_for_the_turn_also_answers_waiting_prompts(
    decision: str, contents: list[str]
) -> None:
    person = FakePrompter(yes(decision))
    both = reply(call("t", "c1", index=1), call("t", "c2", index=2))
    bench = TurnBench(
        [both, reply(call("t", "c3")), DONE],
        tools=[make_result_tool("x")],
        person=person,
        config=for_tool("t", run="ask"),
    )
    await bench.run()
    assert [r.content for r in bench.of("tool_call_response")] == contents
    assert len(person.asked) == 1


@pytest.mark.parametrize(
    ("config", "content"),
    [
        ({"run": "skip"}, "Tool skipped by user."),
        ({"result": "skip"}, "Result delivery skipped by configuration."),
    ],
)
async def test_tool_or_its_result_is_skipped_by_configuration(config: Any, content: str) -> None:
    bench = TurnBench(
        [reply(call("t")), DONE], tools=[make_result_tool("secret")], config=for_tool("t", **config)
    )
    await bench.run()
    [response] = bench.of("tool_call_response")
    assert (response.content, response.is_error) == (content, False)
    assert "secret" not in repr(bench.shown)


@pytest.mark.parametrize("setting", ["run", "result"])
async def test_decision_without_a_user_is_an_error_that_names_its_setting(setting: str) -> None:
    bench = TurnBench(
        [reply(call("t")), DONE],
        tools=[make_result_tool("secret")],
        person=FakePrompter(away="no kernel"),
        config=for_tool("t", **{setting: "ask"}),
    )
    await bench.run()
    [response] = bench.of("tool_call_response")
    assert response.is_error
    what = "did not run: it needs the user's permission"
    if setting == "result":
        what = "ran, but its result is not delivered: that needs the user's approval"
    assert response.content == (
        f"t {what}, and no user is available: no kernel. The user "
        f'can set conversation.tools.t.{setting} = "unattended". Do not retry this tool call in '
        "this turn."
    )
    assert "secret" not in repr(bench.stream.raw)


async def test_failed_delivery_prompt_withholds_the_result() -> None:
    bench = TurnBench(
        [reply(call("t")), DONE],
        tools=[make_result_tool("secret")],
        person=FakePrompter(RuntimeError("gone")),
        config=for_tool("t", result="ask"),
    )
    async with asyncio.timeout(5):
        await bench.run()
    [response] = bench.of("tool_call_response")
    assert response.is_error
    assert "the prompt failed: RuntimeError: gone" in response.content
