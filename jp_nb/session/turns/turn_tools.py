"""Switch the tools off that were on for one turn only, as those of `%jp fix`.

A kernel that dies in such a turn leaves them on in the record. So the request of the turn names
them, and they are switched off when the turn has been resumed, or before the next one.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jp_nb.config.directives import Directive
from jp_nb.json_values import JsonObject
from jp_nb.record.entries.events import ChatRequest, ConfigDelta, Entry
from jp_nb.session.conversation import ActiveConversation

TURN_TOOLS: Final = "turn_tools"
"""Key in the metadata of a request: the names of the tools that are on for its turn only."""
TURN_TOOLSET: Final = "cells"
"""The toolset of such tools. Other names in a record, which may be forged, have no effect."""
TOOL_SETTINGS: Final = ("conversation.tools", "conversation.toolsets")
"""Paths of the settings that switch tools."""


def mark_turn_tools(names: Sequence[str]) -> JsonObject:
    """Return metadata for the request of a turn for which these tools were switched on."""
    return {TURN_TOOLS: [*names]} if names else {}


def list_tools_for_turn(active: ActiveConversation) -> list[str]:
    """Return the tools of `cells`, and those that it needs, which are off now.

    They are those that a turn with this toolset switches on.
    """
    conversation = active.settings.config.conversation
    names = conversation.list_switched_tools(TURN_TOOLSET, on=True)
    return [name for name in names if not conversation.get_tool_state(name).is_on]


def switch_turn_tools_off(active: ActiveConversation) -> None:
    """Switch the tools off that were on for the last turn only, unless the user switched tools.

    Nothing happens if they are off already.
    """
    marked = _read_marked_tools(active.document.conversation.current_turn())
    if not marked:
        return

    conversation = active.settings.config.conversation
    known = conversation.list_switched_tools(TURN_TOOLSET, on=True)
    left = [name for name in known if name in marked and conversation.get_tool_state(name).is_on]
    if left:
        active.notices += active.settings.change(*[Directive("no_tool", name) for name in left])


def _read_marked_tools(turn: Sequence[Entry]) -> list[object]:
    """Return the names in the request of `turn`; none if tools were switched after it.

    A change before the request is the one that switched them on.
    """
    names: list[object] = []
    has_begun = False

    for entry in turn:
        if isinstance(entry, ChatRequest) and not has_begun:
            has_begun = True
            marked = entry.metadata.get(TURN_TOOLS)
            names = [*marked] if isinstance(marked, list) else []
        elif isinstance(entry, ConfigDelta) and has_begun and _switches_tools(entry):
            return []
    return names


def _switches_tools(change: ConfigDelta) -> bool:
    """Return True if `change` switched tools, or reset all settings.

    The keys of its `claims` are the paths of the changed settings.
    """
    is_of_tools = any(path.startswith(TOOL_SETTINGS) for path in change.claims)
    return change.op == "reset" or is_of_tools
