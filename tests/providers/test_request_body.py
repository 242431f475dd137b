"""Tests of the one place where bodies are encoded: each request is JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.kit.kinds import make
from tests.kit.providers import new_provider
from tests.kit.tools import new_tool
from tests.providers.helpers import DIALECTS, answer, ask, called, result, user

INFINITE = [math.inf, -math.inf, math.nan]


def parse(content: bytes | str) -> Any:
    """Return the value of JSON as a strict server reads it."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(content, parse_constant=refuse)


def texts_in(value: Any) -> list[str]:
    """Return all texts in `value`, also those of keys."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (key, *texts_in(item))]
    if isinstance(value, list):
        return [text for item in value for text in texts_in(item)]
    return []


def search(
    text: str,
    limit: float = math.inf,
    floor: float = math.nan,
    bounds: tuple[float, float] = (-math.inf, math.inf),
    weights: dict[str, float] = {"all": math.inf},  # noqa: B006
) -> str:
    return text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_request_is_json_whatever_a_tool_or_a_record_holds(dialect: str) -> None:
    name, model, settings = DIALECTS[dialect]
    provider = new_provider(name, settings)
    tool = new_tool(search)
    definition = make("tool_definition", "search", "Search.", tool.schema)
    history = (
        user("Go."),
        called("c1", "search", text="x", limit=math.inf, weights={"a": [math.nan, 1.5]}),
        result("c1", "NaN"),
        answer("Done."),
        user("Again."),
    )
    request = ask(*history, provider=name, model=model, tools=(definition,))
    body = parse(provider.preview(request).body)
    # Chat Completions and Responses have the arguments of calls as JSON in a text.
    nested = [text for text in texts_in(body) if text.startswith("{")]
    for text in nested:
        parse(text)


def test_infinite_default_is_left_out_of_the_schema_and_reaches_the_function() -> None:
    schema: Any = new_tool(search).schema
    assert schema["required"] == ["text"]
    assert all("default" not in node for node in schema["properties"].values())


@pytest.mark.parametrize("value", INFINITE)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_infinite_number_is_encoded_as_a_record_stores_it(dialect: str, value: float) -> None:
    name, model, settings = DIALECTS[dialect]
    call = called("c1", "search", a=[1, value], b={"c": value})
    request = ask(
        user("Go."),
        call,
        result("c1", "done"),
        provider=name,
        model=model,
        parameters=make("parameters", temperature=value),
    )
    body = parse(new_provider(name, settings).preview(request).body)

    numbers = [body, *(body.get(key, {}) for key in ("generation_config", "generationConfig"))]
    if dialect != "anthropic":  # this model has no temperature
        assert [each["temperature"] for each in numbers if "temperature" in each] == [None]

    arguments = {"a": [1, None], "b": {"c": None}}
    forms = (json.dumps(arguments, separators=(",", ":")), json.dumps(arguments))
    sent = json.dumps(body).replace("\\", "")
    assert any(form in sent for form in forms)
