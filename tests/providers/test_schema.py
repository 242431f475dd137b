from __future__ import annotations

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from jp_nb.providers.schema import for_anthropic, for_openai, plain

NESTED: dict[str, Any] = {
    "type": "object",
    "title": "Trip",
    "properties": {
        "city": {"type": "string", "minLength": 2, "description": "Where."},
        "mode": {"const": "train"},
        "days": {"type": "integer", "default": 1, "minimum": 1},
        "kind": {"type": "string", "enum": ["a", "b"]},
        "stops": {"type": "array", "items": {"$ref": "#/$defs/Stop"}, "maxItems": 3},
        "pay": {"oneOf": [{"type": "number"}, {"type": "string", "format": "money"}]},
    },
    "required": ["city", "mode"],
    "$defs": {
        "Stop": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/Stop"}},
            "required": ["name"],
        }
    },
}


def test_openai_strict_makes_optional_properties_nullable() -> None:
    before = json.dumps(NESTED)
    sent = for_openai(NESTED)
    properties: Any = sent.schema["properties"]
    assert sent.strict
    assert sent.schema["required"] == list(properties)
    assert sent.schema["additionalProperties"] is False
    assert properties["mode"] == {"enum": ["train"]}
    assert properties["city"] == {"type": "string", "description": "Where. {minLength: 2}"}
    assert properties["days"] == {"type": ["integer", "null"], "description": "{minimum: 1}"}
    assert properties["kind"] == {"type": ["string", "null"], "enum": ["a", "b", None]}
    assert properties["pay"]["anyOf"][1] == {"type": "null"}
    assert json.dumps(NESTED) == before


def test_openai_answers_are_restored() -> None:
    answer = {
        "city": "Delft", "mode": "train", "days": None, "kind": None, "pay": 1,
        "stops": [{"name": "x", "next": {"name": "y", "next": None}}],
    }  # fmt: skip
    sent = for_openai(NESTED)
    jsonschema.validate(answer, sent.schema)
    restored = json.loads(sent.restore(json.dumps(answer)))
    assert restored == {
        "city": "Delft", "mode": "train", "pay": 1, "stops": [{"name": "x", "next": {"name": "y"}}],
    }  # fmt: skip
    jsonschema.validate(restored, NESTED)
    assert sent.restore('{"city": "De') == '{"city": "De'


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"x": {}}},
        {"type": "object", "properties": {"x": True}},
        {"type": "object", "properties": {"x": {"allOf": [{"type": "string"}]}}},
    ],
)
def test_what_cannot_be_strict_is_sent_as_it_is(schema: dict[str, Any]) -> None:
    sent = for_openai(schema)
    assert not sent.strict
    assert not sent.nullable


@pytest.mark.parametrize("transform", [for_openai, for_anthropic])
def test_answers_that_are_no_objects_are_wrapped(transform: Any) -> None:
    sent = transform({"type": "string", "enum": ["yes", "no"]})
    assert sent.schema["properties"] == {"value": {"type": "string", "enum": ["yes", "no"]}}
    assert sent.restore('{"value": "yes"}') == '"yes"'


def test_a_reference_at_the_root_is_resolved() -> None:
    schema: dict[str, Any] = {
        "$ref": "#/$defs/A",
        "$defs": {"A": {"type": "object", "properties": {}}},
    }
    sent = for_anthropic(schema)
    assert sent.schema["type"] == "object"
    assert "$defs" in sent.schema
    looping: dict[str, Any] = {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}
    assert for_anthropic(looping).wrapped


def test_anthropic_keeps_choices_and_describes_bounds() -> None:
    sent = for_anthropic(NESTED)
    properties: Any = sent.schema["properties"]
    assert sent.as_is
    assert sent.schema["required"] == ["city", "mode"]
    assert properties["mode"] == {"const": "train"}
    assert properties["kind"] == {"type": "string", "enum": ["a", "b"]}
    assert properties["stops"]["description"] == "{maxItems: 3}"
    assert properties["pay"]["anyOf"][1]["description"] == '{format: "money"}'
    stop: Any = sent.schema["$defs"]
    assert stop["Stop"]["additionalProperties"] is False


def test_grammars_take_any_schema() -> None:
    assert plain(NESTED).schema == NESTED
    assert plain(NESTED).as_is
