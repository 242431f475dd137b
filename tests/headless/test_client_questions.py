"""Questions of our tools as forms of MCP clients."""

from __future__ import annotations

from typing import Any

import pytest

import jp_nb as jp
from jp_nb.headless.client_questions import form_schema
from jp_nb.json_values import as_object

TITLED = [jp.Option(value="a", label="First"), jp.Option(value="b", label="Second")]


def property_of(question: jp.Question) -> Any:
    """Return the schema of the only field of `question`, without its title."""
    properties = as_object(as_object(form_schema(question))["properties"])
    found = dict(as_object(properties[question.id]))
    del found["title"]
    return found


@pytest.mark.req("R-MCP-87")
@pytest.mark.parametrize("is_list", [False, True])
def test_options_without_labels_are_a_list_that_each_client_knows(is_list: bool) -> None:
    question = jp.Question.select("size", "Size?", ["small", 2, 1.5], multi=is_list)
    plain = {"type": "string", "enum": ["small", "2", "1.5"]}
    expected = {"type": "array", "items": plain} if is_list else plain
    assert property_of(question) == expected


@pytest.mark.req("R-MCP-87")
def test_options_with_labels_keep_them() -> None:
    titled = [{"const": "a", "title": "First"}, {"const": "b", "title": "Second"}]
    one = property_of(jp.Question.select("size", "Size?", TITLED))
    several = property_of(jp.Question.select("size", "Size?", TITLED, multi=True))
    assert one == {"type": "string", "oneOf": titled}
    assert several == {"type": "array", "items": {"anyOf": titled}}
