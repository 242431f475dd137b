"""Questions to the user, the prompts that ask them, and their ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jp_nb.agent.call_draft import permission_actions
from jp_nb.agent.change_review import approval_prompt
from jp_nb.agent.interrupts import stream_menu, tool_menu
from jp_nb.agent.result_delivery import DELIVERY_ACTIONS
from tests.kit import _words


def answer_type(kind: str, /, **fields: Any) -> Any:
    """Return a type of answer: `answer_type("select", options=("a", "b"))`."""
    return _words.find(_words.ANSWER_TYPES, f"{kind}_answer")(**fields)


def new_prompt(kind: str, /, *values: Any, **fields: Any) -> Any:
    """Return a prompt or a part of one: `new_prompt("question_prompt", question)`."""
    return _words.find(_words.PROMPTS, kind)(*values, **fields)


def prompt_end(kind: str, /, *values: Any, **fields: Any) -> Any:
    """Return the end of a prompt: `prompt_end("invalid_answer", "too long")`."""
    return _words.find(_words.PROMPT_ENDS, kind)(*values, **fields)


def answered(value: Any = True, channel: str = "form", *more: Any, **fields: Any) -> Any:
    """Return the end of a prompt that the user answered with `value`."""
    return prompt_end("answered", value, channel, *more, **fields)


def not_answered(end: str, channel: str | None = None, *more: Any, **fields: Any) -> Any:
    """Return the end of a prompt without an answer: `declined`, `cancelled`, `interrupted` …"""
    return prompt_end("not_answered", end, channel, *more, **fields)


def form_end(ends: Iterable[Any], *then: Any, **fields: Any) -> Any:
    """Return the end of a form, with the `ends` of its pages."""
    return prompt_end("form_end", ends, *then, **fields)


def unavailable(reason: str) -> Any:
    """Return the end of a prompt for which no user is available, for the `reason`."""
    return prompt_end("unavailable", reason)


def failure(message: str, *values: Any, **fields: Any) -> Any:
    """Return the outcome of a tool call that failed."""
    return _words.find(_words.OUTCOMES, "failure")(message, *values, **fields)


def decision_prompt(kind: str, /, *values: Any) -> Any:
    """Return the prompt of a decision, such as `decision_prompt("tool_menu", ["fs_read"])`.

    The kinds, and their values: `permission` (a tool, and details), `delivery` (a tool, and
    details), `stream_menu` (the request that runs), `tool_menu` (the tools that run), and
    `approval` (a tool, and the changes that it proposes).
    """
    match kind, values:
        case "permission", (tool, *details):
            title = f"Run local {tool} tool?"
            return _new_decision(title, permission_actions(tool, "tool"), details)
        case "delivery", (tool, *details):
            return _new_decision(f"Deliver {tool} result to assistant?", DELIVERY_ACTIONS, details)
        case "stream_menu", (request,):
            return stream_menu(request)
        case "tool_menu", (tools,):
            return tool_menu(tools)
        case "approval", (tool, *changes):
            return approval_prompt(tool, tuple(changes))

    raise AssertionError(f"the kit has no decision {kind!r} about {values}")


def _new_decision(title: str, actions: Any, details: Iterable[Any]) -> Any:
    return new_prompt("decision_prompt", title, actions=actions, exhibits=tuple(details))
