"""Check the tool choice of a request against the available tools.

A choice says if the model may call tools (`auto`), may not (`none`), must call any (`required`), or
must call one of them (`tool:NAME`). It is configured (`assistant.tool_choice`), or given for one
turn (`%%jp -u NAME`).

The `ToolSet` has the tools that the request offers, in `tools`. These are the tools that are on,
and the one that is configured as the choice. `missing` has the reason why an enabled tool is not
available.

Source: `docs/turns.md`, `docs/decisions.md` D107.
"""

from __future__ import annotations

import difflib

from jp_nb.agent.offered_tools.tool_set import ToolSet
from jp_nb.agent.provider import ToolChoice
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.tool_settings import STAR
from jp_nb.errors import ConfigError, UsageError


def read_configured_choice(choice: str, tools: ToolSet) -> ToolChoice:
    """Return the choice of the setting `assistant.tool_choice`: a word, or the name of a tool.

    The tool may be off: `tools` has it nevertheless, unless its settings forbid to turn it on.

    Raises:
        ConfigError: The tool is not available.
    """
    if choice in ("auto", "none", "required"):
        return choice

    if choice not in tools.tools:
        reason = f": {tools.missing[choice]}" if choice in tools.missing else ""
        raise ConfigError(
            f"tool choice '{choice}' does not match any enabled tools{reason}",
            path="assistant.tool_choice",
        )
    return f"tool:{choice}"


def check_requested_choice(choice: ToolChoice, config: AppConfig, tools: ToolSet) -> ToolChoice:
    """Return the `choice` of the option `-u`. A tool named there must be turned on.

    Raises:
        UsageError: No tool fits.
    """
    if choice == "required" and not tools.tools:
        raise UsageError(
            "-u requires a tool call, and no tool is enabled. Enable one with `-t NAME`"
        )

    if not choice.startswith("tool:"):
        return choice

    name = choice.removeprefix("tool:")
    _check_tool_name(name, config)

    # `tools` may have a tool that is off, as the configured choice. `-u` does not turn it on.
    is_on = config.conversation.get_tool_state(name).is_on
    if is_on and name in tools.tools:
        return choice

    reason = f"it is off; turn it on with `-t {name}` on the same line"
    if is_on:
        reason = tools.missing.get(name, "it is not available here")
    raise UsageError(f"tool choice '{name}' does not match any enabled tools: {reason}")


def _check_tool_name(name: str, config: AppConfig) -> None:
    """Raise `UsageError` if `name` is a toolset, or unknown."""
    known = [tool for tool in config.conversation.tools if tool != STAR]
    if name in known:
        return

    toolset_tools = config.conversation.list_toolset_tools(name)
    if name != STAR and toolset_tools:
        raise UsageError(
            f"-u takes one tool, and {name!r} is a toolset: {', '.join(toolset_tools)}. "
            "Use -u without a name to require any enabled tool"
        )

    nearest = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    raise UsageError(f"Tool not found: {name}{hint}")
