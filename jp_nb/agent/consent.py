"""A person's consent to a tool call: before it runs, and before the model reads its result.

The dialogues themselves are in `decisions.py`.

Source: `docs/turns.md`, `docs/decisions.md` D10, D52.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from jp_nb.agent.calls import Call, EndCallbacks, prepare
from jp_nb.agent.decisions import (
    NOT_DELIVERED,
    SKIPPED,
    SKIPPED_REMEMBERED,
    Delivery,
    Permission,
    delivery,
    permission,
)
from jp_nb.agent.display_events import Display, Notice, Waits
from jp_nb.agent.prepared_answers import DecisionKind, Declined, Given, OpenDecision
from jp_nb.agent.prompt_queue import Ask, Dialogues, Event
from jp_nb.agent.prompts import Prompter, Unavailable
from jp_nb.agent.questions import TurnState
from jp_nb.agent.tool_set import OfferedTool
from jp_nb.safe_text import spell_unseen
from jp_nb.tooling.context import ToolContext

PERMITTED = "▸ {} allows {} to run"
NOT_PERMITTED = "▸ {} does not allow {} to run"
DELIVERED = "▸ {} allows the model to read the result of {}"
WITHHELD = "▸ {} withholds the result of {} from the model"


class ConsentCallbacks(EndCallbacks, Protocol):
    """Receives the calls that a person decided about."""

    def start(self, call: Call, tool: OfferedTool) -> None:
        """Run `tool`: that is permitted."""
        ...

    def formatted(self, call: Call, tool: OfferedTool, then: Event) -> None:
        """Have the arguments written for the person, and go on with `then`."""
        ...

    def tool_context(self, call: Call, tool: OfferedTool) -> ToolContext:
        """Return what a run of `tool` is told."""
        ...

    def fail(self, call: Call, text: str) -> None:
        """End `call` with an error."""
        ...


class Consent:
    """Asks for consent, call by call. All of it in the coordinator's loop.

    Args:
        calls: What becomes of the calls.
        display: Shows who is waited for.
        prompter: Says if somebody is there.
        prompts: Where prompts wait.
        state: What is remembered in this turn.
    """

    def __init__(
        self,
        calls: ConsentCallbacks,
        *,
        display: Display,
        prompter: Prompter,
        prompts: Dialogues,
        state: TurnState,
    ) -> None:
        self._calls = calls
        self._display = display
        self._prompter = prompter
        self._prompts = prompts
        self._state = state

    def to_run(self, call: Call, tool: OfferedTool) -> None:
        """Have a person decide if `tool` runs, if it was not decided beforehand."""
        match self._state.prepared.decision("permission", tool.name):
            case Given(place=place):
                self._display(Notice(PERMITTED.format(place, spell_unseen(tool.name))))
                self._calls.start(call, tool)
                return
            case Declined(place=place):
                self._display(Notice(NOT_PERMITTED.format(place, spell_unseen(tool.name))))
                self._calls.finish(call, SKIPPED, skipped=True)
                return
        nobody = self._prompter.nobody()
        if nobody is not None:
            self._refuse(call, tool, "permission", nobody)
        elif tool.format == "unattended":
            self._calls.formatted(call, tool, lambda: self._queue_permission(call, tool))
        else:
            self._queue_permission(call, tool)

    def _queue_permission(self, call: Call, tool: OfferedTool) -> None:
        def decide(ask: Ask) -> Awaitable[Permission]:
            context = self._calls.tool_context(call, tool)
            return permission(
                ask,
                tool,
                call.arguments,
                lambda given: prepare(tool, given),
                formatted=call.formatted,
                command=lambda arguments: tool.executor.command_line(arguments, context),
            )

        self._display(Waits(call.key, f"your permission to run {call.title}", person=True))
        self._prompts.add(
            decide,
            settle=lambda decided: self._settle_permission(call, tool, decided),
            skip=lambda: self._use_remembered_permission(call, tool),
        )

    def _use_remembered_permission(self, call: Call, tool: OfferedTool) -> bool:
        remembered = self._state.permission(tool, call.arguments)
        if remembered is None:
            return False
        if remembered:
            self._calls.start(call, tool)
        else:
            self._calls.finish(call, SKIPPED_REMEMBERED, skipped=True)
        return True

    def _settle_permission(self, call: Call, tool: OfferedTool, decided: Permission) -> None:
        if decided.nobody is not None:
            self._refuse(call, tool, "permission", decided.nobody)
            return
        if decided.remembered:
            shown = call.arguments if decided.arguments is None else decided.arguments
            self._state.remember_permission(tool, shown, runs=decided.runs)
        if not decided.runs:
            self._calls.finish(call, decided.skipped, skipped=True)
            return
        if decided.arguments is not None:
            call.arguments, call.edited, call.formatted = decided.arguments, decided.channel, None
            call.changed = True
        self._calls.start(call, tool)

    def _refuse(
        self, call: Call, tool: OfferedTool, kind: DecisionKind, nobody: Unavailable
    ) -> None:
        self._calls.nobody_decides(nobody)
        self._state.prepared.left_open(OpenDecision(kind, tool.name, nobody.reason))
        what, setting = f"{tool.name} did not run: it needs the user's permission", "run"
        if kind == "result":
            setting = "result"
            what = (
                f"{tool.name} ran, but its result is not delivered: that needs the user's approval"
            )
        self._calls.fail(
            call,
            f"{what}, and no user is available: {nobody.reason}. The user can set "
            f'conversation.tools.{tool.name}.{setting} = "unattended". Do not retry '
            "this tool call in this turn.",
        )

    def to_deliver(self, call: Call, tool: OfferedTool, result: Delivery) -> None:
        """Have a person decide what the model reads of `result`."""

        def settle(decided: Delivery) -> None:
            if decided.nobody is not None:
                self._refuse(call, tool, "result", decided.nobody)
                return
            self._calls.finish(
                call, decided.content, is_error=decided.is_error, skipped=decided.withheld
            )

        match self._state.prepared.decision("result", tool.name):
            case Given(place=place):
                self._display(Notice(DELIVERED.format(place, spell_unseen(tool.name))))
                settle(result)
                return
            case Declined(place=place):
                self._display(Notice(WITHHELD.format(place, spell_unseen(tool.name))))
                settle(Delivery(NOT_DELIVERED, withheld=True))
                return
        nobody = self._prompter.nobody()
        if nobody is not None:
            self._refuse(call, tool, "result", nobody)
            return
        call.delivering = True
        self._display(Waits(call.key, f"your decision on the result of {call.title}", person=True))
        self._prompts.add(lambda ask: delivery(ask, tool, result), settle=settle)
