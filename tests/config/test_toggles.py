"""Switching tools on and off with `-t` and `-T`, and locked tools."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.notebook.commands.line_parser import parse_ask_options
from tests.kit.settings import Settings, setting, value_at
from tests.kit.tools import configured

RULES = ("any", "if_named", "if_named_or_group", "never")


def make_tools(**enable: Any) -> dict[str, Any]:
    """Return the settings of tools, by their `enable` field."""
    tools = {name: {"source": "python", "enable": value} for name, value in enable.items()}
    return {"conversation": {"tools": tools}}


def list_states(settings: dict[str, Any], *switches: tuple[str, bool]) -> dict[str, bool]:
    """Return the states of all tools after `switches`."""
    _, states = Settings(settings).switch_tools(*switches)
    return states


def find_delta(settings: dict[str, Any], name: str, on: bool) -> dict[str, Any]:
    """Return the settings that a switch changes."""
    (delta, unsets), _ = Settings(settings).switch_tools((name, on))
    assert unsets == ()
    return delta


def test_switching_all_tools_changes_only_those_with_the_rule_any() -> None:
    for rule, wanted, state in product(RULES, (True, False), (True, False)):
        settings = make_tools(t={"state": state, "allow_toggle": rule})
        expected = wanted if rule == "any" else state
        assert list_states(settings, ("", wanted)) == {"t": expected}


def test_named_tool_is_switched_and_keeps_its_rule() -> None:
    for rule, state in product(RULES[:3], (True, False)):
        settings = make_tools(t={"state": state, "allow_toggle": rule})
        assert list_states(settings, ("t", not state)) == {"t": not state}
        delta = find_delta(settings, "t", not state)
        switched = value_at(Settings(settings, delta).merged(), "conversation.tools.t.enable")
        assert switched == {"state": not state, "allow_toggle": rule}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (True, "cannot disable `t`: this tool is configured as locked-on"),
        (False, "cannot enable `t`: this tool is configured as locked-off"),
    ],
)
def test_locked_tool_is_refused_unless_it_has_the_state_already(state: bool, expected: str) -> None:
    settings = make_tools(t={"state": state, "allow_toggle": "never"})
    with pytest.raises(jp.ConfigError) as caught:
        list_states(settings, ("t", not state))
    assert expected in str(caught.value)
    assert find_delta(settings, "t", state) == {}


def test_tool_with_the_state_already_is_omitted_from_the_change() -> None:
    settings = make_toolset(a=True, b=False)
    only_b = {"conversation": {"tools": {"b": {"enable": {"state": True}}}}}
    for name, delta in (("", only_b), ("a", {}), ("geo", only_b)):
        assert find_delta(settings, name, True) == delta


def test_rule_from_the_defaults_of_all_tools_applies() -> None:
    tools = {"t": {"source": "python"}, "*": {"enable": {"allow_toggle": "if_named"}}}
    settings = setting("conversation.tools", tools)
    assert list_states(settings, ("", False)) == {"t": True}
    assert list_states(settings, ("t", False)) == {"t": False}


def test_error_lists_all_unknown_tools() -> None:
    settings = make_tools(t="on")
    with pytest.raises(jp.ConfigError, match="Tool not found: a"):
        list_states(settings, ("a", True))
    with pytest.raises(jp.ConfigError, match=r"Tools not found: a, b, \*"):
        list_states(settings, *((name, True) for name in ("a", "t", "b", "*")))


MINE = {"mine": {"source": "python"}, "other": {"source": "python"}}


def list_shipped_states(
    *switches: tuple[str, bool], toolsets: dict[str, Any] | None = None
) -> dict[str, bool]:
    """Return the states of the built-in tools and of two functions after `switches`."""
    own = {"conversation": {"tools": MINE, "toolsets": toolsets or {}}}
    settings = configured(own).model_dump(mode="json", exclude_none=True)
    return list_states(settings, *switches)


@pytest.mark.req("R083-33")
def test_switching_all_tools_off_leaves_ask_user_on() -> None:
    found = list_shipped_states(("", False))
    assert found["ask_user"]
    assert not found["mine"]
    assert not found["other"]


@pytest.mark.req("R083-34")
def test_ask_user_is_switched_off_by_name_and_only_the_locked_tool_remains() -> None:
    found = list_shipped_states(("ask_user", False))
    assert (found["ask_user"], found["mine"]) == (False, True)
    found = list_shipped_states(("", False), ("ask_user", False))
    assert [name for name, on in found.items() if on] == ["describe_tools"]


def test_options_keep_their_order() -> None:
    line = "-T -T ask_user -c a=1 -t mine -C a=1 -t"
    found = [(x.kind, x.text) for x in parse_ask_options(line).directives]
    assert found == [
        ("no_tool", ""),
        ("no_tool", "ask_user"),
        ("cfg", "a=1"),
        ("tool", "mine"),
        ("no_cfg", "a=1"),
        ("tool", ""),
    ]


# --- toolsets --------------------------------------------------------------------------------


def make_toolset(toolsets: Any = None, **enable: Any) -> dict[str, Any]:
    """Return tools of the toolset `geo`; one whose value is None has no `enable` field."""
    tools: dict[str, Any] = {}
    for name, value in enable.items():
        tools[name] = {"source": "python", "toolset": "geo"}
        if value is not None:
            tools[name]["enable"] = value

    return {"conversation": {"tools": tools, "toolsets": toolsets or {}}}


def test_toolset_switches_its_tools_whose_rules_allow_it() -> None:
    settings = make_toolset(
        any={"state": False, "allow_toggle": "any"},
        group={"state": False, "allow_toggle": "if_named_or_group"},
        named={"state": False, "allow_toggle": "if_named"},
        never={"state": False, "allow_toggle": "never"},
    )
    on = {"any": True, "group": True, "named": False, "never": False}
    assert list_states(settings, ("geo", True)) == on
    assert not any(list_states(settings, ("geo", True), ("geo", False)).values())


def test_tool_takes_precedence_over_a_toolset_of_the_same_name() -> None:
    settings = make_toolset(geo=False, other=False)
    assert list_states(settings, ("geo", True)) == {"geo": True, "other": False}


def test_toolset_of_locked_tools_is_refused() -> None:
    settings = make_toolset({"geo": {"state": False, "allow_toggle": "never"}}, a=None, b=None)
    with pytest.raises(jp.ConfigError, match="cannot enable the toolset `geo`: all its tools are"):
        list_states(settings, ("geo", True))
    assert find_delta(settings, "geo", False) == {}


@pytest.mark.parametrize("state", [True, False])
def test_locked_server_is_refused_unless_it_has_the_state_already(state: bool) -> None:
    tools = {"books_search": {"source": "mcp.books.search", "toolset": "mcp.books"}}
    toolsets = {"mcp.books": {"state": state, "allow_toggle": "never"}}
    settings = {
        "conversation": {"tools": tools, "toolsets": toolsets},
        "providers": {"mcp": {"books": {"command": "books"}}},
    }
    with pytest.raises(jp.ConfigError, match=r"cannot .* the toolset `mcp\.books`"):
        list_states(settings, ("mcp.books", not state))
    assert find_delta(settings, "mcp.books", state) == {}


def test_state_of_a_tool_overrides_its_toolset_and_that_the_defaults() -> None:
    settings = make_toolset({"geo": "off"}, a=None, b="on")
    assert list_states(settings) == {"a": False, "b": True}
    tools = {"a": {"source": "python", "toolset": "geo"}, "*": {"enable": False}}
    on = {"conversation": {"tools": tools, "toolsets": {"geo": True}}}
    assert list_states(on) == {"a": True}


def test_notebook_toolset_is_switched_on_by_one_setting() -> None:
    before = list_shipped_states()
    by_setting = list_shipped_states(toolsets={"notebook": True})
    by_switch = list_shipped_states(("notebook", True))
    switched = {name for name, on in by_setting.items() if on != before[name]}
    assert switched == {
        "notebook_cell", "notebook_cells", "notebook_search", "notebook_variable",
        "notebook_variables",
    }  # fmt: skip
    assert by_switch == by_setting


def test_error_of_an_unknown_name_lists_the_toolsets() -> None:
    with pytest.raises(jp.ConfigError, match="Tool not found: goe; toolsets are geo"):
        list_states(make_toolset(a=None), ("goe", True))
