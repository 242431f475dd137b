"""Turns with command tools: questions, permission, arguments, formatters."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from jp_nb.agent.approvals.permission_rules import SessionRules
from tests.agent.turn_bench import DONE, call, reply
from tests.kit.kinds import is_kind, make
from tests.kit.questions import answered
from tests.kit.settings import Settings
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import FakePrompter, for_tool, yes

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sh, signals and process groups")


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


def make_bench(
    folder: Path, config: dict[str, Any], *scripts: Any, person: FakePrompter | None = None
) -> TurnBench:
    bench = TurnBench([*scripts, DONE], person=person or FakePrompter(), config=config)
    bench.use(shared={"root": str(folder), "conversation_id": "jp-c1"})
    return bench


def local_tool(name: str, command: JsonValue, **settings: Any) -> dict[str, Any]:
    return for_tool(name, **({"source": "local", "command": command} | settings))


def write_script(folder: Path, code: str) -> dict[str, JsonValue]:
    (folder / "tool.py").write_text(code, encoding="utf-8")
    return {"program": sys.executable, "args": ["tool.py"]}


def only_response(bench: TurnBench) -> tuple[str, bool]:
    [response] = bench.of("tool_call_response")
    return response.content, response.is_error


# --- questions -------------------------------------------------------------------------------


@pytest.mark.req("R028-2", "R028-25")
async def test_command_asks_one_question_after_the_other(
    tmp_path: Path,
) -> None:
    person = FakePrompter(yes("live"), yes(True), yes(""))
    config = local_tool(
        "deploy",
        write_script(tmp_path, DEPLOY),
        run="unattended",
        parameters={"what": {"type": "string", "required": True}},
    )
    bench = make_bench(
        tmp_path, config, reply(call("deploy", text='{"what": "v2"}')), person=person
    )
    end = await bench.run()
    assert end.status == "completed"
    assert only_response(bench) == ("v2 is out", False)
    runs = [json.loads(line) for line in (tmp_path / "runs").read_text().splitlines()]
    assert runs == [
        {},
        {"where": "live"},
        {"where": "live", "sure": True},
        {"where": "live", "sure": True, "note": ""},
    ]
    asked = [prompt.question.id for prompt in person.asked if is_kind(prompt, "question_prompt")]
    assert asked == ["where", "sure", "note"]
    requests = bench.of("inquiry_request")
    assert [request.id for request in requests] == [f"call_1.{key}.1" for key in asked]
    assert {(r.source.source, r.source.name) for r in requests} == {("tool", "deploy")}
    # The model sent the call once, and does not see the questions.
    assert len(bench.of("tool_call_request")) == 1
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


async def test_command_asks_with_a_form(tmp_path: Path) -> None:
    given: list[JsonValue] = [
        {"days": 3, "pin": "31415"},
        {"selected": ["d", "c"], "custom": "a newt"},
        2.5,
    ]
    person = FakePrompter(make("form_end", tuple(answered(each, "form") for each in given)))
    config = local_tool("plan", write_script(tmp_path, PLAN), run="unattended")
    bench = make_bench(tmp_path, config, reply(call("plan")), person=person)
    await bench.run()
    assert only_response(bench) == ("planned\n", False)
    told = json.loads((tmp_path / "told").read_text())
    assert told == {"trip": given[0], "pets": given[1], "weight": 2.5}
    [prompt] = person.asked
    assert [page.question.id for page in prompt.pages] == ["trip", "pets", "weight"]
    assert prompt.pages[0].question.header == "Trip"
    assert "31415" not in json.dumps([entry.to_raw() for entry in bench.entries])


async def test_malformed_question_of_a_command_is_an_error(tmp_path: Path) -> None:
    config = local_tool(
        "plan", write_script(tmp_path, PLAN.replace('"minimum"', '"min"')), run="unattended"
    )
    bench = make_bench(tmp_path, config, reply(call("plan")))
    await bench.run()
    assert only_response(bench) == (
        "The tool asked an invalid question: "
        "`questions.0.answer_type.fields.0.answer_type.min`: unknown key.",
        True,
    )
    assert bench.of("inquiry_request") == []


# --- permission and arguments --------------------------------------------------------------------


PARAMETERS: JsonValue = {"what": {"type": "string"}}


@pytest.mark.req("HB-15")
@pytest.mark.parametrize("mode", ["ask", "edit"])
async def test_edited_command_is_shown_before_it_runs(tmp_path: Path, mode: str) -> None:
    edit = yes({"what": "two; three"})
    before = [yes("edit")] if mode == "ask" else []
    person = FakePrompter(*before, edit, yes("edit"), yes({"what": "four"}), yes("run"))
    command: JsonValue = {"program": "echo {{ tool.arguments.what }} >> runs", "shell": True}
    config = local_tool("t", command, run=mode, parameters=PARAMETERS)
    bench = make_bench(tmp_path, config, reply(call("t", text='{"what": "one"}')), person=person)
    await bench.run()
    seen = [p.exhibits for p in person.asked if is_kind(p, "decision_prompt")]
    lines = ["echo one >> runs"] if mode == "ask" else []
    lines += ["echo two; three >> runs", "echo four >> runs"]
    assert [exhibits[0].value for exhibits in seen] == lines
    assert seen[-1][2] == make("prompt_detail", "Arguments as you edited them", {"what": "four"})
    assert (tmp_path / "runs").read_text() == "four\n"
    [response] = bench.of("tool_call_response")
    assert response.metadata["edited_arguments"] == {"what": "four"}


async def test_edit_back_to_short_arguments_offers_a_rule_again(tmp_path: Path) -> None:
    edits = [yes("edit"), yes({"what": "x" * 20_000}), yes("edit"), yes({"what": "two"})]
    person = FakePrompter(*edits, yes("skip"))
    command: JsonValue = {"program": "echo", "args": ["{{ tool.arguments.what }}"]}
    config = local_tool("t", command, run="ask", parameters=PARAMETERS)
    bench = make_bench(tmp_path, config, reply(call("t", text='{"what": "one"}')), person=person)
    bench.use(kept_rules=SessionRules())
    await bench.run()
    prompts = [prompt for prompt in person.asked if is_kind(prompt, "decision_prompt")]
    values = [[action.value for action in prompt.actions] for prompt in prompts]
    assert ["always" in each for each in values] == [True, False, True]


async def test_edited_command_may_be_skipped(tmp_path: Path) -> None:
    person = FakePrompter(yes("edit"), yes({"what": "two"}), yes("skip"))
    command: JsonValue = {"program": "echo {{ tool.arguments.what }} >> runs", "shell": True}
    config = local_tool("t", command, run="ask", parameters=PARAMETERS)
    bench = make_bench(tmp_path, config, reply(call("t", text='{"what": "one"}')), person=person)
    await bench.run()
    assert only_response(bench) == ("Tool skipped by user.", False)
    assert not (tmp_path / "runs").exists()


async def test_arguments_edited_back_are_not_recorded_as_edited(tmp_path: Path) -> None:
    person = FakePrompter(
        yes("edit"), yes({"what": "two"}), yes("edit"), yes({"what": "one"}), yes("run")
    )
    config = local_tool("t", "echo {{tool.arguments.what}}", run="ask", parameters=PARAMETERS)
    bench = make_bench(tmp_path, config, reply(call("t", text='{"what": "one"}')), person=person)
    await bench.run()
    [response] = bench.of("tool_call_response")
    assert (response.content, response.metadata) == ("one\n", {})


@pytest.mark.req("R028-34")
async def test_unknown_arguments_keep_a_command_from_running(
    tmp_path: Path,
) -> None:
    config = local_tool(
        "t", "touch ran", run="unattended", parameters={"a": {"type": "string", "required": True}}
    )
    text = '{"tool_answers": {"sure": true}}'
    bench = make_bench(tmp_path, config, reply(call("t", text=text)))
    await bench.run()
    assert only_response(bench) == (
        'Invalid arguments: Invalid arguments (missing: ["a"], unknown: ["tool_answers"])\n\n'
        'You can call `describe_tools(tools: ["t"])` to learn more about how to use the tool '
        "correctly.",
        True,
    )
    assert not (tmp_path / "ran").exists()


async def test_command_gets_converted_arguments_and_defaults(
    tmp_path: Path,
) -> None:
    parameters = {"days": {"type": "integer"}, "unit": {"type": "string", "default": "C"}}
    config = local_tool("t", "cat", run="unattended", parameters=parameters)
    bench = make_bench(tmp_path, config, reply(call("t", text='{"days": "3"}')))
    await bench.run()
    document = json.loads(only_response(bench)[0])
    assert document["tool"]["arguments"] == {"days": 3, "unit": "C"}
    assert document["context"]["conversation_id"] == "jp-c1"
    assert document["context"]["root"] == str(tmp_path)


async def test_tool_without_a_command_fails_when_called(
    tmp_path: Path,
) -> None:
    config = for_tool("t", source="local", run="unattended")
    bench = make_bench(tmp_path, config, reply(call("t")))
    await bench.run()
    request, _ = bench.provider.requests[0]
    assert "t" in [tool.name for tool in request.tools]
    assert only_response(bench) == ("Command missing for local tool", True)


# --- formatters ------------------------------------------------------------------------------


async def test_command_formats_the_arguments(tmp_path: Path) -> None:
    style: JsonValue = {"parameters": "echo {{context.action}} {{tool.arguments.a}} "}
    parameters = {"a": {"type": "string"}}
    config = local_tool("t", "echo ran", run="unattended", style=style, parameters=parameters)
    bench = make_bench(tmp_path, config, reply(call("t", text='{"a": "x"}')))
    await bench.run()
    [begins] = bench.shown_of("tool_begins")
    assert begins.formatted == "format_arguments x"
    assert only_response(bench) == ("ran\n", False)


async def test_failed_formatter_keeps_the_tool_from_running(tmp_path: Path) -> None:
    style: JsonValue = {"parameters": {"program": "echo why >&2; exit 3", "shell": True}}
    config = local_tool("t", "touch ran", run="unattended", style=style)
    bench = make_bench(tmp_path, config, reply(call("t")))
    await bench.run()
    text, is_error = only_response(bench)
    assert is_error
    assert text == (
        "Tool 't' was not executed because the argument formatter failed: its command failed with "
        "exit status 3: why"
    )
    assert not (tmp_path / "ran").exists()


# --- configuration -------------------------------------------------------------------------------


@pytest.mark.req("R083-89")
async def test_builtin_with_a_local_source_runs_the_command(tmp_path: Path) -> None:
    config = for_tool(
        "ask_user",
        source="local",
        command="cat",
        parameters={"mood": {"type": "string", "default": "dry"}},
    )
    bench = make_bench(tmp_path, config, reply(call("ask_user", text='{"question": "Why?"}')))
    await bench.run()
    document = json.loads(only_response(bench)[0])
    assert document["tool"]["arguments"] == {"question": "Why?", "mood": "dry"}
    assert bench.of("inquiry_request") == []


async def test_command_is_configurable_by_dotted_paths(tmp_path: Path) -> None:
    for texts, printed in [
        (["command=echo 'a  b' {{tool.arguments.n}}"], "a  b 3\n"),
        (['command:={"program": "echo a; echo", "args": ["b c"], "shell": true}'], "a\nb c\n"),
        (["command.program=echo", 'command.args:=["{{tool.name}}", "x  y"]'], "t x  y\n"),
        (["command=echo", "command.args+=more"], "more\n"),
    ]:
        parameters = {"n": {"type": "integer"}}
        config = for_tool("t", source="local", run="unattended", parameters=parameters)
        for text in texts:
            change = Settings.assign(f"conversation.tools.t.{text}", config)
            config = Settings(config).change(change, plain=False)
        bench = make_bench(tmp_path, config, reply(call("t", text='{"n": 3}')))
        await bench.run()
        assert only_response(bench) == (printed, False)
