"""Tests of forms for the schemas of servers, which the user cannot repair."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic import JsonValue

import jp_nb as jp
from jp_nb.toolkit.question_types.forms import make_form
from tests.kit.kinds import is_kind, make

Schema = dict[str, Any]


def form(properties: Schema, **root: Any) -> Any:
    """Return the form for an object with `properties`."""
    schema = {"type": "object", "properties": properties, **root}
    kind = jp.Question.form("q", schema).answer_type
    assert is_kind(kind, "form_answer")
    return kind


def form_of_server(properties: Schema, **root: Any) -> Any:
    """Return the form for a server's object with `properties`."""
    parts = make_form({"type": "object", "properties": properties, **root}, of_server=True)
    return make(
        "form_answer", fields=tuple(jp.Question(**each) for each in parts.fields), check=parts.check
    )


def test_condition_that_no_field_knows_is_checked_for_the_whole_answer(
    subtests: pytest.Subtests,
) -> None:
    rows: list[tuple[Schema, JsonValue, JsonValue, str]] = [
        ({"type": "string", "pattern": "^[a-z]+$"}, "abc", "ABC", "that matches ^[a-z]+$"),
        ({"type": "string", "pattern": "^\\d{3}-\\d{4}$"}, "555-0100", "5550100", "matches"),
        ({"type": "string", "format": "ipv4"}, "10.0.0.1", "10.0.0.999", 'the format "ipv4"'),
        (
            {"type": "string", "format": "uuid"},
            "2c2f4a52-6f3d-4b8e-9c53-0d6f0f7a4f10",
            "2c2f",
            'the format "uuid"',
        ),
        ({"type": "integer", "multipleOf": 5}, 10, 7, "a multiple of 5"),
        ({"type": "string", "not": {"const": "root"}}, "ada", "root", "`not`"),
        ({"type": ["string", "integer"], "minLength": 2}, "ab", "a", "at least 2 characters"),
        ({"anyOf": [{"type": "string", "maxLength": 2}, {"type": "integer"}]},
         "ab", "abc", "at most 2"),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "ab", 5.5, "a string"),
        ({}, "anything", ["a"], "a string"),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "contains": {"const": "a"}},
         ["a"], ["b"], "`contains`"),
    ]  # fmt: skip
    for schema, good, bad, why in rows:
        with subtests.test(schema=schema):
            kind = form({"x": schema})
            assert kind.misfit({"x": good}) is None
            assert kind.misfit({"x": bad}) == "value"
            assert kind.problems({"x": bad}).keys() == {"x"}
            assert why in kind.problems({"x": bad})["x"]


def test_condition_about_several_fields_is_a_problem_of_the_form() -> None:
    both = form({"a": {"type": "string"}, "b": {"type": "string"}}, minProperties=1)
    assert both.problems({"b": "x"}) == {}
    assert both.problems({}).keys() == {""}


def test_unknown_format_is_named_above_the_field() -> None:
    [field] = form(
        {"x": {"type": "string", "format": "ipv4", "description": "Of the host."}}
    ).fields
    assert field.context == "Of the host.\n\nFormat: ipv4"
    [field] = form({"x": {"type": ["string", "integer"]}}).fields
    assert field.context == "Type: integer or string"


def test_pattern_that_takes_exponential_time_elsewhere_is_checked_at_once() -> None:
    kind = form({"x": {"type": "string", "pattern": "^(a+)+$"}})
    began = time.monotonic()
    assert kind.misfit({"x": "a" * 50_000 + "!"}) == "value"
    assert time.monotonic() - began < 5


def check_of_server(root: Schema) -> Callable[[Any], Mapping[str, str]]:
    """Return the check of the whole answer to the form for a server's object `root`."""
    check = make_form({"type": "object", "properties": {}, **root}, of_server=True).check
    assert check is not None
    return check


