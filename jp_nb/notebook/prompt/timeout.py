"""A form and its clock.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable

from jp_nb.agent.prompts import Answered, AnyEnd, AnyPrompt, FormPrompt, FormPromptEnd, with_sender
from jp_nb.notebook.prompt.form import Form, FormEvents, ShownForm
from jp_nb.notebook.prompt.form_pages import PagedForm
from jp_nb.notebook.prompt.output import FormOutput
from jp_nb.notebook.prompt.presence import PromptSettings, note_page, who_sent
from jp_nb.rendering.prompts import PromptSummary
from jp_nb.session.cell_loop import CellLoop, Timer


class IdleClock:
    """Calls back once the user has done nothing for a while. On the cell's thread.

    Its time stands still while the thread is busy: the user's clicks are then not read.

    Args:
        loop: Of the cell's thread.
        seconds: How long; 0: never.
        busy: Says whether a text is being written: the time begins anew after that.
        expired: Is called then, once.
    """

    def __init__(
        self,
        loop: CellLoop,
        seconds: float,
        *,
        busy: Callable[[], bool],
        expired: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._seconds = seconds
        self._busy = busy
        self._expired = expired
        self._deadline = 0.0
        self._timer: Timer | None = None

    def start(self) -> None:
        """Let the time begin."""
        self.stop()
        if self._seconds > 0:
            self._deadline = self._loop.idle_s + self._seconds
            self._timer = self._loop.call_after_idle(self._seconds, self._look)

    def restart(self) -> None:
        """Let the time begin anew, if it runs."""
        self._deadline = self._loop.idle_s + self._seconds  # no timer for each key that is pressed

    def stop(self) -> None:
        """Forget what ran."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        if self._busy():
            self.restart()
        left = self._deadline - self._loop.idle_s
        if left > 0:
            self._timer = self._loop.call_after_idle(left, self._look)
        else:
            self._timer = None
            self._expired()


class TimedForm:
    """A form that a page has to show in time, and a person to answer in time. On the cell's thread.

    Args:
        prompt: What it asks.
        loop: Of the cell's thread.
        place: Where it is shown.
        settings: Say how long there is to answer, once a page shows it, and whether to notify.
        on_seen: Is called when a page shows it.
        on_end: Is told how it ended; more than once, perhaps.
    """

    def __init__(
        self,
        prompt: AnyPrompt,
        *,
        loop: CellLoop,
        place: FormOutput,
        settings: PromptSettings,
        on_seen: Callable[[], None],
        on_end: Callable[[AnyEnd], None],
    ) -> None:
        self._loop = loop
        self._on_seen = on_seen
        self._on_end = on_end
        self._notify = settings.notify
        self._rendered_timeout = settings.rendered_timeout
        self._seen = self._over = False
        self._patience: Timer | None = None
        # Comm callbacks only record: what follows may display.
        events = FormEvents(
            shown=lambda: loop.post(self._shown),
            changed=lambda: self._clock.restart(),
            turned=self._turned,
            ended=self._ended,
        )
        notify, timed = settings.notify, settings.timeout > 0
        self._form: ShownForm
        if isinstance(prompt, FormPrompt):
            self._form = PagedForm(prompt, place=place, notify=notify, timed=timed, events=events)
        else:
            self._form = Form(prompt, place=place, notify=notify, timed=timed, events=events)
        self._clock = IdleClock(
            loop, settings.timeout, busy=self._form.is_busy, expired=self._form.expire
        )

    def show(self, patience: float, on_unseen: Callable[[], None]) -> None:
        """Show it; `on_unseen` is called if no page does within `patience` seconds."""
        self._form.show()
        self._patience = self._loop.call_after_idle(patience, on_unseen)

    def stay(self) -> None:
        """Wait for a page that is late; the time to answer begins all the same."""
        self._clock.start()

    def give_way(self) -> None:
        """Say that the prompt is answered below, on stdin."""
        self._clock.stop()
        self._over = True
        self._form.give_way()

    def close(self, record: PromptSummary | None) -> None:
        """Take the form away, and leave `record` in its place."""
        self._clock.stop()
        self._forget_patience()
        self._over = True  # what a page says about it from now on changes nothing
        self._form.close(record)

    def _ended(self, end: Answered | FormPromptEnd) -> None:
        """Say how it ended, and whose message did it: none, if the time was over."""
        sent = with_sender(end, who_sent("comm_msg"))
        self._loop.post(lambda: self._on_end(sent))

    def _shown(self) -> None:
        """Let the time for what is up begin, and tell a person who looks elsewhere, once."""
        if self._over:
            return
        self._forget_patience()
        if not self._seen:
            self._seen = True
            note_page()
            self._on_seen()
            if self._notify:
                self._form.announce()
        self._clock.start()

    def _turned(self) -> None:
        """Wait until a page shows the next step, but not for one that was closed meanwhile."""
        self._clock.stop()
        self._forget_patience()
        self._patience = self._loop.call_after_idle(self._rendered_timeout, self._clock.start)

    def _forget_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
