"""Tests of forms for JSON schemas, as in elicitation requests of MCP servers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

import jp_nb as jp
from tests.kit.kinds import is_kind, make


def asked(schema: dict[str, Any], required: list[str] | None = None) -> Any:
    """Return the form for an object with the only property `x` of this schema."""
    whole = {"type": "object", "properties": {"x": schema}, "required": required or []}
    kind = jp.Question.form("q", whole).answer_type
    assert is_kind(kind, "form_answer")
    return kind


RED_OR_BLUE = (jp.Option(value="r", label="Red"), jp.Option(value="b", label="Blue"))
TITLED = [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]


def test_schemas_of_mcp_servers_become_fields(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, Any], Any]] = [
        ({"type": "string"}, make("text_answer", lines=False)),
        (
            {"type": "string", "minLength": 3, "maxLength": 50, "format": "email"},
            make("text_answer", format="email", min_length=3, max_length=50, lines=False),
        ),
        ({"type": "string", "format": "uri"}, make("text_answer", format="uri", lines=False)),
        ({"type": "string", "format": "date"}, make("text_answer", format="date", lines=False)),
        (
            {"type": "string", "format": "date-time"},
            make("text_answer", format="date-time", lines=False),
        ),
        ({"type": "string", "maxLength": 2000}, make("text_answer", max_length=2000)),
        ({"type": "string", "format": "password"}, make("secret_answer")),
        (
            {"type": "number", "minimum": 0, "maximum": 100},
            make("number_answer", minimum=0, maximum=100),
        ),
        ({"type": "integer", "exclusiveMinimum": 0}, make("integer_answer", above=0)),
        ({"type": "boolean", "default": False}, make("boolean_answer")),
        ({"type": "string", "enum": ["r", "b"]}, make("select_answer", options=("r", "b"))),
        (
            {"type": "string", "enum": ["r", "b"], "enumNames": ["Red", "Blue"]},
            make("select_answer", options=RED_OR_BLUE),
        ),
        ({"type": "string", "oneOf": TITLED}, make("select_answer", options=RED_OR_BLUE)),
        (
            {
                "type": "array",
                "items": {"type": "string", "enum": ["r", "b"]},
                "minItems": 1,
                "maxItems": 2,
            },
            make("select_answer", options=("r", "b"), multi=True, min_picks=1, max_picks=2),
        ),
        (
            {"type": "array", "items": {"anyOf": TITLED}},
            make("select_answer", options=RED_OR_BLUE, multi=True),
        ),
        (
            {"$ref": "#/properties/x/$defs/y", "$defs": {"y": {"type": "integer"}}},
            make("integer_answer"),
        ),
    ]
    for schema, kind in rows:
        with subtests.test(schema=schema):
            [field] = asked(schema).fields
            assert field.answer_type == kind
            assert (field.text, field.required) == ("x", False)
            assert asked(schema, ["x"]).fields[0].required


def test_nullable_field_is_optional(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, Any], Any]] = [
        ({"type": ["integer", "null"]}, make("integer_answer")),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, make("boolean_answer")),
        (
            {"enum": ["r", None, "b"], "enumNames": ["Red", "None", "Blue"]},
            make("select_answer", options=RED_OR_BLUE),
        ),
    ]
    for schema, kind in rows:
        with subtests.test(schema=schema):
            [field] = asked(schema, ["x"]).fields
            assert (field.answer_type, field.required) == (kind, False)


def test_titles_descriptions_and_defaults_are_used() -> None:
    schema = {
        "title": "Contact",
        "description": "How to reach you.",
        "type": "object",
        "properties": {
            "mail": {"type": "string", "title": "E-mail", "description": "Of work.", "default": "a"}
        },
    }
    question = jp.Question.form("q", schema)
    kind = question.answer_type
    assert is_kind(kind, "form_answer")
    [mail] = kind.fields
    assert (question.text, question.context) == ("Contact", "How to reach you.")
    assert (mail.text, mail.context, mail.default) == ("E-mail", "Of work.", "a")
    assert jp.Question.form("q", schema, "Say who you are.").text == "Say who you are."
    assert question.validated({"mail": "b"}) == {"mail": "b"}


def test_unsupported_schemas_are_refused_with_their_place(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, str, str]] = [
        ({"type": "string", "pattern": "(?=a)b"}, "$.properties.x", "without lookaround"),
        (
            {"type": "string", "minLength": 5, "maxLength": 2},
            "$.properties.x",
            "`min_length` is greater than `max_length`",
        ),
        ({"type": "string", "minLength": "5"}, "$.properties.x", "integer"),
        ({"type": "string", "title": 5}, "$.properties.x.title", "a text"),
        ({"type": "string", "default": 5}, "$.properties.x.default", "expected a string"),
        ({"type": "string", "format": "password", "default": "a"}, "$.properties.x.default", "no"),
        ({"type": "integer", "minimum": 3, "maximum": 1}, "$.properties.x", "no number is from 3"),
        ({"type": "object", "properties": {}}, "$.properties.x", "an object"),
        ({"type": "array", "items": {"type": "string"}}, "$.properties.x", "a list"),
        ({"type": "array"}, "$.properties.x", "a list"),
        ({"type": "null"}, "$.properties.x", "one level"),
        ({"type": ["null", "null"]}, "$.properties.x", "one level"),
        ({"type": ["boolean", "integer"]}, "$.properties.x", "several types"),
        ({"type": "string", "enum": []}, "$.properties.x", "empty"),
        ({"type": "string", "enum": ["a", "a"]}, "$.properties.x", "the same value"),
        ({"type": "string", "enum": [["a"]]}, "$.properties.x", "as an option"),
        ({"enum": ["a"], "enumNames": []}, "$.properties.x.enumNames", "one text for each value"),
        ({"oneOf": [{"type": "array"}, {"type": "integer"}]}, "$.properties.x", "several types"),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, "$.properties.x", "several types"),
        ({"items": {}}, "$.properties.x", "any type"),
        ({"$ref": "#/$defs/none"}, "$.properties.x.$ref", "which does not exist"),
        (
            {"anyOf": [{}], "$ref": f"#/properties/x/anyOf/{'1' * 5000}"},
            "$.properties.x.$ref",
            "which does not exist",
        ),
        ({"$ref": "https://example.org"}, "$.properties.x.$ref", "points outside"),
        ({"$ref": "#/properties/x"}, "$.properties.x", "refers to itself"),
        (["string"], "$.properties.x", "expected a schema"),
    ]
    for schema, place, why in rows:
        with subtests.test(schema=schema):
            with pytest.raises(jp.UsageError) as caught:
                asked(schema)
            assert str(caught.value).startswith(f"no form can be made of the schema: {place}: ")
            assert why in str(caught.value)


def test_schema_of_something_else_than_an_object_is_refused(subtests: pytest.Subtests) -> None:
    rows = [
        ({}, "$"),
        ({"type": "object"}, "$"),
        ({"type": "object", "properties": []}, "$"),
        ({"type": "object", "properties": {"x": {"type": "string"}}, "required": ["y"]},
         "$.required"),
        ({"type": "object", "properties": {"x": {"type": "string"}}, "required": [["x"]]},
         "$.required"),
        ({"type": "object", "properties": {"x": {"type": "string"}}, "required": "x"},
         "$.required"),
    ]  # fmt: skip
    for schema, place in rows:
        with subtests.test(schema=schema):
            with pytest.raises(jp.UsageError) as caught:
                jp.Question.form("q", schema)
            assert str(caught.value).startswith(f"no form can be made of the schema: {place}: ")


def test_answer_schema_keeps_the_constraints_of_the_schema() -> None:
    form = asked({"type": "integer", "minimum": 1}, ["x"])
    expected: JsonValue = {
        "type": "object",
        "properties": {"x": {"title": "x", "type": "integer", "minimum": 1}},
        "required": ["x"],
        "additionalProperties": False,
    }
    assert form.answer_schema() == expected


KEYWORDS = st.sampled_from(
    ["type", "properties", "required", "enum", "enumNames", "oneOf", "anyOf", "allOf", "const",
     "items", "title", "description", "default", "format", "minimum", "maximum", "minLength",
     "maxLength", "minItems", "maxItems", "$ref", "$defs", "x"]
)  # fmt: skip
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(),
    st.sampled_from(
        ["string", "number", "integer", "boolean", "array", "object", "null", "date", "email",
         "password", "#", "#/$defs/x", "#/properties/x", "x"]
    ),
)  # fmt: skip
ANYTHING = st.recursive(
    VALUES,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYWORDS, below, max_size=4),
    max_leaves=12,
)
LIKELY = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "number", "integer", "boolean", "array", "object"])},
    optional={
        "enum": st.lists(VALUES, max_size=3),
        "enumNames": st.lists(VALUES, max_size=3),
        "oneOf": st.lists(st.fixed_dictionaries({"const": VALUES, "title": VALUES}), max_size=2),
        "items": ANYTHING,
        "title": VALUES,
        "default": VALUES,
        "format": VALUES,
        "minimum": VALUES,
        "maximum": VALUES,
        "minLength": VALUES,
        "maxLength": VALUES,
        "minItems": VALUES,
        "anyOf": ANYTHING,
        "$ref": VALUES,
    },
)


@given(ANYTHING | LIKELY, st.booleans())
def test_any_schema_is_a_form_or_an_error_with_its_place(schema: Any, required: bool) -> None:
    try:
        form = asked(schema, ["x"] if required else [])
    except jp.UsageError as exc:
        assert str(exc).startswith("no form can be made of the schema: $")  # noqa: PT017
        return
    [field] = form.fields
    assert field.default is None or field.misfit(field.default) is None
    json.dumps(form.answer_schema(), allow_nan=False)
