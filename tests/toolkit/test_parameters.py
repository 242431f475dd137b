"""Tests of the conversion and validation of arguments."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import JsonValue

from jp_nb.toolkit.arguments import call_arguments
from jp_nb.toolkit.arguments.parameters import make_parameters_schema
from jp_nb.toolkit.base import Tool
from tests.kit.tools import configured, offer_now

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "days": {"type": "integer"},
        "text": {"type": "string"},
        "either": {"type": ["boolean", "string"]},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "list": {"type": "array", "items": {"type": "number"}},
        "table": {"type": "object", "properties": {"on": {"type": "boolean"}}},
        "free": {},
    },
    "required": ["days"],
}


class AnyArguments(Tool):
    """A tool that takes what the model sends, after the types are repaired."""

    schema = SCHEMA

    async def run(self, arguments: Any, context: Any, cell: Any) -> Any:
        raise AssertionError


def test_text_is_parsed_as_json_if_the_schema_takes_no_text(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"days": "3"}, {"days": 3}),
        ({"days": "three"}, {"days": "three"}),
        ({"days": "3.5"}, {"days": "3.5"}),
        ({"days": "true"}, {"days": "true"}),
        ({"text": "3"}, {"text": "3"}),
        ({"either": "true"}, {"either": "true"}),
        ({"maybe": "null"}, {"maybe": None}),
        ({"list": "[1, 2.5]"}, {"list": [1, 2.5]}),
        ({"list": ["1", 2]}, {"list": [1, 2]}),
        ({"list": '["1", 2]'}, {"list": [1, 2]}),
        ({"table": '{"on": "true", "x": "1"}'}, {"table": {"on": True, "x": "1"}}),
        ({"table": {"on": "true", "x": "1"}}, {"table": {"on": True, "x": "1"}}),
        ({"free": "1", "unknown": "[1]"}, {"free": "1", "unknown": "[1]"}),
        ({"list": "[" * 100_000}, {"list": "[" * 100_000}),
    ]
    config = configured({"conversation": {"tools": {"t": {"source": "python", "enable": True}}}})
    tool = offer_now(config, {"python": {"t": AnyArguments()}}).tools["t"]

    for given, read in rows:
        with subtests.test(given=given):
            assert tool.prepare_arguments(given) == read


def test_schema_prefers_the_summary_to_the_description_at_every_depth() -> None:
    below: JsonValue = {
        "type": "string",
        "required": True,
        "summary": "S",
        "description": "D",
        "enum": ["a"],
    }
    schema = make_parameters_schema(
        {"table": {"type": "object", "properties": {"x": below}, "default": {}}}
    )
    assert schema == {
        "type": "object",
        "properties": {
            "table": {
                "type": "object",
                "default": {},
                "properties": {"x": {"type": "string", "description": "S", "enum": ["a"]}},
                "required": ["x"],
            }
        },
        "additionalProperties": False,
        "required": [],
    }


# --- defaults --------------------------------------------------------------------------------

PARAMETERS: dict[str, JsonValue] = {
    "city": {"type": "string", "required": True},
    "days": {"type": "integer", "required": True, "default": 3},
    "tags": {"type": "array", "default": ["a"]},
    "off": {"type": "boolean", "default": False},
    "how": {
        "type": "object",
        "properties": {
            "unit": {"type": "string", "default": "C"},
            "deep": {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}},
            "must": {"type": "string", "required": True},
        },
    },
    "stops": {
        "type": "array",
        "items": {"type": "object", "properties": {"stay": {"type": "integer", "default": 1}}},
    },
    "free": {"type": "object"},
}
DECLARED = make_parameters_schema(PARAMETERS)


def test_missing_arguments_get_their_defaults(
    subtests: pytest.Subtests,
) -> None:
    rows: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {}),
        ({"days": 1, "tags": [], "off": True}, {}),
        ({"days": None}, {}),
        ({"how": {}}, {"how": {"unit": "C"}}),
        ({"how": {"deep": {}, "x": 1}}, {"how": {"unit": "C", "deep": {"n": 1}, "x": 1}}),
        ({"how": "text"}, {}),
        ({"stops": [{}, {"stay": 9}, 5]}, {"stops": [{"stay": 1}, {"stay": 9}, 5]}),
        ({"free": {"unit": 1}, "unknown": {}}, {}),
    ]
    for given, added in rows:
        with subtests.test(given=given):
            defaults = {"days": 3, "tags": ["a"], "off": False}
            assert call_arguments.fill_defaults(given, DECLARED) == defaults | given | added


def test_changing_a_default_does_not_affect_the_next_call() -> None:
    tags = call_arguments.fill_defaults({}, DECLARED)["tags"]
    assert isinstance(tags, list)
    tags.append("b")
    assert call_arguments.fill_defaults({}, DECLARED)["tags"] == ["a"]


# --- unknown and missing arguments -----------------------------------------------------------


def refusal(missing: str, unknown: str) -> str:
    return (
        f"Invalid arguments: Invalid arguments (missing: {missing}, unknown: {unknown})\n\n"
        'You can call `describe_tools(tools: ["weather"])` to learn more about how to use the '
        "tool correctly."
    )


def test_unknown_and_missing_arguments_are_named(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, Any], str, str]] = [
        ({}, '["city", "days"]', "[]"),
        ({"days": 1}, '["city"]', "[]"),
        ({"city": "x", "days": 1, "a": 1, 'b"': 2}, "[]", r'["a", "b\""]'),
        ({"town": "x", "days": 1}, '["city"]', '["town"]'),
        ({"city": "x", "days": 1, "how": {"unt": "C"}}, '["must"]', '["unt"]'),
        ({"city": "x", "days": 1, "how": {"must": "", "deep": {"m": 1}}}, "[]", '["m"]'),
        ({"city": "x", "days": 1, "stops": [{}, {"x": 1}]}, "[]", '["x"]'),
    ]
    for given, missing, unknown in rows:
        with subtests.test(given=given):
            assert call_arguments.format_argument_problems("weather", given, DECLARED) == refusal(
                missing, unknown
            )


@pytest.mark.req("R028-34")
def test_argument_named_tool_answers_is_unknown() -> None:
    given: dict[str, JsonValue] = {"city": "x", "days": 1, "tool_answers": {"sure": True}}
    assert call_arguments.format_argument_problems("weather", given, DECLARED) == refusal(
        "[]", '["tool_answers"]'
    )


def test_complete_arguments_are_accepted(subtests: pytest.Subtests) -> None:
    rows: list[dict[str, Any]] = [
        {"city": "x", "days": 1},
        {"city": None, "days": "wrong type"},
        {"city": "x", "days": 1, "free": {"anything": 1}, "tags": [{"any": 1}]},
        {"city": "x", "days": 1, "how": {"must": "m", "deep": {}}, "stops": [{"stay": 1}, 5]},
    ]
    for given in rows:
        with subtests.test(given=given):
            assert call_arguments.format_argument_problems("weather", given, DECLARED) is None


def test_tool_without_parameters_takes_no_arguments() -> None:
    text = call_arguments.format_argument_problems("weather", {"a": 1}, make_parameters_schema({}))
    assert text == refusal("[]", '["a"]')
