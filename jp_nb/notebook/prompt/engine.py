"""Puts prompts to the person in front of the running cell, one at a time.

All state is the cell's thread's. The agent hands a prompt over and awaits its end; code in the
cell serves the loop until its own prompt has ended.

Source: `docs/prompts.md`, `docs/architecture.md`
"""

from __future__ import annotations

import asyncio
from typing import Literal

from jp_nb.agent.prompt_queue import PromptQueue
from jp_nb.agent.prompts import (
    Answered,
    AnyEnd,
    AnyPrompt,
    FormEnd,
    FormPrompt,
    FormPromptEnd,
    NotAnswered,
    Prompt,
    PromptEnd,
    Unavailable,
)
from jp_nb.notebook.prompt.form_place import FormPlace
from jp_nb.notebook.prompt.presence import Presence, PromptSettings
from jp_nb.notebook.prompt.prompt_screen import OpenPrompt, PromptScreen
from jp_nb.rendering.form_record import record_of
from jp_nb.session.cell_loop import CellLoop


class NotebookPrompter:
    """Asks the person in front of the notebook; implements `Prompter`."""

    def __init__(self, loop: CellLoop) -> None:
        self._loop = loop
        self._settings = PromptSettings()
        self._presence = Presence()
        self._open: dict[OpenPrompt, None] = {}  # in order; filled by the thread that asks
        self._queue = PromptQueue(self._show)
        self._screen = PromptScreen(loop, self._end)

    # --- any thread --------------------------------------------------------------------------

    def nobody(self) -> Unavailable | None:
        """Return why nobody can be asked in the running cell; None if somebody may be there."""
        route = self._presence.route(self._settings)
        return route if isinstance(route, Unavailable) else None

    async def ask(self, prompt: Prompt) -> PromptEnd:
        """Put `prompt` to the person and wait. Cancelling the task takes the prompt away."""
        end = await self._wait(prompt)
        assert not isinstance(end, FormEnd)
        return end

    async def ask_form(self, prompt: FormPrompt) -> FormPromptEnd:
        """Put `prompt` to the person, as `ask` does."""
        end = await self._wait(prompt)
        assert not isinstance(end, Answered)
        return end

    async def _wait(self, prompt: AnyPrompt) -> AnyEnd:
        if (nobody := self.nobody()) is not None:
            return nobody
        waiting = self._hand_over(prompt, keeps_record=False)
        try:
            return await asyncio.wrap_future(waiting.future)
        except asyncio.CancelledError:
            self._withdraw(waiting)
            raise

    def interrupt(self) -> None:
        """End every prompt that was put so far as interrupted; what is put later is shown."""
        pending = list(self._open)

        def end() -> None:
            # What waits is ended first, or ending the one on screen would show the next.
            for waiting in reversed(pending):
                self._end(waiting, NotAnswered("interrupted", waiting.channel))

        self._loop.post(end)

    # --- the cell's thread -------------------------------------------------------------------

    def cell_begins(self, settings: PromptSettings, place: FormPlace | None = None) -> None:
        """Look at who sent the running cell; `settings` hold until the next one.

        Forms are shown at `place`, which keeps no record of its own; None: each in an output of
        its own.
        """
        self._end_all("cancelled")  # nothing, unless the last cell was cut short
        self._settings = settings
        self._screen.use(settings, place)
        self._presence = Presence.here()

    def cell_ends(self) -> None:
        """Take away whatever is still open: no form outlives its cell."""
        self._end_all("cancelled")
        self._screen.use(self._settings, None)

    def ask_here(self, prompt: Prompt, *, keeps_record: bool = True) -> PromptEnd:
        """Put `prompt` to the person from code that runs in the cell, and wait.

        Where the form was, `static_record` stays unless `keeps_record` is false. A prompt that
        waits already is shown first. Also safe from a worker thread while the cell serves.

        Raises:
            KeyboardInterrupt: If the kernel was interrupted; every prompt has ended by then.
        """
        end = self._wait_here(prompt, keeps_record=keeps_record)
        assert not isinstance(end, FormEnd)
        return end

    def ask_form_here(self, prompt: FormPrompt, *, keeps_record: bool = True) -> FormPromptEnd:
        """Put `prompt` to the person as `ask_here` does."""
        end = self._wait_here(prompt, keeps_record=keeps_record)
        assert not isinstance(end, Answered)
        return end

    def _wait_here(self, prompt: AnyPrompt, *, keeps_record: bool) -> AnyEnd:
        if self._loop.serving_elsewhere:
            if (nobody := self.nobody()) is not None:
                return nobody
            return self._hand_over(prompt, keeps_record=keeps_record).future.result()
        self._presence = Presence.here()
        if (nobody := self.nobody()) is not None:
            return nobody
        with self._loop.sheltered():
            waiting = self._hand_over(prompt, keeps_record=keeps_record)
            try:
                self._loop.serve(waiting.future.done, tools=False)
            except BaseException:
                self._end_all("interrupted")
                raise
            return waiting.future.result()

    # --- one at a time -----------------------------------------------------------------------

    def _hand_over(self, prompt: AnyPrompt, *, keeps_record: bool) -> OpenPrompt:
        waiting = OpenPrompt(prompt, keeps_record=keeps_record)
        self._open[waiting] = None
        self._loop.post(lambda: self._enqueue(waiting))
        return waiting

    def _withdraw(self, waiting: OpenPrompt) -> None:
        waiting.withdrawn = True
        if (deadline := waiting.deadline) is not None:
            deadline.expire()
        self._loop.post(lambda: self._end(waiting, NotAnswered("cancelled", waiting.channel)))

    def _enqueue(self, waiting: OpenPrompt) -> None:
        if waiting in self._open:
            self._queue.add(waiting)

    def _show(self, waiting: OpenPrompt) -> None:
        if waiting.withdrawn:
            return self._end(waiting, NotAnswered("cancelled", waiting.channel))
        match self._presence.route(self._settings):
            case Unavailable() as nobody:
                self._end(waiting, nobody)
            case route:
                self._screen.show(waiting, route)

    def _end(self, waiting: OpenPrompt, end: AnyEnd) -> None:
        """Settle `waiting`; the first end counts, later ones change nothing."""
        if waiting not in self._open:
            return
        del self._open[waiting]
        try:
            if self._queue.leave(waiting):
                kept = waiting.keeps_record and not isinstance(end, Unavailable)
                self._screen.clear(record_of(waiting.prompt, end) if kept else None)
        finally:  # whatever an interrupt leaves undone, nobody waits forever
            waiting.future.set_result(end)
        self._queue.show_next()
        if self._queue.shown is None:
            self._screen.rest()

    def _end_all(self, end: Literal["cancelled", "interrupted"]) -> None:
        self._queue.clear()  # or ending one would show the next
        for waiting in list(self._open):
            self._end(waiting, NotAnswered(end, waiting.channel))
        self._screen.clear(None)  # again: an interrupt may have cut the above short
        self._screen.rest()
