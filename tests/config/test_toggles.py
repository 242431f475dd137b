"""`-t` and `-T`: what switches tools on and off, and what is locked."""

from __future__ import annotations

from typing import Any

import pytest

from jp_nb.config.partial import apply, as_replacement, strip_strategies
from jp_nb.config.toggles import require_tools, toggled
from jp_nb.config.tree.app_config import AppConfig
from jp_nb.config.tree.tool_config import STAR
from jp_nb.config.validation import validate
from jp_nb.errors import ConfigError
from jp_nb.notebook.options import read_ask_options
from tests.support.fakes import configured

RULES = ("any", "if_named", "if_named_or_group", "never")


def config_of(**enable: Any) -> AppConfig:
    tools: Any = {n: {"source": "python", "enable": value} for n, value in enable.items()}
    return validate({"conversation": {"tools": tools}})


def states(config: AppConfig) -> dict[str, bool]:
    names = [name for name in config.conversation.tools if name != STAR]
    return {name: config.conversation.enabling(name)[0] for name in names}


def after(config: AppConfig, *directives: tuple[str, bool]) -> AppConfig:
    for name, on in directives:
        written = as_replacement(config.model_dump(mode="json", exclude_none=True))
        config = validate(strip_strategies(apply(written, toggled(config, name, on=on))))
    return config


def test_all_at_once_changes_what_anybody_may_change(subtests: pytest.Subtests) -> None:
    for rule in RULES:
        for wanted in [True, False]:
            for state in [True, False]:
                with subtests.test(state=state, wanted=wanted, rule=rule):
                    config = config_of(t={"state": state, "allow_toggle": rule})
                    assert states(after(config, ("", wanted))) == {
                        "t": wanted if rule == "any" else state
                    }


@pytest.mark.parametrize("state", [True, False])
@pytest.mark.parametrize("rule", RULES[:3])
def test_by_its_name_a_tool_changes_unless_it_is_locked_and_keeps_its_rule(
    rule: str, state: bool
) -> None:
    config = after(config_of(t={"state": state, "allow_toggle": rule}), ("t", not state))
    enable = config.conversation.tools["t"].enable
    assert enable is not None
    assert (enable.state, enable.allow_toggle) == (not state, rule)


@pytest.mark.parametrize(
    ("state", "says"),
    [
        (True, "cannot disable `t`: this tool is configured as locked-on"),
        (False, "cannot enable `t`: this tool is configured as locked-off"),
    ],
)
def test_a_locked_tool_says_so_unless_it_is_so_already(state: bool, says: str) -> None:
    config = config_of(t={"state": state, "allow_toggle": "never"})
    with pytest.raises(ConfigError) as caught:
        toggled(config, "t", on=not state)
    assert says in str(caught.value)
    assert not toggled(config, "t", on=state)


@pytest.mark.parametrize("name", ["", "a", "geo"])
def test_what_is_so_already_is_left_out(name: str) -> None:
    config = set_of(a=True, b=False)
    change = toggled(config, name, on=True)
    assert change.delta == (
        {} if name == "a" else {"conversation": {"tools": {"b": {"enable": {"state": True}}}}}
    )


def test_what_is_inherited_from_all_tools_counts() -> None:
    tools: Any = {"t": {"source": "python"}, STAR: {"enable": {"allow_toggle": "if_named"}}}
    config = validate({"conversation": {"tools": tools}})
    assert states(after(config, ("", False))) == {"t": True}
    assert states(after(config, ("t", False))) == {"t": False}


@pytest.mark.parametrize(
    ("names", "says"),
    [(["a"], "Tool not found: a"), (["a", "t", "b", "*"], "Tools not found: a, b, *")],
)
def test_unknown_names_are_told_together(names: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says.replace("*", r"\\*")):
        require_tools(config_of(t="on"), names)


