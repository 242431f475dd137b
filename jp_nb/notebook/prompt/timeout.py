"""Deadlines of a form: the time for a page to show it, and for the user to answer.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable

from jp_nb.agent.prompts import AnyEnd, AnyPrompt, FormPrompt, with_sender
from jp_nb.notebook.prompt.form import Form, FormEvents, ShownForm
from jp_nb.notebook.prompt.form_pages import PagedForm
from jp_nb.notebook.prompt.output import FormOutput
from jp_nb.notebook.prompt.presence import PromptSettings, note_page, who_sent
from jp_nb.rendering.prompts import PromptSummary
from jp_nb.session.cell_loop import CellLoop, Timer


class IdleClock:
    """Calls back when the user has been idle for some time. Used on the cell's thread.

    The clock stops while the thread is busy, because clicks are not read then.

    Args:
        loop: Loop of the cell's thread.
        seconds: Idle time; 0: never.
        busy: Return True while the user writes a text; the time restarts afterwards.
        expired: Called once, at the end.
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
        """Start the time."""
        self.stop()
        if self._seconds > 0:
            self._deadline = self._loop.idle_s + self._seconds
            self._timer = self._loop.call_after_idle(self._seconds, self._check)

    def restart(self) -> None:
        """Restart the time if it runs."""
        self._deadline = self._loop.idle_s + self._seconds  # keeps the timer, which checks it again

    def stop(self) -> None:
        """Stop the time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        if self._busy():
            self.restart()
        left = self._deadline - self._loop.idle_s
        if left > 0:
            self._timer = self._loop.call_after_idle(left, self._check)
        else:
            self._timer = None
            self._expired()


class TimedForm:
    """A form with a deadline for a page to show it, and one for the user to answer.

    Used on the cell's thread.

    Args:
        prompt: The prompt.
        loop: Loop of the cell's thread.
        place: Output for the form.
        settings: The time to answer, from when a page shows the form, and whether to notify.
        on_seen: Called when a page shows the form.
        on_end: Called with the end of the form, possibly several times.
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
        # Comm callbacks must not print, so the loop handles the event.
        events = FormEvents(
            shown=lambda: loop.post(self._handle_shown),
            changed=lambda: self._clock.restart(),
            turned=self._handle_next_step,
            ended=self._handle_end,
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
        """Show the form; call `on_unseen` if no page shows it within `patience` seconds."""
        self._form.show()
        self._patience = self._loop.call_after_idle(patience, on_unseen)

    def stay(self) -> None:
        """Keep the form while no page shows it. The time to answer starts anyway."""
        self._clock.start()

    def give_way(self) -> None:
        """Show that the prompt continues below, on stdin."""
        self._clock.stop()
        self._over = True
        self._form.give_way()

    def close(self, record: PromptSummary | None) -> None:
        """Remove the form. `record` replaces it if given."""
        self._clock.stop()
        self._stop_patience()
        self._over = True  # later messages of a page are ignored
        self._form.close(record)

    def _handle_end(self, end: AnyEnd) -> None:
        # `who_sent` is None after a deadline, because no message of a page is handled then.
        sent = with_sender(end, who_sent("comm_msg"))
        self._loop.post(lambda: self._on_end(sent))

    def _handle_shown(self) -> None:
        if self._over:
            return
        self._stop_patience()
        if not self._seen:
            self._seen = True
            note_page()
            self._on_seen()
            if self._notify:
                self._form.announce()
        self._clock.start()

    def _handle_next_step(self) -> None:
        # The time starts again when a page shows the next step, or after `rendered_timeout`. The
        # page may have been closed.
        self._clock.stop()
        self._stop_patience()
        self._patience = self._loop.call_after_idle(self._rendered_timeout, self._clock.start)

    def _stop_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
