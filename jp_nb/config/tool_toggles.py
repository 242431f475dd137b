"""Switch tools and toolsets on and off, as their toggle rules allow (`-t`, `-T`).

The user's name for tools is the first of these that exists:

- a tool of the configuration, such as `search`;
- one tool of a source, by its `source` in the settings: `mcp.books.search`;
- a toolset: `web`, or all tools of a source: `mcp.books`.

The toggle rule of a tool (`allow_toggle`) says by which of these names it may be switched. A tool
that cannot be switched is *locked*.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from jp_nb.config.partials.partial import Partial
from jp_nb.config.partials.partial_change import Change
from jp_nb.config.setting_paths import format_path
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.conversation_settings import ConversationConfig
from jp_nb.config.tree.tool_settings import STAR
from jp_nb.errors import ConfigError


def require_tools(config: AppConfig, names: Iterable[str]) -> None:
    """Check that all `names` are tools, toolsets, or single tools of a source in `config`.

    Raises:
        ConfigError: One is not.
    """
    conversation = config.conversation
    tools = conversation.tools
    toolsets = conversation.list_toolsets()

    known = {*tools, *toolsets, *conversation.list_source_toolsets()} - {STAR}
    unknown = (name for name in names if name not in known)
    missing = list(
        dict.fromkeys(name for name in unknown if not conversation.list_tools_from(name))
    )

    if missing:
        word = "Tool" if len(missing) == 1 else "Tools"
        listed = f"; toolsets are {', '.join(toolsets)}" if toolsets else ""
        raise ConfigError(
            f"{word} not found: {', '.join(missing)}{listed}", path="conversation.tools"
        )


_RULES_FOR_ALL: Final = ("any",)
"""Toggle rules of a tool that let the user switch it together with all other tools."""
_RULES_FOR_TOOLSET: Final = ("any", "if_named_or_group")
"""Toggle rules of a tool that let the user switch it by the name of its toolset."""
_RULES_FOR_NAME: Final = ("any", "if_named_or_group", "if_named")
"""Toggle rules of a tool that let the user switch it by its own name."""


@dataclass(frozen=True, slots=True)
class _NamedTools:
    """The tools that a name means.

    Attributes:
        rules: The toggle rules of tools that may be switched by this name.
        path: The setting of the state, for an error.
        subject: Name and verb for an error, such as "`search`: this tool is".
    """

    tools: Sequence[str]
    rules: Collection[str]
    path: str
    subject: str


def _find_named_tools(conversation: ConversationConfig, name: str, *, on: bool) -> _NamedTools:
    """Return the tools that `name` means, in the order of the module's docstring."""
    tool_subject = f"`{name}`: this tool is"
    if name in conversation.tools:
        path = f"conversation.tools.{name}.enable"
        return _NamedTools([name], _RULES_FOR_NAME, path, tool_subject)

    if of_source := conversation.list_tools_from(name):  # `mcp.books.search`
        path = f"conversation.tools.{of_source[0]}.enable"
        return _NamedTools(of_source, _RULES_FOR_NAME, path, tool_subject)

    # The tools of the toolset; to switch it on, also tools of other toolsets that it needs.
    tools = conversation.list_switched_tools(name, on=on)
    path = f"conversation.toolsets.{name}"
    toolset_subject = f"the toolset `{name}`: all its tools are"
    return _NamedTools(tools, _RULES_FOR_TOOLSET, path, toolset_subject)


def toggle_tools(config: AppConfig, name: str, *, on: bool) -> Change:
    """Return the change that switches a tool or toolset on or off; "" for all tools.

    An unknown `name` changes nothing: `require_tools` reports it.

    Of a toolset, or of all tools, only the tools whose toggle rule allows it are switched. The
    change does not set toggle rules.

    Raises:
        ConfigError: If the tool, or each tool of the toolset, is locked in the other state.
    """
    conversation = config.conversation
    if not name:  # a locked tool is no error here: the user did not name it
        tools = [tool for tool in conversation.tools if tool != STAR]
        return _make_change(_select_switchable(conversation, tools, _RULES_FOR_ALL, on=on), on=on)

    named = _find_named_tools(conversation, name, on=on)
    switchable = _select_switchable(conversation, named.tools, named.rules, on=on)

    # If one of the tools has the wanted state already, the user's wish may be met, and there is
    # nothing to report.
    are_all_other = all(conversation.get_tool_state(tool).is_on != on for tool in named.tools)
    if named.tools and not switchable and are_all_other:
        verb, now = ("enable", "off") if on else ("disable", "on")
        message = f"cannot {verb} {named.subject} configured as locked-{now}"
        raise ConfigError(message, path=named.path)

    if name in conversation.list_source_toolsets():
        return _toggle_source(conversation, name, switchable, on=on)
    return _make_change(switchable, on=on)


def _select_switchable(
    conversation: ConversationConfig, tools: Iterable[str], rules: Collection[str], *, on: bool
) -> list[str]:
    """Return the `tools` that are in the other state, and whose toggle rule is one of `rules`."""
    switchable: list[str] = []
    for tool in tools:
        state = conversation.get_tool_state(tool)
        if state.is_on != on and state.toggle_rule in rules:
            switchable.append(tool)
    return switchable


def _make_change(tools: Iterable[str], *, on: bool) -> Change:
    states: Partial = {tool: {"enable": {"state": on}} for tool in tools}
    return Change({"conversation": {"tools": states}}) if states else Change()


def _toggle_source(
    conversation: ConversationConfig, name: str, tools: Sequence[str], *, on: bool
) -> Change:
    """Return the change that switches the toolset of a source, such as `mcp.books`.

    It is switched as a whole, by its own state and rule, because its tools may not be known yet.
    Those of its `tools` that have their own state, which overrides that of the toolset, are
    switched too.
    """
    change: Partial = {}
    toolset = conversation.toolsets[name]
    if toolset.state != on:
        if toolset.allow_toggle is not None and toolset.allow_toggle not in _RULES_FOR_TOOLSET:
            verb = "enable" if on else "disable"
            raise ConfigError(
                f"cannot {verb} the toolset `{name}`: `allow_toggle` locks it",
                path=format_path(("conversation", "toolsets", name)),
            )
        change["toolsets"] = {name: {"state": on}}

    with_own_state: list[str] = []
    for tool in tools:
        enable = conversation.tools[tool].enable
        if enable is not None and enable.state is not None:
            with_own_state.append(tool)

    if with_own_state:
        change["tools"] = {tool: {"enable": {"state": on}} for tool in with_own_state}
    return Change({"conversation": change}) if change else Change()
