"""Form for one question, permission or menu, and the base of all forms in the running cell.

A form consists of ipywidgets, `FormBridge`, and the anywidgets of `controls.py`. `form.js` reports
that a page shows the form, and turns keys into answers. Texts from models and tools are shown as
escaped text or as sanitized Markdown, and a long text in parts.

Source: `docs/prompts.md`, `docs/guide.md`.
"""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from html import escape
from importlib.resources import files
from typing import Any, Final

import ipywidgets as widgets
import traitlets
from anywidget import AnyWidget
from pygments.lexers import get_lexer_by_name  # IPython depends on Pygments
from pygments.token import Comment, Keyword, Name, Number, Operator, String
from pygments.util import ClassNotFound

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
from jp_nb.notebook.display.capture import show_figures
from jp_nb.notebook.prompt.controls import (
    FormMessage,
    NoValidAnswer,
    action_buttons,
    question_control,
)
from jp_nb.notebook.prompt.form_messages import guard_widgets, walk_widgets
from jp_nb.notebook.prompt.presence import FormOutput, IdleClock, note_page, who_sent
from jp_nb.notebook.prompt.pump import FORM_COMMS
from jp_nb.rendering import prompt_text
from jp_nb.rendering.change_text import render_change_table
from jp_nb.rendering.markdown import sanitize_markdown
from jp_nb.rendering.prompt_text import PromptSummary, format_without_form
from jp_nb.session.cell_loop import CellLoop, Timer
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


def close_widgets(root: widgets.Widget) -> None:
    """Close `root` and all widgets in it."""
    for widget in [*walk_widgets(root)]:
        if widget.comm is not None:
            FORM_COMMS.discard(widget.comm.comm_id)
            _LATE_MESSAGES.add(widget.comm.comm_id)
        widget.close()


