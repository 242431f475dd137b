"""Alternatives at the root of a tool's schema, which several APIs refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kit.kinds import make
from tests.providers.helpers import ask, preview_body

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
REFUSED = {"anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else", "$ref"}


def send(**schema: Any) -> dict[str, Any]:
    """Return the schema of a tool in a request."""
    tool = make("tool_definition", "find", "Find it.", schema)
    (sent,) = preview_body("openai", ask(tools=(tool,)), dialect="responses")["tools"]
    parameters: dict[str, Any] = sent["parameters"]
    return parameters


def alternative(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def test_schema_without_alternatives_is_unchanged() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"anyOf": [TEXT, NUMBER]}}}
    assert send(**schema) == schema


@pytest.mark.req("R-MCP-90")
def test_alternatives_become_optional_properties_and_a_description() -> None:
    by_id = alternative("id", id=NUMBER)
    by_name = alternative("name", "kind", name=TEXT, kind=TEXT)
    for keyword in ("anyOf", "oneOf"):
        sent = send(type="object", description="Where.", **{keyword: [by_id, by_name]})
        assert sent["properties"] == {"id": NUMBER, "name": TEXT, "kind": TEXT}
        assert sent["type"] == "object"
        assert "required" not in sent
        assert sent["description"].startswith(f"Where. {{{keyword}: [")
        assert json.dumps(by_name, separators=(",", ":")) in sent["description"]


def test_names_that_each_alternative_requires_stay_required() -> None:
    one = alternative("kind", "id", kind=TEXT, id=NUMBER)
    other = alternative("kind", kind=TEXT)
    assert send(oneOf=[one, other])["required"] == ["kind"]
    assert send(allOf=[{"oneOf": [one, other]}])["required"] == ["kind"]


def test_all_of_is_merged_or_described() -> None:
    merged = send(allOf=[alternative("a", a=TEXT), alternative("b", b=NUMBER)])
    assert merged["properties"] == {"a": TEXT, "b": NUMBER}
    assert merged["required"] == ["a", "b"]
    short = {"type": "string", "maxLength": 3}
    disagreeing = send(allOf=[alternative("a", a=TEXT), alternative("a", a=short)])
    assert set(disagreeing["properties"]) == {"a"}
    assert "maxLength" in disagreeing["description"]


def test_property_with_several_schemas_accepts_each() -> None:
    sent = send(anyOf=[alternative(value=TEXT), alternative(value=NUMBER), alternative(value=TEXT)])
    assert sent["properties"]["value"] == {"anyOf": [TEXT, NUMBER]}


def test_reference_at_the_root_is_expanded() -> None:
    sent = send(**{"$ref": "#/$defs/Place", "$defs": {"Place": alternative("city", city=TEXT)}})
    assert sent["properties"] == {"city": TEXT}
    assert sent["required"] == ["city"]


def test_closed_alternatives_do_not_exclude_each_other() -> None:
    closed = {**alternative(a=TEXT), "additionalProperties": False}
    sent = send(anyOf=[closed, alternative(b=TEXT)], additionalProperties=False)
    assert "additionalProperties" not in sent


@pytest.mark.parametrize(
    "schema",
    [
        {"not": {"required": ["a"]}},
        {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {}},
        {"enum": [{"a": 1}]},
        {"anyOf": []},
        {"anyOf": [True, {"$ref": "#/anyOf/0"}]},
        {"properties": {"x": {"$ref": "#/oneOf/0/properties/y"}}, "oneOf": [alternative(y=TEXT)]},
        {"$ref": "#"},
        {"anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/no"}]},
        {"allOf": [{"allOf": [{"anyOf": [alternative(a=TEXT)]}]}]},
    ],
)
def test_no_root_keeps_a_keyword_that_apis_refuse(schema: dict[str, Any]) -> None:
    sent = send(**schema)
    assert not REFUSED & sent.keys()
    assert sent["type"] == "object"
    assert isinstance(sent["properties"], dict)


def test_long_alternatives_are_cut_in_the_description() -> None:
    sent = send(anyOf=[alternative(**{f"name{n}": TEXT}) for n in range(500)])
    assert len(sent["properties"]) == 500
    assert len(sent["description"]) < 2_100
