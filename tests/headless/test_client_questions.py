"""Questions of our tools as forms of MCP clients."""

from __future__ import annotations

import math
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import make
from tests.kit.tool_servers import ToolServer

TITLED = [jp.Option(value="a", label="First"), jp.Option(value="b", label="Second")]


def property_of(question: jp.Question) -> Any:
    """Return the schema of the only field of `question`, without its title."""
    found = ToolServer.make_form(question)["properties"][question.id]
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


def test_options_with_the_same_text_have_different_names() -> None:
    kind = make("select_answer", options=[1, "1"])
    plain = property_of(jp.Question(id="size", text="Size?", answer_type=kind, default=1))
    assert plain == {"type": "string", "enum": ["1 (number)", "1"], "default": "1 (number)"}

    labeled = [jp.Option(value=True, label="Yes"), jp.Option(value="true", label="The word")]
    options = [
        {"const": "true (boolean)", "title": "Yes"},
        {"const": "true", "title": "The word"},
    ]
    assert property_of(jp.Question.select("size", "Size?", labeled))["oneOf"] == options


def test_default_is_the_name_of_an_option() -> None:
    kind = make("select_answer", options=[1, 2])
    for default in (2, 2.0):
        question = jp.Question(id="size", text="Size?", answer_type=kind, default=default)
        schema = property_of(question)
        assert schema == {"type": "string", "enum": ["1", "2"], "default": "2"}


def test_own_text_counts_as_a_pick() -> None:
    kind = make("select_answer", options=["a", "b"], multi=True, other=True, min_picks=2)
    question = jp.Question(id="size", text="Size?", answer_type=kind)
    properties = ToolServer.make_form(question)["properties"]
    assert properties["size"]["minItems"] == 1


def test_question_without_options_has_only_the_field_for_an_own_text() -> None:
    properties = ToolServer.make_form(jp.Question.select("size", "Size?", [], other=True))[
        "properties"
    ]
    assert list(properties) == ["size_other"]


BOUNDS: list[tuple[str, dict[str, Any], list[float], list[float]]] = [
    ("number", {"above": 0}, [5e-324, 1], [0, -1]),
    ("number", {"above": 0.5, "below": 1}, [0.6, 0.9999999], [0.5, 1]),
    ("number", {"minimum": 0, "above": 0, "maximum": 9, "below": 3.5}, [0.1, 3.4], [0, 3.5, 9]),
    ("number", {"minimum": 2, "above": 1}, [2], [1.5]),
    ("number", {"above": 10**400}, [10**400 + 1], [10**400]),
    ("number", {"below": -(2.0**60)}, [-(2.0**61)], [-(2.0**60)]),
    ("integer", {"above": 0, "below": 3}, [1, 2], [0, 3]),
    ("integer", {"above": 0.5, "below": 2.5}, [1, 2], [0, 3]),
    ("integer", {"above": -3, "maximum": 5}, [-2, 5], [-3, 6]),
]


@pytest.mark.parametrize(("kind", "bounds", "inside", "outside"), BOUNDS)
def test_form_of_a_client_refuses_what_the_question_refuses(
    kind: str, bounds: dict[str, Any], inside: list[float], outside: list[float]
) -> None:
    question = jp.Question(id="size", text="Size?", answer_type=make(f"{kind}_answer", **bounds))
    schema = property_of(question)
    assert schema.keys() <= {"type", "minimum", "maximum"}  # the keywords of the protocol
    for number in (*inside, *outside):
        fits = schema.get("minimum", -math.inf) <= number <= schema.get("maximum", math.inf)
        assert fits == (number in inside)
        assert fits == (question.misfit(number) is None)


OTHER_NAMES: list[tuple[list[str], list[str]]] = [
    (["size", "size_other"], ["size", "size_other_", "size_other"]),
    (["size_other", "size"], ["size_other", "size", "size_other_"]),
    (
        ["size", "size_other", "size_other_"],
        ["size", "size_other__", "size_other", "size_other_"],
    ),
    (["size", "color_other"], ["size", "size_other", "color_other"]),
]


@pytest.mark.parametrize(("ids", "names"), OTHER_NAMES)
def test_field_for_an_own_text_has_a_name_that_no_question_has(
    ids: list[str], names: list[str]
) -> None:
    fields = [
        jp.Question.select(each, each, ["a"], other=True)
        if each == "size"
        else jp.Question.integer(each, each)
        for each in ids
    ]
    form = jp.Question(id="form", text="Form?", answer_type=make("form_answer", fields=fields))
    properties = ToolServer.make_form(form)["properties"]
    assert list(properties) == names
    types = [node["type"] for name, node in properties.items() if name in ids and name != "size"]
    assert types == ["integer"] * (len(ids) - 1)
