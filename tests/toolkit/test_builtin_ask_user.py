"""Tests of the tool `ask_user`: registration, validation, and the two runs."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

import jp_nb as jp
from tests.kit.kinds import is_kind, make
from tests.kit.tools import configured, new_tool, offer_now
from tests.support.fakes import InlineCell, for_tool


async def run(*, answers: dict[str, JsonValue] | None = None, **arguments: Any) -> jp.Outcome:
    context = jp.ToolContext("ask_user", answers=answers or {})
    outcome: jp.Outcome = await new_tool("ask_user").run(arguments, context, InlineCell())
    return outcome


async def asked(**arguments: Any) -> jp.NeedsInput:
    outcome = await run(**arguments)
    assert isinstance(outcome, jp.NeedsInput)
    return outcome


# --- the first run ---------------------------------------------------------------------------


@pytest.mark.req("R083-21", "R083-22", "R083-23", "R083-24")
async def test_first_run_asks_one_exclusive_question_without_persistence() -> None:
    question = (await asked(question="Ship it?")).question
    assert (question.id, question.exclusive, question.persistence) == ("answer", True, "none")


@pytest.mark.req("R083-4", "R083-5")
async def test_arguments_become_the_fields_of_the_question(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, Any], dict[str, Any], JsonValue]] = [
        ({}, {"type": "text"}, None),
        ({"answer_type": "text", "default": "x"}, {"type": "text"}, "x"),
        ({"answer_type": "boolean", "default": False}, {"type": "boolean"}, False),
        ({"answer_type": "select", "options": ["a", "b"], "default": "b"},
         {"type": "select", "options": ["a", "b"]}, "b"),
    ]  # fmt: skip
    for arguments, answer_type, default in rows:
        with subtests.test(arguments=arguments):
            question = (await asked(question="Which?", context="two\nlines", **arguments)).question
            assert (question.text, question.context) == ("Which?", "two\nlines")
            assert question.answer_type.model_dump(mode="json") == answer_type
            assert question.default == default


@pytest.mark.req("R083-20")
async def test_question_and_context_stay_separate() -> None:
    question = (await asked(question="Background. More of it. Ship it?")).question
    assert (question.text, question.context) == ("Background. More of it. Ship it?", None)
    question = (await asked(question="Ship it?", context="Why?\n\nBecause.")).question
    assert (question.text, question.context) == ("Ship it?", "Why?\n\nBecause.")


async def test_null_is_an_absent_argument() -> None:
    question = (await asked(question="q", context=None, options=None, default=None)).question
    assert (question.context, question.default, question.answer_type.type) == (None, None, "text")


MISSING = "Missing `question`: provide a non-empty, single-line question."
LINES = "The `question` must be a single line; move additional lines into `context`."
OPTIONS = 'A "select" question needs a non-empty `options` array of strings.'
NOT_SELECT = 'The `options` argument is only allowed when `answer_type` is "select".'


@pytest.mark.req(
    "R083-6",
    "R083-7",
    "R083-8",
    "R083-3",
    "R083-9",
    "R083-10",
    "R083-11",
    "R083-12",
    "R083-13",
    "R083-14",
)
async def test_invalid_call_is_an_error_that_tells_the_model_what_to_change(
    subtests: pytest.Subtests,
) -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        ({}, MISSING),
        ({"question": None}, MISSING),
        ({"question": 5}, MISSING),
        ({"question": ""}, MISSING),
        ({"question": " \t"}, MISSING),
        ({"question": "a\nb"}, LINES),
        ({"question": "a\rb"}, LINES),
        ({"question": "q", "answer_type": "number"},
         'Unknown `answer_type` "number": use "boolean", "select", or "text".'),
        ({"question": "q", "answer_type": "secret"},
         'Unknown `answer_type` "secret": use "boolean", "select", or "text".'),
        ({"question": "q", "answer_type": ["text"]},
         'Unknown `answer_type` "["text"]": use "boolean", "select", or "text".'),
        ({"question": "q", "answer_type": "select"}, OPTIONS),
        ({"question": "q", "answer_type": "select", "options": []}, OPTIONS),
        ({"question": "q", "answer_type": "select", "options": ["a", 1]}, OPTIONS),
        ({"question": "q", "answer_type": "select", "options": "ab"}, OPTIONS),
        ({"question": "q", "options": ["a"]}, NOT_SELECT),
        ({"question": "q", "answer_type": "boolean", "options": []}, NOT_SELECT),
        ({"question": "q", "answer_type": "boolean", "default": "true"},
         'The `default` value does not fit `answer_type` "boolean".'),
        ({"question": "q", "default": True},
         'The `default` value does not fit `answer_type` "text".'),
        ({"question": "q", "answer_type": "select", "options": ["a"], "default": True},
         'The `default` value does not fit `answer_type` "select".'),
        ({"question": "q", "answer_type": "select", "options": ["a"], "default": "b"},
         "The `default` value is not one of `options`."),
        ({"question": "q", "context": ["x"]}, "The `context` argument must be a string."),
        ({"answer_type": "number", "options": []}, MISSING),
    ]  # fmt: skip
    for arguments, message in rows:
        with subtests.test(arguments=arguments):
            outcome = await run(**arguments)
            assert outcome == make("failure", message)
            assert is_kind(outcome, "failure")
            assert not outcome.transient


# --- the second run --------------------------------------------------------------------------


@pytest.mark.req("R083-26", "R083-27")
async def test_second_run_returns_the_answer_with_its_type(
    subtests: pytest.Subtests,
) -> None:
    rows: list[tuple[dict[str, Any], JsonValue, str]] = [
        ({"answer_type": "boolean"}, True, '{"answer_type":"boolean","answer":true}'),
        ({"answer_type": "select", "options": ["true", "b"]}, "true",
         '{"answer_type":"select","answer":"true"}'),
        ({}, "true", '{"answer_type":"text","answer":"true"}'),
        ({}, "Grüße 🙂", '{"answer_type":"text","answer":"Grüße 🙂"}'),
        ({}, "", '{"answer_type":"text","answer":""}'),
    ]  # fmt: skip
    for arguments, answer, content in rows:
        with subtests.test(arguments=arguments):
            outcome = await run(question="q", answers={"answer": answer}, **arguments)
            assert outcome == jp.Success(content)
            assert json.loads(content)["answer"] == answer


MISFIT = "the accumulated answer does not match the requested answer type"


@pytest.mark.req("R083-17", "R083-100", "R083-15", "R083-16")
async def test_invalid_answer_is_an_error_without_details(
    subtests: pytest.Subtests,
) -> None:
    rows: list[tuple[dict[str, Any], JsonValue]] = [
        ({"answer_type": "boolean"}, "true"),
        ({}, True),
        ({}, None),
        ({"answer_type": "select", "options": ["a"]}, "b"),
    ]
    for arguments, answer in rows:
        with subtests.test(arguments=arguments):
            outcome = await run(question="q", answers={"answer": answer}, **arguments)
            assert outcome == make("failure", MISFIT)
            assert "conversation.tools" not in MISFIT


async def test_second_run_validates_the_call_again() -> None:
    assert await run(question="", answers={"answer": "x"}) == make("failure", MISSING)


# --- registration ----------------------------------------------------------------------------


@pytest.mark.req("R083-1", "R083-31", "R083-32", "R083-37", "R083-38", "R083-39", "R083-41")
def test_registration_follows_the_specification() -> None:
    tool = configured({}).conversation.tools["ask_user"]
    assert tool.source == "builtin"
    assert tool.enable is not None
    assert tool.enable.model_dump() == {"state": True, "allow_toggle": "if_named"}
    assert (tool.run, tool.result, tool.style.hidden) == ("unattended", "unattended", True)
    assert tool.questions["answer"].prompt_label == "Assistant"
    assert tool.summary is None
    assert tool.description
    offered = offer_now(configured({})).tools["ask_user"]
    assert offered.definition.description == tool.description


@pytest.mark.req("R083-40")
def test_description_explains_the_use_and_forbids_secrets() -> None:
    text = configured({}).conversation.tools["ask_user"].description or ""
    assert "only when the conversation lacks" in text
    assert "When in doubt, answer the original request instead." in text
    assert "Never use it to collect secrets such as passwords, API keys, or passphrases" in text


@pytest.mark.req("R083-3", "R083-4", "R083-42", "R083-43", "R083-44", "R083-45")
def test_schema_works_with_every_provider() -> None:
    schema = offer_now(configured({})).tools["ask_user"].definition.parameters
    assert schema["required"] == ["question"]
    assert schema["additionalProperties"] is False
    properties: Any = schema["properties"]
    assert list(properties) == ["question", "context", "answer_type", "options", "default"]
    kinds = {name: node["type"] for name, node in properties.items()}
    assert kinds == {
        "question": "string",
        "context": "string",
        "answer_type": "string",
        "options": "array",
        "default": ["boolean", "string"],
    }
    assert properties["answer_type"]["enum"] == ["boolean", "select", "text"]
    assert properties["options"]["items"] == {"type": "string"}
    text = json.dumps(schema)
    for word in ('"any"', '"if"', '"allOf"', '"oneOf"', '"anyOf"', '"dependentRequired"'):
        assert word not in text


@pytest.mark.req("R083-73")
def test_only_question_tools_ask_as_the_assistant() -> None:
    def function() -> str:
        return ""

    builtins = {name: new_tool(name) for name in configured({}).conversation.tools}
    speaks = [
        name for name, tool in builtins.items() if tool.inquiry_source(name).source == "assistant"
    ]
    assert speaks == ["ask", "ask_user"]
    others = [tool for name, tool in builtins.items() if name not in speaks]
    for tool in [*others, new_tool(function)]:
        source = tool.inquiry_source("mine")
        assert (source.source, source.name) == ("tool", "mine")


@pytest.mark.req("R083-86")
def test_only_question_tools_ask_exclusive_questions() -> None:
    folder = Path(jp.__file__).parent / "toolkit" / "builtin"
    setting = [
        path.name
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.keyword) and node.arg == "exclusive")
        or (isinstance(node, ast.Attribute) and node.attr == "with_exclusive")
    ]
    assert sorted(setting) == ["ask_arguments.py", "ask_user.py"]


# --- configuration ---------------------------------------------------------------------------


@pytest.mark.req("R083-35", "R083-36")
def test_disabling_with_a_table_keeps_the_toggle_policy_and_with_a_word_resets_it(
    subtests: pytest.Subtests,
) -> None:
    rows: list[tuple[JsonValue, str]] = [
        ({"state": False}, "if_named"),
        (False, "any"),
        ("off", "any"),
    ]
    for written, toggle in rows:
        with subtests.test(written=written):
            config = configured(for_tool("ask_user", enable=written))
            enable = config.conversation.tools["ask_user"].enable
            assert enable is not None
            assert (enable.state, enable.allow_toggle) == (False, toggle)
            assert "ask_user" not in offer_now(config).tools


@pytest.mark.req("R083-87", "R083-88")
def test_configuring_one_field_keeps_the_others_of_a_builtin(
    subtests: pytest.Subtests,
) -> None:
    for name in sorted(configured({}).conversation.tools):
        with subtests.test(name=name):
            registered = configured({}).conversation.tools[name].model_dump()
            changed = (
                configured(for_tool(name, description="Mine."))
                .conversation.tools[name]
                .model_dump()
            )
            assert changed == {**registered, "description": "Mine."}


@pytest.mark.req("R083-50", "R083-58", "R083-88")
def test_configured_label_replaces_only_the_registered_label() -> None:
    config = configured(for_tool("ask_user", questions={"answer": {"prompt_label": "Bot"}}))
    tool = config.conversation.tools["ask_user"]
    assert tool.questions["answer"].prompt_label == "Bot"
    assert tool.style.hidden is True
    assert (
        configured(for_tool("x", questions={"q": {}}))
        .conversation.tools["x"]
        .questions["q"]
        .prompt_label
        is None
    )


@pytest.mark.req("R083-89")
def test_parameters_command_and_source_can_be_overridden() -> None:
    def mine(question: str) -> str:
        return question

    parameters: JsonValue = {"question": {"type": "string", "summary": "What to ask."}}
    config = configured(for_tool("ask_user", parameters=parameters, command="ask --now"))
    tool = config.conversation.tools["ask_user"]
    assert tool.command is not None
    assert (tool.command.program, tool.command.args) == ("ask", ["--now"])
    schema = offer_now(config).tools["ask_user"].definition.parameters
    assert "What to ask." in str(schema)

    executors: dict[str, Mapping[str, Any]] = {
        "builtin": {"ask_user": new_tool("ask_user")},
        "local": {"ask_user": new_tool(mine)},
    }
    for source, kind in (("local", "local"), ("builtin", "builtin")):
        config = configured(for_tool("ask_user", source=source))
        offered = offer_now(config, executors).tools["ask_user"]
        assert offered.executor is executors[kind]["ask_user"]


@pytest.mark.req("R083-90")
def test_another_source_keeps_the_other_registered_fields() -> None:
    registered = configured({}).conversation.tools["ask_user"].model_dump()
    changed = configured(for_tool("ask_user", source="python.mine")).conversation.tools["ask_user"]
    assert changed.model_dump() == {**registered, "source": "python.mine"}


@pytest.mark.req("R083-46", "R083-84", "R083-85")
def test_configuration_cannot_set_exclusive_persistence_or_other_targets(
    subtests: pytest.Subtests,
) -> None:
    rows: list[dict[str, JsonValue]] = [
        {"exclusive": False},
        {"persistence": "turn"},
        {"target": "user_only"},
        {"target": "nobody"},
    ]
    for setting in rows:
        with subtests.test(setting=setting), pytest.raises(jp.ConfigError):
            configured(for_tool("ask_user", questions={"answer": setting}))
