"""The JSON Schema of the messages: what Python validates with, and what the page is made from."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft7Validator  # type: ignore[import-untyped]

from tests.kit.pages import PagesInProcess
from tests.labextension.page_protocol import FIELDS
from tools.page_schema import SCHEMA, format_schema

ACK: dict[str, Any] = {"type": "ack", "v": 2, "page": "p1", "seq": 3, "state": "s3"}
BAD: list[dict[str, Any]] = [
    {"seq": -1},
    {"seq": True},
    {"seq": 1.5},
    {"seq": "3"},
    {"seq": 2**53},
    {"state": 7},
    {"state": "s" * 10_001},
    {"page": ["p1"]},
    {"page": "p" * 10_001},
    {"dirty": "yes"},
    {"type": "acknowledge"},
    {"type": "__proto__"},
    {"type": ["ack"]},
]


def test_committed_schema_is_that_of_the_package() -> None:
    committed = SCHEMA.read_text(encoding="utf-8")
    assert committed == format_schema(), "run `python -m tools.page_schema`"


@pytest.mark.parametrize("change", BAD)
def test_python_and_the_schema_refuse_the_same_messages(change: dict[str, Any]) -> None:
    validator = Draft7Validator(FIELDS["page"]["ack"])
    assert PagesInProcess.read(ACK) == ACK
    assert validator.is_valid(ACK)
    assert PagesInProcess.read({**ACK, **change}) is None
    assert not validator.is_valid({**ACK, **change})


@pytest.mark.parametrize("kind", FIELDS["page"])
def test_each_required_field_is_required(kind: str) -> None:
    samples = {"string": "x", "integer": 1, "boolean": True}
    schema = FIELDS["page"][kind]
    required = [name for name in schema["required"] if name not in ("type", "v")]
    types = {name: schema["properties"][name].get("type", "string") for name in required}
    message = {"type": kind, **{name: samples[type_] for name, type_ in types.items()}}
    assert PagesInProcess.read(message) == message
    for name in required:
        assert PagesInProcess.read({**message, name: None}) is None
        assert PagesInProcess.read({k: v for k, v in message.items() if k != name}) is None


def test_null_is_no_value_except_for_a_damaged_record() -> None:
    hello = {"type": "hello", "v": None, "page": "p1", "path": "a.ipynb", "user": None}
    read = PagesInProcess.read({**hello, "keys": {"jp": None}})
    assert read == {"type": "hello", "page": "p1", "path": "a.ipynb", "keys": {"jp": None}}
