"""Puts prompts to the person in front of the running cell, one at a time.

All state is the cell's thread's. The agent hands a prompt over and awaits its end; code in the
cell serves the loop until its own prompt has ended.

Source: `docs/prompts.md`, `docs/architecture.md`
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future
from typing import TYPE_CHECKING, Literal, assert_never

from jp_nb.agent.prompt_queue import PromptQueue
from jp_nb.agent.prompts import Channel, NotAnswered, Prompt, PromptEnd, Unavailable
from jp_nb.notebook.prompt.deadline import Deadline, Expired
from jp_nb.notebook.prompt.form_place import FormPlace, OwnOutput
from jp_nb.notebook.prompt.presence import (
    FormRoute,
    Presence,
    PromptSettings,
    StdinRoute,
    running_kernel,
)
from jp_nb.notebook.prompt.pump import CommPump
from jp_nb.notebook.prompt.stdin import KernelConsole, TerminalConsole, ask_on_stdin
from jp_nb.rendering.wording import StaticRecord, static_record
from jp_nb.session.cell_loop import CellLoop

if TYPE_CHECKING:  # ipywidgets takes a fifth of a second: only a form needs it
    from jp_nb.notebook.prompt.timed_form import TimedForm

log = logging.getLogger(__name__)

__all__ = ["NotebookPrompter", "PromptSettings", "static_record"]


class _OpenPrompt:
    """A prompt whose end somebody awaits.

    Attributes:
        keeps_record: Whether its static record stays where the form was.
        deadline: Ends a wait on stdin, which no job can reach.
    """

    def __init__(self, prompt: Prompt, *, keeps_record: bool) -> None:
        self.prompt = prompt
        self.keeps_record = keeps_record
        self.channel: Channel = "form"
        self.deadline: Deadline | None = None
        self.withdrawn = False
        self.future: Future[PromptEnd] = Future()
        # Running at once: cancelling the task that awaits it must not settle it.
        self.future.set_running_or_notify_cancel()


class NotebookPrompter:
    """Asks the person in front of the notebook; implements `Prompter`."""

    def __init__(self, loop: CellLoop) -> None:
        self._loop = loop
        self._settings = PromptSettings()
        self._presence = Presence()
        self._open: dict[_OpenPrompt, None] = {}  # in order; filled by the thread that asks
        self._queue = PromptQueue(self._show)
        self._place: FormPlace | None = None
        self._form: TimedForm | None = None
        self._pump: CommPump | None = None

    # --- any thread --------------------------------------------------------------------------

    def nobody(self) -> Unavailable | None:
        """Return why nobody can be asked in the running cell; None if somebody may be there."""
        route = self._presence.route(self._settings)
        return route if isinstance(route, Unavailable) else None

    async def ask(self, prompt: Prompt) -> PromptEnd:
        """Put `prompt` to the person and wait. Cancelling the task takes the prompt away."""
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
        self._place = place
        self._presence = Presence.here()

    def cell_ends(self) -> None:
        """Take away whatever is still open: no form outlives its cell."""
        self._end_all("cancelled")
        self._place = None

    def ask_here(self, prompt: Prompt, *, keeps_record: bool = True) -> PromptEnd:
        """Put `prompt` to the person from code that runs in the cell, and wait.

        Where the form was, `static_record` stays unless `keeps_record` is false. A prompt that
        waits already is shown first. Also safe from a worker thread while the cell serves.

        Raises:
            KeyboardInterrupt: If the kernel was interrupted; every prompt has ended by then.
        """
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

    def _hand_over(self, prompt: Prompt, *, keeps_record: bool) -> _OpenPrompt:
        waiting = _OpenPrompt(prompt, keeps_record=keeps_record)
        self._open[waiting] = None
        self._loop.post(lambda: self._enqueue(waiting))
        return waiting

    def _withdraw(self, waiting: _OpenPrompt) -> None:
        waiting.withdrawn = True
        if (deadline := waiting.deadline) is not None:
            deadline.expire()
        self._loop.post(lambda: self._end(waiting, NotAnswered("cancelled", waiting.channel)))

    def _enqueue(self, waiting: _OpenPrompt) -> None:
        if waiting in self._open:
            self._queue.add(waiting)

    def _show(self, waiting: _OpenPrompt) -> None:
        if waiting.withdrawn:
            return self._end(waiting, NotAnswered("cancelled", waiting.channel))
        match self._presence.route(self._settings):
            case FormRoute() as route:
                self._show_form(waiting, route)
            case StdinRoute(channel=channel):
                self._read_stdin(waiting, channel)
            case Unavailable() as nobody:
                self._end(waiting, nobody)
            case other:
                assert_never(other)

    def _end(self, waiting: _OpenPrompt, end: PromptEnd) -> None:
        """Settle `waiting`; the first end counts, later ones change nothing."""
        if waiting not in self._open:
            return
        del self._open[waiting]
        try:
            if self._queue.leave(waiting):
                kept = waiting.keeps_record and not isinstance(end, Unavailable)
                self._take_form_away(static_record(waiting.prompt, end) if kept else None)
        finally:  # whatever an interrupt leaves undone, nobody waits forever
            waiting.future.set_result(end)
        self._queue.show_next()
        if self._queue.shown is None:
            self._stop_hearing()

    def _end_all(self, end: Literal["cancelled", "interrupted"]) -> None:
        self._queue.clear()  # or ending one would show the next
        for waiting in list(self._open):
            self._end(waiting, NotAnswered(end, waiting.channel))
        self._take_form_away(None)  # again: an interrupt may have cut the above short
        self._stop_hearing()

    # --- form --------------------------------------------------------------------------------

    def _show_form(self, waiting: _OpenPrompt, route: FormRoute) -> None:
        reason = f"no page showed the form within {route.patience:g} s"
        try:
            self._hear()
            from jp_nb.notebook.prompt.timed_form import TimedForm

            self._form = TimedForm(
                waiting.prompt,
                loop=self._loop,
                place=self._place or OwnOutput(),
                settings=self._settings,
                on_end=lambda end: self._end(waiting, end),
            )
            self._form.show(route.patience, lambda: self._no_form(waiting, route, reason))
        except Exception:
            log.warning("The form could not be shown", exc_info=True)
            self._no_form(waiting, route, "the form could not be shown")

    def _no_form(self, waiting: _OpenPrompt, route: FormRoute, reason: str) -> None:
        if waiting is not self._queue.shown:
            return
        if route.stdin:
            if self._form is not None:
                self._form.give_way()
            self._read_stdin(waiting, "stdin")
        else:
            self._end(waiting, Unavailable(f"{reason} and prompt.channel is 'widget'"))

    def _take_form_away(self, record: StaticRecord | None) -> None:
        if self._form is not None:
            self._form.close(record)
            self._form = None

    def _hear(self) -> None:
        if self._pump is None:
            self._pump = CommPump(running_kernel(), self._loop)
            self._pump.open()

    def _stop_hearing(self) -> None:
        if self._pump is not None:
            self._pump.close()
            self._pump = None

    # --- stdin -------------------------------------------------------------------------------

    def _read_stdin(self, waiting: _OpenPrompt, channel: Literal["stdin", "terminal"]) -> None:
        waiting.channel = channel
        waiting.deadline = Deadline(self._settings.timeout)
        if waiting.withdrawn:  # whoever did that saw no deadline
            waiting.deadline.expire()
        if self._place is not None:
            self._place.catch_up()
        console = TerminalConsole() if channel == "terminal" else KernelConsole(running_kernel())
        end: PromptEnd
        try:
            with self._loop.unsheltered(), waiting.deadline:
                end = ask_on_stdin(waiting.prompt, console, channel)
        except Expired:
            end = NotAnswered("cancelled" if waiting.withdrawn else "timed_out", channel)
        except NotImplementedError:  # the kernel's StdinNotImplementedError
            end = Unavailable("the front end does not allow input")
        self._end(waiting, end)