class _LateMessages(logging.Filter):
    """Drops log messages about the comms of closed forms.

    Otherwise, each late message of a page writes `No such comm: …` to the cell.
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


_LATE_MESSAGES = _LateMessages()


def question_head(prompt: SimplePrompt) -> Iterator[widgets.Widget]:
    """Yield the widgets of the context, of the question, and of the hint."""
    if context := prompt_text.format_context(prompt):
        yield _background(prompt, context, "context")

    yield text(prompt_text.format_question(prompt), "question")
    if (address := prompt_text.find_address(prompt)) is not None:
        yield html(prompt_text.render_address(address), "address")

    if not isinstance(prompt, ActionPrompt) and (
        hint := prompt_text.make_editable_text(prompt).hint
    ):
        yield text(hint, "hint")


def _background(prompt: SimplePrompt, context: str, name: str) -> widgets.Widget:
    is_text = isinstance(prompt, QuestionPrompt) and prompt.question.context_is_text
    return text(context, name) if is_text else prose(context, name)


def field_description(prompt: QuestionPrompt) -> Iterator[widgets.Widget]:
    """Yield the widget of the description of a field, if it has one."""
    if context := prompt_text.format_context(prompt):
        yield _background(prompt, context, "about")


def split_reports(message: FormMessage, count: int) -> Sequence[FormMessage]:
    """Return the reported state of each of `count` controls; `{}` if the page sent none."""
    if count == 1:
        return [message]

    fields = message.get("fields")
    reported = fields if isinstance(fields, list) else []
    known = list(map(_as_message, reported[:count]))
    missing: list[FormMessage] = [{} for _ in range(count - len(known))]

    return [*known, *missing]


def _as_message(reported: object) -> FormMessage:
    return reported if isinstance(reported, dict) else {}


def text(words: str, name: str) -> widgets.HTML:
    """Return a widget `jp-nb-<name>` that shows `words` as plain text."""
    # HTML with escaped text, because Label and HTMLMath render mathematics.
    return html(isolate_direction(words), name)


def isolate_direction(words: str) -> str:
    """Return `words` as HTML, isolated from the direction of the surrounding text."""
    return f'<bdi dir="auto">{escape(words)}</bdi>' if words else ""


def html(code: str, name: str) -> widgets.HTML:
    """Return a widget `jp-nb-<name>` with trusted HTML."""
    shown = widgets.HTML(code)
    shown.add_class(f"jp-nb-{name}")
    return shown


def prose(source: str, name: str) -> widgets.Output:
    """Return a widget `jp-nb-<name>` that shows `source` as sanitized Markdown."""
    shown = widgets.Output(outputs=outputs({"text/markdown": sanitize_markdown(source)}))
    shown.add_class(f"jp-nb-{name}")
    return shown


def outputs(bundle: dict[str, str]) -> tuple[dict[str, Any], ...]:
    """Return a value for `widgets.Output.outputs` that displays the MIME bundle `bundle`."""
    if not any(bundle.values()):
        return ()
    return ({"output_type": "display_data", "data": bundle, "metadata": {}},)


def box(name: str, *children: widgets.Widget) -> widgets.VBox:
    """Return a box `jp-nb-<name>` with `children`, one below the other."""
    made = widgets.VBox(children)
    made.add_class(f"jp-nb-{name}")
    return made


def button(
    label: str, press: Callable[[], None], *, does: str | None = None, primary: bool = False
) -> widgets.Button:
    """Return a button. With `does`, the page sends this message of `FormBridge` for a click.

    It replaces the message of the button, so `press` is called only where `form.js` does not run.
    """
    made = widgets.Button(description=label, layout={"width": "auto"})
    made.on_click(lambda _: press())
    if does is not None:
        made.add_class(f"jp-nb-do-{does}")

    if primary:
        made.button_style = "primary"
        made.add_class("jp-nb-primary")

    return made


def action_row(prompt: SimplePrompt, buttons: Iterable[widgets.Widget]) -> widgets.HBox:
    """Return the row of `buttons`, with the name of the asking tool."""
    children = [*buttons]
    if by := prompt_text.format_origin(prompt):
        children.append(text(by, "by"))
    row = widgets.HBox(children)
    row.add_class("jp-nb-actions")
    return row


def _button_group(buttons: Iterable[widgets.Button]) -> widgets.HBox:
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
        self._note = text("", "note")
        self._bridge = FormBridge(notify=settings.notify == "on", timed=settings.timeout_s > 0)
        self._bridge.on_msg(lambda _, message, __: self._handle_message(message))
        self._so_far = widgets.Output()
        self._so_far.add_class("jp-nb-so-far")
        self._form = box("form")
        self.widget = box("waiting", self._so_far, self._form)
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
        self._so_far.outputs = outputs(bundle)

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
                self._show_note(prompt_text.STALE)
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
            self._show_note(prompt_text.FAILED.format(type(exc).__name__))

    def _finish(self, end: AnyEnd) -> None:
        # `who_sent` is None after a deadline, because no message of a page is handled then.
        sent = with_sender(end, who_sent("comm_msg"))
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
            action_buttons(prompt) if isinstance(prompt, ActionPrompt) else question_control(prompt)
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
        head = [text(header, "header")] if header else []
        head += question_head(prompt)
        if isinstance(prompt, ActionPrompt):
            exhibits = zip(prompt.exhibits, prompt_text.list_exhibits(prompt), strict=True)
            for detail, (caption, lines) in exhibits:
                head += show_exact_text(caption, lines, detail.language)

            if prompt.changes:
                head.append(html(render_change_table(prompt.changes), "table"))
                self._form.add_class("jp-nb-wide")

        self._bridge.controls = [self._control.model_id] if entry else []
        self._bridge.only_buttons = isinstance(prompt, ActionPrompt) and prompt.only_buttons
        row = action_row(prompt, self._buttons())
        self._form.children = [*head, *entry, self._bridge, self._note, row]
        guard_widgets(self.widget)

    def _is_busy(self) -> bool:
        return self._writing or self._control.in_use()

    def _expire(self) -> None:
        self._finish(NotAnswered("timed_out", "form"))

    def _buttons(self) -> Iterator[widgets.Widget]:
        groups: list[list[widgets.Button]] = [[]]
        for label, answer in (self._control.buttons or {}).items():
            if label in self._control.separated:
                groups.append([])
            groups[-1].append(button(label, partial(self._finish, answer)))

        if len(groups) == 1:
            yield from groups[0]
        else:
            yield from map(_button_group, groups)

        if isinstance(self._prompt, QuestionPrompt):
            if self._control.buttons is None:
                submit = partial(self._press, "submit")
                label = prompt_text.get_submit_label(self._prompt)
                yield button(label, submit, does="submit", primary=True)
            yield button(prompt_text.CANCEL_LABEL, partial(self._press, "cancel"))

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


MAX_PART_LINES: Final = 1000
"""Limit of lines of one part."""
MAX_PART_CHARS: Final = 50_000
"""Limit of characters of one part."""
_UNFINISHED_ESCAPE: Final = re.compile(r"[⟨\\][^⟨⟩\\]{0,9}$")
_STYLES: Final = (
    (Comment, "comment"),
    (String, "string"),
    (Number, "number"),
    (Keyword, "keyword"),
    (Operator.Word, "keyword"),
    (Name.Builtin, "builtin"),
    (Name.Function, "name"),
    (Name.Class, "name"),
)
_LEXERS: Final = {"python": ("ipython3", "python")}
"""Names of lexers by language, best first. `ipython3` knows the magics of cells."""


@dataclass(frozen=True, slots=True)
class ExactPart:
    """Consecutive lines of a text, from number `first` to `last`. A line that is too long is split.

    Lines are counted from 1. Both numbers are 0 if the text has no lines. `continues` is
    True if the first line starts in the previous part.
    """

    lines: tuple[str, ...]
    first: int
    last: int
    continues: bool = False


def split_parts(lines: Sequence[str]) -> Iterator[ExactPart]:
    """Yield `lines` in parts of at most `MAX_PART_LINES` lines and `MAX_PART_CHARS` characters."""
    part: list[str] = []
    chars = 0
    first = 1
    continues = False

    for number, line in enumerate(lines, start=1):
        rest = line
        while part and (len(part) == MAX_PART_LINES or chars + len(rest) > MAX_PART_CHARS):
            yield ExactPart(tuple(part), first, number - 1, continues)
            part = []
            chars = 0
            first = number
            continues = False

        while len(rest) > MAX_PART_CHARS:
            piece = _UNFINISHED_ESCAPE.sub("", rest[:MAX_PART_CHARS]) or rest[:MAX_PART_CHARS]
            yield ExactPart((piece,), number, number, continues)
            rest = rest[len(piece) :]
            first = number
            continues = True

        part.append(rest)
        chars += len(rest)

    if not lines:
        yield ExactPart((), 0, 0)
    elif part:
        yield ExactPart(tuple(part), first, len(lines), continues)


def show_exact_text(
    caption: str, lines: Sequence[str], language: str | None = None
) -> Iterator[widgets.Widget]:
    """Yield widgets that show `caption` and, below it, all of `lines`.

    The caller has made invisible characters visible. Code of a known `language` is highlighted.
    """
    yield text(caption, "caption")
    parts = list(split_parts(lines))
    if len(parts) > 1:
        yield from _PagedText(parts, language).widgets
    else:
        yield _text_box(parts[0], language)


class _PagedText:
    """A text in several parts, with buttons to turn the pages."""

    def __init__(self, parts: Sequence[ExactPart], language: str | None) -> None:
        self._parts = parts
        self._language = language
        self._at = 0
        self._place = text("", "part")
        self._text_box = box("exact-part")
        back = button("Previous part", lambda: self._turn(-1))
        pager = widgets.HBox([back, button("Next part", lambda: self._turn(1)), self._place])
        pager.add_class("jp-nb-pager")
        self.widgets = (self._text_box, pager)
        self._turn(0)

    def _turn(self, step: int) -> None:
        self._at = (self._at + step) % len(self._parts)
        old = self._text_box.children
        # A new widget resets the scroll position.
        self._text_box.children = (_text_box(self._parts[self._at], self._language),)
        guard_widgets(self._text_box)

        for each in old:
            close_widgets(each)

        part = self._parts[self._at]
        total = self._parts[-1].last
        which = f"lines {part.first} to {part.last}"
        if part.first == part.last:
            which = f"line {part.first}"
            if part.continues:
                which += ", continued"

        self._place.value = f"Part {self._at + 1} of {len(self._parts)}: {which} of {total}"


def _text_box(part: ExactPart, language: str | None) -> widgets.HTML:
    lines = highlight_code(part.lines, language) if language else map(escape, part.lines)
    # `bdo` shows all characters in their logical order, also right-to-left text.
    return html("".join(f'<div><bdo dir="ltr">{line}</bdo></div>' for line in lines), "exact")


def highlight_code(lines: Sequence[str], language: str) -> list[str]:
    """Return each line of code as HTML, without colors if `language` is unknown."""
    lexer = _lexer(language)
    code = "\n".join(lines)
    tokens = [] if lexer is None else list(lexer.get_tokens(code))
    if "".join(token for _, token in tokens) != code:
        return [escape(line) for line in lines]

    shown = [""]
    # A token may contain line breaks, but each line needs complete HTML.
    for kind, token in tokens:
        first, *others = (_colored(kind, part) for part in token.split("\n"))
        shown[-1] += first
        shown += others

    return shown


@lru_cache
def _lexer(language: str) -> Any:
    for name in _LEXERS.get(language, (language,)):
        with suppress(ClassNotFound):
            return get_lexer_by_name(name, stripnl=False, ensurenl=False)
    return None


def _colored(kind: Any, code: str) -> str:
    style = next((style for token, style in _STYLES if kind in token), None)
    if style is None or not code:
        return escape(code)
    return f'<span class="jp-nb-code-{style}">{escape(code)}</span>'
