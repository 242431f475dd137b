"""Arguments as models send them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import JsonValue

from jp_nb.tools.arguments import coerce_arguments, schema_of

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


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"days": "3"}, {"days": 3}),
        ({"days": "three"}, {"days": "three"}),
        ({"days": "3.5"}, {"days": "3.5"}),
        ({"days": "true"}, {"days": "true"}),
        ({"text": "3"}, {"text": "3"}),
        ({"either": "true"}, {"either": "true"}),
        ({"maybe": "null"}, {"maybe": None}),
        ({"list": "[1, 2.5]"}, {"list": [1, 2.5]}),
        ({"list": ["1", 2]}, {"list": [1, 2]}),
        ({"table": {"on": "true", "x": "1"}}, {"table": {"on": True, "x": "1"}}),
        ({"free": "1", "unknown": "[1]"}, {"free": "1", "unknown": "[1]"}),
        ({"list": "[" * 100_000}, {"list": "[" * 100_000}),
    ],
)
def test_a_text_is_read_as_json_where_only_that_can_be_meant(
    given: dict[str, Any], read: dict[str, Any]
) -> None:
    assert coerce_arguments(given, SCHEMA) == read


def test_a_schema_takes_the_summary_before_the_description_at_every_depth() -> None:
    below: JsonValue = {
        "type": "string",
        "required": True,
        "summary": "S",
        "description": "D",
        "enum": ["a"],
    }
    schema = schema_of({"table": {"type": "object", "properties": {"x": below}, "default": {}}})
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
