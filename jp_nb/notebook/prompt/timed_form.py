"""A form and its clock.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable

from jp_nb.agent.prompts import Answered, AnyPrompt, FormEnd, FormPrompt, NotAnswered
from jp_nb.notebook.prompt.form import Form
from jp_nb.notebook.prompt.form_place import FormPlace
from jp_nb.notebook.prompt.presence import PromptSettings
from jp_nb.rendering.wording import StaticRecord
from jp_nb.session.cell_loop import CellLoop, Timer


class TimedForm:
    """A form that a page has to show in time, and a person to answer in time. On the cell's thread.

    Args:
        prompt: What it asks.
        loop: Of the cell's thread.
        place: Where it is shown.
        settings: Say how long there is to answer, once a page shows it.
        on_end: Is told how it ended; more than once, perhaps.
    """

    def __init__(
        self,
        prompt: AnyPrompt,
        *,
        loop: CellLoop,
        place: FormPlace,
        settings: PromptSettings,
        on_end: Callable[[Answered | NotAnswered | FormEnd], None],
    ) -> None:
        self._loop = loop
        self._timeout = settings.timeout
        self._on_end = on_end
        self._seen = False
        self._timer: Timer | None = None
        if isinstance(prompt, FormPrompt):
            raise NotImplementedError("a form with pages")
        self._form = Form(
            prompt,
            place=place,
            notify=settings.notify,
            # Comm callbacks only record: what follows may display.
            on_rendered=lambda: loop.post(self._rendered),
            on_end=lambda end: loop.post(lambda: on_end(end)),
        )

    def show(self, patience: float, on_unseen: Callable[[], None]) -> None:
        """Show it; `on_unseen` is called if no page does within `patience` seconds."""
        self._form.show()
        self._timer = self._loop.call_later(patience, on_unseen)

    def give_way(self) -> None:
        """Say that the prompt is answered below, on stdin."""
        self._form.give_way()

    def close(self, record: StaticRecord | None) -> None:
        """Take the form away, and leave `record` in its place."""
        self._stop_clock()
        self._seen = True  # what a page says about it from now on changes nothing
        self._form.close(record)

    def _rendered(self) -> None:
        if self._seen:  # a page that is loaded again shows it again, and gives no more time
            return
        self._seen = True
        self._stop_clock()
        if self._timeout > 0:
            late = NotAnswered("timed_out", "form")
            self._timer = self._loop.call_later(self._timeout, lambda: self._on_end(late))

    def _stop_clock(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
