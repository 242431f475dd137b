"""Interrupts of the kernel in a turn: a menu, a configured action, or the end.

Source: `docs/turns.md`, `docs/decisions.md` D24.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Literal

from jp_nb.agent.prompts import (
    Action,
    ActionPrompt,
    Answered,
    Ask,
    NotAnswered,
    Prompter,
    QuestionPrompt,
)
from jp_nb.config.tree.app import Interrupt as InterruptConfig
from jp_nb.text import one_line, spell_unseen
from jp_nb.tools.question import Question

Phase = Literal["streaming", "tool_call"]
Choice = Literal["continue", "reply", "restart", "stop", "abort"]
Decider = Literal["person", "setting", "unattended"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about an interrupt.

    Attributes:
        choice: `continue` as if nothing had been; `reply` with `text`; `restart` the tool calls
            that have no response; `stop` and keep, or `abort` and discard, what arrived.
        text: What the person says to the model.
        escalated: True if it was an interrupt of the interrupt: nobody is asked again.
        by: Who chose it: a `person`, a `setting` for the person who is there, or `unattended`.
        interrupted: False if no interrupt led to it: the person stopped where a tool asked them.
    """

    choice: Choice
    text: str = ""
    escalated: bool = False
    by: Decider = "unattended"
    interrupted: bool = True


STOP = Verdict("stop")
ESCALATED = Verdict("stop", escalated=True, by="person")
CONTINUE = Verdict("continue", by="person")
USER_STOPPED = Verdict("stop", by="person", interrupted=False)
"""Whoever was asked by a tool did not answer, and stopped the turn."""

INTERRUPTED = "Interrupted"
"""Begins the text of every menu."""
MAX_NAMED = 3
"""Calls that a menu names; it counts the others."""
MAX_REQUEST_CHARS = 60
STOPPED = "Interrupted before it finished. Its effects up to then may remain."
NOT_RUN = "It did not run: an interrupt came first."
LEFT_RUNNING = "The user stopped the turn before it finished. Its effects up to then may remain."
LEFT_UNRUN = "It did not run: the user stopped the turn first."
_AFTER: dict[Decider, dict[Literal["continue", "stop"], str]] = {
    "person": {"continue": "The user chose to continue.", "stop": "The user ended the turn."},
    "setting": {"continue": "The turn continues.", "stop": "The turn was ended."},
    "unattended": {"continue": "The turn continues.", "stop": "The turn was ended."},
}


def stopped_call_text(verdict: Verdict, *, ran: bool) -> str:
    """Return what a model is told of a call that was ended with the turn, and not cancelled."""
    if not verdict.interrupted:
        return LEFT_RUNNING if ran else LEFT_UNRUN
    after = _AFTER[verdict.by]["continue" if verdict.choice == "continue" else "stop"]
    return f"{STOPPED if ran else NOT_RUN} {after}"


TEXTS: dict[Phase, str] = {
    "streaming": "Your message:",
    "tool_call": "Your message to the model (replaces the results):",
}


class Interrupts:
    """Decides what each interrupt of one turn does.

    Args:
        prompter: Asks the person.
        clock: Seconds.
    """

    def __init__(self, prompter: Prompter, *, clock: Callable[[], float] = monotonic) -> None:
        self._prompter = prompter
        self._clock = clock
        self._last: float | None = None

    def decide_without_menu(
        self, phase: Phase, settings: InterruptConfig, *, in_menu: bool = False
    ) -> Verdict | None:
        """Return what an interrupt does without asking anybody; None if the menu is due.

        Args:
            phase: What it came into.
            settings: What is configured.
            in_menu: True if the menu of an earlier one is open.
        """
        now, before = self._clock(), self._last
        self._last = now
        alone = self._prompter.unavailable() is not None
        soon = before is not None and now - before < settings.escalation_cooldown_secs
        if in_menu or soon:
            return replace(ESCALATED, by="unattended") if alone else ESCALATED
        action = _action(phase, settings)
        if action in ("continue", "restart", "stop", "abort"):
            return Verdict(action, by="unattended" if alone else "setting")
        return STOP if alone else None


