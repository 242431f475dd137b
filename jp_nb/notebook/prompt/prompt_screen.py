"""Shows one prompt at a time: as a form, or on stdin.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, assert_never

from jp_nb.agent.prompts import (
    AnyEnd,
    AnyPrompt,
    Channel,
    FormPrompt,
    NotAnswered,
    Unavailable,
    sent_by,
)
from jp_nb.notebook.prompt.deadline import Deadline, Expired
from jp_nb.notebook.prompt.form_place import FormPlace, OwnOutput
from jp_nb.notebook.prompt.presence import (
    FormRoute,
    PromptSettings,
    StdinRoute,
    running_kernel,
    who_sent,
)
from jp_nb.notebook.prompt.pump import CommPump
from jp_nb.notebook.prompt.stdin import (
    KernelConsole,
    TerminalConsole,
    ask_on_stdin,
)
from jp_nb.notebook.prompt.stdin_dialogue import Console, StdinChannel
from jp_nb.notebook.prompt.stdin_form import ask_form_on_stdin
from jp_nb.rendering import wording
from jp_nb.rendering.wording import StaticRecord
from jp_nb.session.cell_loop import CellLoop

if TYPE_CHECKING:  # ipywidgets takes a fifth of a second: only a form needs it
    from jp_nb.notebook.prompt.timed_form import TimedForm

log = logging.getLogger(__name__)


class Withdrawn(Exception):  # noqa: N818 - what happened, not what is wrong
    """Whoever asked does not wait for the answer any more."""


class OpenPrompt:
    """A prompt whose end somebody awaits.

    Attributes:
        keeps_record: Whether its static record stays where the form was.
        deadline: Ends a wait on stdin, which no job can reach.
    """

    def __init__(self, prompt: AnyPrompt, *, keeps_record: bool) -> None:
        self.prompt = prompt
        self.keeps_record = keeps_record
        self.channel: Channel = "form"
        self.deadline: Deadline | None = None
        self.withdrawn = False
        self.future: Future[AnyEnd] = Future()
        # Running at once: cancelling the task that awaits it must not settle it.
        self.future.set_running_or_notify_cancel()

    def is_expired(self) -> bool:
        """Return True if its deadline is over, which comes as an interrupt."""
        return self.deadline is not None and self.deadline.expired

    def begin_deadline(self, seconds: float) -> Deadline:
        """Return the deadline of what begins now; it is over if nobody waits any more."""
        self.deadline = Deadline(seconds)
        if self.withdrawn:  # whoever did that saw no deadline, or an older one
            self.deadline.expire()
        return self.deadline


class PromptScreen:
    """The place where one prompt is on screen. All of it on the cell's thread.

    Args:
        loop: Of the cell's thread.
        end: Is told how a prompt ended; more than once, perhaps.
    """

    def __init__(self, loop: CellLoop, end: Callable[[OpenPrompt, AnyEnd], None]) -> None:
        self._loop = loop
        self._end = end
        self._settings = PromptSettings()
        self._place: FormPlace | None = None
        self._form: TimedForm | None = None
        self._unseen: OwnOutput | None = None  # says that no page shows the form
        self._pump: CommPump | None = None

    def use(self, settings: PromptSettings, place: FormPlace | None) -> None:
        """Show prompts by `settings` and at `place`; None: each in an output of its own."""
        self._settings, self._place = settings, place

    def show(self, waiting: OpenPrompt, route: FormRoute | StdinRoute) -> None:
        """Show the prompt as a form, or ask on stdin and wait."""
        match route:
            case FormRoute():
                self._show_form(waiting, route)
            case StdinRoute(channel=channel):
                self._read_stdin(waiting, channel)
            case other:
                assert_never(other)

    def clear(self, record: StaticRecord | None) -> None:
        """Take a form away, and leave `record` in its place."""
        self._forget_unseen()
        if self._form is not None:
            self._form.close(record)
            self._form = None

    def rest(self) -> None:
        """Hear no clicks any more, until the next form is shown."""
        if self._pump is not None:
            self._pump.close()
            self._pump = None

    def _show_form(self, waiting: OpenPrompt, route: FormRoute) -> None:
        reason = f"no page showed the form within {route.patience:g} s"
        try:
            self._hear()
            from jp_nb.notebook.prompt.timed_form import TimedForm

            self._form = TimedForm(
                waiting.prompt,
                loop=self._loop,
                place=self._place or OwnOutput(),
                settings=self._settings,
                on_seen=self._forget_unseen,
                on_end=lambda end: self._end(waiting, end),
            )
            self._form.show(route.patience, lambda: self._no_form(waiting, route, reason))
        except Exception:
            log.warning("The form could not be shown", exc_info=True)
            self._no_form(waiting, route, "the form could not be shown")

    def _no_form(self, waiting: OpenPrompt, route: FormRoute, reason: str) -> None:
        if waiting.future.done():
            return
        if route.stays:
            self._stay(waiting, route)
        elif route.stdin:
            self._turn_to_stdin(waiting)
        else:
            self._end(waiting, Unavailable(f"{reason} and prompt.channel is 'widget'"))

    def _stay(self, waiting: OpenPrompt, route: FormRoute) -> None:
        """Leave the form where it is, and say how to get an input box instead.

        A box that opened by itself would take the focus from a user who types in that page: a line
        typed for a cell would answer the prompt.
        """
        if route.stdin:  # before the notice: a user may follow it the moment it is on screen
            self._loop.take_interrupt(lambda: self._turn_to_stdin(waiting))
        self._unseen = OwnOutput(of_turn=self._place is not None)
        self._unseen.show_note(wording.unseen(stdin=route.stdin))
        if self._form is not None:
            self._form.stay()

    def _forget_unseen(self) -> None:
        """Take the notice away: a page shows the form, or the prompt has ended."""
        self._loop.take_interrupt(None)
        if self._unseen is not None:
            self._unseen.end(None, None)
            self._unseen = None

    def _turn_to_stdin(self, waiting: OpenPrompt) -> None:
        if waiting.future.done():
            return
        self._forget_unseen()
        if self._form is not None:
            self._form.give_way()
        self._read_stdin(waiting, "stdin")

    def _hear(self) -> None:
        if self._pump is None:
            self._pump = CommPump(running_kernel(), self._loop)
            self._pump.open()

    def _read_stdin(self, waiting: OpenPrompt, channel: StdinChannel) -> None:
        waiting.channel = channel
        if self._place is not None:
            self._place.catch_up()
        console = TerminalConsole() if channel == "terminal" else KernelConsole(running_kernel())
        end: AnyEnd
        try:
            with self._loop.unsheltered(waiting.is_expired):
                end = self._asked_on_stdin(waiting, console, channel)
            if channel == "stdin":  # the page that runs the cell is asked, and no other
                end = sent_by(end, who_sent("execute_request"))
        except Expired:
            end = NotAnswered("cancelled" if waiting.withdrawn else "timed_out", channel)
        except Withdrawn:
            end = NotAnswered("cancelled", channel)
        except NotImplementedError:  # the kernel's StdinNotImplementedError
            end = Unavailable("the front end does not allow input")
        self._end(waiting, end)

    def _asked_on_stdin(
        self, waiting: OpenPrompt, console: Console, channel: StdinChannel
    ) -> AnyEnd:
        if isinstance(waiting.prompt, FormPrompt):
            timed = _TimedConsole(console, waiting, self._settings.timeout)
            return ask_form_on_stdin(waiting.prompt, timed, channel)
        with waiting.begin_deadline(self._settings.timeout):
            return ask_on_stdin(waiting.prompt, console, channel)


class _TimedConsole:
    """A console on which each line has its time: whoever types a line gets time for the next."""

    def __init__(self, console: Console, waiting: OpenPrompt, timeout: float) -> None:
        self._console = console
        self._waiting = waiting
        self._timeout = timeout

    def write(self, text: str) -> None:
        """Show `text`."""
        self._console.write(text)

    def read(self, prompt: str, *, secret: bool) -> str:
        """Return the line typed.

        Raises:
            Expired: If none was in time.
            Withdrawn: If nobody waits for it any more.
        """
        try:
            with self._waiting.begin_deadline(self._timeout):
                return self._console.read(prompt, secret=secret)
        except Expired:
            if self._waiting.withdrawn:
                raise Withdrawn from None
            raise