def shipped() -> AppConfig:
    return configured(
        {"conversation": {"tools": {"mine": {"source": "python"}, "other": {"source": "python"}}}}
    )


@pytest.mark.req("R083-33")
def test_all_off_leaves_the_one_that_asks_the_person() -> None:
    found = states(after(shipped(), ("", False)))
    assert found["ask_user"]
    assert not found["mine"]
    assert not found["other"]


@pytest.mark.req("R083-34")
def test_by_its_name_it_goes_too_and_both_together_turn_off_all_but_what_is_locked() -> None:
    found = states(after(shipped(), ("ask_user", False)))
    assert (found["ask_user"], found["mine"]) == (False, True)
    found = states(after(shipped(), ("", False), ("ask_user", False)))
    assert [name for name, on in found.items() if on] == ["describe_tools"]


def test_options_keep_their_order_with_those_of_the_configuration() -> None:
    line = "-T -T ask_user -c a=1 -t mine -C a=1 -t"
    found = [(x.kind, x.text) for x in read_ask_options(line).directives]
    assert found == [
        ("no_tool", ""),
        ("no_tool", "ask_user"),
        ("cfg", "a=1"),
        ("tool", "mine"),
        ("no_cfg", "a=1"),
        ("tool", ""),
    ]


# --- toolsets --------------------------------------------------------------------------------


def set_of(toolsets: Any = None, **enable: Any) -> AppConfig:
    """Tools of the toolset `geo`; one whose value is None says nothing about itself."""
    tools: Any = {
        name: {"source": "python", "toolset": "geo"} | ({} if value is None else {"enable": value})
        for name, value in enable.items()
    }
    return validate({"conversation": {"tools": tools, "toolsets": toolsets or {}}})


def test_a_toolset_switches_those_of_its_tools_that_let_themselves_with_others() -> None:
    config = set_of(
        any={"state": False, "allow_toggle": "any"},
        group={"state": False, "allow_toggle": "if_named_or_group"},
        named={"state": False, "allow_toggle": "if_named"},
        never={"state": False, "allow_toggle": "never"},
    )
    on = {"any": True, "group": True, "named": False, "never": False}
    assert states(after(config, ("geo", True))) == on
    assert not any(states(after(config, ("geo", True), ("geo", False))).values())


def test_a_tool_goes_before_a_toolset_of_its_name() -> None:
    config = set_of(geo=False, other=False)
    assert states(after(config, ("geo", True))) == {"geo": True, "other": False}


def test_a_toolset_that_is_locked_as_a_whole_says_so() -> None:
    config = set_of({"geo": {"state": False, "allow_toggle": "never"}}, a=None, b=None)
    with pytest.raises(ConfigError, match="cannot enable the toolset `geo`: all its tools are"):
        toggled(config, "geo", on=True)
    assert not toggled(config, "geo", on=False)


def test_its_own_word_goes_before_its_toolsets_and_that_before_the_one_for_all() -> None:
    config = set_of({"geo": "off"}, a=None, b="on")
    assert states(config) == {"a": False, "b": True}
    tools: Any = {"a": {"source": "python", "toolset": "geo"}, STAR: {"enable": False}}
    on = {"conversation": {"tools": tools, "toolsets": {"geo": True}}}
    assert states(validate(on)) == {"a": True}


def test_one_line_in_a_file_switches_the_notebooks_tools_on() -> None:
    names = shipped().conversation.toolset("notebook")
    assert len(names) == 5
    assert not any(states(shipped())[name] for name in names)
    on = states(configured({"conversation": {"toolsets": {"notebook": True}}}))
    assert all(on[name] for name in names)
    assert all(states(after(shipped(), ("notebook", True)))[name] for name in names)


def test_an_unknown_name_is_told_which_toolsets_there_are() -> None:
    with pytest.raises(ConfigError, match="Tool not found: goe; toolsets are geo"):
        require_tools(set_of(a=None), ["geo", "a", "goe"])