def test_check_of_a_hostile_schema_ends_soon(subtests: pytest.Subtests) -> None:
    evil = "^(a+)+$"
    text = "a" * 28 + "!"  # many seconds in Python's `re`, and twice as long for each further `a`
    older = {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": evil}
    rows: list[tuple[Schema, object]] = [
        ({"patternProperties": {evil: {}}, "additionalProperties": False}, {text: 1}),
        ({"patternProperties": {evil: {}}, "unevaluatedProperties": False}, {text: 1}),
        ({"allOf": [{"properties": {"x": older}}]}, {"x": text}),
        ({"allOf": [{"properties": {"x": {"allOf": [older]}}}]}, {"x": text}),
        (
            {"allOf": [{"properties": {"x": {"uniqueItems": True}}}]},
            {"x": [{"a": number} for number in range(10_000)]},
        ),
        (
            {"allOf": [{"properties": {"x": {"anyOf": [{"type": "integer"}] * 4_000}}}]},
            {"x": "x" * 1_000_000},
        ),
    ]
    for root, answer in rows:
        with subtests.test(root=str(root)[:80]):
            check = check_of_server({**root, "minProperties": 1})
            began = time.monotonic()
            check(answer)
            assert time.monotonic() - began < 3


def test_equal_items_and_unknown_keys_are_problems() -> None:
    items = {"properties": {"x": {"uniqueItems": True}}}
    check = check_of_server({"allOf": [items], "maxProperties": 2})
    assert check({"x": [1, 2]}) == {}
    assert check({"x": [1, 1]}) == {"x": "expected unique items"}

    closed = {"properties": {"x": {}}, "additionalProperties": False}
    check = check_of_server({"allOf": [closed], "maxProperties": 2})
    assert check({"x": 1}) == {}
    assert check({"x": 1, "z": 1}) == {"": "expected only the keys of the schema"}


def test_pattern_with_lookahead_is_refused_in_own_schemas_and_left_to_a_server() -> None:
    ahead = {"x": {"type": "string", "pattern": "^(?=.*[0-9]).{8,}$"}}
    with pytest.raises(jp.UsageError, match=r"\$\.properties\.x: `pattern` .* linear time"):
        form(ahead)
    kind = form_of_server(ahead)
    assert kind.fields[0].answer_type == make("text_answer", lines=False)
    assert kind.misfit({"x": "short"}) is None


def test_form_without_fields_is_only_confirmed() -> None:
    kind = form({})
    assert (kind.fields, kind.misfit({}), kind.misfit({"x": 1})) == ((), None, "type")
    assert kind.format_answer({}) == "confirmed"
    assert kind.expects == "an empty object, as a confirmation"
    # Only the user confirms: passing time, or a run without a user, does not.
    assert (
        jp.Question.form("q", {"type": "object", "properties": {}}).with_required(False).automatic
        is None
    )


def test_schema_that_cannot_be_repaired_here_is_read_leniently(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Schema, str]] = [
        ({"type": "string", "default": 5}, "a string"),
        ({"type": "string", "title": 5, "description": ["a"]}, "a string"),
        ({"enum": ["a", "b"], "enumNames": ["A"]}, "a string"),
        ({"type": "string", "enum": ["a", "a"]}, "a string"),
        ({"type": "string", "format": "password", "default": "a"}, "a string"),
    ]
    for schema, expects in rows:
        with subtests.test(schema=schema):
            [field] = form_of_server({"x": schema}).fields
            assert (field.answer_type.expects, field.default, field.text) == (expects, None, "x")


def test_secret_with_conditions_is_checked_without_its_text_in_the_message() -> None:
    kind = form({"key": {"type": "string", "format": "password", "pattern": "^sk-"}})
    assert kind.fields[0].answer_type == make("secret_answer")
    assert kind.misfit({"key": "sk-1"}) is None
    assert kind.misfit({"key": "hunter2"}) == "value"
    assert "hunter2" not in str(kind.problems({"key": "hunter2"}))


def doubled(levels: int) -> Schema:
    """Return definitions whose validation takes 2 to the power of `levels` steps."""
    last: Schema = {f"x{levels}": {"minLength": 1}}
    return last | {
        f"x{n}": {"allOf": [{"$ref": f"#/$defs/x{n + 1}"}, {"$ref": f"#/$defs/x{n + 1}"}]}
        for n in range(levels)
    }


def test_schema_that_would_be_checked_forever_is_refused_at_once(subtests: pytest.Subtests) -> None:
    text: Schema = {"type": "string"}
    nested: Schema = text
    for _ in range(100):
        nested = {"not": nested}
    rows: list[tuple[str, Schema, Schema]] = [
        (
            "doubled",
            {"x": {**text, "allOf": [{"$ref": "#/$defs/x0"}, text]}},
            {"$defs": doubled(40)},
        ),
        ("loop", {"x": {**text, "not": {"$ref": "#"}}}, {}),
        ("nested", {"x": {**text, "not": nested}}, {}),
        ("network", {"x": {**text, "not": {"$ref": "https://example.org/x"}}}, {}),
        ("version", {"x": {**text, "not": {"const": "x"}}}, {"$schema": 5}),
    ]
    for name, properties, root in rows:
        with subtests.test(name):
            began = time.monotonic()
            with pytest.raises(jp.UsageError, match="this condition cannot be checked"):
                form_of_server(properties, **root)
            assert time.monotonic() - began < 5


def test_keyword_with_an_impossible_value_is_a_problem_and_no_crash() -> None:
    kind = form_of_server({"x": {"type": "integer", "multipleOf": 0}})
    assert "cannot be checked" in kind.problems({"x": 3})[""]
