"""`Prompter` in a notebook: show one prompt at a time, as a form or on stdin, with a deadline.

Only the cell's thread changes the state. The agent's thread hands over a prompt and awaits its
end. Code in the cell serves the loop until its own prompt has ended.

Source: `docs/prompts.md`, `docs/architecture.md`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, assert_never

from jp_nb.agent.prompting.prompt_ends import (
    AnyEnd,
    Channel,
    NotAnswered,
    PromptEnd,
    T,
    Unavailable,
    add_sender,
)
from jp_nb.agent.prompting.prompt_queue import PromptQueue
from jp_nb.agent.prompting.prompts import (
    ActionPrompt,
    AnyPrompt,
    FormPrompt,
    Prompt,
    QuestionPrompt,
)
from jp_nb.config.tree.app import PromptConfig
from jp_nb.notebook.prompt.forms.form_output import FormOutput, SeparateOutput
from jp_nb.notebook.prompt.running_cell.current_page import (
    find_sender,
    get_running_kernel,
    has_input,
)
from jp_nb.notebook.prompt.running_cell.deadlines import Deadline, Expired
from jp_nb.notebook.prompt.running_cell.presence import FormRoute, Presence, StdinRoute
from jp_nb.notebook.prompt.running_cell.pump import CommPump
from jp_nb.notebook.prompt.stdin_prompts.stdin import ask_on_stdin
from jp_nb.notebook.prompt.stdin_prompts.stdin_dialogue import InputConsole, StdinChannel
from jp_nb.rendering.prompt_texts import prompt_text
from jp_nb.rendering.prompt_texts.prompt_summary import PromptSummary, summarize_prompt
from jp_nb.session.threads.cell_loop import CellLoop

if TYPE_CHECKING:
    from jp_nb.notebook.prompt.forms.form import Form

log = logging.getLogger(__name__)

STOCK_TIMEOUT_S: Final = 2.0
"""Seconds that a page has to show the stock widgets of a form."""


class Withdrawn(Exception):  # noqa: N818 - not an error
    """The asking code no longer waits for the answer."""


class OpenPrompt(Generic[T]):
    """A prompt that has not ended. If it `keeps_record`, its static record replaces the form."""

    def __init__(self, prompt: Prompt[T], *, keeps_record: bool) -> None:
        assert isinstance(prompt, QuestionPrompt | ActionPrompt | FormPrompt)
        self.prompt: AnyPrompt = prompt
        self.keeps_record = keeps_record
        self.channel: Channel = "form"
        self.deadline: Deadline | None = None  # of a read from stdin, which blocks the loop
        self.withdrawn = False
        self.future: Future[PromptEnd[T]] = Future()
        # Mark as running, so that cancelling the task that awaits the future does not cancel it.
        self.future.set_running_or_notify_cancel()

    def is_expired(self) -> bool:
        """Return True if the deadline of the read from stdin, which an interrupt ends, is over."""
        return self.deadline is not None and self.deadline.expired

    def begin_deadline(self, seconds: float) -> Deadline:
        """Start and return a deadline. It is already over if the prompt was withdrawn."""
        self.deadline = Deadline(seconds)
        if self.withdrawn:  # `_withdraw` has expired no deadline, or an earlier one
            self.deadline.expire()
        return self.deadline


class _TimedConsole(InputConsole):
    """A console with a deadline for each line."""

    def __init__(self, kernel: object | None, waiting: OpenPrompt[Any], timeout: float) -> None:
        super().__init__(kernel)
        self._waiting = waiting
        self._timeout = timeout

    def read(self, prompt: str, *, secret: bool) -> str:
        try:
            with self._waiting.begin_deadline(self._timeout):
                return super().read(prompt, secret=secret)
        except Expired:
            if self._waiting.withdrawn:
                raise Withdrawn from None
            raise


class NotebookPrompter:
    """Asks the user of the notebook; implements `Prompter`."""

    def __init__(self, loop: CellLoop) -> None:
        self._loop = loop
        self._settings = PromptConfig()
        self._presence = Presence()
        self._open: dict[OpenPrompt[Any], None] = {}  # in order; filled by the thread that asks
        self._queue = PromptQueue(self._show)
        self._place: FormOutput | None = None
        self._form: Form | None = None
        self._unseen: SeparateOutput | None = None  # notice that no page shows the form
        self._pump: CommPump | None = None

    # --- any thread --------------------------------------------------------------------------

    def unavailable(self) -> Unavailable | None:
        """Return the reason why no user can be asked in the cell; None if one may answer."""
        route = self._presence.route(self._settings)
        return route if isinstance(route, Unavailable) else None

    def cell_interrupted(self) -> None:
        """Show no further prompt until the next turn: the cell has ended."""
        self._presence = replace(self._presence, runs_cell=False)

    async def ask(self, prompt: Prompt[T]) -> PromptEnd[T]:
        """Show `prompt` and wait for the answer. Cancelling the task removes the prompt."""
        if (unavailable := self.unavailable()) is not None:
            return unavailable

        waiting = self._hand_over(prompt, keeps_record=False)
        try:
            return await asyncio.wrap_future(waiting.future)
        except asyncio.CancelledError:
            self._withdraw(waiting)
            raise

    def interrupt(self) -> None:
        """End all current prompts as interrupted. Later prompts are shown."""
        # End waiting prompts first: the end of the visible one would show the next.
        pending = [*reversed(self._open)]
        self._loop.post(lambda: self._end_each(pending, "interrupted"))

    # --- the cell's thread -------------------------------------------------------------------

    def cell_begins(self, settings: PromptConfig, place: FormOutput | None = None) -> None:
        """Detect the front end of the running cell. `settings` are valid until the next cell.

        Forms are shown in `place`; if it is None, each form has its own output.
        """
        self._end_all("cancelled")  # in case the previous cell ended without `cell_ends`
        self._settings = settings
        self._place = place
        self._presence = Presence.detect()

    def cell_ends(self) -> None:
        """Remove all open prompts, because no form outlives its cell."""
        self._end_all("cancelled")
        self._place = None

    def ask_in_cell(self, prompt: Prompt[T], *, keeps_record: bool = True) -> PromptEnd[T]:
        """Show `prompt` from code that runs in the cell, and wait.

        A static record replaces the form, unless `keeps_record` is False. Prompts that already wait
        are shown first. A worker thread may call this method while the cell serves the loop.

        Raises:
            KeyboardInterrupt: The kernel was interrupted. Every prompt has ended by then.
        """
        if self._loop.is_served_by_other_thread:
            if (unavailable := self.unavailable()) is not None:
                return unavailable
            return self._hand_over(prompt, keeps_record=keeps_record).future.result()

        self._presence = Presence.detect()
        if (unavailable := self.unavailable()) is not None:
            return unavailable

        with self._loop.interrupts.defer():
            waiting = self._hand_over(prompt, keeps_record=keeps_record)
            try:
                self._loop.serve(waiting.future.done, tools=False)
            except BaseException:
                self._end_all("interrupted")
                raise

            return waiting.future.result()

    # --- one at a time -----------------------------------------------------------------------

    def _hand_over(self, prompt: Prompt[T], *, keeps_record: bool) -> OpenPrompt[T]:
        waiting = OpenPrompt(prompt, keeps_record=keeps_record)
        self._open[waiting] = None
        self._loop.post(lambda: self._queue.add(waiting) if waiting in self._open else None)
        return waiting

    def _withdraw(self, waiting: OpenPrompt[Any]) -> None:
        waiting.withdrawn = True
        if (deadline := waiting.deadline) is not None:
            deadline.expire()
        self._loop.post(lambda: self._end_each([waiting], "cancelled"))

    def _show(self, waiting: OpenPrompt[Any]) -> None:
        if waiting.withdrawn:
            return self._end_each([waiting], "cancelled")

        match self._presence.route(self._settings):
            case Unavailable() as unavailable:
                self._end(waiting, unavailable)
            case FormRoute() as route:
                self._show_form(waiting, route)
            case StdinRoute(channel="stdin") if not has_input():
                self._show_form_without_input(waiting)
            case StdinRoute(channel=channel):
                self._read_stdin(waiting, channel)
            case other:
                assert_never(other)

    def _end(self, waiting: OpenPrompt[Any], end: AnyEnd) -> None:
        # The first end counts; later ones are ignored.
        if waiting not in self._open:
            return

        del self._open[waiting]
        try:
            if self._queue.remove(waiting):
                record = None
                if waiting.keeps_record and not isinstance(end, Unavailable):
                    record = summarize_prompt(waiting.prompt, end)
                self._remove_form(record)
        finally:  # an interrupt must not leave the asking code waiting forever
            waiting.future.set_result(end)

        self._queue.show_next()
        if self._queue.shown is None:
            self._stop_listening()

    def _end_each(
        self, prompts: Sequence[OpenPrompt[Any]], end: Literal["cancelled", "interrupted"]
    ) -> None:
        for waiting in prompts:
            self._end(waiting, NotAnswered(end, waiting.channel))

    def _end_all(self, end: Literal["cancelled", "interrupted"]) -> None:
        self._queue.clear()  # otherwise ending one prompt would show the next
        self._end_each([*self._open], end)
        self._remove_form(None)  # in case an interrupt ended the call in `_end` early
        self._stop_listening()

    # --- on screen ---------------------------------------------------------------------------

    def _show_form(self, waiting: OpenPrompt[Any], route: FormRoute) -> None:
        reason = f"no page showed the form within {route.patience_s:g} s"
        try:
            if self._pump is None:
                self._pump = CommPump(get_running_kernel(), self._loop)
                self._pump.open()

            from jp_nb.notebook.prompt.forms.form import Form
            from jp_nb.notebook.prompt.forms.prompt_form import FormContext

            context = FormContext(
                self._loop,
                self._place or SeparateOutput(),
                self._settings,
                on_seen=self._remove_notice,
                on_end=lambda end: self._end(waiting, end),
            )
            self._form = Form(waiting.prompt, context)
            self._form.show(
                route.patience_s, lambda: self._try_stock_widgets(waiting, route, reason)
            )
        except Exception:
            log.warning("The form could not be shown", exc_info=True)
            self._handle_unseen_form(waiting, route, "the form could not be shown")

    def _show_form_without_input(self, waiting: OpenPrompt[Any]) -> None:
        # The page that ran the cell shows no input box. Any page of the notebook shows a form.
        if self._presence.no_forms_reason is not None:
            self._end(waiting, Unavailable(prompt_text.NO_INPUT))
            return
        route = FormRoute(self._settings.rendered_timeout_s, falls_back_to_stdin=False, stays=True)
        self._show_form(waiting, route)

    def _try_stock_widgets(self, waiting: OpenPrompt[Any], route: FormRoute, reason: str) -> None:
        if waiting.future.done() or self._form is None:
            return

        if route.tries_stock and self._form.use_stock_widgets():
            self._form.await_page(
                STOCK_TIMEOUT_S, lambda: self._handle_unseen_form(waiting, route, reason)
            )
        else:
            self._handle_unseen_form(waiting, route, reason)

    def _handle_unseen_form(self, waiting: OpenPrompt[Any], route: FormRoute, reason: str) -> None:
        if waiting.future.done():
            return

        if route.stays:
            # No input box opens by itself. It would take the focus from a user who types in the
            # page, and a line typed for a cell would answer the prompt.
            if route.falls_back_to_stdin:
                # Before the notice, which tells the user to interrupt the kernel.
                self._loop.replace_next_interrupt(lambda: self._answer_interrupt(waiting))

            self._unseen = SeparateOutput(of_turn=self._place is not None)
            self._unseen.show_note(
                prompt_text.format_unseen_notice(stdin=route.falls_back_to_stdin)
            )
            if self._form is not None:
                self._form.stay()
        elif route.falls_back_to_stdin:
            self._switch_to_stdin(waiting)
        else:
            self._end(waiting, Unavailable(f"{reason} and prompt.channel is 'widget'"))

    def _remove_notice(self) -> None:
        self._loop.replace_next_interrupt(None)
        if self._unseen is not None:
            self._unseen.end(None, None)
            self._unseen = None

    def _answer_interrupt(self, waiting: OpenPrompt[Any]) -> None:
        if waiting.future.done():
            return
        if has_input():
            self._switch_to_stdin(waiting)
            return

        # An input box would be in a page that is gone, and the kernel would wait for ever.
        self._remove_notice()
        self._loop.interrupt()

    def _switch_to_stdin(self, waiting: OpenPrompt[Any]) -> None:
        if waiting.future.done():
            return
        self._remove_notice()
        if self._form is not None:
            self._form.close(None, note=prompt_text.ANSWERED_BELOW)
        self._read_stdin(waiting, "stdin")

    def _read_stdin(self, waiting: OpenPrompt[Any], channel: StdinChannel) -> None:
        waiting.channel = channel
        if self._place is not None:
            self._place.catch_up()

        kernel = None if channel == "terminal" else get_running_kernel()
        prompt = waiting.prompt
        timeout_s = self._settings.timeout_s
        end: AnyEnd

        try:
            with self._loop.interrupts.allow(waiting.is_expired):
                if isinstance(prompt, FormPrompt):  # each line of it has its own time
                    timed = _TimedConsole(kernel, waiting, timeout_s)
                    end = ask_on_stdin(prompt, timed, channel)
                else:
                    with waiting.begin_deadline(timeout_s):
                        end = ask_on_stdin(prompt, InputConsole(kernel), channel)

            if channel == "stdin":  # the input box is in the page that ran the cell
                end = add_sender(end, find_sender("execute_request"))
        except Expired:
            if waiting.withdrawn:
                end = NotAnswered("cancelled", channel)
            else:
                end = NotAnswered("timed_out", channel)
        except Withdrawn:
            end = NotAnswered("cancelled", channel)
        except NotImplementedError:  # the kernel's StdinNotImplementedError
            end = Unavailable("the front end does not allow input")

        self._end(waiting, end)

    def _remove_form(self, record: PromptSummary | None) -> None:
        self._remove_notice()
        if self._form is not None:
            self._form.close(record)
            self._form = None

    def _stop_listening(self) -> None:
        if self._pump is not None:
            self._pump.close()
            self._pump = None
