"""Interrupts while a model answers.

Source: `docs/turns.md`, `docs/decisions.md` D24.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from jp_nb.agent.calls import Call
from jp_nb.agent.display_events import Display, InterruptHeard
from jp_nb.agent.interrupts import ESCALATED, STOP, Interrupts, Verdict, menu, stream_menu
from jp_nb.agent.prompt_queue import Ask
from jp_nb.config.tree.style_config import Interrupt as InterruptConfig

log = logging.getLogger(__name__)


class StreamInterrupts:
    """Hears interrupts while a model answers, and asks the person what to do.

    Args:
        work: Has the model answer; it is cancelled unless it goes on.
        request: The user's words that the model answers.
        interrupts: Decides what each interrupt does.
        settings: What is configured.
        ask: Asks the person.
        release: Lets the cell's functions run again.
        display: Shows what happens.

    Attributes:
        verdict: Why `work` was cancelled; None if it was not, or not from here.
        late: True if an interrupt came when the answer was just complete.
    """

    def __init__(
        self,
        work: asyncio.Future[list[Call]],
        request: str,
        interrupts: Interrupts,
        settings: InterruptConfig,
        ask: Ask,
        release: Callable[[], None],
        display: Display,
    ) -> None:
        self._work = work
        self._request = request
        self._interrupts = interrupts
        self._settings = settings
        self._ask = ask
        self._release = release
        self._display = display
        self._menu: asyncio.Task[None] | None = None
        self._decided = asyncio.Event()
        self._decided.set()
        self.verdict: Verdict | None = None
        self.late = False

    def interrupt(self) -> None:
        """Hear that the kernel was interrupted."""
        if self.verdict is not None:  # it is ending, and perhaps something holds that up
            if self.verdict.choice == "reply":
                self._display(InterruptHeard("stop"))
                self.verdict = ESCALATED
            self._work.cancel()
            return
        if self._work.done():
            self.late = True
            return
        in_menu = self._menu is not None
        verdict = self._interrupts.at_once("streaming", self._settings, in_menu=in_menu)
        if verdict is not None:
            self.close()
            self._carry_out(verdict)
            return
        self._display(InterruptHeard("menu"))
        self._decided.clear()
        self._menu = asyncio.get_running_loop().create_task(self._have_menu())

    async def decided(self) -> None:
        """Wait while the person is being asked, and asked again: until no menu is open."""
        while not self._decided.is_set():
            await self._decided.wait()

    def close(self) -> None:
        """Take the menu away."""
        menu_task, self._menu = self._menu, None
        if menu_task is not None:
            menu_task.cancel()

    async def _have_menu(self) -> None:
        try:
            verdict = await menu(self._ask, "streaming", self._settings, stream_menu(self._request))
        except Exception:
            log.exception("The menu failed")
            verdict = STOP
        self._menu = None
        self._carry_out(verdict)

    def _carry_out(self, verdict: Verdict) -> None:
        self._display(InterruptHeard(verdict.choice))
        if verdict.choice in ("continue", "reply"):
            self._release()
        if verdict.choice == "continue":
            self._decided.set()
        elif self.verdict is None:
            self.verdict = verdict
            self._work.cancel()
