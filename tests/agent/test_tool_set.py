"""Available tools: enabling, styles, formatters, grants."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import JsonValue

from tests.kit.tools import configured, new_tool, offer_now
from tests.support.fakes import for_tool


def local_tool(name: str, command: JsonValue, **settings: Any) -> dict[str, Any]:
    return for_tool(name, **({"source": "local", "command": command} | settings))


def offer(config: dict[str, Any]) -> Any:
    return offer_now(configured(config)).tools


@pytest.mark.req("R083-90")
def test_builtin_with_a_local_source_keeps_its_definition() -> None:
    before = offer({})["ask_user"]
    after = offer(for_tool("ask_user", source="local"))["ask_user"]
    assert type(after.executor) is type(new_tool({"command": "true"}))
    for field in ("definition", "questions", "hidden", "run", "result"):
        assert getattr(after, field) == getattr(before, field), field


def test_local_tool_asks_before_it_runs() -> None:
    tool = offer(local_tool("t", "true"))["t"]
    assert (tool.run, tool.format, tool.origin) == ("ask", "ask", "local")


def test_style_falls_back_to_the_style_of_all_tools() -> None:
    star: dict[str, Any] = {
        "hidden": True,
        "inline_results": 3,
        "parameters": "json",
        "error": {"inline_results": "full"},
    }
    own: dict[str, Any] = {"hidden": False, "inline_results": "off"}
    tools = {
        "*": {"style": star},
        "own": {"source": "local", "style": own},
        "none": {"source": "local"},
        "error": {"source": "local", "style": {"error": {"inline_results": 1}}},
    }
    found = offer({"conversation": {"tools": tools}})

    def style(name: str) -> tuple[Any, ...]:
        tool = found[name]
        return tool.hidden, tool.inline_results, tool.parameters, tool.inline_errors

    assert style("own") == (False, "off", "json", "full")
    assert style("none") == (True, 3, "json", "full")
    assert style("error") == (True, 3, "json", 1)


def test_style_is_empty_by_default() -> None:
    tool = offer(local_tool("t", "true"))["t"]
    assert (tool.hidden, tool.formatter, tool.parameters) == (False, None, None)
    assert (tool.inline_results, tool.inline_errors) == (None, None)


def test_formatter_of_all_tools_applies_unless_a_tool_has_its_own() -> None:
    tools = {
        "*": {"style": {"parameters": "my-formatter --all"}},
        "own": {"source": "local", "style": {"parameters": "function_call"}},
    }
    found = offer({"conversation": {"tools": tools}})
    assert found["ask_user"].formatter is not None
    assert found["ask_user"].parameters is None
    assert (found["own"].formatter, found["own"].parameters) == (None, "function_call")


def test_grants_are_passed_as_configured() -> None:
    access: dict[str, Any] = {
        "fs": [{"path": "notes", "read": True}],
        "config": [{"path": "assistant.name", "read": True}],
    }
    tools = offer(local_tool("t", "true", access=access))
    assert tools["t"].access == {
        "fs": [{"path": "notes", "read": True}],
        "net": [],
        "env": [],
        "config": [
            {
                "path": "assistant.name",
                "read": True,
                "write": False,
                "delete": False,
                "apply": "ask",
            }
        ],
    }
    assert tools["ask_user"].access is None


def test_disabled_tool_is_offered_when_the_tool_choice_names_it() -> None:
    if_named: JsonValue = {"state": False, "allow_toggle": "if_named"}
    rows: list[tuple[JsonValue, str, bool]] = [
        (False, "t", True),
        (if_named, "t", True),
        (if_named, "auto", False),
        (False, "required", False),
        (True, "auto", True),
    ]
    for enable, choice, is_offered in rows:
        config = local_tool("t", "true", enable=enable) | {"assistant": {"tool_choice": choice}}
        assert ("t" in offer(config)) is is_offered


def test_tool_that_is_locked_off_is_never_offered() -> None:
    locked = {"state": False, "allow_toggle": "never"}
    config = configured(local_tool("t", "true", enable=locked))
    forced = config.assistant.model_copy(update={"tool_choice": "t"})
    found = offer_now(config.model_copy(update={"assistant": forced}))
    assert "t" not in found.tools
    assert "t" not in found.missing
