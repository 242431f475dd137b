"""Switching tools on and off with `-t` and `-T`, and locked tools."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.config.partial import apply_change, make_replacement, strip_strategies
from jp_nb.config.tool_toggles import require_tools, toggle_tools
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.validation import validate_config
from jp_nb.notebook.commands import parse_ask_options
from tests.kit.tools import configured

STAR = "*"


RULES = ("any", "if_named", "if_named_or_group", "never")


def create_config(**enable: Any) -> AppConfig:
    tools: Any = {n: {"source": "python", "enable": value} for n, value in enable.items()}
    return validate_config({"conversation": {"tools": tools}})


def list_states(config: AppConfig) -> dict[str, bool]:
    names = [name for name in config.conversation.tools if name != STAR]
    return {name: config.conversation.get_tool_state(name)[0] for name in names}


def after(config: AppConfig, *directives: tuple[str, bool]) -> AppConfig:
    for name, on in directives:
        written = make_replacement(config.model_dump(mode="json", exclude_none=True))
        config = validate_config(
            strip_strategies(apply_change(written, toggle_tools(config, name, on=on)))
        )
    return config


def test_switching_all_tools_changes_only_those_with_the_rule_any() -> None:
    for rule, wanted, state in product(RULES, (True, False), (True, False)):
        config = create_config(t={"state": state, "allow_toggle": rule})
        assert list_states(after(config, ("", wanted))) == {"t": wanted if rule == "any" else state}


def test_named_tool_is_switched_and_keeps_its_rule() -> None:
    for rule, state in product(RULES[:3], (True, False)):
        config = after(create_config(t={"state": state, "allow_toggle": rule}), ("t", not state))
        enable = config.conversation.tools["t"].enable
        assert enable is not None
        assert (enable.state, enable.allow_toggle) == (not state, rule)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (True, "cannot disable `t`: this tool is configured as locked-on"),
        (False, "cannot enable `t`: this tool is configured as locked-off"),
    ],
)
def test_locked_tool_is_refused_unless_it_has_the_state_already(state: bool, expected: str) -> None:
    config = create_config(t={"state": state, "allow_toggle": "never"})
    with pytest.raises(jp.ConfigError) as caught:
        toggle_tools(config, "t", on=not state)
    assert expected in str(caught.value)
    assert not toggle_tools(config, "t", on=state)


def test_tool_with_the_state_already_is_omitted_from_the_change() -> None:
    config = create_toolset(a=True, b=False)
    only_b = {"conversation": {"tools": {"b": {"enable": {"state": True}}}}}
    for name, delta in (("", only_b), ("a", {}), ("geo", only_b)):
        assert toggle_tools(config, name, on=True).delta == delta


def test_rule_from_the_defaults_of_all_tools_applies() -> None:
    tools: Any = {"t": {"source": "python"}, STAR: {"enable": {"allow_toggle": "if_named"}}}
    config = validate_config({"conversation": {"tools": tools}})
    assert list_states(after(config, ("", False))) == {"t": True}
    assert list_states(after(config, ("t", False))) == {"t": False}


def test_error_lists_all_unknown_tools() -> None:
    with pytest.raises(jp.ConfigError, match="Tool not found: a"):
        require_tools(create_config(t="on"), ["a"])
    with pytest.raises(jp.ConfigError, match=r"Tools not found: a, b, \*"):
        require_tools(create_config(t="on"), ["a", "t", "b", "*"])


def shipped() -> AppConfig:
    return configured(
        {"conversation": {"tools": {"mine": {"source": "python"}, "other": {"source": "python"}}}}
    )


@pytest.mark.req("R083-33")
def test_switching_all_tools_off_leaves_ask_user_on() -> None:
    found = list_states(after(shipped(), ("", False)))
    assert found["ask_user"]
    assert not found["mine"]
    assert not found["other"]


@pytest.mark.req("R083-34")
def test_ask_user_is_switched_off_by_name_and_only_the_locked_tool_remains() -> None:
    found = list_states(after(shipped(), ("ask_user", False)))
    assert (found["ask_user"], found["mine"]) == (False, True)
    found = list_states(after(shipped(), ("", False), ("ask_user", False)))
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


def create_toolset(toolsets: Any = None, **enable: Any) -> AppConfig:
    """Return tools of the toolset `geo`; one whose value is None has no `enable` field."""
    tools: Any = {
        name: {"source": "python", "toolset": "geo"} | ({} if value is None else {"enable": value})
        for name, value in enable.items()
    }
    return validate_config({"conversation": {"tools": tools, "toolsets": toolsets or {}}})


def test_toolset_switches_its_tools_whose_rules_allow_it() -> None:
    config = create_toolset(
        any={"state": False, "allow_toggle": "any"},
        group={"state": False, "allow_toggle": "if_named_or_group"},
        named={"state": False, "allow_toggle": "if_named"},
        never={"state": False, "allow_toggle": "never"},
    )
    on = {"any": True, "group": True, "named": False, "never": False}
    assert list_states(after(config, ("geo", True))) == on
    assert not any(list_states(after(config, ("geo", True), ("geo", False))).values())


def test_tool_takes_precedence_over_a_toolset_of_the_same_name() -> None:
    config = create_toolset(geo=False, other=False)
    assert list_states(after(config, ("geo", True))) == {"geo": True, "other": False}


def test_toolset_of_locked_tools_is_refused() -> None:
    config = create_toolset({"geo": {"state": False, "allow_toggle": "never"}}, a=None, b=None)
    with pytest.raises(jp.ConfigError, match="cannot enable the toolset `geo`: all its tools are"):
        toggle_tools(config, "geo", on=True)
    assert not toggle_tools(config, "geo", on=False)


def test_state_of_a_tool_overrides_its_toolset_and_that_the_defaults() -> None:
    config = create_toolset({"geo": "off"}, a=None, b="on")
    assert list_states(config) == {"a": False, "b": True}
    tools: Any = {"a": {"source": "python", "toolset": "geo"}, STAR: {"enable": False}}
    on = {"conversation": {"tools": tools, "toolsets": {"geo": True}}}
    assert list_states(validate_config(on)) == {"a": True}


def test_notebook_toolset_is_switched_on_by_one_setting() -> None:
    names = shipped().conversation.list_toolset_tools("notebook")
    assert len(names) == 5
    assert not any(list_states(shipped())[name] for name in names)
    on = list_states(configured({"conversation": {"toolsets": {"notebook": True}}}))
    assert all(on[name] for name in names)
    assert all(list_states(after(shipped(), ("notebook", True)))[name] for name in names)


def test_error_of_an_unknown_name_lists_the_toolsets() -> None:
    with pytest.raises(jp.ConfigError, match="Tool not found: goe; toolsets are geo"):
        require_tools(create_toolset(a=None), ["geo", "a", "goe"])
