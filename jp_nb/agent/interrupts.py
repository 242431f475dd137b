"""Decide about an interrupt of the kernel: by the configuration, in a menu, or by escalation.

A *verdict* is the decision. An interrupt soon after another one *escalates*: the turn ends without
a menu. `BatchInterrupts` handles interrupts of tool calls, `StreamInterrupts` those of a response.

Source: `docs/turns.md`, `docs/decisions.md` D24.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from jp_nb.agent.prompting.prompt_ends import Answered, NotAnswered
from jp_nb.agent.prompting.prompts import Action, ActionPrompt, QuestionPrompt, format_label_name
from jp_nb.agent.prompting.safe_ask import SafeAsk
from jp_nb.agent.turn_state import TurnContext
from jp_nb.config.tree.app import Interrupt as InterruptConfig
from jp_nb.exact_form import spell_invisible
from jp_nb.text import begin_line
from jp_nb.toolkit.question import Question

Phase = Literal["streaming", "tool_call"]
Choice = Literal["continue", "reply", "restart", "stop", "abort"]
Decider = Literal["person", "setting", "unattended"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about an interrupt.

    Attributes:
        choice: `continue` the turn; `reply` with `text`; `restart` the open tool calls; `stop` and
            keep the response so far; `abort` and discard it.
        text: The user's message to the model after `reply`; it may be empty.
        escalated: True if this interrupt soon followed another one: the turn ends without a menu.
        by: The user in the menu (`person`), the configured action (`setting`), or neither, because
            no user is available (`unattended`).
        by_interrupt: False if the user stopped the turn in the form of a tool's question.
    """

    choice: Choice
    text: str = ""
    escalated: bool = False
    by: Decider = "unattended"
    by_interrupt: bool = True


STOP_VERDICT = Verdict("stop")
ESCALATED_VERDICT = Verdict("stop", escalated=True, by="person")
USER_CONTINUED_VERDICT = Verdict("continue", by="person")
USER_STOPPED_VERDICT = Verdict("stop", by="person", by_interrupt=False)
"""The user stopped the turn in the form of a tool's question."""

MENU_TITLE = "Interrupted"
"""First word of every menu."""
MAX_MENU_REQUEST_CHARS = 60


def decide_without_menu(
    turn: TurnContext, phase: Phase, settings: InterruptConfig, *, is_second: bool = False
) -> Verdict | None:
    """Return the decision about an interrupt of `turn`; None if `ask_menu` must ask the user.

    The time of the interrupt is noted in `turn`, for the next one. An interrupt soon after another
    one escalates. Otherwise, the configured action applies, or the user decides. Without a user,
    the turn stops.

    Args:
        turn: State of the turn.
        phase: `streaming` while the model answers, `tool_call` while tools run.
        settings: The configured actions.
        is_second: True if the menu of an earlier interrupt is open, or the calls are being canceled
            because of one.
    """
    now = turn.clock()
    previous = turn.last_interrupt
    turn.last_interrupt = now

    unattended = turn.prompter.unavailable() is not None
    is_repeated = previous is not None and now - previous < settings.escalation_cooldown_secs
    if is_second or is_repeated:
        return replace(ESCALATED_VERDICT, by="unattended") if unattended else ESCALATED_VERDICT

    action = _get_configured_action(phase, settings)
    if action in ("continue", "restart", "stop", "abort"):
        by: Decider = "unattended" if unattended else "setting"
        return Verdict(action, by=by)
    return STOP_VERDICT if unattended else None


def make_stream_menu(request: str) -> ActionPrompt:
    """Return the menu of an interrupt while a model responds to `request`."""
    line, is_cut = begin_line(request, MAX_MENU_REQUEST_CHARS)
    shown = spell_invisible(line)
    if is_cut or len(shown) > MAX_MENU_REQUEST_CHARS:
        shown = f"{shown[:MAX_MENU_REQUEST_CHARS]}…"

    return ActionPrompt(
        f"{MENU_TITLE}: the answer to “{shown}”",
        (
            Action("c", "Continue", "continue"),
            Action("r", "Tell the model something …", "reply"),
            Action("s", "End the turn and keep the answer so far", "stop"),
            Action("a", "End the turn and discard the answer so far", "abort"),
        ),
    )


