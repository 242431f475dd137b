"""A prompt as a form in the running cell.

Stock ipywidgets and one tiny widget of our own (`form.js`), which says that a page shows the form,
turns keys into answers and takes secrets. Text of models and tools reaches the page escaped, in
widgets that read neither HTML nor mathematics in it, or as Markdown that was made safe.

Source: `docs/prompts.md`, `docs/guide.md`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from html import escape
from typing import Any

import ipywidgets as widgets

from jp_nb.agent.prompts import ActionPrompt, Answered, NotAnswered, Prompt
from jp_nb.notebook.figures import show_figures
from jp_nb.notebook.prompt.beacon import Beacon, close_widgets
from jp_nb.notebook.prompt.controls import action_buttons, question_controls
from jp_nb.notebook.prompt.form_control import FormControl, Message, Unread
from jp_nb.notebook.prompt.form_place import FormPlace
from jp_nb.rendering import wording
from jp_nb.rendering.change_table import change_table
from jp_nb.rendering.form_record import without_form
from jp_nb.rendering.markdown import safe_markdown
from jp_nb.rendering.wording import StaticRecord

log = logging.getLogger(__name__)


class Form:
    """One prompt in a page, from `show` to `close`.

    `on_rendered` and `on_end` are called from comm callbacks, where nothing must be printed.
    """

    def __init__(
        self,
        prompt: Prompt,
        *,
        place: FormPlace,
        notify: bool,
        on_rendered: Callable[[], None],
        on_end: Callable[[Answered | NotAnswered], None],
    ) -> None:
        self._prompt = prompt
        self._on_rendered = on_rendered
        self._on_end = on_end
        self._place = place
        self._controls = _controls(prompt)
        self._confirmed = False  # that an empty answer is meant
        for control in self._controls:
            control.observe(self._changed)
        self._entries = [each.widget for each in self._controls if each.widget is not None]
        self._beacon = Beacon(
            control=self._entries[0].model_id if self._entries else "",
            secret=any(control.secret for control in self._controls),
            notify=notify,
        )
        self._beacon.on_msg(self._hear)
        self._note = _text("", "note")
        self._so_far = widgets.Output()
        self._so_far.add_class("jp-nb-so-far")
        form = widgets.VBox([*_above(prompt), *self._below()])
        form.add_class("jp-nb-form")
        if isinstance(prompt, ActionPrompt) and prompt.changes:
            form.add_class("jp-nb-wide")
        self.widget = widgets.VBox([self._so_far, form])
        self.widget.add_class("jp-nb-waiting")

    def show(self) -> None:
        """Display the form in the running cell."""
        show_figures()  # they may be what the question is about
        self._place.show(
            {
                # For consoles, and for readers of a notebook saved while the form was open.
                "text/plain": without_form(self._prompt),
                "application/vnd.jupyter.widget-view+json": {
                    "version_major": 2,
                    "version_minor": 0,
                    "model_id": self.widget.model_id,
                },
            },
            self._show_so_far,
        )

    def _show_so_far(self, bundle: dict[str, str]) -> None:
        self._so_far.outputs = _outputs(bundle)

    def give_way(self) -> None:
        """Say that the prompt is answered below, on stdin."""
        self._place.end(wording.ANSWERED_BELOW, None)
        self.discard()

    def close(self, record: StaticRecord | None) -> None:
        """Take the form away and leave `record` (nothing, if there is none) in its place."""
        self._place.end(None, record)
        self.discard()

    def discard(self) -> None:
        """Close the widgets."""
        close_widgets(self.widget)

    # --- controls ----------------------------------------------------------------------------

    def _below(self) -> Iterator[widgets.Widget]:
        for widget in self._entries:
            widget.add_class("jp-nb-control")
            yield widget
        by = wording.asked_by(self._prompt)
        actions = widgets.HBox([*self._buttons(), *([_text(by, "by")] if by else [])])
        actions.add_class("jp-nb-actions")
        yield from (self._beacon, self._note, actions)

    def _buttons(self) -> Iterator[widgets.Button]:
        for control in self._controls:
            for label, answer in (control.buttons or {}).items():
                yield _button(label, partial(self._on_end, answer))
        if any(control.buttons is None for control in self._controls):
            submit = _button(wording.SUBMIT, lambda: self._submit({}))
            submit.button_style = "primary"
            submit.add_class("jp-nb-submit")
            yield submit
        if not isinstance(self._prompt, ActionPrompt):
            yield _button(wording.CANCEL, self._cancel)

    def _hear(self, _: Any, message: Message, __: Any) -> None:
        match message.get("type"):
            case "rendered":
                self._on_rendered()
            case "cancel":
                self._cancel()
            case "submit":
                self._submit(message)
            case "unchosen":  # a key submits nothing that was not touched
                self._say(self._unread(message) or wording.NOTHING_CHANGED)
            case other:
                log.debug("The form's page sent %r", other)

    def _submit(self, message: Message) -> None:
        (found,) = (
            control.read({**message, "confirmed": self._confirmed}) for control in self._controls
        )
        if isinstance(found, Unread):
            self._confirmed = found.confirmable
            self._say(found.why)
        else:
            self._on_end(found)

    def _unread(self, message: Message) -> str:
        """Return what to say about the first control that has no answer; "" if all have one."""
        found = (control.read(message) for control in self._controls)
        return next((each.why for each in found if isinstance(each, Unread)), "")

    def _changed(self) -> None:
        self._confirmed = False

    def _say(self, text: str) -> None:
        self._note.value = escape(text)

    def _cancel(self) -> None:
        self._on_end(NotAnswered("cancelled", "form"))


def _controls(prompt: Prompt) -> list[FormControl]:
    if isinstance(prompt, ActionPrompt):
        return [action_buttons(prompt)]
    return [question_controls(prompt)]


def _above(prompt: Prompt) -> Iterator[widgets.Widget]:
    """Yield header, context and question; for buttons: text, detail and changes."""
    if header := wording.header(prompt):
        yield _text(header, "header")
    if context := wording.context(prompt):
        shown = widgets.Output(outputs=_outputs({"text/markdown": safe_markdown(context)}))
        shown.add_class("jp-nb-context")
        yield shown
    yield _text(wording.question(prompt), "question")
    if not isinstance(prompt, ActionPrompt):
        if hint := wording.draft(prompt).hint:
            yield _text(hint, "hint")
        return
    for caption, lines in wording.exhibits(prompt):
        yield _text(caption, "caption")
        # A box of lines each of whose characters stands in its order, whatever it is.
        yield _html("".join(f'<div><bdo dir="ltr">{escape(x)}</bdo></div>' for x in lines), "exact")
    if prompt.changes:
        yield _html(change_table(prompt.changes), "table")


def _text(text: str, name: str) -> widgets.HTML:
    # HTML, not Label or HTMLMath: those read mathematics in a text. Escaped, it reads nothing.
    return _html(f'<bdi dir="auto">{escape(text)}</bdi>' if text else "", name)


def _html(html: str, name: str) -> widgets.HTML:
    shown = widgets.HTML(html)
    shown.add_class(f"jp-nb-{name}")
    return shown


def _outputs(bundle: dict[str, str]) -> tuple[dict[str, Any], ...]:
    """Return what an output widget shows of `bundle`: what an output of a cell would."""
    if not any(bundle.values()):
        return ()
    return ({"output_type": "display_data", "data": bundle, "metadata": {}},)


def _button(label: str, press: Callable[[], None]) -> widgets.Button:
    button = widgets.Button(description=label, layout={"width": "auto"})
    button.on_click(lambda _: press())
    return button
