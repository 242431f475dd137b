"""Tests of the tool `describe_tools`, and of the documentation that it returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pytest
from pydantic import BaseModel, JsonValue

import jp_nb as jp
from tests.agent.turn_bench import call, reply, say
from tests.kit.kinds import make
from tests.kit.settings import Settings
from tests.kit.tools import configured, new_tool, offer_now
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import InlineCell, for_tool

CATALOG = {"a": "## a\n\nFirst.", "b": "## b\n\nSecond.", "bare": ""}


async def describe(arguments: Mapping[str, JsonValue]) -> jp.Outcome:
    tool = new_tool("describe_tools")
    context = jp.ToolContext("describe_tools", catalog=CATALOG)
    outcome: jp.Outcome = await tool.run(arguments, context, InlineCell())
    return outcome


def documented(partial: dict[str, Any], *functions: Any) -> Any:
    """Return the documentation of built-in tools, `functions`, and tools without a program."""
    tools = [new_tool(function) for function in functions]
    config = configured(partial, tools)
    names = config.conversation.tools
    executors: dict[str, Mapping[str, Any]] = {
        "python": {tool.name: tool for tool in tools},
        "local": {name: new_tool("missing") for name in names},
    }
    return offer_now(config, executors).documentation


def document(schema: Any, **settings: Any) -> str:
    """Return the documentation of the tool `t` with a JSON schema; "" if it has none."""
    tool = new_tool("missing")
    tool.schema = schema
    config = configured(for_tool("t", source="local", **settings))
    text: str = offer_now(config, {"local": {"t": tool}}).documentation.get("t", "")
    return text


# --- the tool --------------------------------------------------------------------------------


async def test_known_tools_are_documented_and_unknown_tools_are_named(
    subtests: pytest.Subtests,
) -> None:
    rows: list[tuple[list[JsonValue], str]] = [
        (["a"], "## a\n\nFirst."),
        (["b", "a", "b"], "## b\n\nSecond.\n\n---\n\n## a\n\nFirst."),
        (
            ["x", "a", "bare"],
            "## a\n\nFirst.\n\n---\n\nNo additional documentation available for: x, bare",
        ),
        (["x"], "No additional documentation available for: x"),
    ]
    for tools, text in rows:
        with subtests.test(tools=tools):
            assert await describe({"tools": tools}) == jp.Success(text)


async def test_invalid_names_are_an_error(subtests: pytest.Subtests) -> None:
    rows: list[dict[str, JsonValue]] = [{}, {"tools": "a"}, {"tools": None}, {"tools": ["a", 1]}]
    for arguments in rows:
        with subtests.test(arguments=arguments):
            assert await describe(arguments) == make(
                "failure", "Missing or invalid `tools` parameter."
            )


async def test_empty_list_of_names_is_an_error() -> None:
    assert await describe({"tools": []}) == make("failure", "The `tools` array must not be empty.")


async def test_tool_describes_offered_tools_and_shows_nothing() -> None:
    def weather(city: str) -> str:
        """Forecast."""
        return city

    asked = call("describe_tools", text='{"tools": ["weather", "nope"]}')
    bench = TurnBench([reply(asked), reply(say("Fine."))], tools=[new_tool(weather)])
    await bench.run()
    assert bench.turn.tool_calls[0].content == (
        "## weather\n\nForecast.\n\n### Parameters\n\n- `city` (string, required)\n\n---\n\n"
        "No additional documentation available for: nope"
    )
    assert bench.render_cell()["text/plain"] == "Fine."


def test_registration_follows_the_specification() -> None:
    config = configured({})
    tool = config.conversation.tools["describe_tools"]
    assert (tool.source, tool.run, tool.format, tool.result) == (
        "builtin",
        "unattended",
        None,
        None,
    )
    assert tool.enable is not None
    assert tool.enable.model_dump() == {"state": True, "allow_toggle": "never"}
    assert tool.style.model_dump(exclude_unset=True) == {
        "hidden": True,
        "inline_results": "off",
        "parameters": "off",
    }
    offered = offer_now(config).tools["describe_tools"]
    assert offered.definition.parameters == {
        "type": "object",
        "properties": {
            "tools": {
                "type": "array",
                "description": "Names of the tools.",
                "items": {"type": "string"},
            }
        },
        "additionalProperties": False,
        "required": ["tools"],
    }
    assert offered.definition.description == tool.description


def test_no_directive_disables_it() -> None:
    settings = configured({}).model_dump(mode="json", exclude_none=True)
    (delta, _), states = Settings(settings).switch_tools(("", False))
    assert "describe_tools" not in str(delta)
    assert states["describe_tools"]
    with pytest.raises(jp.ConfigError, match=r"cannot disable `describe_tools`.*locked-on"):
        Settings(settings).switch_tools(("describe_tools", False))


# --- the documentation -----------------------------------------------------------------------

READ: dict[str, JsonValue] = {
    "source": "local",
    "summary": "Read a file.",
    "description": "Read a file of the workspace.\n\nBinary files are refused.",
    "examples": '```json\n{"path": "a.txt"}\n```',
    "parameters": {
        "path": {
            "type": "string",
            "required": True,
            "summary": "Which file.",
            "description": "Relative to the workspace.\nNo `..` in it.",
            "examples": "`src/a.py`",
        },
        "encoding": {"type": "string", "enum": ["utf-8", "latin-1"], "default": "utf-8"},
        "ranges": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "first": {"type": "integer", "required": True, "description": "From 1."},
                    "last": {"type": ["integer", "null"]},
                },
            },
        },
    },
}

READ_TEXT = """\
## fs_read

