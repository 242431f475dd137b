"""Shapes of values: they restore the spelling of a model's JSON, and change nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jp_nb.record.entries.shapes import add_shape
from tests.kit.cassettes import CassetteFile
from tests.kit.kinds import make
from tests.kit.records import new_event, parse_event

MAX_SHAPE_CHARS = 100_000
SHAPE = "shape"


def stored_call(shape: Any, arguments: Any, **metadata: Any) -> dict[str, Any]:
    call = {"type": "tool_call_request", "timestamp": "", "id": "a", "name": "look"}
    return {**call, "arguments": arguments, "metadata": {SHAPE: shape, **metadata}}


def test_values_that_notebooks_preserve_need_no_shape(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, str | None]] = [
        ({}, None),
        ({"a": "x", "b": [1, 2.5, True, None, {"c": {}}]}, None),
        ({"7": "one key"}, None),
        ({"b": "x", "a": ["y", True, None]}, '{"b":"","a":["",true,null]}'),
        ({"a": [{"c": 1, "b": 2}]}, '{"a":[{"c":1,"b":2}]}'),
        ({"a": 1.0}, '{"a":1.0}'),
        ({"a": 2**53}, '{"a":9007199254740992}'),
        ({"10": 1, "9": 2}, '{"10":1,"9":2}'),
        ({"b": "x" * 1_000_000, "a": ""}, '{"b":"","a":""}'),
        ({"b": [0] * MAX_SHAPE_CHARS, "a": ""}, None),
    ]
    for number, (arguments, shape) in enumerate(rows):
        with subtests.test(number=number):
            stored = add_shape({"key": "text"}, arguments=arguments)
            expected = {} if shape is None else {SHAPE: f'{{"arguments":{shape}}}'}
            assert stored == {"key": "text", **expected}


def test_shape_of_another_value_is_ignored(subtests: pytest.Subtests) -> None:
    arguments = {"a": "x", "b": [1, True, None], "c": {"d": 2}}
    fitting = '{"c":{"d":2.0},"b":[1,true,null],"a":""}'
    rows: list[tuple[str, Any]] = [
        ("no text", {"arguments": arguments}),
        ("no JSON", '{"arguments":'),
        ("no object", '["arguments"]'),
        ("nested deeply", '{"arguments":' + "[" * 50_000 + "]" * 50_000 + "}"),
        ("too long", f'{{"arguments":{fitting}}}' + " " * MAX_SHAPE_CHARS),
        *(
            (changed, f'{{"arguments":{fitting.replace(part, changed)}}}')
            for part, changed in [
                ('"a":""', '"a":"y"'),
                ('"a":""', '"a":"","e":""'),
                (',"a":""', ""),
                ("2.0", "3"),
                ("2.0", "1e999"),
                ("2.0", "9" * 400),
                ("2.0", "9" * 5000),
                ("[1,", "[true,"),
                ("true", "1"),
                ("null", "false"),
                (",null", ""),
                ('{"d":2.0}', "[]"),
            ]
        ),
    ]
    for name, shape in rows:
        with subtests.test(name[:20]):
            call = parse_event(stored_call(shape, arguments))
            assert json.dumps(call.arguments) == json.dumps(arguments)
    call = parse_event(stored_call(f'{{"arguments":{fitting}}}', arguments))
    spelled = '{"c":{"d":2.0},"b":[1,true,null],"a":"x"}'
    assert json.dumps(call.arguments, separators=(",", ":")) == spelled


def test_shape_changes_no_other_field_of_an_entry() -> None:
    shape = '{"name":"","id":"","metadata":{"shape":"","usage":{"b":1,"a":2},"item":3},"data":1.0}'
    raw = stored_call(shape, {}, item={"a": 1}, usage={"a": 2, "b": 1})
    call = parse_event(raw)
    assert {**raw, "metadata": call.metadata} == raw
    assert json.dumps(call.metadata["usage"]) == '{"b": 1, "a": 2}'
    odd = {SHAPE: '{"metadata":[]}'}
    assert parse_event({**raw, "metadata": odd}).metadata == odd


def test_shape_does_not_change_the_request_of_a_cassette() -> None:
    def normalize(**metadata: Any) -> str:
        call = new_event(
            "tool_call_request", id="a", name="look", arguments={"b": 1}, metadata=metadata
        )
        request = make(
            "model_request",
            "model-a",
            make("request_context", [make("context_item", call, "openai")]),
        )
        return str(CassetteFile.normalize(request, "openai").id)

    assert normalize(**{SHAPE: '{"arguments":{"b":1.0}}'}) == normalize()
