"""The base of a form in the running cell: showing, messages of the page, and deadlines.

A form consists of ipywidgets, `FormBridge`, and the controls of its questions. It has *steps*, one
for each display of a screen. A message of the page names the step that the user saw, so that a late
click does not act on the next one. `form.py` has the screens.

Two times are limited: that until a page of Jupyter shows the form, and that until the user answers.
Both are counted by the loop of the cell's thread (`CellLoop`): `call_after_idle` calls back once
the loop has only waited for so long, so messages that have arrived are handled first.

Source: `docs/prompts.md`, `docs/guide.md`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from html import escape

import ipywidgets as widgets

from jp_nb.agent.prompting.prompt_ends import AnyEnd, add_sender
from jp_nb.agent.prompting.prompts import AnyPrompt
from jp_nb.config.tree.app import PromptConfig
from jp_nb.notebook.display.pending_output import show_figures
from jp_nb.notebook.prompt.controls.form_control import FormMessage
from jp_nb.notebook.prompt.controls.form_widgets import make_box, make_outputs, make_text
from jp_nb.notebook.prompt.controls.widget_closing import close_widgets
from jp_nb.notebook.prompt.form_bridge import FormBridge
from jp_nb.notebook.prompt.forms.form_output import FormOutput
from jp_nb.notebook.prompt.running_cell.current_page import find_sender, note_form_answer, note_page
from jp_nb.notebook.prompt.running_cell.idle_clock import IdleClock
from jp_nb.rendering.prompt_texts import form_text
from jp_nb.rendering.prompt_texts.open_prompt_text import format_without_form
from jp_nb.rendering.prompt_texts.prompt_summary import PromptSummary
from jp_nb.session.threads.cell_jobs import Timer
from jp_nb.session.threads.cell_loop import CellLoop
from jp_nb.text import upper_first

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FormContext:
    """The surroundings of a form.

    Attributes:
        loop: The loop of the cell's thread, which handles clicks and deadlines.
        place: The output of the cell that shows the form (`form_output.py`).
        settings: The deadlines of the form, and whether it is announced.
        on_seen: Called when a page first shows the form.
        on_end: Called with the answer, or the reason why there is none, possibly several times.
    """

    loop: CellLoop
    place: FormOutput
    settings: PromptConfig
    on_seen: Callable[[], None]
    on_end: Callable[[AnyEnd], None]


FormAction = Callable[[FormMessage], None]
"""Handles a message of the page, such as a click on a button."""


class PromptForm(ABC):
    """A form in the running cell, from `show` to `close`. Used on the cell's thread.

    It has a deadline for a page to show it (`_page_timer`), and one for the user to answer
    (`_clock`). A subclass sets `_actions` for each step: the functions for the messages of the
    page, by their names. After it has changed the step, it calls `_begin_step`, and at the end
    `_finish`.

    Attributes:
        widget: The earlier output of the cell, and the form below it.
    """

    def __init__(self, prompt: AnyPrompt, title: str | None, context: FormContext) -> None:
        settings = context.settings
        self._text = format_without_form(prompt)
        self._title = title
        self._context = context
        self._loop = context.loop

        self._seen = False  # True once a page has shown the form
        self._over = False  # True once the form is closed
        self._writing = False  # True while the user is in a text box
        self._shown_step: int | None = None  # the last step that a page showed
        # The previous step, and the button that ended it, to recognize a double click.
        self._left_step: tuple[int, str] | None = None
        # Actions of the current step, by their names in messages of the page.
        self._actions: dict[str, FormAction] = {}

        self._page_timer: Timer | None = None  # ends the wait for a page that shows a step
        self._clock = IdleClock(
            self._loop, settings.timeout_s, busy=self._is_busy, expired=self._expire
        )

        # The widgets: `_bridge` exchanges messages with the page, and `_so_far` has the earlier
        # output of the cell. A subclass puts `_note` and `_hidden` into `_form`.
        self._note = make_text("", "note")
        self._bridge = FormBridge(notify=settings.notify == "on", timed=settings.timeout_s > 0)
        self._bridge.on_msg(lambda _, message, __: self._handle_message(message))
        # Hidden, because a page that cannot load the module shows an error in its place.
        self._hidden = widgets.Box([self._bridge], layout={"display": "none"})
        self._so_far = widgets.Output()
        self._so_far.add_class("jp-nb-so-far")
        self._form = make_box("form")
        self.widget = make_box("waiting", self._so_far, self._form)
        # The lab extension looks for the form by the id of the widget in its output.
        self._form.add_class(f"jp-nb-form-{self.widget.model_id}")

    @property
    def _step(self) -> int:
        """Number of the current step. `Form` replaces it."""
        return 0

    @abstractmethod
    def _is_busy(self) -> bool:
        """Return True while the user writes a text: then the time to answer begins again."""

    @abstractmethod
    def _expire(self) -> None:
        """End the current step, because its time is over."""

    @abstractmethod
    def _handle_module(self) -> None:
        """Note that a page has loaded the module of the form, `form.js`.

        If it was shown with the widgets of ipywidgets alone, it is now shown as usual.
        """

    def show(self, patience: float, on_unseen: Callable[[], None]) -> None:
        """Show the form; call `on_unseen` if no page shows it within `patience` seconds."""
        show_figures()  # the question may be about them
        bundle = {
            # For consoles, and for notebooks saved while the form was open.
            "text/plain": self._text,
            "application/vnd.jupyter.widget-view+json": {
                "version_major": 2,
                "version_minor": 0,
                "model_id": self.widget.model_id,
            },
        }

        # `_show_so_far` is called if the output has content already, such as the text of a turn.
        self._context.place.show(bundle, self._show_so_far)
        self.await_page(patience, on_unseen)

    def await_page(self, patience: float, on_unseen: Callable[[], None]) -> None:
        """Call `on_unseen` if no page shows the form within `patience` seconds."""
        self._stop_page_timer()
        self._page_timer = self._loop.call_after_idle(patience, on_unseen)

    def _show_so_far(self, bundle: dict[str, str]) -> None:
        """Show the earlier content of the output above the form, which replaces it."""
        self._so_far.outputs = make_outputs(bundle)

    def stay(self) -> None:
        """Keep the form while no page shows it. The time to answer starts anyway."""
        self._clock.start()

    def close(self, record: PromptSummary | None, *, note: str | None = None) -> None:
        """Remove the form. The permanent `record` or the temporary `note` replaces it, if given."""
        self._clock.stop()
        self._stop_page_timer()
        self._over = True  # later messages of a page are ignored
        self._context.place.end(note, record)
        self.close_all_widgets()

    def close_all_widgets(self) -> None:
        """Close the widgets."""
        close_widgets(self.widget)

    def _show_note(self, words: str) -> None:
        """Show a message below the form; "" removes it."""
        self._note.value = escape(upper_first(words))

    # --- messages of the page ------------------------------------------------------------------
    #
    # A callback of a comm must not print, so it changes only the widgets of the form. The loop
    # (`post`) calls the functions of others after it: that the form is shown, or has ended.

    def _handle_message(self, message: FormMessage) -> None:
        """Handle a message of `FormBridge`, or any other one that forged code sends.

        Its `type` is `rendered` (the page shows the step), `writing` (the user is in a text box),
        or the name of a button that was clicked. A click counts on the current step only. One on
        the step that the same button has just ended is the second click of a double click, and one
        on another earlier step is too late. `confirm` tells the page that a click was handled.
        """
        step = message.get("step", self._step)  # a message without a step is about the current one
        is_current = type(step) is int and step == self._step

        match message.get("type"):
            case "rendered":
                self._handle_rendered(is_current=is_current)
            case "writing":
                self._writing = message.get("value") is True
                self._clock.restart()
            case str() as name if is_current:
                step_before = self._step
                self._press(name, message)
                self._bridge.confirm()
                if self._step != step_before:
                    self._left_step = (step_before, name)
            case str() as name if self._left_step == (step, name):
                log.debug("Second click of a double click: %.100r", name)
                self._bridge.confirm()
            case str() if type(step) is int and 0 <= step < self._step:
                self._show_note(form_text.STALE)
                self._bridge.confirm()
            case _:
                log.debug("Unexpected message from the page of a form")

    def _handle_rendered(self, *, is_current: bool) -> None:
        """Note that a page shows a step. A reload of the page does not extend the deadline."""
        self._writing = False
        self._loop.post(self._handle_module)  # only `form.js` sends this message
        is_reload = self._shown_step == self._step  # or a second page
        if is_current and not is_reload:
            self._shown_step = self._step
            self._loop.post(self._handle_shown)

    def _press(self, name: str, message: FormMessage | None = None) -> None:
        """Run the action of a button. `go-2` is the action `go` with the place 2."""
        verb, _, place = name.partition("-")
        act = self._actions.get(verb)
        if act is None:
            log.debug("Unexpected message from the page of a form: %.100r", name)
            return

        self._clock.restart()
        self._run_action(partial(act, {**(message or {}), "place": place}))

    def _run_action(self, act: Callable[[], None]) -> None:
        """Run an action. If it fails, the form stays as it is."""
        try:
            act()
        except Exception as exc:
            log.exception("A form failed")
            self._show_note(form_text.FAILED.format(type(exc).__name__))

    def _finish(self, end: AnyEnd) -> None:
        """Report the end of the prompt, with the user whose page has sent the answer."""
        note_form_answer()  # cells are edited in the page that has answered
        # After a deadline, no message of a page is handled, and `find_sender` returns None.
        sent = add_sender(end, find_sender("comm_msg"))
        self._loop.post(lambda: self._context.on_end(sent))

    # --- deadlines -----------------------------------------------------------------------------

    def _handle_shown(self) -> None:
        """Note that a page shows the current step: the time to answer starts."""
        if self._over:
            return

        self._stop_page_timer()
        if not self._seen:
            self._seen = True
            note_page()  # later forms wait longer for a page
            self._context.on_seen()
            if self._context.settings.notify == "on":
                self._bridge.announce(self._title)

        self._clock.start()

    def _begin_step(self) -> None:
        """Stop the time to answer until a page shows the step, which is new.

        It starts anyway after `prompt.rendered_timeout_s`, because the page may have been closed.
        """
        self._clock.stop()
        self._stop_page_timer()
        patience = self._context.settings.rendered_timeout_s
        self._page_timer = self._loop.call_after_idle(patience, self._clock.start)

    def _stop_page_timer(self) -> None:
        if self._page_timer is not None:
            self._page_timer.cancel()