Read a file.

Read a file of the workspace.

Binary files are refused.

### Examples

```json
{"path": "a.txt"}
```

### Parameters

- `path` (string, required): Which file.

  Relative to the workspace.
  No `..` in it.

  Examples: `src/a.py`
- `encoding` (string, one of `"utf-8"`, `"latin-1"`, default `"utf-8"`)
- `ranges` (array of object)
  - `first` (integer, required): From 1.
  - `last` (integer or null)"""


def test_configured_tool_is_documented_from_its_configuration() -> None:
    assert documented(for_tool("fs_read", **READ))["fs_read"] == READ_TEXT


def test_requests_contain_only_the_summary_of_a_tool() -> None:
    config = configured(for_tool("fs_read", **READ))
    found = offer_now(config, {"local": {"fs_read": new_tool("missing")}})
    definition = found.tools["fs_read"].definition
    assert definition.description == "Read a file."
    assert "Binary" not in str(definition)
    assert "src/a.py" not in str(definition)


class Stop(BaseModel):
    name: str
    then: Stop | None = None


def test_python_tool_is_documented_from_hints_and_docstring() -> None:
    def plan(first: Stop, days: int = 1, unit: Literal["km", "mi"] = "km") -> str:
        """Plan a trip.

        By train.

        Args:
            first: Where it begins.
            days: How long.

        Example:
            plan({"name": "Delft"})

        Returns:
            The plan.
        """
        return first.name

    text = documented({}, plan)["plan"]
    assert text.startswith(
        """\
## plan

Plan a trip.

By train.

### Examples

plan({"name": "Delft"})

### Parameters

- `first` (object, required): Where it begins.
  - `name` (string, required)
  - `then` (object or null, as above, default `null`)
"""
    )
    assert text.endswith(
        """
- `days` (integer, default `1`): How long.
- `unit` (string, one of `"km"`, `"mi"`, default `"km"`)"""
    )
    assert text.count("`then`") == 1  # it refers to itself, and that ends


def listed(*names: str) -> JsonValue:
    return {"anyOf": [{"type": "array", "items": ref(name)} for name in names]}


def ref(name: str) -> JsonValue:
    return {"$ref": f"#/$defs/{name}"}


def test_recursive_types_are_documented_once() -> None:
    names = [f"T{n}" for n in range(9)]
    branches: JsonValue = {name: ref("Tree") for name in ("a", "b", "c", "d", "e")}
    definitions: dict[str, JsonValue] = {name: listed(*names) for name in names}
    definitions |= {
        "Json": {"anyOf": [{"type": "array", "items": ref("Json")}, {"type": "integer"}]},
        "Tree": {"type": "object", "properties": branches},
    }
    properties: JsonValue = {"json": ref("Json"), "tree": ref("Tree"), "many": ref("T0")}
    text = document({"$defs": definitions, "properties": properties})
    assert text == (
        "## t\n\n### Parameters\n\n- `json` (array or integer, as above)\n- `tree` (object)\n"
        + "".join(f"  - `{name}` (object, as above)\n" for name in "abcde")
        + "- `many` (array, as above)"
    )


def test_long_parameter_lists_are_truncated_with_a_count(
    subtests: pytest.Subtests,
) -> None:
    rows: list[tuple[int, str]] = [(201, "1"), (1199, "999"), (5000, "more than 999")]
    for count, more in rows:
        with subtests.test(count=count):
            properties: JsonValue = {f"p{n}": {"type": "string"} for n in range(count)}
            text = document({"properties": properties})
            assert text.endswith(f"\n- `p199` (string)\n- … and {more} more")


def test_configured_texts_of_a_python_tool_replace_its_own_and_types_stay() -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    said = for_tool(
        "add",
        summary="Sums.",
        parameters={"a": {"type": "string", "description": "One."}, "c": {"type": "string"}},
    )
    assert documented(said, add)["add"] == (
        "## add\n\nSums.\n\nAdd.\n\n### Parameters\n\n"
        "- `a` (integer, required): One.\n- `b` (integer, required)"
    )


def test_documentation_is_written_when_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def spy(name: str, *rest: Any) -> str:
        written.append(name)
        return f"## {name}\n\n"

    monkeypatch.setattr("jp_nb.agent.offered_tools.offered_tool.format_documentation", spy)
    catalog = documented({})
    conversation = configured({}).conversation
    on = [name for name in conversation.tools if conversation.get_tool_state(name)[0]]
    assert (list(catalog), len(catalog)) == (on, len(on))
    assert "x" not in catalog
    assert written == []
    assert catalog["describe_tools"].startswith("## describe_tools\n\n")
    assert written == ["describe_tools"]


def test_disabled_tool_has_no_documentation() -> None:
    assert "ask_user" not in documented(for_tool("ask_user", enable={"state": False}))


def test_tool_without_texts_and_parameters_has_no_documentation(subtests: pytest.Subtests) -> None:
    rows: list[str | None] = ["", "  \n", None]
    for text in rows:
        with subtests.test(text=text):
            texts = dict.fromkeys(("summary", "description", "examples"), text)
            assert document({"type": "object", "properties": {}}, **texts) == ""


def test_equal_summary_and_description_are_shown_once() -> None:
    assert document({}, summary="Same.", description="Same.") == "## t\n\nSame."
