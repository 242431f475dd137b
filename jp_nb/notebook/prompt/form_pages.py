"""Form with several pages, one for each question, and a summary before it is sent.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import escape
from typing import Any, Final, assert_never

import ipywidgets as widgets
from pydantic import JsonValue

from jp_nb.agent.form_state import FormDraft, PageDraft
from jp_nb.agent.prompts import Answered, FormPrompt, QuestionPrompt, Unavailable
from jp_nb.notebook.prompt.controls import Message, Unread, field_control
from jp_nb.notebook.prompt.form import (
    FormBridge,
    FormEvents,
    FormFrame,
    SecretField,
    above,
    actions,
    button,
    close_widgets,
    entry_of,
    html,
    is_as_told,
    isolated,
    model_id_of,
    outputs,
    text,
    told_of,
)
from jp_nb.notebook.prompt.output import FormOutput
from jp_nb.rendering import forms as form_text
from jp_nb.rendering import prompts as prompt_text
from jp_nb.rendering.forms import SummaryLine, without_form
from jp_nb.rendering.markdown import safe_markdown
from jp_nb.rendering.prompts import PromptSummary
from jp_nb.tools.base import error_summary
from jp_nb.tools.question import REQUIRED, FormAnswer

log = logging.getLogger(__name__)

FOR_ALL = -1
"""Place of a problem that concerns no single field."""


Changed = Callable[[bool], None]
"""Called after a change: True if the user made it, False if an earlier click reported it."""


@dataclass(frozen=True, slots=True)
class PageReading:
    """What stands on a page.

    Attributes:
        draft: What it comes to.
        problems: What is wrong or missing, by the number of the field; `FOR_ALL` for the whole.
        confirmable: The fields that give an empty answer once the person confirms it.
    """

    draft: PageDraft
    problems: Mapping[int, str] = field(default_factory=dict)
    confirmable: frozenset[int] = frozenset()


class PageField:
    """A control with what is said about it. `named`: it is one of several, under its own name."""

    def __init__(self, prompt: QuestionPrompt, *, named: bool, changed: Changed) -> None:
        self.prompt = prompt
        self.control = field_control(prompt)
        self.problem = text("", "problem")
        self.touched = False
        self._changed = changed
        self._confirmed = False  # that an empty answer is meant
        self._told: Message = {}
        self._secret: Answered | None = None
        entry = entry_of(self.control)
        assert entry is not None  # no button of a page acts at once
        self._entry = entry
        above_it = _about(prompt) if named else ()
        self.widget = widgets.VBox([*above_it, entry, self.problem])
        self.widget.add_class("jp-nb-field")
        if prompt.question.required:
            self.widget.add_class("jp-nb-needed")
        self._untouched = self.control.read({})
        self.control.observe(self._on_change)

    def read(self, told: Message) -> Answered | Unread:
        """Return what stands in it, as the page `told`; a secret that was sent before counts."""
        self._told = told
        found = self.control.read({**told, "confirmed": self._confirmed})
        if not self.control.secret:
            return found
        if isinstance(found, Answered):
            self._secret = found
            assert isinstance(self._entry, SecretField)
            self._entry.hint = form_text.SECRET_KEPT
        elif found.blank and self._secret is not None:
            return self._secret
        return found

    def if_empty(self, told: Message) -> Answered | None:
        """Return what it gives once the person confirms that nothing is meant; None if nothing."""
        found = self.control.read({**told, "confirmed": True})
        return found if isinstance(found, Answered) else None

    def is_touched(self, told: Message) -> bool:
        """Return True if the person entered something here."""
        return self.touched or self.control.read(told) != self._untouched

    def say(self, words: str, *, confirm: bool = False) -> None:
        """Say what is wrong; with `confirm`, to send it once more is to mean it."""
        self.problem.value = isolated(words[:1].upper() + words[1:])
        self._confirmed = confirm

    def _on_change(self) -> None:
        self.touched = True
        anew = not is_as_told(self.control, self._told)
        if anew:  # what was said was about what stood there before
            self.say("")
        self._changed(anew)


class FormPage:
    """One page, which stays what it is while others are up.

    `changed` is called upon every change that the person makes.
    """

    def __init__(self, prompt: QuestionPrompt, changed: Changed) -> None:
        self._prompt = prompt
        kind = prompt.question.answer_type
        self._form = kind if isinstance(kind, FormAnswer) else None
        asked = [prompt] if self._form is None else [*map(QuestionPrompt, self._form.fields)]
        named = self._form is not None
        self.fields = [PageField(each, named=named, changed=changed) for each in asked]
        # Of what concerns all fields; one alone has its own.
        self._problem = text("", "problem") if named else self.fields[0].problem
        below = (self._problem,) if named else ()
        self.widget = widgets.VBox([*above(prompt), *(each.widget for each in self.fields), *below])
        self.widget.add_class("jp-nb-page")

    @property
    def model_ids(self) -> list[str]:
        """The models of its controls, in order."""
        return [model_id_of(each.control) for each in self.fields]

    def is_busy(self) -> bool:
        """Return True while a text stands in a box of it that is not sent."""
        return any(each.control.in_use() for each in self.fields)

    def is_touched(self, told: Iterable[Message]) -> bool:
        """Return True if the person entered something here, as the page `told` or before."""
        return any(each.is_touched(one) for each, one in zip(self.fields, told, strict=True))

    @property
    def touched(self) -> bool:
        """True once the person changed something here."""
        return any(each.touched for each in self.fields)

    @property
    def untold(self) -> Sequence[Message]:
        """What a page says that says nothing: the state of the widgets counts."""
        return [{}] * len(self.fields)

    def told(self, message: Message) -> Sequence[Message]:
        """Return what a page says of each control."""
        return told_of(message, len(self.fields))

    def say(self, reading: PageReading) -> None:
        """Say beside each field what `reading` found. To send it once more confirms it."""
        for number, each in enumerate(self.fields):
            words = reading.problems.get(number, "")
            each.say(words, confirm=bool(words) and number in reading.confirmable)
        if self._form is not None:
            self._problem.value = isolated(reading.problems.get(FOR_ALL, ""))

    def say_nothing(self) -> None:
        """Take back what was said."""
        self.say(PageReading(PageDraft()))

    def read(self, told: Sequence[Message]) -> PageReading:
        """Return what stands on it, as the page `told`."""
        if self._form is not None:
            return self._read_fields(self._form, told)
        [each], [one] = self.fields, told
        found = each.read(one)
        if isinstance(found, Answered):
            return PageReading(PageDraft(found))
        empty = each.if_empty(one)
        confirmable = frozenset({0} if empty is not None else ())
        draft = PageDraft(empty=empty) if found.blank else PageDraft(problem=found.why)
        return PageReading(draft, {0: found.why}, confirmable)

    def _read_fields(self, form: FormAnswer, told: Sequence[Message]) -> PageReading:
        values: dict[str, JsonValue] = {}
        problems: dict[int, str] = {}
        wrong, confirmable = False, set[int]()
        for number, (each, one) in enumerate(zip(self.fields, told, strict=True)):
            question, found = each.prompt.question, each.read(one)
            if isinstance(found, Unread):
                wrong = wrong or not found.blank
                empty = each.if_empty(one)
                if empty is not None and question.required:
                    confirmable.add(number)
                if found.blank and not question.required:
                    # What was proposed is not there any more: that is an answer, if it can be.
                    cleared = prompt_text.preselected(each.prompt) is not None
                    if empty is None or not cleared:
                        continue
                    found = empty
            if isinstance(found, Answered):
                values[question.id] = found.value
            elif number in confirmable or not found.blank:
                problems[number] = found.why
            else:
                problems[number] = REQUIRED
        if problems:
            is_open = not wrong and not (values and self.is_touched(told))
            draft = PageDraft() if is_open else PageDraft(problem=next(iter(problems.values())))
            return PageReading(draft, problems, frozenset(confirmable))
        return self._checked(form, values)

    def _checked(self, form: FormAnswer, values: dict[str, JsonValue]) -> PageReading:
        numbers = {each.id: number for number, each in enumerate(form.fields)}
        problems: dict[int, str] = {}
        for name, why in _found(form, values).items():
            number = numbers.get(name, FOR_ALL)
            problems[number] = f"{problems[number]} {why}" if number in problems else why
        if problems:
            return PageReading(PageDraft(problem=next(iter(problems.values()))), problems)
        return PageReading(PageDraft(Answered(values, "form")))

    def close(self) -> None:
        """Close its widgets."""
        close_widgets(self.widget)
        close_widgets(self._problem)  # one field alone shows none


def _found(form: FormAnswer, values: Mapping[str, JsonValue]) -> Mapping[str, str]:
    """Return what is wrong with `values`; a check that fails lets nothing pass."""
    try:
        return form.problems(values)
    except Exception as exc:  # it is somebody else's, and the form must still be left
        log.exception("The check of a form failed")
        return {"": form_text.UNCHECKED.format(type(exc).__name__)}


def _about(prompt: QuestionPrompt) -> Iterator[widgets.Widget]:
    """Yield the name of a field and what is said about it."""
    name = isolated(prompt_text.question(prompt))
    mark = ' <span class="jp-nb-mark" aria-hidden="true">*</span>'
    yield html(f"{name}{mark if prompt.question.required else ''}", "field-name")
    if context := prompt_text.context(prompt):
        shown = widgets.Output(outputs=outputs({"text/markdown": safe_markdown(context)}))
        shown.add_class("jp-nb-about")
        yield shown
    if hint := prompt_text.draft(prompt).hint:
        yield text(hint, "hint")


def summary_screen(draft: FormDraft) -> widgets.VBox:
    """Return the list of what would be sent, with a button for each question."""
    rows = (_row(number, line) for number, line in enumerate(form_text.summary(draft)))
    listed = html(f"<ol>{''.join(rows)}</ol>", "summary")
    return _screen(text(form_text.heading(draft), "question"), listed)


def _row(number: int, line: SummaryLine) -> str:
    """Return one line of the list: one widget holds them all, however many there are."""
    change = form_text.ANSWER if line.is_open else form_text.CHANGE
    buttons = [_inner_button(f"go-{number}", change, line.asked)]
    if line.empty is not None:
        buttons.append(_inner_button(f"empty-{number}", line.empty, line.asked))
    state = ' class="jp-nb-open"' if line.is_open else ""
    return (
        f"<li{state}><div><span>{number + 1}. {isolated(line.asked)}</span>"
        f"<b>{isolated(line.answer)}</b></div><div>{''.join(buttons)}</div></li>"
    )


def _inner_button(does: str, label: str, about: str) -> str:
    name = escape(f"{label}: {about}")
    return (
        f'<button type="button" class="jupyter-button jp-nb-do-{does}" aria-label="{name}">'
        f"{escape(label)}</button>"
    )


def discard_screen() -> widgets.VBox:
    """Return the question whether to throw away what was entered."""
    return _screen(text(form_text.DISCARDED, "question"))


class ReplyMenu:
    """The ways out: a box for a reply above the buttons. What is typed into it stays there."""

    def __init__(self) -> None:
        self.area = widgets.Textarea(rows=3)
        self.area.add_class("jp-nb-control")
        field = widgets.VBox([text(form_text.REPLY_LABEL, "field-name"), self.area])
        field.add_class("jp-nb-field")
        self.widget = _screen(
            text(form_text.MENU, "question"), text(form_text.MENU_HINT, "hint"), field
        )

    @property
    def text(self) -> str:
        """What is typed in it."""
        return str(self.area.value)


def _screen(*children: widgets.Widget) -> widgets.VBox:
    made = widgets.VBox(children)
    made.add_class("jp-nb-page")
    return made


log = logging.getLogger(__name__)

Act = Callable[[Message], None]

LABELS: Final = {
    "back": form_text.BACK,
    "next": form_text.NEXT,
    "submit": prompt_text.SUBMIT,
    "cancel": prompt_text.CANCEL,
    "discard": form_text.DISCARD,
    "reply": form_text.REPLY,
    "stop": form_text.STOP,
    "resume": form_text.BACK,
}
"""Label of each button, by its action; the label of `send` depends on the answers."""


@dataclass(frozen=True, slots=True)
class _Step:
    """What is up: a widget, the models of its controls, and what its buttons do, in order.

    `primary` is what Enter does, too; "" for nothing.
    """

    widget: widgets.Widget
    does: Sequence[str]
    primary: str = ""
    model_ids: Sequence[str] = ()


class PagedForm:
    """Several questions in a page, from `show` to `close`.

    A page is made when it is first shown; then it stays what it is while others are up.
    """

    def __init__(
        self,
        prompt: FormPrompt,
        *,
        place: FormOutput,
        notify: bool,
        timed: bool,
        events: FormEvents,
    ) -> None:
        self._prompt = prompt
        self._events = events
        self._draft = FormDraft(prompt, "form")
        self._pages: dict[int, FormPage] = {}
        self._menu: ReplyMenu | None = None
        self._fleeting: widgets.Widget | None = None  # made for the step that is up
        self._shown: int | None = None  # the last step that a page showed
        self._writing = False
        self._buttons: dict[str, widgets.Button] = {}  # each made when it is first up
        self._top = html("", "progress")
        self._body = widgets.VBox()
        self._body.add_class("jp-nb-body")
        self._note = text("", "note")
        self._actions = actions(prompt.pages[0], ())
        self._by = self._actions.children
        self._beacon = FormBridge(notify=notify, timed=timed)
        self._beacon.on_msg(self._hear)
        self._frame = FormFrame(
            place, [self._top, self._body, self._beacon, self._note, self._actions]
        )
        self.widget = self._frame.widget
        self._draw()

    def show(self) -> None:
        """Display the form in the running cell."""
        self._frame.show(without_form(self._prompt))

    def announce(self) -> None:
        """Tell the person of the form where nobody sees it."""
        first = self._prompt.pages[0]
        self._beacon.announce(prompt_text.header(first) or form_text.page_header(first))

    def is_busy(self) -> bool:
        """Return True while a text is being written in it."""
        match self._draft.screen:
            case "page":
                return self._writing or self._page.is_busy()
            case "menu":
                return self._writing or bool(self._reply_menu().text.strip())
            case _:
                return False

    def expire(self) -> None:
        """Take what there is on the page, and turn to the next one: the time for it is over."""
        page = self._page
        picked = page.read(page.untold).draft.answer if page.touched else None
        self._do(lambda: self._draft.expire(picked))
        if self._draft.end is None:
            self._say(form_text.TIME_WENT)

    def give_way(self) -> None:
        """Say that the prompt is answered below, on stdin."""
        self._frame.end(prompt_text.ANSWERED_BELOW, None)
        self.discard()

    def close(self, record: PromptSummary | None) -> None:
        """Take the form away and leave `record` (nothing, if there is none) in its place."""
        self._frame.end(None, record)
        self.discard()

    def discard(self) -> None:
        """Close the widgets, also of pages that are not up."""
        self._frame.discard()
        for page in self._pages.values():
            page.close()
        menu = [] if self._menu is None else [self._menu.widget]
        for hidden in (*menu, *self._buttons.values()):
            close_widgets(hidden)

    # --- what is up --------------------------------------------------------------------------

    @property
    def _page(self) -> FormPage:
        """The page that is up, or that the other screens lead back to."""
        page = self._pages.get(self._draft.page)
        if page is None:
            page = FormPage(self._draft.asked, self._changed)
            self._pages[self._draft.page] = page
        return page

    def _reply_menu(self) -> ReplyMenu:
        if self._menu is None:
            self._menu = ReplyMenu()
            self._menu.area.observe(lambda _: self._changed(), names="value")
        return self._menu

    def _changed(self, anew: bool = True) -> None:
        if anew:  # what was said was about what stood there before
            self._say("")
        self._events.changed()

    def _draw(self) -> None:
        """Show what is up."""
        passed, self._fleeting = self._fleeting, None
        step = self._step()
        self._writing = False
        self._note.value = ""
        self._top.value = self._progress()
        self._body.children = (step.widget,)
        self._actions.children = (*self._row(step), *self._by)
        with self._beacon.hold_sync():  # what the page looks for comes at once, and last
            self._beacon.controls = list(step.model_ids)
            self._beacon.screen = _screen_class(step.widget)
            self._beacon.step = self._draft.step
        if passed is not None:
            close_widgets(passed)
        if self._draft.demanded:
            self._demand()

    def _row(self, step: _Step) -> list[widgets.Button]:
        return [self._button(name, primary=name == step.primary) for name in step.does]

    def _button(self, name: str, *, primary: bool) -> widgets.Button:
        made = self._buttons.get(name)
        if made is None:
            made = button("", partial(self._press, name), does=name)
            self._buttons[name] = made
        made.description = LABELS.get(name) or form_text.send_label(self._draft)
        made.button_style = "primary" if primary else ""
        (made.add_class if primary else made.remove_class)("jp-nb-primary")
        made.disabled = name == "back" and self._draft.is_first
        return made

    def _progress(self) -> str:
        """Return the line above: the label, where one is, and what it is about."""
        label, topic = (
            prompt_text.header(self._draft.asked),
            form_text.page_header(self._draft.asked),
        )
        on_page = self._draft.screen == "page"
        parts = [label, form_text.progress(self._draft) if on_page else None]
        said = "".join(f"<span>{isolated(part)}</span>" for part in parts if part)
        return f"{said}<b>{isolated(topic)}</b>" if topic and on_page else said

    def _step(self) -> _Step:
        match self._draft.screen:
            case "page":
                return self._page_step()
            case "summary":
                self._fleeting = summary_screen(self._draft)
                return _Step(self._fleeting, ["resume", "send"])
            case "menu":
                menu = self._reply_menu()
                return _Step(
                    menu.widget, ["reply", "stop", "resume"], "reply", [menu.area.model_id]
                )
            case "discard":
                self._fleeting = discard_screen()
                return _Step(self._fleeting, ["resume", "discard"])
            case other:
                assert_never(other)

    def _page_step(self) -> _Step:
        draft = self._draft
        does = [
            *(["back"] if len(self._prompt.pages) > 1 else []),
            *([] if draft.is_last else ["next"]),
            *(["submit"] if draft.can_submit else []),
            "cancel",
        ]
        primary = "submit" if draft.is_last else "next"
        return _Step(self._page.widget, does, primary, self._page.model_ids)

    # --- what the person does ----------------------------------------------------------------

    def _hear(self, _: Any, message: Message, __: Any) -> None:
        current = message.get("step", self._draft.step) == self._draft.step
        match message.get("type"):
            case "rendered":
                self._writing = False
                if current and self._shown != self._draft.step:
                    self._shown = self._draft.step
                    self._events.shown()
            case "writing":
                self._writing = message.get("value") is True
                self._events.changed()
            case str() as name if current:
                self._press(name, message)
            case _:
                self._say(form_text.STALE)

    def _press(self, name: str, message: Message | None = None) -> None:
        verb, _, place = name.partition("-")
        act = self._acts().get(verb)
        if act is None:
            log.debug("Unexpected message from the page of a form: %r", name)
            return
        self._events.changed()
        self._do(partial(act, {**(message or {}), "place": place}))

    def _do(self, act: Callable[[], None]) -> None:
        """Do what leads to another step, or to the end; if it fails, the form stays as it is."""
        before = self._draft.step
        try:
            act()
        except Exception as exc:
            log.exception("A form failed")
            self._say(form_text.FAILED.format(type(exc).__name__))
        if self._draft.end is not None:
            self._events.ended(self._draft.end)
        elif self._draft.step != before:
            self._turn()

    def _turn(self) -> None:
        """Show the next step. One that cannot be shown ends the form: nobody is left before it."""
        self._events.turned()
        try:
            self._draw()
        except Exception as exc:
            log.exception("A page of a form could not be shown")
            self._events.ended(Unavailable(f"the form failed: {error_summary(exc)}"))

    def _acts(self) -> Mapping[str, Act]:
        draft, resume = self._draft, self._resume
        match draft.screen:
            case "page":
                return {
                    "back": self._back,
                    "next": self._next,
                    **({"submit": self._submit} if draft.can_submit else {}),
                    "cancel": self._cancel,
                    "unchosen": self._unchosen,
                }
            case "summary":
                return {
                    "go": lambda told: draft.go(_place(told)),
                    "empty": lambda told: draft.confirm_empty(_place(told)),
                    "send": lambda _: draft.send(),
                    **dict.fromkeys(("resume", "cancel"), resume),
                    "unchosen": self._nothing_chosen,
                }
            case "menu":
                return {
                    **dict.fromkeys(("reply", "unchosen"), self._reply),
                    "stop": lambda _: draft.stop(),
                    **dict.fromkeys(("resume", "cancel"), resume),
                }
            case "discard":
                return {
                    "discard": lambda _: draft.discard(),
                    **dict.fromkeys(("resume", "cancel"), resume),
                    "unchosen": self._nothing_chosen,
                }
            case other:
                assert_never(other)

    def _next(self, message: Message) -> None:
        if self._leave(message):
            self._draft.next()

    def _submit(self, message: Message) -> None:
        if self._leave(message):
            self._draft.submit()

    def _back(self, message: Message) -> None:
        page = self._page
        self._draft.hold(page.read(page.told(message)).draft)
        page.say_nothing()
        self._draft.back()

    def _leave(self, message: Message) -> bool:
        """Keep what stands on the page; return False, and say why, if something is wrong there."""
        page = self._page
        reading = page.read(page.told(message))
        self._draft.hold(reading.draft)
        if not reading.draft.problem:
            page.say_nothing()
            return True
        page.say(reading)
        self._beacon.focus(max(0, min(reading.problems)))
        return False

    def _demand(self) -> None:
        """Say what is missing on the page to which Submit has led."""
        page = self._page
        reading = page.read(page.untold)
        page.say(reading)
        if not self._draft.pages[self._draft.page].problem:
            self._say(form_text.DEMANDED)

    def _cancel(self, message: Message) -> None:
        page = self._page
        told = page.told(message)
        entered = page.is_touched(told)
        reading = page.read(told).draft
        if reading.answer is not None and (entered or self._draft.pages[self._draft.page].answer):
            self._draft.hold(reading)
        self._draft.cancel(entered=entered)

    def _unchosen(self, message: Message) -> None:
        """A key went down on a page where nothing was touched since it came up."""
        primary = "submit" if self._draft.is_last else "next"
        if self._draft.pages[self._draft.page].answer is not None:  # it was sent before
            self._acts()[primary](message)
        else:
            self._say(form_text.UNTOUCHED.format(LABELS[primary]))

    def _reply(self, message: Message) -> None:
        value = message.get("value")
        words = value if isinstance(value, str) else self._reply_menu().text
        if words.strip():
            self._draft.reply(words)
        else:
            self._say(form_text.REPLY_IS_BLANK)
            self._beacon.focus(0)

    def _resume(self, _: Message) -> None:
        self._draft.resume()

    def _nothing_chosen(self, _: Message) -> None:
        self._say(prompt_text.NOTHING_CHOSEN)

    def _say(self, words: str) -> None:
        self._note.value = escape(words)


def _screen_class(widget: widgets.Widget) -> str:
    """Return the class by which the page finds `widget`."""
    name = f"jp-nb-screen-{widget.model_id}"
    widget.add_class(name)
    return name


def _place(message: Message) -> int:
    """Return the page that a button of the summary is about; -1 if it is none."""
    place = message.get("place")
    known = isinstance(place, str) and place.isascii() and place.isdigit() and len(place) < 4
    return int(str(place)) if known else -1
