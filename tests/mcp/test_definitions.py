"""Tools of servers as tools of the model: names, schemas, descriptions, changes."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.kit.kinds import make
from tests.kit.servers import McpServer

MAX_DESCRIPTION_CHARS = 4000


TEXT: JsonValue = {"type": "string"}


def make_tool(name: str = "search", description: str | None = "Search.", **schema: Any) -> Any:
    return make("server_tool", name, None, description, {"type": "object", **schema}, None, {})


def define(tool: Any) -> dict[str, Any]:
    """Return what the model gets of the only tool of the server `books`."""
    (found,) = McpServer.define_tools("books", tool)
    return found


def map_names(server: str, names: list[str]) -> dict[str, str]:
    """Return the names for the model of the tools with these `names`."""
    found = McpServer.define_tools(server, *map(make_tool, dict.fromkeys(names)))
    return {each["tool"]: each["name"] for each in found}


# --- names -----------------------------------------------------------------------------------


@pytest.mark.req("R-MCP-14")
def test_name_is_that_of_the_server_and_the_tool() -> None:
    assert map_names("books", ["search", "read_page", "read-page"]) == {
        "search": "books__search",
        "read_page": "books__read_page",
        "read-page": "books__read-page",
    }
    assert map_names("books", ["read.page", "a b", "größe"]) == {
        "read.page": "books__read_page",
        "a b": "books__a_b",
        "größe": "books__gr__e",
    }


def test_tools_with_the_same_name_both_get_a_hash() -> None:
    found = map_names("books", ["read.page", "read page", "search"])
    assert found["search"] == "books__search"
    names = [found["read.page"], found["read page"]]
    assert len(set(names)) == 2
    assert all(re.fullmatch(r"books__read_page_[0-9a-f]{8}", name) for name in names)


def test_name_that_imitates_a_hash_is_another_name() -> None:
    honest = map_names("books", ["a.b", "a b"])
    imitation = honest["a.b"].removeprefix("books__")
    found = map_names("books", ["a.b", "a b", imitation])
    assert found["a.b"] == honest["a.b"]
    assert len(set(found.values())) == 3


def test_names_of_different_servers_never_collide() -> None:
    one = map_names("a", ["b__c", "_b"])
    other = map_names("a__b", ["c"]) | map_names("a_", ["b"])
    assert not set(one.values()) & set(other.values())


def test_long_names_are_cut_with_a_hash() -> None:
    long = "x" * 100
    found = map_names("books", [long, long + "y"])
    assert len(set(found.values())) == 2
    assert all(len(name) == 64 for name in found.values())


def test_name_begins_with_a_letter() -> None:
    [name] = map_names("1password", ["get"]).values()
    assert re.fullmatch(r"_1password__get_[0-9a-f]{8}", name)


NAMES = st.lists(st.text(max_size=80) | st.sampled_from(["a.b", "a b", "a_b", "a__b", "", "_"]))
SERVERS = st.from_regex(r"[A-Za-z0-9_-]{1,32}", fullmatch=True)


@given(server=SERVERS, tools=NAMES)
def test_each_tool_has_its_own_valid_name_in_each_kernel(server: str, tools: list[str]) -> None:
    found = map_names(server, tools)
    assert found.keys() == set(tools)
    assert max(Counter(found.values()).values(), default=1) == 1
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", name) for name in found.values())
    source = McpServer({"command": "serve"}, name=server).source(None)
    assert all(source.may_have(name) for name in found.values())
    assert map_names(server, tools) == found


def test_other_names_are_not_of_the_server() -> None:
    source = McpServer({"command": "serve"}).source(None)
    assert source.may_have("books__search")
    for other in ("books__", "books_search", "book__search", "search", "mcp.books.search"):
        assert not source.may_have(other)


# --- schemas ---------------------------------------------------------------------------------


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"x": schema}}
    return schema


def wide(count: int) -> dict[str, Any]:
    return {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(count)}}


UNUSABLE: dict[str, dict[str, Any]] = {
    "a network reference": {"properties": {"x": {"$ref": "https://evil.example/schema.json"}}},
    "a reference to a file": {"$ref": "file:///etc/passwd"},
    "a dynamic reference": {"properties": {"x": {"$dynamicRef": "#node"}}},
    "a reference to nothing": {"properties": {"x": {"$ref": "#/$defs/no"}}},
    "a reference to itself": {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    "10,000 subschemas": wide(10_000),
    "200 levels": deep(200),
    "100,000 levels": deep(20_000),
    "an array": {"type": "array"},
    "several types": {"type": ["object", "null"]},
    "properties as a list": {"properties": []},
    "a property as a text": {"properties": {"x": "string"}},
    "a type that is none": {"properties": {"x": {"type": "any"}}},
    "types as a number": {"properties": {"x": {"type": 5}}},
    "required as a boolean": {"properties": {"x": {"type": "string", "required": True}}},
    "alternatives that are none": {"properties": {"x": {"anyOf": []}}},
    "choices as a text": {"properties": {"x": {"enum": "a"}}},
    "an old limit": {"properties": {"x": {"type": "number", "exclusiveMinimum": True}}},
    "a description as a list": {"properties": {"x": {"description": ["a"]}}},
    "a long text": {"description": "x" * 300_000},
}


@pytest.mark.req("R-MCP-18")
def test_unusable_schema_costs_only_its_own_tool(subtests: pytest.Subtests) -> None:
    good = make_tool("good", properties={"x": TEXT})
    for kind, schema in UNUSABLE.items():
        with subtests.test(kind=kind):
            bad = replace(make_tool("bad"), input_schema={"type": "object", **schema})
            began = process_time()
            kept, dropped = McpServer.define_tools("books", bad, good)
            assert process_time() - began < 2
            assert kept["name"] == "books__good"
            assert dropped["tool"] == "bad"
            assert dropped["reason"]


USABLE: dict[str, dict[str, Any]] = {
    "no properties": {},
    "alternatives": {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "a recursive tree": {
        "properties": {"tree": {"$ref": "#/$defs/Node"}},
        "$defs": {"Node": {"properties": {"next": {"$ref": "#/$defs/Node"}}}},
    },
    "a property that is called $ref": {"properties": {"$ref": {"type": "string"}}},
    "booleans as schemas": {"properties": {"x": True}, "additionalProperties": False},
    "100 properties": wide(100),
}


def test_usual_schemas_are_kept(subtests: pytest.Subtests) -> None:
    for kind, schema in USABLE.items():
        with subtests.test(kind=kind):
            tool = replace(make_tool(), input_schema=schema)
            assert define(tool)["schema"] == {"type": "object", **schema}


def test_schema_of_an_older_version_is_sent_in_the_current_one() -> None:
    point = {"type": "array", "items": [TEXT, TEXT], "additionalItems": False}
    schema: dict[str, Any] = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://example.org/point",
        "type": "object",
        "properties": {"point": point},
    }
    assert define(replace(make_tool(), input_schema=schema))["schema"] == {
        "type": "object",
        "properties": {"point": {"type": "array", "prefixItems": [TEXT, TEXT], "items": False}},
    }


def test_a_thousand_tools_are_read_within_a_second() -> None:
    tools = [make_tool(f"tool{n}", properties={"x": TEXT, "y": TEXT}) for n in range(1_000)]
    began = process_time()
    assert len(McpServer.define_tools("books", *tools)) == 1_000
    assert process_time() - began < 2


@pytest.mark.req("R-MCP-90")
def test_arguments_are_checked_with_the_schema_of_the_server() -> None:
    tool = make_tool(
        properties={"id": {"type": "integer"}, "name": TEXT},
        oneOf=[{"required": ["id"]}, {"required": ["name"]}],
    )
    check = define(tool)["check"]
    assert check({"id": 3}) is None
    assert check({"name": "x"}) is None
    wrong_arguments: list[dict[str, JsonValue]] = [{}, {"id": 3, "name": "x"}, {"id": "three"}]
    for wrong in wrong_arguments:
        problem = check(wrong)
        assert problem is not None
        assert problem.startswith("Invalid arguments for books__search: ")


def test_check_of_arguments_has_a_limit() -> None:
    defs: dict[str, Any] = {"a0": {"type": "string"}}
    for n in range(1, 40):
        ref = {"$ref": f"#/$defs/a{n - 1}"}
        defs[f"a{n}"] = {"anyOf": [ref, {"allOf": [ref, ref]}]}
    schema: dict[str, Any] = {"properties": {"x": {"$ref": "#/$defs/a39"}}, "$defs": defs}
    check = define(make_tool(**schema))["check"]
    began = process_time()
    assert check({"x": 5}) is None  # the server checks it
    assert process_time() - began < 2


# --- descriptions ----------------------------------------------------------------------------


@pytest.mark.req("R-MCP-16")
def test_description_is_marked_and_cut() -> None:
    one = define(make_tool(description="Search\x1b[31m the \u202eshelf."))
    assert one["description"] == "[Tool of the MCP server books] Search the ⟨U+202E⟩shelf."
    long = define(make_tool(description="x" * 100_000))
    assert len(long["description"]) == MAX_DESCRIPTION_CHARS
    assert long["description"].endswith("…")
    none = define(make_tool(description=None))
    assert none["description"] == "[Tool of the MCP server books]"
