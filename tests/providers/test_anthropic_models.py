"""What requests contain, by the abilities of the model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.kit.kinds import is_kind, make
from tests.kit.providers import new_provider
from tests.providers.helpers import ask, collect, collect_failure, preview_body, text_of
from tests.support.loopback import LoopbackServer, Reply

MAX_STRICT_TOOLS = 20
EFFORT_LEVELS = ("low", "medium", "high", "xhigh", "max")


CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
NO = {"supported": False}
YES = {"supported": True}


def make_entry(model: str, **fields: Any) -> dict[str, Any]:
    return {"type": "model", "id": model, "display_name": model, **fields}


def make_capabilities(thinking: str, efforts: str, *, strict: bool) -> dict[str, Any]:
    kinds = ("adaptive", "between_tools", "disabled", "enabled")
    return {
        "thinking": {**YES, "types": {kind: YES if kind in thinking else NO for kind in kinds}},
        "effort": {
            **YES,
            **{level: YES if level in efforts.split() else NO for level in EFFORT_LEVELS},
        },
        "structured_outputs": YES if strict else NO,
    }


@pytest.mark.parametrize(
    ("models", "thinking", "efforts", "sampling", "strict"),
    [
        ("claude-fable-5-2 claude-mythos-preview", "adaptive", 5, False, True),
        ("claude-opus-5-5 claude-haiku-5-5 claude-sonnet-5", "adaptive disabled", 5, False, True),
        ("claude-opus-4-7 claude-opus-4-8 claude-opus-6", "adaptive disabled", 5, False, True),
        ("claude-future anthropic.claude-opus-5-v1:0", "adaptive disabled", 5, False, True),
        ("claude-opus-4-6 claude-sonnet-4-6", "adaptive disabled", 4, True, True),
        ("claude-sonnet-4-5-20250929 claude-opus-4-5@20251101", "disabled enabled", 0, True, True),
        ("claude-opus-4-1 claude-sonnet-4-20250514", "disabled enabled", 0, True, False),
        ("claude-3-7-sonnet-latest", "disabled enabled", 0, True, False),
        ("claude-3-5-haiku-20241022 claude-2.1 claude-3-opus-20240229", "", 0, True, False),
        ("deepseek-chat qwen3 m", "adaptive disabled", 5, True, False),
    ],
)
def test_abilities_follow_from_the_version_in_the_name(
    models: str, thinking: str, efforts: int, sampling: bool, strict: bool
) -> None:
    for model in models.split():
        kinds = {
            sent["thinking"]["type"]
            for sent in (send(model, reasoning=reasoning) for reasoning in ("off", "auto"))
            if "thinking" in sent
        }
        assert kinds == {*thinking.split()}, model

        configs = [send(model, reasoning=level).get("output_config") for level in EFFORT_LEVELS]
        assert len({config["effort"] for config in configs if config}) == efforts, model

        plain = send(model, top_p=0.5)
        assert ("top_p" in plain) is sampling, model
        assert plain["tools"][0].get("strict", False) is strict, model


def send(model: str, **parameters: Any) -> Any:
    """Return the body of a request to `model` with a tool."""
    tools = (make("tool_definition", "f", "F.", CITY),)
    parameters = make("parameters", **parameters)
    return preview_body("anthropic", ask(model=model, parameters=parameters, tools=tools))


async def test_listed_abilities_replace_those_of_the_name() -> None:
    entries = [
        make_entry(
            "claude-opus-9",
            max_tokens=5_000,
            capabilities=make_capabilities("enabled", "low high", strict=False),
        ),
        make_entry(
            "claude-opus-4-1",
            max_tokens=64_000,
            capabilities=make_capabilities("adaptive", "low medium", strict=True),
        ),
        make_entry("claude-fable-5-2", capabilities={"thinking": {**YES, "types": {}}}),
    ]
    with LoopbackServer(paths={"/v1/models": {"data": entries, "has_more": False}}) as server:
        provider = new_provider("anthropic", {"base_url": server.url})
        await provider.models(seconds=5)

        def send(model: str, **parameters: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
            tools = (make("tool_definition", "f", "F.", CITY),)
            request = ask(model=model, parameters=make("parameters", **parameters), tools=tools)
            shown = provider.preview(request)
            return json_of(shown.body), shown.omitted

        old, notes = send("claude-opus-9", reasoning="high", top_p=0.5, max_tokens=9_000)
        new, _ = send("claude-opus-4-1", reasoning="max", top_p=0.5)
        unknown, _ = send("claude-fable-5-2", reasoning="off", max_tokens=200_000)
        await provider.aclose()
    assert old["thinking"] == {
        "type": "enabled", "budget_tokens": 4_000, "display": "summarized",
    }  # fmt: skip
    assert (old["max_tokens"], old["top_p"], "strict" in old["tools"][0]) == (5_000, 0.5, False)
    assert notes == (
        "assistant.model.parameters.max_tokens = 9000: claude-opus-9 writes at most 5,000 tokens, "
        "which is sent",
    )
    assert new["thinking"]["type"] == "adaptive"
    assert (new["output_config"], new["max_tokens"]) == ({"effort": "medium"}, 32_000)
    assert "top_p" not in new
    assert new["tools"][0]["strict"] is True
    assert ("thinking" in unknown, unknown["max_tokens"]) == (False, 200_000)


def json_of(body: bytes) -> dict[str, Any]:

    found: dict[str, Any] = json.loads(body)
    return found


ADAPTIVE = {"type": "adaptive", "display": "summarized"}


@pytest.mark.parametrize(
    ("model", "parameters", "error", "before", "after"),
    [
        (
            "claude-opus-5-5",
            {"reasoning": "xhigh"},
            "effort: Input should be 'low', 'medium' or 'high'",
            {"effort": "xhigh"},
            {"effort": "high"},
        ),
        (
            "claude-opus-5-5",
            {"reasoning": "max"},
            "This model does not support the effort parameter.",
            {"effort": "max"},
            None,
        ),
        (
            "claude-opus-5-5",
            {"reasoning": "off"},
            "thinking.type.disabled is not supported for this model.",
            {"type": "disabled"},
            None,
        ),
        (
            "claude-opus-4-1",
            {"reasoning": "high"},
            "thinking.type.enabled is not supported for this model. Use thinking.type.adaptive",
            {"type": "enabled", "budget_tokens": 25_600, "display": "summarized"},
            ADAPTIVE,
        ),
        (
            "claude-opus-9",
            {"reasoning": "auto"},
            "adaptive thinking is not supported on this model",
            ADAPTIVE,
            {"type": "enabled", "budget_tokens": 16_000, "display": "summarized"},
        ),
        ("deepseek-chat", {"top_p": 0.5}, "`top_p` is deprecated for this model.", 0.5, None),
        (
            "claude-opus-5",
            {"max_tokens": 200_000},
            "max_tokens: 200000 > 128000, which is the maximum allowed number of output tokens",
            200_000,
            128_000,
        ),
        ("claude-opus-5", {}, "tools.0.custom.strict: Extra inputs are not permitted", True, None),
        ("claude-opus-5", {}, "The compiled grammar is too large, which would", True, None),
        ("claude-opus-5", {}, "Schema is too complex for compilation. Try", True, None),
    ],
)
async def test_error_400_about_a_part_repairs_the_request_once(
    model: str, parameters: dict[str, Any], error: str, before: object, after: object
) -> None:
    refusal = Reply(status=400, message=error)
    with LoopbackServer([refusal, "A.", "B.", refusal]) as server:
        provider = new_provider("anthropic", {"base_url": server.url})
        tools = (make("tool_definition", "f", "F.", CITY),)
        request = ask(model=model, parameters=make("parameters", **parameters), tools=tools)
        (retry,) = await collect(provider, request)
        assert is_kind(retry, "retry")
        for text in ("A.", "B."):  # remembered
            assert text_of(await collect(provider, request)) == text
        await collect_failure(provider, request)
        await provider.aclose()
    sent = [
        [
            body.get("output_config"),
            body.get("thinking"),
            body.get("top_p"),
            body["max_tokens"],
            body["tools"][0].get("strict"),
        ]
        for body in (request.body for request in server.requests)
    ]
    assert sent[1] == sent[2] == sent[3]
    assert before in sent[0]
    assert after in sent[1]
    assert sent[0] != sent[1]


async def test_model_that_thinks_unasked_is_told_which_tool_to_call() -> None:
    refusal = Reply(status=400, message="Thinking may not be enabled when tool_choice forces tool")
    with LoopbackServer([refusal, "A.", refusal]) as server:
        provider = new_provider("anthropic", {"base_url": server.url})
        tools = (make("tool_definition", "f", "F.", CITY),)
        request = ask(model="claude-sonnet-5", tools=tools, tool_choice="required")
        (retry,) = await collect(provider, request)
        assert is_kind(retry, "retry")
        await collect(provider, request)
        _, error = await collect_failure(provider, request)
        await provider.aclose()
    assert error.status == 400
    bodies = [request.body for request in server.requests]
    assert [body["tool_choice"]["type"] for body in bodies] == ["any", "auto", "auto"]
    assert "one of your tools" in bodies[1]["messages"][-1]["content"][-1]["text"]


def make_tool(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


TEXT = {"type": "string"}


def test_strict_tool_has_a_closed_schema() -> None:
    parameters = make_tool(
        city={"type": "string", "minLength": 1, "description": "A city."},
        days={"type": "integer", "default": 3, "title": "Days"},
    )
    tool = make("tool_definition", "f", "F.", {**parameters, "required": ["city"]})
    (sent,) = preview_body("anthropic", ask(model="claude-opus-5-5", tools=(tool,)))["tools"]
    assert sent == {
        "name": "f",
        "description": "F.",
        "input_schema": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "A city. {minLength: 1}"},
                "days": {"type": "integer", "default": 3},
            },
            "additionalProperties": False,
            "required": ["city"],
        },
        "strict": True,
        "cache_control": {"type": "ephemeral"},
    }


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
        make_tool(data={}),
        make_tool(data={"type": "object"}),
        make_tool(rows={"type": "array"}),
        make_tool(x={"not": TEXT}),
        make_tool(x={"enum": [{"a": 1}]}),
        {**make_tool(x=TEXT), "required": ["y"]},
        {**make_tool(x={"$ref": "#"})},
        {**make_tool(x={"$ref": "#/$defs/missing"})},
        make_tool(**{f"x{number}": TEXT for number in range(25)}),
        make_tool(**{f"x{number}": {"type": ["string", "null"]} for number in range(17)}),
    ],
)
def test_tool_that_the_api_cannot_enforce_is_not_strict(parameters: dict[str, Any]) -> None:
    tool = make("tool_definition", "f", "F.", parameters)
    (sent,) = preview_body("anthropic", ask(model="claude-opus-5-5", tools=(tool,)))["tools"]
    assert sent["input_schema"] == parameters
    assert "strict" not in sent


async def test_setting_turns_strict_tools_off() -> None:
    tools = (make("tool_definition", "f", "F.", CITY),)
    for strict in (True, False):
        provider = new_provider("anthropic", {"strict_tools": strict})
        body = json_of(provider.preview(ask(model="claude-opus-5-5", tools=tools)).body)
        assert body["tools"][0].get("strict", False) is strict


def list_strict(schemas: Sequence[dict[str, Any]]) -> list[int]:
    """Return the numbers of the strict tools among those with these `schemas`."""
    tools = tuple(
        make("tool_definition", f"f{number}", "F.", schema) for number, schema in enumerate(schemas)
    )
    sent = preview_body("anthropic", ask(model="claude-opus-5-5", tools=tools))["tools"]
    return [number for number, tool in enumerate(sent) if "strict" in tool]


def test_deeply_nested_parameters_are_not_strict() -> None:
    schema: dict[str, Any] = TEXT
    for _ in range(31):  # the schema of a tool has at most 64 levels
        schema = make_tool(x=schema)
    assert list_strict([schema, CITY]) == [1]


def test_limits_of_a_request_select_the_first_tools() -> None:
    optional = make_tool(**{f"x{number}": TEXT for number in range(10)})
    union = make_tool(x={"type": ["string", "null"]}) | {"required": ["x"]}
    assert list_strict([CITY] * 30) == [*range(MAX_STRICT_TOOLS)]
    assert list_strict([optional, optional, optional, CITY]) == [0, 1, 3]
    assert list_strict([union] * 18) == [*range(16)]
    rows = [optional, CITY, union, optional, optional, CITY]
    whole = list_strict(rows)
    for count in range(1, len(rows)):  # a new tool does not change the tools before it
        assert list_strict(rows[:count]) == [index for index in whole if index < count]
