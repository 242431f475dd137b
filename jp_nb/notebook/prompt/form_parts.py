"""What forms are made of, and what every form stands in.

Text of models and tools reaches the page escaped, in widgets that read neither HTML nor mathematics
in it, or as Markdown that was made safe.

Source: `docs/prompts.md`, `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final, Protocol

import ipywidgets as widgets

from jp_nb.agent.prompts import ActionPrompt, Answered, FormPromptEnd, Prompt
from jp_nb.notebook.figures import show_figures
from jp_nb.notebook.prompt.beacon import SecretField, close_widgets
from jp_nb.notebook.prompt.form_control import FormControl, Message
from jp_nb.notebook.prompt.form_place import FormPlace
from jp_nb.rendering import wording
from jp_nb.rendering.markdown import safe_markdown
from jp_nb.rendering.wording import StaticRecord

STATE: Final = ("index", "value", "picks", "custom")
"""Names of the traits of a control that hold an answer."""


@dataclass(frozen=True, slots=True)
class FormEvents:
    """Who is told of what happens to a form. Called from comm callbacks: nothing must be printed.

    Attributes:
        shown: A page shows the form, or the next step of it.
        changed: The person did something.
        turned: Another step is up, which no page shows yet.
        ended: How the form ended; more than once, perhaps.
    """

    shown: Callable[[], None]
    changed: Callable[[], None]
    turned: Callable[[], None]
    ended: Callable[[Answered | FormPromptEnd], None]


class ShownForm(Protocol):
    """A form in the running cell, from `show` to `close`."""

    def show(self) -> None:
        """Display it."""
        ...

    def announce(self) -> None:
        """Tell the person of it where nobody sees it."""
        ...

    def is_busy(self) -> bool:
        """Return True while a text is being written in it."""
        ...

    def expire(self) -> None:
        """End what is up: the time for it is over."""
        ...

    def give_way(self) -> None:
        """Say that the prompt is answered below, on stdin."""
        ...

    def close(self, record: StaticRecord | None) -> None:
        """Take it away and leave `record` (nothing, if there is none) in its place."""
        ...


class FormFrame:
    """A form's place in the notebook, below what the cell has shown so far.

    Attributes:
        widget: All of it.
    """

    def __init__(
        self, place: FormPlace, children: Iterable[widgets.Widget], *, wide: bool = False
    ) -> None:
        self._place = place
        self._so_far = widgets.Output()
        self._so_far.add_class("jp-nb-so-far")
        form = widgets.VBox([*children])
        form.add_class("jp-nb-form")
        if wide:
            form.add_class("jp-nb-wide")
        self.widget = widgets.VBox([self._so_far, form])
        self.widget.add_class("jp-nb-waiting")

    def show(self, without_form: str) -> None:
        """Display the form in the running cell; `without_form` is for whoever sees none."""
        show_figures()  # they may be what the question is about
        self._place.show(
            {
                # For consoles, and for readers of a notebook saved while the form was open.
                "text/plain": without_form,
                "application/vnd.jupyter.widget-view+json": {
                    "version_major": 2,
                    "version_minor": 0,
                    "model_id": self.widget.model_id,
                },
            },
            self._show_so_far,
        )

    def _show_so_far(self, bundle: dict[str, str]) -> None:
        self._so_far.outputs = outputs(bundle)

    def end(self, note: str | None, record: StaticRecord | None) -> None:
        """Put a `note` for now, or a `record` for good, where the form was."""
        self._place.end(note, record)
        self.discard()

    def discard(self) -> None:
        """Close the widgets that are up."""
        close_widgets(self.widget)


def above(prompt: Prompt) -> Iterator[widgets.Widget]:
    """Yield context and question."""
    if context := wording.context(prompt):
        shown = widgets.Output(outputs=outputs({"text/markdown": safe_markdown(context)}))
        shown.add_class("jp-nb-context")
        yield shown
    yield text(wording.question(prompt), "question")
    if not isinstance(prompt, ActionPrompt) and (hint := wording.draft(prompt).hint):
        yield text(hint, "hint")


def entry_of(control: FormControl) -> widgets.Widget | None:
    """Return what the person enters an answer into; None if there are buttons alone."""
    entry = SecretField() if control.secret else control.widget
    if entry is not None:
        entry.add_class("jp-nb-control")
    return entry


def model_id_of(control: FormControl) -> str:
    """Return the id of the model whose state is the answer; "" if there is none."""
    return control.widget.model_id if control.widget is not None else ""


def is_as_told(control: FormControl, told: Message) -> bool:
    """Return True if the state of `control` is what the page `told` already, with a click."""
    named = [name for name in STATE if name in told]
    return bool(named) and all(getattr(control.widget, x, None) == told[x] for x in named)


def told_of(message: Message, count: int) -> Sequence[Message]:
    """Return what the page says of each of `count` controls; nothing of those it does not name."""
    if count == 1:
        return [message]
    fields = message.get("fields")
    told = fields if isinstance(fields, list) else []
    known = [each if isinstance(each, dict) else {} for each in told[:count]]
    return [*known, *({} for _ in range(count - len(known)))]


def text(words: str, name: str) -> widgets.HTML:
    """Return a widget `jp-nb-<name>` that shows `words` and reads nothing in them."""
    # HTML, not Label or HTMLMath: those read mathematics in a text. Escaped, it reads nothing.
    return html(isolated(words), name)


def isolated(words: str) -> str:
    """Return the HTML of `words`, laid out by themselves whatever their direction."""
    return f'<bdi dir="auto">{escape(words)}</bdi>' if words else ""


def html(code: str, name: str) -> widgets.HTML:
    """Return a widget `jp-nb-<name>` that shows HTML of ours."""
    shown = widgets.HTML(code)
    shown.add_class(f"jp-nb-{name}")
    return shown


def outputs(bundle: dict[str, str]) -> tuple[dict[str, Any], ...]:
    """Return what an output widget shows of `bundle`: what an output of a cell would."""
    if not any(bundle.values()):
        return ()
    return ({"output_type": "display_data", "data": bundle, "metadata": {}},)


def button(
    label: str, press: Callable[[], None], *, does: str | None = None, primary: bool = False
) -> widgets.Button:
    """Return a button; with `does`, a click on it brings along what the controls show."""
    made = widgets.Button(description=label, layout={"width": "auto"})
    made.on_click(lambda _: press())
    if does is not None:
        made.add_class(f"jp-nb-do-{does}")
    if primary:
        made.button_style = "primary"
        made.add_class("jp-nb-primary")
    return made


def actions(prompt: Prompt, buttons: Iterable[widgets.Widget]) -> widgets.HBox:
    """Return the row of `buttons`, with the name of the tool that asks."""
    by = wording.asked_by(prompt)
    row = widgets.HBox([*buttons, *([text(by, "by")] if by else [])])
    row.add_class("jp-nb-actions")
    return row
