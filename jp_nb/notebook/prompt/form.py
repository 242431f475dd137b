"""Form for one question, permission or menu, and the base of all forms in the running cell.

A form consists of ipywidgets, `FormBridge`, and the anywidgets of `controls.py`. `form.js` reports
that a page shows the form, and turns keys into answers.

Source: `docs/prompts.md`, `docs/guide.md`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from html import escape
from importlib.resources import files

import ipywidgets as widgets
import traitlets
from anywidget import AnyWidget

from jp_nb.agent.prompts import (
    ActionPrompt,
    AnyEnd,
    AnyPrompt,
    NotAnswered,
    QuestionPrompt,
    SimplePrompt,
    with_sender,
)
from jp_nb.config.tree.app import PromptConfig
from jp_nb.notebook.display.pending_output import show_figures
from jp_nb.notebook.prompt.controls import make_action_buttons, make_question_control
from jp_nb.notebook.prompt.deadlines import IdleClock
from jp_nb.notebook.prompt.exact_text import show_exact_text
from jp_nb.notebook.prompt.form_control import FormMessage, NoValidAnswer
from jp_nb.notebook.prompt.form_heads import make_question_head
from jp_nb.notebook.prompt.form_messages import guard_widgets
from jp_nb.notebook.prompt.form_output import FormOutput
from jp_nb.notebook.prompt.form_widgets import (
    close_widgets,
    make_box,
    make_button,
    make_html,
    make_outputs,
    make_text,
)
from jp_nb.notebook.prompt.presence import find_sender, note_page
from jp_nb.rendering import form_text, prompt_text
from jp_nb.rendering.change_text import render_change_table
from jp_nb.rendering.prompt_summary import PromptSummary, format_without_form
from jp_nb.session.cell_jobs import Timer
from jp_nb.session.cell_loop import CellLoop
from jp_nb.text import upper_first

_FILES = files(__package__)

log = logging.getLogger(__name__)


class FormBridge(AnyWidget):
    """The part of a form that runs in the page.

    It sends `{"type": …, "step": …}` together with the state of each control, because a click can
    arrive before the update of the control that it submits. The state of a single control is in the
    message itself, such as `"index": 2`. The states of several controls are in a list, `"fields"`.

    - `rendered`: a page shows this step of the form.
    - `submit`, `next`, `go-2`, …: a button `jp-nb-do-…`, or its key, was pressed.
    - `unchosen`: a key tried to submit a value that the user did not touch.
    - `cancel`: Esc, unless `only_buttons` is set.
    - `writing`: the user entered (`"value": true`) or left a text box.

    The kernel answers each click with `heard`, because a refusal may change nothing in the form.

    Attributes:
        controls: Model ids of the current controls, in order; "" for a password field, whose text
            is not in the state of a widget.
        screen: Class of the widget that must be visible; "" if the form has one screen.
        step: Number of the current step. Clicks on an earlier step are ignored.
        timed: True if there is a deadline, which waits while the user writes.
        notify: True if the page's title and notifications announce the form.
        only_buttons: True if Esc only moves the focus to the cell.
    """

    _esm = (_FILES / "form.js").read_text(encoding="utf-8")
    _css = (_FILES / "form.css").read_text(encoding="utf-8")
    controls = traitlets.List(traitlets.Unicode()).tag(sync=True)
    screen = traitlets.Unicode("").tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    timed = traitlets.Bool(False).tag(sync=True)
    notify = traitlets.Bool(True).tag(sync=True)
    only_buttons = traitlets.Bool(False).tag(sync=True)

    def announce(self, header: str | None) -> None:
        """Show a browser notification if the user does not see the form."""
        self.send({"type": "announce", "header": header or "", "tag": self.model_id})

    def confirm(self) -> None:
        """Tell the page that a click was handled."""
        self.send({"type": "heard"})

    def focus(self, field: int) -> None:
        """Move the focus to the control with index `field`, if the focus is already in the form."""
        self.send({"type": "focus", "field": field})


def make_action_row(prompt: SimplePrompt, buttons: Iterable[widgets.Widget]) -> widgets.HBox:
    """Return the row of `buttons`, with the name of the asking tool."""
    children = [*buttons]
    if by := prompt_text.format_origin(prompt):
        children.append(make_text(by, "by"))
    row = widgets.HBox(children)
    row.add_class("jp-nb-actions")
    return row


def _make_button_group(buttons: Iterable[widgets.Button]) -> widgets.HBox:
    group = widgets.HBox([*buttons])
    group.add_class("jp-nb-group")
    return group


@dataclass(frozen=True, slots=True)
class FormContext:
    """The surroundings of a form.

    `on_seen` is called when a page first shows the form. `on_end` is called with the answer or the
    reason why there is none, possibly several times.
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

    It has a deadline for a page to show it, and one for the user to answer. `widget` contains the
    earlier output of the cell, and the form below it.
    """

    def __init__(self, prompt: AnyPrompt, title: str | None, context: FormContext) -> None:
        self._text = format_without_form(prompt)
        self._title = title
        self._context = context
        self._loop = context.loop
        self._seen = self._over = self._writing = False
        self._shown: int | None = None  # the last step that a page showed
        self._left: tuple[int, str] | None = None  # the step before, and the button that ended it
        self._patience: Timer | None = None
        # Actions of the current step, by their names in messages of the page.
        self._actions: dict[str, FormAction] = {}
        settings = context.settings
        self._clock = IdleClock(
            self._loop, settings.timeout_s, busy=self._is_busy, expired=self._expire
        )
        self._note = make_text("", "note")
        self._bridge = FormBridge(notify=settings.notify == "on", timed=settings.timeout_s > 0)
        self._bridge.on_msg(lambda _, message, __: self._handle_message(message))
        self._so_far = widgets.Output()
        self._so_far.add_class("jp-nb-so-far")
        self._form = make_box("form")
        self.widget = make_box("waiting", self._so_far, self._form)
        # The lab extension looks for the form by the id of the widget in its output.
        self._form.add_class(f"jp-nb-form-{self.widget.model_id}")

    @property
    def _step(self) -> int:
        """Number of the current step."""
        return 0

    @abstractmethod
    def _is_busy(self) -> bool:
        """Return True while the user writes a text."""

    @abstractmethod
    def _expire(self) -> None:
        """End the current step, because its time is over."""

    def show(self, patience: float, on_unseen: Callable[[], None]) -> None:
        """Show the form; call `on_unseen` if no page shows it within `patience` seconds."""
        show_figures()  # the question may be about them
        self._context.place.show(
            {
                # For consoles, and for notebooks saved while the form was open.
                "text/plain": self._text,
                "application/vnd.jupyter.widget-view+json": {
                    "version_major": 2,
                    "version_minor": 0,
                    "model_id": self.widget.model_id,
                },
            },
            self._show_so_far,
        )
        self._patience = self._loop.call_after_idle(patience, on_unseen)

    def _show_so_far(self, bundle: dict[str, str]) -> None:
        self._so_far.outputs = make_outputs(bundle)

    def stay(self) -> None:
        """Keep the form while no page shows it. The time to answer starts anyway."""
        self._clock.start()

    def close(self, record: PromptSummary | None, *, note: str | None = None) -> None:
        """Remove the form. The permanent `record` or the temporary `note` replaces it, if given."""
        self._clock.stop()
        self._stop_patience()
        self._over = True  # later messages of a page are ignored
        self._context.place.end(note, record)
        self.close_all_widgets()

    def close_all_widgets(self) -> None:
        """Close the widgets."""
        close_widgets(self.widget)

    def _show_note(self, words: str) -> None:
        self._note.value = escape(upper_first(words))

    # --- messages of the page. Comm callbacks must not print, so the loop handles each result. ----

    def _handle_message(self, message: FormMessage) -> None:
        step = message.get("step", self._step)
        current = type(step) is int and step == self._step

        match message.get("type"):
            case "rendered":
                self._writing = False
                if current and self._shown != self._step:  # a reload does not extend the deadline
                    self._shown = self._step
                    self._loop.post(self._handle_shown)
            case "writing":
                self._writing = message.get("value") is True
                self._clock.restart()
            case str() as name if current:
                before = self._step
                self._press(name, message)
                self._bridge.confirm()
                if self._step != before:
                    self._left = (before, name)
            case str() as name if self._left == (step, name):
                log.debug("Second click of a double click: %.100r", name)
                self._bridge.confirm()
            case str() if type(step) is int and 0 <= step < self._step:
                self._show_note(form_text.STALE)
                self._bridge.confirm()
            case _:
                log.debug("Unexpected message from the page of a form")

    def _press(self, name: str, message: FormMessage | None = None) -> None:
        verb, _, place = name.partition("-")
        act = self._actions.get(verb)
        if act is None:
            log.debug("Unexpected message from the page of a form: %.100r", name)
            return

        self._clock.restart()
        self._run_action(partial(act, {**(message or {}), "place": place}))

    def _run_action(self, act: Callable[[], None]) -> None:
        # If the action fails, the form stays as it is.
        try:
            act()
        except Exception as exc:
            log.exception("A form failed")
            self._show_note(form_text.FAILED.format(type(exc).__name__))

    def _finish(self, end: AnyEnd) -> None:
        # `find_sender` is None after a deadline, because no message of a page is handled then.
        sent = with_sender(end, find_sender("comm_msg"))
        self._loop.post(lambda: self._context.on_end(sent))

    # --- deadlines -----------------------------------------------------------------------------

    def _handle_shown(self) -> None:
        if self._over:
            return

        self._stop_patience()
        if not self._seen:
            self._seen = True
            note_page()
            self._context.on_seen()
            if self._context.settings.notify == "on":
                self._bridge.announce(self._title)

        self._clock.start()

    def _begin_step(self) -> None:
        # The time starts again when a page shows the next step, or after `rendered_timeout`. The
        # page may have been closed.
        self._clock.stop()
        self._stop_patience()
        patience = self._context.settings.rendered_timeout_s
        self._patience = self._loop.call_after_idle(patience, self._clock.start)

    def _stop_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()


class Form(PromptForm):
    """A form for one question or one decision."""

    def __init__(self, prompt: SimplePrompt, context: FormContext) -> None:
        super().__init__(prompt, prompt_text.format_header(prompt), context)
        self._prompt = prompt
        self._control = (
            make_action_buttons(prompt)
            if isinstance(prompt, ActionPrompt)
            else make_question_control(prompt)
        )
        self._confirmed = False  # True after a note about an empty answer: submitting confirms it
        self._reported: FormMessage = {}
        self._control.observe(self._changed)
        self._actions = {"unchosen": self._report_no_choice}

        if self._control.buttons is None:
            self._actions |= {"submit": self._submit}

        if not (isinstance(prompt, ActionPrompt) and prompt.only_buttons):
            self._actions |= {"cancel": lambda _: self._finish(NotAnswered("cancelled", "form"))}

        entry = [] if self._control.widget is None else [self._control.widget]
        header = prompt_text.format_header(prompt)
        head = [make_text(header, "header")] if header else []
        head += make_question_head(prompt)
        if isinstance(prompt, ActionPrompt):
            exhibits = zip(prompt.exhibits, prompt_text.list_exhibits(prompt), strict=True)
            for detail, (caption, lines) in exhibits:
                head += show_exact_text(caption, lines, detail.language)

            if prompt.changes:
                head.append(make_html(render_change_table(prompt.changes), "table"))
                self._form.add_class("jp-nb-wide")

        self._bridge.controls = [self._control.model_id] if entry else []
        self._bridge.only_buttons = isinstance(prompt, ActionPrompt) and prompt.only_buttons
        row = make_action_row(prompt, self._make_buttons())
        self._form.children = [*head, *entry, self._bridge, self._note, row]
        guard_widgets(self.widget)

    def _is_busy(self) -> bool:
        return self._writing or self._control.in_use()

    def _expire(self) -> None:
        self._finish(NotAnswered("timed_out", "form"))

    def _make_buttons(self) -> Iterator[widgets.Widget]:
        groups: list[list[widgets.Button]] = [[]]
        for label, answer in (self._control.buttons or {}).items():
            if label in self._control.separated:
                groups.append([])
            groups[-1].append(make_button(label, partial(self._finish, answer)))

        if len(groups) == 1:
            yield from groups[0]
        else:
            yield from map(_make_button_group, groups)

        if isinstance(self._prompt, QuestionPrompt):
            if self._control.buttons is None:
                submit = partial(self._press, "submit")
                label = prompt_text.get_submit_label(self._prompt)
                yield make_button(label, submit, does="submit", primary=True)
            yield make_button(prompt_text.CANCEL_LABEL, partial(self._press, "cancel"))

    def _submit(self, message: FormMessage) -> None:
        self._reported = message
        found = self._control.read({**message, "confirmed": self._confirmed})
        if isinstance(found, NoValidAnswer):
            self._confirmed = found.confirmable
            self._show_note(found.why)
        else:
            self._finish(found)

    def _report_no_choice(self, message: FormMessage) -> None:
        # A key submits only a value that the user touched.
        found = self._control.read(message)
        if isinstance(found, NoValidAnswer):
            self._show_note(found.why)
        elif isinstance(self._prompt, QuestionPrompt):
            label = prompt_text.get_submit_label(self._prompt)
            self._show_note(prompt_text.NOTHING_CHANGED.format(label))

    def _changed(self) -> None:
        if not self._control.matches(self._reported):
            self._confirmed = False
            self._show_note("")  # the note was about the previous content
        self._clock.restart()
