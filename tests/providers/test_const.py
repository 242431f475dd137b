"""`const` where a provider takes it, and a single-value `enum` where it does not."""

from __future__ import annotations

from typing import Any

import pytest

from jp_nb.agent.model_inquiry import ModelInquiry, answer_schema
from jp_nb.providers.answer_schema import for_anthropic, for_openai, plain
from jp_nb.tooling.question import Question


def tree(constant: dict[str, Any]) -> dict[str, Any]:
    """A schema with `constant` wherever a schema may stand."""
    inner = {
        "type": "object",
        "properties": {"deep": constant},
        "required": ["deep"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {
            "top": constant,
            "typed": {"type": "string", "description": "Which.", **constant},
            "list": {"type": "array", "items": constant},
            "nested": {"type": "array", "items": {"type": "array", "items": inner}},
            "either": {"anyOf": [constant, {"type": "null"}, inner]},
            "chosen": {"type": "string", "enum": ["a", "b"]},
            "named": {"$ref": "#/$defs/Named"},
        },
        "required": ["top", "typed", "list", "nested", "either", "chosen", "named"],
        "additionalProperties": False,
        "$defs": {"Named": inner},
    }


@pytest.mark.req("R028-9")
def test_openai_gets_an_enum_of_one_in_every_place(subtests: pytest.Subtests) -> None:
    for value in ["call_1", 7, True, None]:
        with subtests.test(value=value):
            sent = for_openai(tree({"const": value}))
            assert sent.strict
            assert sent.schema == tree({"enum": [value]})


@pytest.mark.req("R028-9")
@pytest.mark.parametrize("transform", [for_anthropic, plain])
def test_where_const_and_enum_are_understood_they_stay(transform: Any) -> None:
    schema = tree({"const": "call_1"})
    assert transform(schema).schema == schema


@pytest.mark.req("R028-9")
def test_the_schema_of_an_inquiry_in_both_renderings() -> None:
    question = Question.select("keep", "Keep it?", ["keep", "drop"])
    schema: dict[str, Any] = answer_schema(
        ModelInquiry("call_17.keep.1", "call_17", "rename_files", question)
    )
    assert for_anthropic(schema).schema == schema
    sent = for_openai(schema)
    assert sent.strict
    assert sent.as_is
    assert sent.schema == {
        **schema,
        "properties": {
            "inquiry_id": {"type": "string", "enum": ["tool_call.rename_files.call_17"]},
            "answer": {"type": "string", "enum": ["keep", "drop"]},
        },
    }
