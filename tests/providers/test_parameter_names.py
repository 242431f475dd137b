"""Names of parameters that Anthropic refuses are renamed in requests, and back in calls."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.agent.over_http import sent_calls, use_http_provider
from tests.kit.kinds import make, select_kind
from tests.kit.models import model_event, record_response
from tests.kit.providers import new_provider
from tests.kit.streams import StreamReader
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench
from tests.providers.helpers import ask, preview_body
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
    return make(
        "tool_definition", "f", "F.", {"type": "object", "properties": properties, **fields}
    )


def send_schema(tool: Any) -> dict[str, Any]:
    """Return the schema of `tool` in a request, without the changes for strict tools."""
    (sent,) = preview_body("anthropic", ask(tools=(tool,)), strict_tools=False)["tools"]
    schema: dict[str, Any] = sent["input_schema"]
    return schema


def rename(name: str) -> str:
    """Return the name of a parameter as it is sent."""
    (sent,) = send_schema(make_tool({name: TEXT}))["properties"]
    return str(sent)


def restore(tool: Any, text: str) -> str:
    """Return the arguments of a call of `tool` that the model writes as `text`."""
    block = {"type": "tool_use", "id": "c", "name": tool.name, "input": {}}
    delta = {"type": "input_json_delta", "partial_json": text}
    events = StreamReader("anthropic", tools=(tool,)).feed(
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
    )
    return "".join(event.text for event in select_kind(events, "call_arguments"))


@given(NAMES, st.booleans())
@example(["größe"], True)
@example(["größe", rename("größe")], False)
@example(["a" * 64, "a" * 65, "a" * 66], False)
@example(["a b", "a_b", "", "$top", "filter[id]"], False)
def test_every_name_is_sent_in_an_accepted_form_and_restored(names: list[str], nest: bool) -> None:
    properties: dict[str, Any] = dict.fromkeys(names, TEXT)
    arguments: Any = dict.fromkeys(names, "1")
    if nest:
        row = {"type": "object", "properties": dict(properties), "required": names}
        properties["rows"] = {"type": "array", "items": row}
        arguments["rows"] = [dict.fromkeys(names, "2")]
    tool = make_tool(properties, required=names)

    request = ask(tools=(tool,))
    call = [
        model_event("call_start", 0, "c", "f"),
        model_event("call_arguments", 0, json.dumps(arguments)),
        model_event("flush", 0),
    ]
    record_response(request, "anthropic", call)
    body = preview_body("anthropic", request)
    sent = body["tools"][0]["input_schema"]["properties"]
    assert all(map(ACCEPTED.fullmatch, sent))
    assert len(sent) == len(properties)
    if nest:
        assert [*sent["rows"]["items"]["properties"]] == [*sent][:-1]

    written = body["messages"][1]["content"][0]["input"]
    assert written.keys() == sent.keys()
    assert json.loads(restore(tool, json.dumps(written))) == arguments
    accepted = [name for name in names if ACCEPTED.fullmatch(name)]
    assert all(name in sent for name in accepted)


@given(IDENTIFIERS)
def test_other_apis_accept_every_name(name: str) -> None:
    tool = make_tool({name: TEXT}, required=[name])
    request = ask(tools=(tool,))
    for provider, dialect in (("google", "interactions"), ("openai", "responses")):
        (sent,) = preview_body(provider, request, dialect=dialect)["tools"]
        assert sent["parameters"] == tool.parameters


def test_every_mention_of_a_name_is_renamed() -> None:
    sent_name = rename("größe")
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
    schema = send_schema(tool)
    properties = schema["properties"]
    assert all(map(ACCEPTED.fullmatch, properties))
    assert properties[sent_name] == {"type": "number", "description": "größe: In cm."}
    assert properties["box"]["default"] == {sent_name: 1}
    assert properties["same"] == {"$ref": f"#/properties/{sent_name}"}
    assert properties["one"]["discriminator"] == {"propertyName": sent_name}
    assert properties["one"]["anyOf"][0]["required"] == [sent_name]
    assert [*properties["one"]["anyOf"][0]["properties"]] == [sent_name]
    assert schema["dependentRequired"] == {sent_name: ["box", sent_name]}
    assert schema["$defs"]["größe"]["required"] == [sent_name]
    assert [*schema["$defs"]["größe"]["properties"]] == [sent_name]


def test_arguments_that_need_no_name_keep_their_text() -> None:
    tool = make_tool({"größe": TEXT, "city": TEXT})
    sent_name = rename("größe")
    both = json.dumps({"größe": 1, sent_name: 2})
    for text in ('{"city":  "Köln"}', '{"größe": "1"}', "{", "", "[1]", '{"city": 1e999}', both):
        assert restore(tool, text) == text
    assert restore(tool, json.dumps({"city": {"Den Haag": [{sent_name: 1}]}})) == (
        '{"city": {"Den Haag": [{"größe": 1}]}}'
    )


@pytest.mark.parametrize("strict", [True, False])
async def test_tool_gets_the_argument_that_the_model_gave_under_the_sent_name(strict: bool) -> None:
    got: list[tuple[float, str]] = []

    def measure(größe: float, straße: str = "x") -> str:
        got.append((größe, straße))
        return "measured"

    größe = rename("größe")
    name = rename("straße")
    replies: list[Reply | str] = [
        Reply(tool_calls=(ToolCall("measure", {größe: 1.5, name: "é"}, id="a"),)),
        Reply(tool_calls=(ToolCall("measure", {größe: 2}, id="b"),)),
        "Done.",
    ]
    with LoopbackServer(replies) as server:
        settings = {"base_url": server.url, "base_url_env": None, "strict_tools": strict}
        provider = new_provider("anthropic", settings)
        bench = TurnBench([], tools=[new_tool(measure)])
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