def stream_menu(request: str) -> ActionPrompt:
    """Return the menu of an interrupt that came while a model answers `request`."""
    line = spell_unseen(one_line(request[: 4 * MAX_REQUEST_CHARS]))
    words = line if len(line) <= MAX_REQUEST_CHARS else f"{line[:MAX_REQUEST_CHARS]}…"
    return ActionPrompt(
        f"{INTERRUPTED}: the answer to “{words}”",
        (
            Action("c", "Continue", "continue"),
            Action("r", "Tell the model something …", "reply"),
            Action("s", "End the turn and keep the answer so far", "stop"),
            Action("a", "End the turn and discard the answer so far", "abort"),
        ),
    )


def tool_menu(
    tools: Sequence[str], *, interrupted: Sequence[str] = (), cannot: Collection[Choice] = ()
) -> ActionPrompt:
    """Return the menu of an interrupt that came while calls of `tools` have no response.

    Args:
        tools: Their names, one for each call; none if only the end of the batch is left.
        interrupted: The names of the calls that had none when the interrupt came: it has closed
            the question or the permission of one of them.
        cannot: Choices that are not offered: they would have no effect.
    """
    named = _named(interrupted or tools)
    again = (
        f"Run {_named(tools)} again" if len(tools) == 1 else f"Run these {len(tools)} calls again"
    )
    actions = (
        Action("c", "Continue", "continue"),
        Action("r", "Tell the model something …", "reply"),
        Action("t", again if tools else "Run the calls again", "restart"),
        Action("s", "End the turn", "stop"),
    )
    return ActionPrompt(
        f"{INTERRUPTED}: {named}" if named else INTERRUPTED,
        tuple(action for action in actions if action.value not in cannot),
    )


def _named(tools: Sequence[str]) -> str:
    shown = [f"`{one_line(spell_unseen(name), limit=60)}`" for name in tools[:MAX_NAMED]]
    if more := len(tools) - len(shown):
        return f"{', '.join(shown)} and {more} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


async def ask_menu(
    ask: Ask, phase: Phase, settings: InterruptConfig, shown: ActionPrompt
) -> Verdict:
    """Ask the user what to do, by the menu that is `shown`.

    A closed menu means to continue; a closed question of a configured reply ends the turn.
    """
    if _action(phase, settings) == "reply":
        return await _reply(ask, phase) or replace(STOP, by="person")
    while True:
        end = await ask(shown)
        match end:
            case Answered(value="reply"):
                verdict = await _reply(ask, phase)
                if verdict is not None:
                    return verdict
            case Answered(value=choice):
                return Verdict(choice, by="person")  # type: ignore[arg-type]  # one of the actions
            case NotAnswered(end="cancelled" | "declined"):
                return CONTINUE
            case NotAnswered(end="interrupted"):
                return ESCALATED
            case _:
                return STOP


def _action(phase: Phase, settings: InterruptConfig) -> Choice | Literal["prompt"]:
    if phase == "streaming":
        return settings.streaming.action
    action = settings.tool_call.action
    return "reply" if action == "respond" else action


async def _reply(ask: Ask, phase: Phase) -> Verdict | None:
    """Ask what the person says to the model; return None to go back to the menu."""
    end = await ask(QuestionPrompt(Question.text("reply", TEXTS[phase])))
    match end:
        case Answered(value=str() as text) if text.strip():
            return Verdict("reply", text, by="person")
        case Answered():  # tools that were cancelled need no words
            return Verdict("reply", by="person") if phase == "tool_call" else None
        case NotAnswered(end="cancelled" | "declined"):
            return None
        case NotAnswered(end="interrupted"):
            return ESCALATED
        case _:
            return STOP
