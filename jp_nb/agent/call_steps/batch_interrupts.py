"""Decide what interrupts of the kernel do to the tool calls of a batch.

An interrupt first holds all prompts back. Then it has an effect at once, by the configuration or
because it soon followed another one, or it opens a menu in which the user decides. The decision is
a *verdict*. `continue` takes effect here. `Batch` carries out the others, which cancel calls.

Source: `docs/turns.md`, `docs/decisions.md` D24.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from jp_nb.agent.call_steps.approved_changes import ApprovedChanges
from jp_nb.agent.calls.call import Call
from jp_nb.agent.calls.screen_queue import ScreenQueue
from jp_nb.agent.display import InterruptReceived
from jp_nb.agent.interrupts import (
    USER_STOPPED_VERDICT,
    Choice,
    Verdict,
    ask_menu,
    decide_without_menu,
    make_tool_menu,
)
from jp_nb.agent.turn_state import TurnContext
from jp_nb.config.tree.app import Interrupt as InterruptConfig
from jp_nb.toolkit.cancellation import raise_if_cancelled


class BatchInterrupts:
    """Turns interrupts into verdicts, which the batch carries out.

    Args:
        calls: The calls of the batch.
        approved: The approved configuration changes of the batch.
        wake: Called when the batch has something to do: `decide_new_interrupts`, or `take_verdict`.

    Attributes:
        menu: The task of the open menu; None without one.
        error: The exception with which a menu failed. It ends the batch.
        is_canceling: True while the batch cancels calls. A further interrupt then escalates.
    """

    def __init__(
        self,
        *,
        turn: TurnContext,
        screen: ScreenQueue,
        calls: Sequence[Call],
        approved: ApprovedChanges,
        settings: InterruptConfig,
        wake: Callable[[], None],
    ) -> None:
        self._turn = turn
        self._screen = screen
        self._calls = calls
        self._approved = approved
        self._settings = settings
        self._wake = wake
        self._new_count = 0  # interrupts that `decide_new_interrupts` has not seen
        self._verdict: Verdict | None = None  # not yet carried out
        self.menu: asyncio.Task[None] | None = None
        self.error: BaseException | None = None
        self.is_canceling = False

    @property
    def has_new_interrupts(self) -> bool:
        """True if an interrupt arrived that `decide_new_interrupts` has not seen."""
        return self._new_count > 0

    @property
    def has_verdict(self) -> bool:
        """True if the batch has to carry out a verdict."""
        return self._verdict is not None

    def take_verdict(self) -> Verdict | None:
        """Return the verdict that the batch has to carry out, and forget it."""
        verdict = self._verdict
        self._verdict = None
        return verdict

    def receive(self) -> None:
        """Note an interrupt of the kernel, on the agent's event loop."""
        self._screen.hold()  # no other prompt appears before the effect is decided
        self._new_count += 1
        self._wake()

    def stop_turn(self) -> None:
        """Stop the turn, because the user chose so in the form of a tool's question.

        The batch calls it when the call whose tool asked has ended, so it is awake.
        """
        self._verdict = self._verdict or USER_STOPPED_VERDICT

    def decide_new_interrupts(self) -> None:
        """Decide about the new interrupts, or open the menu."""
        while self._new_count:
            self._new_count -= 1
            # `functions` are the functions of tools that run in the cell. The call of one that the
            # interrupt has ended waits for `functions.resume`.
            self._screen.functions.note_interrupt()
            # A second interrupt, in the menu or while calls are canceled, ends the turn.
            is_second = self.menu is not None or self.is_canceling
            verdict = decide_without_menu(
                self._turn, "tool_call", self._settings, is_second=is_second
            )
            # Listed before the prompt closes, which may end calls.
            interrupted_tools = self._list_open_tools()
            self._turn.prompter.interrupt()  # the current prompt closes before a menu opens: D24
            if verdict is not None:
                self._decide(verdict)
                continue

            self._turn.display(InterruptReceived("menu"))
            self._screen.activity.begin()  # the task of the menu works, like that of a call
            menu = self._show_menu(interrupted_tools)
            self.menu = asyncio.get_running_loop().create_task(menu)
            self.menu.add_done_callback(self._on_menu_end)

    async def _show_menu(self, interrupted_tools: Sequence[str]) -> None:
        """Let the user decide. `interrupted_tools` had open calls when the interrupt came."""
        # The interrupt may have ended functions: the menu offers what is then possible.
        await self._screen.functions.wait_until_ended()
        async with self._screen.take_screen(for_menu=True) as ask:
            calls = self._list_open_calls()
            disabled: list[Choice] = []
            if calls and all(call.state.was_interrupted for call in calls):
                disabled.append("continue")  # the interrupt has ended all of them
            if not calls and not self._approved.are_waiting:
                disabled.append("restart")  # all have their response, and no change to discard

            menu = make_tool_menu(
                self._list_open_tools(), interrupted_tools=interrupted_tools, disabled=disabled
            )
            verdict = await ask_menu(ask, "tool_call", self._settings, menu)
            raise_if_cancelled()  # the batch may have canceled the menu while it was closing
            self.menu = None
            self._decide(verdict)

    def _on_menu_end(self, menu: asyncio.Task[None]) -> None:
        """Handle the end of the task of a menu, which forgets itself when the user has decided."""
        self._screen.activity.end()
        has_failed = menu is self.menu and not self.is_canceling  # it made no decision
        if has_failed:
            if menu.cancelled():
                self.error = RuntimeError("the menu failed")
            else:
                self.error = menu.exception()
        self._wake()

    def _decide(self, verdict: Verdict) -> None:
        """Continue the calls, or keep `verdict` for the batch, which cancels them."""
        self._turn.display(InterruptReceived(verdict.choice))
        if verdict.choice == "continue":
            self._screen.release()
            self._screen.functions.resume(verdict)
            return

        self._screen.hold()  # no other prompt appears before the calls are canceled
        if self._verdict is None or not self._verdict.escalated:  # escalation is final
            self._verdict = verdict
        self._wake()

    def _list_open_calls(self) -> list[Call]:
        return [call for call in self._calls if call.state.response is None]

    def _list_open_tools(self) -> list[str]:
        """Return the name of the tool of each open call."""
        return [call.request.name for call in self._list_open_calls()]
