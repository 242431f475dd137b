"""Whole turns with command tools: real scripts, real record."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from jp_nb.agent.display_events import ToolBegins
from jp_nb.agent.prompts import ActionPrompt, Answered, Exhibit, FormEnd, QuestionPrompt
from jp_nb.agent.tool_set import OfferedTool
from jp_nb.config.assignments import parse_assignment
from jp_nb.config.partial import Partial, apply
from jp_nb.record.events import InquiryRequest, ToolCallRequest, ToolCallResponse
from jp_nb.tooling.command import CommandTool
from tests.support.fakes import (
    Bench,
    FakePrompter,
    call,
    configured,
    for_tool,
    offer_now,
    reply,
    say,
    yes,
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sh, signals and process groups")

DONE = reply(say("Done."))

DEPLOY = """
import json, sys
told = json.load(sys.stdin)
with open("runs", "a") as runs:
    print(json.dumps(told["tool"]["answers"]), file=runs)
answers = told["tool"]["answers"]

def ask(id, text, **answer_type):
    question = {"id": id, "text": text, "answer_type": answer_type}
    print(json.dumps({"type": "needs_input", "question": question}))
    sys.exit()

if "where" not in answers:
    ask("where", "Where to?", type="select", options=["test", "live"])
if "sure" not in answers:
    ask("sure", "Sure?", type="boolean")
if "note" not in answers:
    ask("note", "Why?", type="text")
print(json.dumps({"type": "success", "content": told["tool"]["arguments"]["what"] + " is out"}))
"""


def bench_of(
    folder: Path, config: Partial, *scripts: Any, person: FakePrompter | None = None
) -> Bench:
    bench = Bench([*scripts, DONE], person=person or FakePrompter(), config=config)
    bench.loop.context = {"root": str(folder), "conversation_id": "jp-c1"}
    return bench


def local(name: str, command: JsonValue, **settings: Any) -> Partial:
    return for_tool(name, **({"source": "local", "command": command} | settings))


def script(folder: Path, code: str) -> dict[str, JsonValue]:
    (folder / "tool.py").write_text(code, encoding="utf-8")
    return {"program": sys.executable, "args": ["tool.py"]}


def the_response(bench: Bench) -> tuple[str, bool]:
    [response] = bench.of(ToolCallResponse)
    return response.content, response.is_error


# --- questions -------------------------------------------------------------------------------


@pytest.mark.req("R028-2", "R028-25")
async def test_a_command_asks_one_thing_after_another_and_each_run_knows_all_answers(
    tmp_path: Path,
) -> None:
    person = FakePrompter(yes("live"), yes(True), yes(""))
    config = local(
        "deploy",
        script(tmp_path, DEPLOY),
        run="unattended",
        parameters={"what": {"type": "string", "required": True}},
    )
    bench = bench_of(tmp_path, config, reply(call("deploy", text='{"what": "v2"}')), person=person)
    end = await bench.run()
    assert end.status == "completed"
    assert the_response(bench) == ("v2 is out", False)
    runs = [json.loads(line) for line in (tmp_path / "runs").read_text().splitlines()]
    assert runs == [
        {},
        {"where": "live"},
        {"where": "live", "sure": True},
        {"where": "live", "sure": True, "note": ""},
    ]
    asked = [prompt.question.id for prompt in person.asked if isinstance(prompt, QuestionPrompt)]
    assert asked == ["where", "sure", "note"]
    requests = bench.of(InquiryRequest)
    assert [request.id for request in requests] == [f"call_1.{key}.1" for key in asked]
    assert {(r.source.source, r.source.name) for r in requests} == {("tool", "deploy")}
    # The model sent the call once, and sees nothing of what was asked.
    assert len(bench.of(ToolCallRequest)) == 1
    _, thread = bench.provider.requests[1]
    assert [entry.type for entry in thread][-2:] == ["tool_call_request", "tool_call_response"]


PLAN = """
import json, sys
answers = json.load(sys.stdin)["tool"]["answers"]
if not answers:
    fields = [
        {"id": "days", "text": "Days", "answer_type": {"type": "integer", "minimum": 1}},
        {"id": "pin", "text": "PIN", "answer_type": {"type": "secret"}},
        {"id": "note", "text": "Note", "answer_type": {"type": "text"}, "required": False},
    ]
    pets = [{"value": "c", "label": "Cat"}, {"value": "d", "label": "Dog"}]
    questions = [
        {"id": "trip", "text": "The trip", "header": "Trip",
         "answer_type": {"type": "form", "fields": fields}},
        {"id": "pets", "text": "Which pets?", "required": False,
         "answer_type": {"type": "select", "options": pets, "multi": True, "other": True}},
        {"id": "weight", "text": "How much?", "answer_type": {"type": "number", "below": 9}},
    ]
    print(json.dumps({"type": "needs_input", "questions": questions}))
