"""Handle interrupts of the kernel while the model answers.

The response is still received while the menu is open. If the user then ends it, the task of the
response is cancelled, and `verdict` (the decision about the interrupt) has the reason.

Source: `docs/turns.md`, `docs/decisions.md` D24.
"""

from __future__ import annotations

import asyncio
import logging

from jp_nb.agent.calls.call import Call
from jp_nb.agent.display import InterruptReceived
from jp_nb.agent.interrupts import (
    ESCALATED_VERDICT,
    STOP_VERDICT,
    Verdict,
    ask_menu,
    decide_without_menu,
    make_stream_menu,
)
from jp_nb.agent.prompting.safe_ask import SafeAsk
from jp_nb.agent.turn_state import TurnContext
from jp_nb.config.tree.app import Interrupt as InterruptConfig

log = logging.getLogger(__name__)


class StreamInterrupts:
    """Handles interrupts while `work` streams a response. It cancels `work` to end the response.

    Attributes:
        decided: Is set unless a menu is open. A response that is complete waits for it. It is not
            set if the menu ends the response: `work` is canceled then, which ends that wait.
        verdict: The reason for canceling `work`; None if `work` is not canceled here.
        interrupted_after_end: True if an interrupt came when the response was just complete.
    """

    def __init__(
        self, work: asyncio.Future[list[Call]], turn: TurnContext, settings: InterruptConfig
    ) -> None:
        self._work = work
        self._turn = turn
        self._settings = settings
        self._menu: asyncio.Task[None] | None = None  # None if no menu is open
        self.decided = asyncio.Event()
        self.decided.set()
        self.verdict: Verdict | None = None
        self.interrupted_after_end = False

    def interrupt(self) -> None:
        """Handle an interrupt of the kernel."""
        # The response is ending already, but a slow cleanup delays it.
        if self.verdict is not None:
            # In the menu, the user chose to send a message to the model instead of the response. A
            # further interrupt means that the user wants to stop now.
            if self.verdict.choice == "reply":
                self._turn.display(InterruptReceived("stop"))
                self.verdict = ESCALATED_VERDICT
            self._work.cancel()
            return

        if self._work.done():
            self.interrupted_after_end = True
            return

        # None if the user decides in a menu. A second interrupt, while it is open, has a verdict.
        is_second = self._menu is not None
        verdict = decide_without_menu(self._turn, "streaming", self._settings, is_second=is_second)
        if verdict is not None:
            self.close()
            self._carry_out(verdict)
            return

        self._turn.display(InterruptReceived("menu"))
        self.decided.clear()
        self._menu = asyncio.get_running_loop().create_task(self._show_menu())

    def close(self) -> None:
        """Close the menu."""
        menu_task = self._menu
        self._menu = None
        if menu_task is not None:
            menu_task.cancel()

    async def _show_menu(self) -> None:
        menu = make_stream_menu(self._turn.record.last_user_text)
        ask = SafeAsk(self._turn.prompter, self._turn.times)
        try:
            verdict = await ask_menu(ask, "streaming", self._settings, menu)
        except Exception:
            log.exception("The menu failed")
            verdict = STOP_VERDICT

        self._menu = None
        self._carry_out(verdict)

    def _carry_out(self, verdict: Verdict) -> None:
        """Continue the response, or cancel `work`."""
        self._turn.display(InterruptReceived(verdict.choice))
        # The interrupt held the functions of tools back. They may run again, as the turn continues.
        if verdict.choice in ("continue", "reply"):
            self._turn.cell.release()

        if verdict.choice == "continue":
            self.decided.set()
        elif self.verdict is None:
            self.verdict = verdict
            self._work.cancel()
