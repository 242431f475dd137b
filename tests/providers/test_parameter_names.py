"""Names of parameters that Anthropic refuses are renamed in requests, and back in calls."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jp_nb.json_schema import walk_schemas
from jp_nb.providers import create_provider
from jp_nb.providers.anthropic import build_request_fields
from jp_nb.providers.call_rules import ANTHROPIC_CALLS, GOOGLE_CALLS, RESPONSES_CALLS
from jp_nb.providers.parameter_names import ParameterNames
from jp_nb.toolkit.python import PythonTool
from tests.agent.over_http import sent_calls, use_http_provider
from tests.agent.turn_bench import Bench
from tests.kit.models import request_value
from tests.providers.helpers import ask
from tests.support.loopback import LoopbackServer, Reply, ToolCall

ACCEPTED = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
TEXT: dict[str, Any] = {"type": "string"}
IDENTIFIERS = st.from_regex(r"\w+", fullmatch=True).filter(str.isidentifier)
NAMES = st.lists(
    IDENTIFIERS | st.text(max_size=70).filter(lambda name: name != "rows"),
    min_size=1,
    max_size=4,
    unique=True,
)


def make_tool(properties: dict[str, Any], **fields: Any) -> Any:
    return request_value(
        "tool_definition", "f", "F.", {"type": "object", "properties": properties, **fields}
    )


def list_names(schema: dict[str, Any]) -> set[str]:
    """Return the names of all properties of `schema`."""
    parts = walk_schemas(schema).values()
    return {name for part in parts for name in (part.get("properties") or {})}  # type: ignore


@given(NAMES, st.booleans())
@example(["größe"], True)
@example(["größe", ANTHROPIC_CALLS.format_parameter("größe")], False)
@example(["a" * 64, "a" * 65, "a" * 66], False)
@example(["a b", "a_b", "", "$top", "filter[id]"], False)
def test_every_name_is_sent_in_an_accepted_form_and_restored(names: list[str], nest: bool) -> None:
    properties: dict[str, Any] = dict.fromkeys(names, TEXT)
    if nest:
        row = {"type": "object", "properties": dict(properties), "required": names}
        properties["rows"] = {"type": "array", "items": row}
    tool = make_tool(properties, required=names)
    arguments: Any = dict.fromkeys(names, "1")
    if nest:
        arguments["rows"] = [dict.fromkeys(names, "2")]

    (sent,) = build_request_fields(ask(tools=(tool,)))["tools"]
    schema = sent["input_schema"]
    found = list_names(schema)
    assert all(map(ACCEPTED.fullmatch, found))
    assert len(found) == len(list_names(dict(tool.parameters)))

    changed = ParameterNames.of(tool, ANTHROPIC_CALLS)
    written = changed.format_arguments(arguments)
    assert set(written) <= found
    assert set(written) == set(schema["properties"])
    assert json.loads(changed.restore(json.dumps(written))) == arguments
    accepted = [name for name in names if ACCEPTED.fullmatch(name)]
    assert all(name in found for name in accepted)


@given(IDENTIFIERS)
def test_other_apis_accept_every_name(name: str) -> None:
    for rules in (GOOGLE_CALLS, RESPONSES_CALLS):
        tool = make_tool({name: TEXT}, required=[name])
        assert ParameterNames.of(tool, rules).format_schema() == tool.parameters


def test_every_mention_of_a_name_is_renamed() -> None:
    sent_name = ANTHROPIC_CALLS.format_parameter("größe")
    box = {"type": "object", "properties": {"größe": {"type": "number"}}, "required": ["größe"]}
    tool = make_tool(
        {
            "größe": {"type": "number", "description": "In cm."},
            "box": {"$ref": "#/$defs/größe", "default": {"größe": 1}},
            "same": {"$ref": "#/properties/gr%C3%B6%C3%9Fe"},
            "one": {"anyOf": [box, TEXT], "discriminator": {"propertyName": "größe"}},
            "größe_text": TEXT,
        },
        dependentRequired={"größe": ["box", "größe"]},
        **{"$defs": {"größe": box}},
    )
    schema: dict[str, Any] = ParameterNames.of(tool, ANTHROPIC_CALLS).format_schema()
    properties = schema["properties"]
    assert all(map(ACCEPTED.fullmatch, list_names(schema)))
    assert properties[sent_name] == {"type": "number", "description": "größe: In cm."}
    assert properties["box"]["default"] == {sent_name: 1}
    assert properties["same"] == {"$ref": f"#/properties/{sent_name}"}
    assert properties["one"]["discriminator"] == {"propertyName": sent_name}
    assert properties["one"]["anyOf"][0]["required"] == [sent_name]
    assert schema["dependentRequired"] == {sent_name: ["box", sent_name]}
    assert schema["$defs"]["größe"]["required"] == [sent_name]


def test_arguments_that_need_no_name_keep_their_text() -> None:
    names = ParameterNames.of(make_tool({"größe": TEXT, "city": TEXT}), ANTHROPIC_CALLS)
    sent_name = ANTHROPIC_CALLS.format_parameter("größe")
    both = json.dumps({"größe": 1, sent_name: 2})
    for text in ('{"city":  "Köln"}', '{"größe": "1"}', "{", "", "[1]", '{"city": 1e999}', both):
        assert names.restore(text) == text
    assert names.restore(json.dumps({"city": {"Den Haag": [{sent_name: 1}]}})) == (
        '{"city": {"Den Haag": [{"größe": 1}]}}'
    )


@pytest.mark.parametrize("strict", [True, False])
async def test_tool_gets_the_argument_that_the_model_gave_under_the_sent_name(strict: bool) -> None:
    got: list[tuple[float, str]] = []

    def measure(größe: float, straße: str = "x") -> str:
        got.append((größe, straße))
        return "measured"

    größe = ANTHROPIC_CALLS.format_parameter("größe")
    name = ANTHROPIC_CALLS.format_parameter("straße")
    replies: list[Reply | str] = [
        Reply(tool_calls=(ToolCall("measure", {größe: 1.5, name: "é"}, id="a"),)),
        Reply(tool_calls=(ToolCall("measure", {größe: 2}, id="b"),)),
        "Done.",
    ]
    with LoopbackServer(replies) as server:
        settings = {"base_url": server.url, "base_url_env": None, "strict_tools": strict}
        provider = create_provider("anthropic", settings)
        bench = Bench([], tools=[PythonTool(measure)])
        use_http_provider(bench, provider, "anthropic")
        try:
            assert (await bench.run()).status == "completed"
        finally:
            await provider.aclose()
    assert got == [(1.5, "é"), (2, "x")]

    first, second, third = (request.body for request in server.requests)
    assert first["tools"] == third["tools"]
    assert json.dumps(third["messages"]).startswith(json.dumps(second["messages"])[:-1])
    assert sent_calls(third, "anthropic") == [("a", {größe: 1.5, name: "é"}), ("b", {größe: 2})]
    schema = next(tool["input_schema"] for tool in first["tools"] if tool["name"] == "measure")
    assert set(schema["properties"]) == {größe, name}
    assert schema["required"] == [größe]