else:
    with open("told", "w") as told:
        json.dump(answers, told)
    print("planned")
"""


async def test_a_command_asks_with_one_form_and_is_told_all_of_it(tmp_path: Path) -> None:
    given: list[JsonValue] = [
        {"days": 3, "pin": "31415"},
        {"selected": ["d", "c"], "custom": "a newt"},
        2.5,
    ]
    person = FakePrompter(FormEnd(tuple(Answered(each, "form") for each in given)))
    config = local("plan", script(tmp_path, PLAN), run="unattended")
    bench = bench_of(tmp_path, config, reply(call("plan")), person=person)
    await bench.run()
    assert the_response(bench) == ("planned\n", False)
    told = json.loads((tmp_path / "told").read_text())
    assert told == {"trip": given[0], "pets": given[1], "weight": 2.5}
    [prompt] = person.asked
    assert [page.question.id for page in prompt.pages] == ["trip", "pets", "weight"]
    assert prompt.pages[0].question.header == "Trip"
    assert "31415" not in json.dumps([entry.to_raw() for entry in bench.entries])


async def test_a_command_whose_question_is_malformed_is_told_where(tmp_path: Path) -> None:
    config = local("plan", script(tmp_path, PLAN.replace('"minimum"', '"min"')), run="unattended")
    bench = bench_of(tmp_path, config, reply(call("plan")))
    await bench.run()
    assert the_response(bench) == (
        "The tool asked a question that is malformed: "
        "`questions.0.answer_type.fields.0.answer_type.min`: there is no such key.",
        True,
    )


async def test_a_malformed_question_ends_the_call_and_nobody_is_asked(tmp_path: Path) -> None:
    code = """print('{"type":"needs_input","question":{"id":"q","answer_type":"Text"}}')"""
    config = local("t", script(tmp_path, code), run="unattended")
    bench = bench_of(tmp_path, config, reply(call("t")))
    await bench.run()
    text, is_error = the_response(bench)
    assert is_error
    assert "malformed" in text
    assert "needs_input" not in text
    assert bench.of(InquiryRequest) == []


# --- before a run ----------------------------------------------------------------------------


async def test_a_command_runs_only_once_somebody_permits_it(tmp_path: Path) -> None:
    person = FakePrompter(yes("run"), yes("skip"))
    scripts = [reply(call("t", "c1")), reply(call("t", "c2"))]
    bench = bench_of(tmp_path, local("t", "sh -c 'echo ran >> runs'"), *scripts, person=person)
    await bench.run()
    assert all(isinstance(prompt, ActionPrompt) for prompt in person.asked)
    assert len(person.asked) == 2
    assert (tmp_path / "runs").read_text() == "ran\n"
    contents = [response.content for response in bench.of(ToolCallResponse)]
    assert contents == ["", "Tool skipped by user."]


PARAMETERS: JsonValue = {"what": {"type": "string"}}


@pytest.mark.req("HB-15")
@pytest.mark.parametrize("mode", ["ask", "edit"])
async def test_what_an_edited_command_executes_is_seen_before_it_does(
    tmp_path: Path, mode: str
) -> None:
    edit = yes('{"what": "two; three"}')
    before = [yes("edit")] if mode == "ask" else []
    person = FakePrompter(*before, edit, yes("edit"), yes('{"what": "four"}'), yes("run"))
    command: JsonValue = {"program": "echo {{ tool.arguments.what }} >> runs", "shell": True}
    config = local("t", command, run=mode, parameters=PARAMETERS)
    bench = bench_of(tmp_path, config, reply(call("t", text='{"what": "one"}')), person=person)
    await bench.run()
    seen = [p.exhibits for p in person.asked if isinstance(p, ActionPrompt)]
    lines = ["echo one >> runs"] if mode == "ask" else []
    lines += ["echo two; three >> runs", "echo four >> runs"]
    assert [exhibits[0].value for exhibits in seen] == lines
    assert seen[-1][2] == Exhibit("Arguments, as you edited them", {"what": "four"})
    assert (tmp_path / "runs").read_text() == "four\n"
    [response] = bench.of(ToolCallResponse)
    assert response.metadata["edited_arguments"] == {"what": "four"}


async def test_an_edited_command_that_was_seen_may_be_skipped(tmp_path: Path) -> None:
    person = FakePrompter(yes("edit"), yes('{"what": "two"}'), yes("skip"))
    command: JsonValue = {"program": "echo {{ tool.arguments.what }} >> runs", "shell": True}
    config = local("t", command, run="ask", parameters=PARAMETERS)
    bench = bench_of(tmp_path, config, reply(call("t", text='{"what": "one"}')), person=person)
    await bench.run()
    assert the_response(bench) == ("Tool skipped by user.", False)
    assert not (tmp_path / "runs").exists()


async def test_arguments_that_were_edited_back_are_the_models_own(tmp_path: Path) -> None:
    person = FakePrompter(
        *(yes("edit"), yes('{"what": "two"}'), yes("edit"), yes('{"what": "one"}')), yes("run")
    )
    config = local("t", "echo {{tool.arguments.what}}", run="ask", parameters=PARAMETERS)
    bench = bench_of(tmp_path, config, reply(call("t", text='{"what": "one"}')), person=person)
    await bench.run()
    [response] = bench.of(ToolCallResponse)
    assert (response.content, response.metadata) == ("one\n", {})


@pytest.mark.req("R028-34")
async def test_arguments_that_no_parameter_takes_keep_a_command_from_running(
    tmp_path: Path,
) -> None:
    config = local(
        "t", "touch ran", run="unattended", parameters={"a": {"type": "string", "required": True}}
    )
    text = '{"tool_answers": {"sure": true}}'
    bench = bench_of(tmp_path, config, reply(call("t", text=text)))
    await bench.run()
    assert the_response(bench) == (
        'Invalid arguments: Invalid arguments (missing: ["a"], unknown: ["tool_answers"])\n\n'
        'You can call `describe_tools(tools: ["t"])` to learn more about how to use the tool '
        "correctly.",
        True,
    )
    assert not (tmp_path / "ran").exists()


async def test_arguments_are_read_and_completed_before_the_command_gets_them(
    tmp_path: Path,
) -> None:
    parameters = {"days": {"type": "integer"}, "unit": {"type": "string", "default": "C"}}
    config = local("t", "cat", run="unattended", parameters=parameters)
    bench = bench_of(tmp_path, config, reply(call("t", text='{"days": "3"}')))
    await bench.run()
    document = json.loads(the_response(bench)[0])
    assert document["tool"]["arguments"] == {"days": 3, "unit": "C"}
    assert document["context"]["conversation_id"] == "jp-c1"
    assert document["context"]["root"] == str(tmp_path)


async def test_a_tool_without_a_command_is_offered_and_fails_when_it_is_called(
    tmp_path: Path,
) -> None:
    config = for_tool("t", source="local", run="unattended")
    bench = bench_of(tmp_path, config, reply(call("t")))
    await bench.run()
    request, _ = bench.provider.requests[0]
    assert "t" in [tool.name for tool in request.tools]
    assert the_response(bench) == ("Command missing for local tool", True)


# --- formatters ------------------------------------------------------------------------------


async def test_a_command_writes_the_arguments_for_the_person(tmp_path: Path) -> None:
    style: JsonValue = {"parameters": "echo {{context.action}} {{tool.arguments.a}} "}
    parameters = {"a": {"type": "string"}}
    config = local("t", "echo ran", run="unattended", style=style, parameters=parameters)
    bench = bench_of(tmp_path, config, reply(call("t", text='{"a": "x"}')))
    await bench.run()
    [begins] = bench.shown_of(ToolBegins)
    assert begins.formatted == "format_arguments x"
    assert the_response(bench) == ("ran\n", False)


async def test_a_tool_whose_arguments_cannot_be_shown_does_not_run(tmp_path: Path) -> None:
    style: JsonValue = {"parameters": {"program": "echo why >&2; exit 3", "shell": True}}
    config = local("t", "touch ran", run="unattended", style=style)
    bench = bench_of(tmp_path, config, reply(call("t")))
    await bench.run()
    text, is_error = the_response(bench)
    assert is_error
    assert text == (
        "Tool 't' was not executed because the argument formatter failed: its command failed with "
        "exit status 3: why"
    )
    assert not (tmp_path / "ran").exists()


# --- what is offered -------------------------------------------------------------------------


def offered(config: Partial) -> dict[str, OfferedTool]:
    return offer_now(configured(config)).tools


@pytest.mark.req("R083-89")
async def test_a_builtin_whose_source_is_local_runs_the_users_command(tmp_path: Path) -> None:
    config = for_tool(
        "ask_user",
        source="local",
        command="cat",
        parameters={"mood": {"type": "string", "default": "dry"}},
    )
    bench = bench_of(tmp_path, config, reply(call("ask_user", text='{"question": "Why?"}')))
    await bench.run()
    document = json.loads(the_response(bench)[0])
    assert document["tool"]["arguments"] == {"question": "Why?", "mood": "dry"}
    assert bench.of(InquiryRequest) == []


@pytest.mark.req("R083-90")
def test_a_builtin_whose_source_alone_changes_keeps_everything_else() -> None:
    before, after = (
        offered({})["ask_user"],
        offered(for_tool("ask_user", source="local"))["ask_user"],
    )
    assert isinstance(after.executor, CommandTool)
    for field in ("definition", "questions", "hidden", "run", "result"):
        assert getattr(after, field) == getattr(before, field), field


def test_a_local_tool_asks_before_it_runs_and_before_it_formats() -> None:
    tool = offered(local("t", "true"))["t"]
    assert (tool.run, tool.format, tool.origin) == ("ask", "ask", "local")


def test_each_field_of_a_style_is_the_tools_own_or_else_that_of_all_tools() -> None:
    star: Partial = {
        "hidden": True,
        "inline_results": 3,
        "parameters": "json",
        "error": {"inline_results": "full"},
    }
    own: Partial = {"hidden": False, "inline_results": "off"}
    tools = {
        "*": {"style": star},
        "own": {"source": "local", "style": own},
        "none": {"source": "local"},
        "error": {"source": "local", "style": {"error": {"inline_results": 1}}},
    }
    found = offered({"conversation": {"tools": tools}})  # type: ignore[dict-item]

    def style(name: str) -> tuple[Any, ...]:
        tool = found[name]
        return tool.hidden, tool.inline_results, tool.parameters, tool.inline_errors

    assert style("own") == (False, "off", "json", "full")
    assert style("none") == (True, 3, "json", "full")
    assert style("error") == (True, 3, "json", 1)


def test_unless_configured_a_style_says_nothing() -> None:
    tool = offered(local("t", "true"))["t"]
    assert (tool.hidden, tool.formatter, tool.parameters) == (False, None, None)
    assert (tool.inline_results, tool.inline_errors) == (None, None)


def test_a_command_for_all_tools_formats_every_kind_of_them_but_those_that_say_otherwise() -> None:
    tools = {
        "*": {"style": {"parameters": "my-formatter --all"}},
        "own": {"source": "local", "style": {"parameters": "function_call"}},
    }
    found = offered({"conversation": {"tools": tools}})  # type: ignore[dict-item]
    assert found["ask_user"].formatter is not None
    assert found["ask_user"].parameters is None
    assert (found["own"].formatter, found["own"].parameters) == (None, "function_call")


def test_grants_are_handed_on_as_configured() -> None:
    access: Partial = {
        "fs": [{"path": "notes", "read": True}],
        "config": [{"path": "assistant.name", "read": True}],
    }
    tools = offered(local("t", "true", access=access))
    assert tools["t"].access == {
        "fs": [{"path": "notes", "read": True}],
        "net": [],
        "env": [],
        "config": [
            {
                "path": "assistant.name",
                "read": True,
                "write": False,
                "delete": False,
                "apply": "ask",
            }
        ],
    }
    assert tools["ask_user"].access is None


@pytest.mark.parametrize(
    ("enable", "choice", "is_offered"),
    [
        (False, "t", True),
        ({"state": False, "allow_toggle": "if_named"}, "t", True),
        ({"state": False, "allow_toggle": "if_named"}, "auto", False),
        (False, "required", False),
        (True, "auto", True),
        (True, "t", True),
    ],
)
def test_a_disabled_tool_is_offered_when_it_is_forced(
    enable: JsonValue, choice: str, is_offered: bool
) -> None:
    config = local("t", "true", enable=enable) | {"assistant": {"tool_choice": choice}}
    assert ("t" in offered(config)) is is_offered


def test_a_tool_that_is_locked_off_is_never_offered() -> None:
    locked = {"state": False, "allow_toggle": "never"}
    config = configured(local("t", "true", enable=locked))
    forced = config.assistant.model_copy(update={"tool_choice": "t"})
    found = offer_now(config.model_copy(update={"assistant": forced}))
    assert "t" not in found.tools
    assert "t" not in found.missing


@pytest.mark.parametrize(
    ("texts", "printed"),
    [
        (["command=echo 'a  b' {{tool.arguments.n}}"], "a  b 3\n"),
        (['command:={"program": "echo a; echo", "args": ["b c"], "shell": true}'], "a\nb c\n"),
        (["command.program=echo", 'command.args:=["{{tool.name}}", "x  y"]'], "t x  y\n"),
        (["command=echo", "command.args+=more"], "more\n"),
    ],
)
async def test_a_command_is_configured_by_dotted_paths(
    texts: list[str], printed: str, tmp_path: Path
) -> None:
    parameters = {"n": {"type": "integer"}}
    config = for_tool("t", source="local", run="unattended", parameters=parameters)
    for text in texts:
        config = apply(config, parse_assignment(f"conversation.tools.t.{text}", config))
    bench = bench_of(tmp_path, config, reply(call("t", text='{"n": 3}')))
    await bench.run()
    assert the_response(bench) == (printed, False)