def make_tool_menu(
    open_tools: Sequence[str],
    *,
    interrupted_tools: Sequence[str] = (),
    disabled: Collection[Choice] = (),
) -> ActionPrompt:
    """Return the menu of an interrupt during tool calls.

    Calls may end between the interrupt and the menu. The title names the interrupted ones, and
    `restart` those that are still open.

    Args:
        open_tools: The tool of each call without a response; empty if all calls have one.
        interrupted_tools: The tools of the calls that had none at the time of the interrupt.
        disabled: Choices that are omitted, because they would have no effect.
    """
    names = _format_names(interrupted_tools or open_tools)
    calls = f"these {len(open_tools)} calls" if open_tools else "the calls"
    if len(open_tools) == 1:
        calls = _format_names(open_tools)

    actions = (
        Action("c", "Continue", "continue"),
        Action("r", "Tell the model something …", "reply"),
        Action("t", f"Run {calls} again", "restart"),
        Action("s", "End the turn", "stop"),
    )
    text = f"{MENU_TITLE}: {names}" if names else MENU_TITLE
    enabled = tuple(action for action in actions if action.value not in disabled)
    return ActionPrompt(text, enabled)


def _format_names(tools: Sequence[str]) -> str:
    """Return the tools of calls in words: `fetch and write`, or `a, b, c and 2 more`."""
    shown = [format_label_name(name) for name in tools[:3]]  # the menu names at most 3 calls
    more = len(tools) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    beginning = ", ".join(shown[:-1])
    return " and ".join(filter(None, [beginning, *shown[-1:]]))


async def ask_menu(
    ask: SafeAsk, phase: Phase, settings: InterruptConfig, menu: ActionPrompt
) -> Verdict:
    """Ask the user to decide about an interrupt.

    If the user closes the menu, the turn continues. If the configured action is a reply, a question
    for the message replaces the menu, and the turn ends if the user closes the question.
    """
    if _get_configured_action(phase, settings) == "reply":
        return await _ask_reply(ask, phase) or replace(STOP_VERDICT, by="person")

    while True:
        end = await ask(menu)
        match end:
            case Answered(value="reply"):
                verdict = await _ask_reply(ask, phase)
                if verdict is not None:
                    return verdict
            case Answered(value=choice):
                return Verdict(choice, by="person")  # type: ignore[arg-type]  # one of the actions
            case NotAnswered(end="cancelled" | "declined"):
                return USER_CONTINUED_VERDICT
            case NotAnswered(end="interrupted"):
                return ESCALATED_VERDICT
            case _:  # no user is available after all, or the user did not decide in time
                return STOP_VERDICT


def _get_configured_action(phase: Phase, settings: InterruptConfig) -> Choice | Literal["prompt"]:
    """Return the setting for an interrupt in this phase; `prompt` opens the menu."""
    if phase == "streaming":
        return settings.streaming.action
    action = settings.tool_call.action
    return "reply" if action == "respond" else action


async def _ask_reply(ask: SafeAsk, phase: Phase) -> Verdict | None:
    """Ask for a message to the model; return None to go back to the menu."""
    text = "Your message:"
    if phase == "tool_call":
        text = "Your message to the model (replaces the results):"

    end = await ask(QuestionPrompt(Question.text("reply", text)))
    match end:
        case Answered(value=str() as reply) if reply.strip():
            return Verdict("reply", reply, by="person")
        case Answered():  # the responses of cancelled tools need no message
            return Verdict("reply", by="person") if phase == "tool_call" else None
        case NotAnswered(end="cancelled" | "declined"):
            return None
        case NotAnswered(end="interrupted"):
            return ESCALATED_VERDICT
        case _:
            return STOP_VERDICT
