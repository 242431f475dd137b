"""A prompt as a form in the running cell.

Stock ipywidgets and one tiny widget of our own (`form.js`), which says that a page shows the form,
turns keys into answers and takes secrets. Text of models and tools reaches the page escaped, in
widgets that read neither HTML nor mathematics in it, or as Markdown that was made safe.

Source: `docs/prompts.md`, `docs/guide.md`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any, Protocol, assert_never

import ipywidgets as widgets
import traitlets
from anywidget import AnyWidget
from IPython.display import publish_display_data
from pydantic import JsonValue

from jp_nb.agent.prompts import ActionPrompt, Answered, NotAnswered, Prompt, QuestionPrompt
from jp_nb.notebook.figures import show_figures
from jp_nb.notebook.prompt.presence import running_kernel
from jp_nb.notebook.turn_display import DisplayPublisher
from jp_nb.rendering import wording
from jp_nb.rendering.change_table import change_table
from jp_nb.rendering.markdown import safe_markdown
from jp_nb.rendering.wording import StaticRecord
from jp_nb.tooling.question import BooleanAnswer, SecretAnswer, SelectAnswer, TextAnswer

RADIO_BUTTONS = 8
"""Up to so many options are all in view; beyond, a drop-down list holds them."""

MAX_ROWS = 16
"""Of the box for a text."""

log = logging.getLogger(__name__)

Message = Mapping[str, JsonValue]
_FILES = files(__package__)


class Beacon(AnyWidget):
    """The part of a form that runs in the page.

    It sends `{"type": "rendered"}`, `{"type": "cancel"}` and `{"type": "submit"}`; the last with
    `index` or `value`, because a click can overtake the change of the control that it submits.
    `{"type": "unchosen"}`, with the same, is a key that would have submitted what nobody chose.

    Attributes:
        control: Model id of the control whose state is the answer; "" if there is none.
        secret: Whether it shows a password field itself, whose text is in no widget's state.
        notify: Whether the page's title says that a prompt waits.
    """

    _esm = (_FILES / "form.js").read_text(encoding="utf-8")
    _css = (_FILES / "form.css").read_text(encoding="utf-8")
    control = traitlets.Unicode("").tag(sync=True)
    secret = traitlets.Bool(False).tag(sync=True)
    notify = traitlets.Bool(True).tag(sync=True)


class _Departed(logging.Filter):
    """Keeps quiet about messages that were on their way to a form when it was closed.

    Otherwise each of them leaves `No such comm: …` in the cell.
    """

    def __init__(self) -> None:
        super().__init__()
        self._ids: deque[str] = deque(maxlen=1000)
        logging.getLogger("Comm").addFilter(self)

    def add(self, comm_id: str) -> None:
        self._ids.append(comm_id)

    def filter(self, record: logging.LogRecord) -> bool:
        args = record.args if isinstance(record.args, tuple) else ()
        return not any(isinstance(arg, str) and arg in self._ids for arg in args)


_DEPARTED = _Departed()


@dataclass(frozen=True, slots=True)
class _Control:
    """What a question is answered with: a widget (None: the beacon) and how it is read."""

    widget: widgets.Widget | None
    read: Callable[[Message], Answered | None]
    missing: str = ""


class Place(Protocol):
    """Where a form is shown: an output of its own, or the one that a turn has."""

    def show(self, bundle: dict[str, Any], so_far: Callable[[dict[str, str]], None]) -> None:
        """Show `bundle`. `so_far` takes what stood there before: the form shows it above itself."""
        ...

    def end(self, note: str | None, record: StaticRecord | None) -> None:
        """Take the form away. A `note` is for now, a `record` for good."""
        ...

    def catch_up(self) -> None:
        """Show all that is to be shown before a question is asked on stdin."""
        ...


class OwnOutput:
    """An output that only the form uses."""

    def __init__(self) -> None:
        self._publish = DisplayPublisher(publish_display_data, kernel=running_kernel())()

    def show(self, bundle: dict[str, Any], so_far: Callable[[dict[str, str]], None]) -> None:
        """Display the form below what the cell has drawn so far."""
        self._publish(bundle, update=False, final=False)

    def end(self, note: str | None, record: StaticRecord | None) -> None:
        """Put the note or the record where the form was."""
        data = {"text/plain": note, "text/markdown": note} if note else {}
        if record is not None:
            data = {"text/plain": record.plain, "text/markdown": record.markdown}
        self._publish(data, update=True, final=not note)

    def catch_up(self) -> None:
        """Do nothing: all is shown."""


class Form:
    """One prompt in a page, from `show` to `close`.

    `on_rendered` and `on_end` are called from comm callbacks, where nothing must be printed.
    """

    def __init__(
        self,
        prompt: Prompt,
        *,
        place: Place,
        notify: bool,
        on_rendered: Callable[[], None],
        on_end: Callable[[Answered | NotAnswered], None],
    ) -> None:
        self._prompt = prompt
        self._on_rendered = on_rendered
        self._on_end = on_end
        self._place = place
        self._control = _control(prompt) if isinstance(prompt, QuestionPrompt) else _BUTTONS_ONLY
        control = self._control.widget
        self._beacon = Beacon(
            control=control.model_id if control is not None else "",
            secret=self._control.read is _secret,
            notify=notify,
        )
        self._beacon.on_msg(self._hear)
        self._note = _text("", "jp-nb-note")
        self._so_far = widgets.Output()
        self._so_far.add_class("jp-nb-so-far")
        form = widgets.VBox([*self._above(), *self._below()])
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
                "text/plain": wording.without_form(self._prompt),
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
        pending = [self.widget]
        while pending:
            widget = pending.pop()
            if widget.comm is not None:
                _DEPARTED.add(widget.comm.comm_id)
            pending += getattr(widget, "children", ())
            # Each has its own layout and style, which nothing else would close.
            pending += [
                own
                for name in ("layout", "style")
                if isinstance(own := getattr(widget, name, None), widgets.Widget)
            ]
            widget.close()

    def _above(self) -> list[widgets.Widget]:
        """Return header, context and question; for buttons: text, detail and changes."""
        prompt = self._prompt
        header, context = wording.header(prompt), wording.context(prompt)
        shown = [_text(header, "jp-nb-header")] if header else []
        question = _text(wording.question(prompt), "jp-nb-question")
        if isinstance(prompt, QuestionPrompt):
            framed = [_markdown(context, "jp-nb-context")] if context else []
            hint = wording.draft(prompt).hint
            hints = [_text(hint, "jp-nb-hint")] if hint else []
            return [*shown, *framed, question, *hints]
        framed = []
        for caption, lines in wording.exhibits(prompt):
            framed += [_text(caption, "jp-nb-caption"), _exact(lines)]
        return [*shown, question, *framed, *([_table(prompt)] if prompt.changes else [])]

    def _below(self) -> list[widgets.Widget]:
        control = [self._control.widget] if self._control.widget is not None else []
        for widget in control:
            widget.add_class("jp-nb-control")
        by = wording.asked_by(self._prompt)
        actions = widgets.HBox([*self._buttons(), *([_text(by, "jp-nb-by")] if by else [])])
        actions.add_class("jp-nb-actions")
        return [*control, self._beacon, self._note, actions]

    def _buttons(self) -> list[widgets.Button]:
        if isinstance(self._prompt, ActionPrompt):
            return self._action_buttons(self._prompt)
        cancel = _button(wording.CANCEL)
        cancel.on_click(lambda _: self._cancel())
        if isinstance(self._prompt.question.answer_type, BooleanAnswer):
            return [*self._boolean_buttons(self._prompt), cancel]
        submit = _button(wording.SUBMIT)
        submit.button_style = "primary"
        submit.add_class("jp-nb-submit")
        submit.on_click(lambda _: self._submit({}))
        return [submit, cancel]

    def _boolean_buttons(self, prompt: QuestionPrompt) -> Iterator[widgets.Button]:
        suggested = wording.suggested(prompt)
        for choice in wording.choices(prompt):
            marked = choice is suggested
            label = f"{choice.label} ({wording.SUGGESTED})" if marked else choice.label
            yield self._deciding(label, Answered(choice.value, "form", remember=choice.remember))

    def _action_buttons(self, prompt: ActionPrompt) -> list[widgets.Button]:
        offered = [action for action in prompt.actions if action.on_form]
        labels = wording.option_labels(tuple(action.label for action in offered))
        return [
            self._deciding(label, Answered(action.value, "form"))
            for action, label in zip(offered, labels, strict=True)
        ]

    def _deciding(self, label: str, answer: Answered) -> widgets.Button:
        """Return a button that decides at once."""
        button = _button(label)
        button.on_click(lambda _: self._on_end(answer))
        return button

    def _hear(self, _: Any, message: Message, __: Any) -> None:
        match message.get("type"):
            case "rendered":
                self._on_rendered()
            case "cancel":
                self._cancel()
            case "submit":
                self._submit(message)
            case "unchosen":
                self._say(self._why_not(message))
            case other:
                log.debug("The form's page sent %r", other)

    def _submit(self, message: Message) -> None:
        answered = self._control.read(message)
        if answered is None:
            self._say(self._control.missing)
        else:
            self._on_end(answered)

    def _why_not(self, message: Message) -> str:
        """Return why a key submits nothing that was not touched."""
        untouched = self._control.read(message) is not None
        return wording.NOTHING_CHANGED if untouched else self._control.missing

    def _say(self, text: str) -> None:
        self._note.value = escape(text)

    def _cancel(self) -> None:
        self._on_end(NotAnswered("cancelled", "form"))


def _control(prompt: QuestionPrompt) -> _Control:
    match prompt.question.answer_type:
        case BooleanAnswer():
            return _BUTTONS_ONLY
        case SelectAnswer(options=options):
            return _select(prompt, options)
        case TextAnswer():
            return _textarea(prompt)
        case SecretAnswer():
            return _Control(None, _secret, "Nothing was typed.")
        case other:
            assert_never(other)


def _nothing(_: Message) -> None:
    """A prompt with buttons only has nothing to submit."""


_BUTTONS_ONLY = _Control(None, _nothing, wording.NOTHING_CHOSEN)


def _secret(message: Message) -> Answered | None:
    value = message.get("value")
    return Answered(value, "form") if isinstance(value, str) and value else None


def _select(prompt: QuestionPrompt, options: tuple[str, ...]) -> _Control:
    preset = wording.preselected(prompt)
    kind = widgets.RadioButtons if len(options) <= RADIO_BUTTONS else widgets.Dropdown
    listed = kind(
        options=wording.option_labels(options),
        index=options.index(preset) if isinstance(preset, str) else None,
    )

    def read(message: Message) -> Answered | None:
        index = _index(message, listed, len(options))
        return None if index is None else Answered(options[index], "form")

    return _Control(listed, read, "Please choose an option first.")


def _textarea(prompt: QuestionPrompt) -> _Control:
    draft = wording.draft(prompt)
    rows = draft.shown.count("\n") + 2
    area = widgets.Textarea(value=draft.shown, rows=min(MAX_ROWS, rows))
    if rows > 2:  # such as arguments in JSON
        area.add_class("jp-nb-code")

    def read(message: Message) -> Answered:
        value = message.get("value")
        return Answered(draft.meant(value if isinstance(value, str) else area.value), "form")

    return _Control(area, read)


def _index(message: Message, widget: widgets.Widget, count: int) -> int | None:
    """Return which option is chosen: as the page says, else as the widget was last told."""
    index = message.get("index", widget.index)
    in_range = isinstance(index, int) and not isinstance(index, bool) and 0 <= index < count
    return index if in_range else None


def _text(text: str, css_class: str) -> widgets.HTML:
    # HTML, not Label or HTMLMath: those read mathematics in a text. Escaped, it reads nothing.
    shown = widgets.HTML(f'<bdi dir="auto">{escape(text)}</bdi>' if text else "")
    shown.add_class(css_class)
    return shown


def _exact(lines: list[str]) -> widgets.HTML:
    """Return a box of `lines`, each of whose characters stands in its order, whatever it is."""
    box = widgets.HTML("".join(f'<div><bdo dir="ltr">{escape(x)}</bdo></div>' for x in lines))
    box.add_class("jp-nb-exact")
    return box


def _markdown(text: str, css_class: str) -> widgets.Output:
    shown = widgets.Output(outputs=_outputs({"text/markdown": safe_markdown(text)}))
    shown.add_class(css_class)
    return shown


def _outputs(bundle: dict[str, str]) -> tuple[dict[str, Any], ...]:
    """Return what an output widget shows of `bundle`: what an output of a cell would."""
    if not any(bundle.values()):
        return ()
    return ({"output_type": "display_data", "data": bundle, "metadata": {}},)


def _table(prompt: ActionPrompt) -> widgets.HTML:
    table = widgets.HTML(change_table(prompt.changes))
    table.add_class("jp-nb-table")
    return table


def _button(label: str) -> widgets.Button:
    return widgets.Button(description=label, layout={"width": "auto"})
