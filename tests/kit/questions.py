"""Questions to the user, the prompts that ask them, and their ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jp_nb.agent.approvals.call_draft import list_permission_actions
from jp_nb.agent.call_steps.change_review import make_approval_prompt
from jp_nb.agent.call_steps.result_delivery import DELIVERY_ACTIONS
from jp_nb.agent.interrupts import make_stream_menu, make_tool_menu
from tests.kit.kinds import make


def answered(value: Any = True, channel: str = "form", *more: Any, **fields: Any) -> Any:
    """Return the end of a prompt that the user answered with `value`."""
    return make("answered", value, channel, *more, **fields)


def not_answered(end: str, channel: str | None = None, *more: Any, **fields: Any) -> Any:
    """Return the end of a prompt without an answer: `declined`, `cancelled`, `interrupted` …"""
    return make("not_answered", end, channel, *more, **fields)


def decision_prompt(kind: str, /, *values: Any) -> Any:
    """Return the prompt of a decision, such as `decision_prompt("tool_menu", ["fs_read"])`.

    The kinds, and their values: `permission` (a tool, and details), `delivery` (a tool, and
    details), `stream_menu` (the request that runs), `tool_menu` (the tools that run), and
    `approval` (a tool, and the changes that it proposes).
    """
    match kind, values:
        case "permission", (tool, *details):
            title = f"Run local {tool} tool?"
            return _new_decision(title, list_permission_actions(tool, "tool"), details)
        case "delivery", (tool, *details):
            return _new_decision(f"Deliver {tool} result to assistant?", DELIVERY_ACTIONS, details)
        case "stream_menu", (request,):
            return make_stream_menu(request)
        case "tool_menu", (tools,):
            return make_tool_menu(tools)
        case "approval", (tool, *changes):
            return make_approval_prompt(tool, tuple(changes))

    raise AssertionError(f"the kit has no decision {kind!r} about {values}")


def _new_decision(title: str, actions: Any, details: Iterable[Any]) -> Any:
    return make("decision_prompt", title, actions=actions, exhibits=tuple(details))
