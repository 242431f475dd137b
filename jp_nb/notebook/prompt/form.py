"""A prompt with one page as a form in the running cell.

Stock ipywidgets and widgets of our own: `form.js` says that a page shows the form and turns keys
into answers, `secret.js` takes secrets, `choices.js` lists options with more than a label.

Source: `docs/prompts.md`, `docs/guide.md`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from html import escape
from typing import Any

import ipywidgets as widgets

from jp_nb.agent.prompts import ActionPrompt, NotAnswered, Prompt
from jp_nb.notebook.prompt.beacon import Beacon
from jp_nb.notebook.prompt.controls import action_buttons, question_controls
from jp_nb.notebook.prompt.exact_text import exact_text
from jp_nb.notebook.prompt.form_control import FormControl, Message, Unread
from jp_nb.notebook.prompt.form_parts import (
    FormEvents,
    FormFrame,
    above,
    actions,
    button,
    entry_of,
    html,
    is_as_told,
    model_id_of,
    text,
)
from jp_nb.notebook.prompt.form_place import FormPlace
from jp_nb.rendering import wording
from jp_nb.rendering.change_table import change_table
from jp_nb.rendering.form_record import without_form
from jp_nb.rendering.wording import StaticRecord

log = logging.getLogger(__name__)


class Form:
    """One question, or one decision, in a page, from `show` to `close`."""

    def __init__(
        self, prompt: Prompt, *, place: FormPlace, notify: bool, timed: bool, events: FormEvents
    ) -> None:
        self._prompt = prompt
        self._events = events
        self._control = _control(prompt)
        self._confirmed = False  # that an empty answer is meant
        self._told: Message = {}
        self._writing = self._shown = False
        self._control.observe(self._changed)
        entry = entry_of(self._control)
        self._beacon = Beacon(
            controls=[] if entry is None else [model_id_of(self._control)],
            notify=notify,
            timed=timed,
            only_buttons=isinstance(prompt, ActionPrompt) and prompt.only_buttons,
        )
        self._beacon.on_msg(self._hear)
        self._note = text("", "note")
        self._frame = FormFrame(
            place,
            [
                *_top(prompt),
                *([] if entry is None else [entry]),
                self._beacon,
                self._note,
                actions(prompt, self._buttons()),
            ],
            wide=isinstance(prompt, ActionPrompt) and bool(prompt.changes),
        )
        self.widget = self._frame.widget

    def show(self) -> None:
        """Display the form in the running cell."""
        self._frame.show(without_form(self._prompt))

    def announce(self) -> None:
        """Tell the person of the form where nobody sees it."""
        self._beacon.announce(wording.header(self._prompt))

    def is_busy(self) -> bool:
        """Return True while a text is being written in it."""
        return self._writing or self._control.in_use()

    def expire(self) -> None:
        """End it: the time to answer is over."""
        self._events.ended(NotAnswered("timed_out", "form"))

    def give_way(self) -> None:
        """Say that the prompt is answered below, on stdin."""
        self._frame.end(wording.ANSWERED_BELOW, None)

    def close(self, record: StaticRecord | None) -> None:
        """Take the form away and leave `record` (nothing, if there is none) in its place."""
        self._frame.end(None, record)

    def discard(self) -> None:
        """Close the widgets."""
        self._frame.discard()

    def _buttons(self) -> Iterator[widgets.Button]:
        for label, answer in (self._control.buttons or {}).items():
            yield button(label, partial(self._events.ended, answer))
        if self._control.buttons is None:
            yield button(wording.SUBMIT, lambda: self._submit({}), does="submit", primary=True)
        if not isinstance(self._prompt, ActionPrompt):
            yield button(wording.CANCEL, self._cancel)

    def _hear(self, _: Any, message: Message, __: Any) -> None:
        match message.get("type"):
            case "rendered":
                self._writing = False
                if not self._shown:  # a page that is loaded again gives no more time
                    self._shown = True
                    self._events.shown()
            case "writing":
                self._writing = message.get("value") is True
                self._events.changed()
            case "cancel":
                self._cancel()
            case "submit":
                self._submit(message)
            case "unchosen":  # a key submits nothing that was not touched
                found = self._control.read(message)
                self._say(found.why if isinstance(found, Unread) else wording.NOTHING_CHANGED)
            case other:
                log.debug("Unexpected message from the page of a form: %r", other)

    def _submit(self, message: Message) -> None:
        self._told = message
        found = self._control.read({**message, "confirmed": self._confirmed})
        if isinstance(found, Unread):
            self._confirmed = found.confirmable
            self._say(found.why)
        else:
            self._events.ended(found)

    def _changed(self) -> None:
        if not is_as_told(self._control, self._told):
            self._confirmed = False
            self._say("")  # what was said was about what stood there before
        self._events.changed()

    def _say(self, words: str) -> None:
        self._note.value = escape(words)

    def _cancel(self) -> None:
        self._events.ended(NotAnswered("cancelled", "form"))


def _control(prompt: Prompt) -> FormControl:
    return action_buttons(prompt) if isinstance(prompt, ActionPrompt) else question_controls(prompt)


def _top(prompt: Prompt) -> Iterator[widgets.Widget]:
    """Yield header, context and question; for buttons: text, detail and changes."""
    if header := wording.header(prompt):
        yield text(header, "header")
    yield from above(prompt)
    if not isinstance(prompt, ActionPrompt):
        return
    for exhibit, (caption, lines) in zip(prompt.exhibits, wording.exhibits(prompt), strict=True):
        yield from exact_text(caption, lines, exhibit.language)
    if prompt.changes:
        yield html(change_table(prompt.changes), "table")
