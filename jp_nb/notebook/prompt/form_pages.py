"""Form with several pages, one for each question, and a summary before it is sent.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from html import escape
from typing import Final, assert_never

import ipywidgets as widgets
from pydantic import JsonValue

from jp_nb.agent.form_draft import FormDraft, PageDraft
from jp_nb.agent.prompts import Answered, FormPrompt, QuestionPrompt, Unavailable
from jp_nb.notebook.prompt.controls import FormMessage, NoValidAnswer, SecretField, question_control
from jp_nb.notebook.prompt.form import (
    FormAction,
    FormContext,
    PromptForm,
    action_row,
    box,
    button,
    close_widgets,
    field_description,
    html,
    isolate_direction,
    question_head,
    split_reports,
    text,
)
from jp_nb.notebook.prompt.form_messages import guard_widgets
from jp_nb.rendering import prompt_text
from jp_nb.rendering.prompt_text import SummaryLine
from jp_nb.text import upper_first
from jp_nb.toolkit.question import REQUIRED, FormAnswer
from jp_nb.toolkit.tool_errors import error_summary

log = logging.getLogger(__name__)

ALL_FIELDS = -1
"""Key of a problem that concerns the whole page."""


@dataclass(frozen=True, slots=True)
class _PageInput:
    """The current input of a page, with messages by number of the field or `ALL_FIELDS`.

    The `confirmable` fields give an empty answer after the user confirms it.
    """

    draft: PageDraft
    problems: Mapping[int, str] = field(default_factory=dict)
    confirmable: frozenset[int] = frozenset()


NO_PROBLEMS: Final = _PageInput(PageDraft())


class _Field:
    """A control with its error message. If it is `named`, its question is shown above it.

    After each change it calls `changed`: with True, or with False if the last click reported it.
    """

    def __init__(
        self, prompt: QuestionPrompt, changed: Callable[[bool], None], *, named: bool
    ) -> None:
        self.prompt = prompt
        self.control = question_control(prompt, in_form=True)
        self.problem = text("", "problem")
        self.touched = False
        self._changed = changed
        self._confirmed = False  # whether the user confirmed an empty answer
        self._reported: FormMessage = {}
        self._secret: Answered | None = None
        head = _field_head(prompt) if named else ()
        entry = [] if self.control.widget is None else [self.control.widget]
        self.widget = box("field", *head, *entry, self.problem)

        if prompt.question.required:
            self.widget.add_class("jp-nb-needed")

        self._untouched = self.control.read({})
        self.control.observe(self._on_change)

    def read_and_keep(self, reported: FormMessage) -> Answered | NoValidAnswer:
        """Return the reported value, and keep the report and a secret for later reads."""
        self._reported = reported
        found = self.control.read({**reported, "confirmed": self._confirmed})
        widget = self.control.widget
        if isinstance(widget, SecretField):
            return self._keep_secret(widget, found)

        return found

    def _keep_secret(
        self, widget: SecretField, found: Answered | NoValidAnswer
    ) -> Answered | NoValidAnswer:
        # An empty password field means the secret that was sent before.
        if isinstance(found, Answered):
            self._secret = found
            widget.hint = prompt_text.SECRET_KEPT
        elif found.blank and self._secret is not None:
            return self._secret

        return found

    def read_as_empty(self, reported: FormMessage) -> Answered | None:
        found = self.control.read({**reported, "confirmed": True})
        return found if isinstance(found, Answered) else None

    def is_touched(self, reported: FormMessage) -> bool:
        return self.touched or self.control.read(reported) != self._untouched

    def show_problem(self, words: str, *, confirm: bool = False) -> None:
        """Show an error; "" removes it. With `confirm`, the next click confirms an empty value."""
        self.problem.value = isolate_direction(upper_first(words))
        self._confirmed = confirm

    def _on_change(self) -> None:
        self.touched = True
        is_new = not self.control.matches(self._reported)
        if is_new:  # the message was about the previous content
            self.show_problem("")
        self._changed(is_new)


class _Page:
    """One page of a form. It keeps its content while other pages are visible."""

    def __init__(self, prompt: QuestionPrompt, changed: Callable[[bool], None]) -> None:
        kind = prompt.question.answer_type
        self._form = kind if isinstance(kind, FormAnswer) else None
        self._problem = text("", "problem")  # of all fields together
        named = self._form is not None
        below = [self._problem] if named else []
        self.fields = [_Field(each, changed, named=named) for each in prompt.fields]
        inputs = [each.widget for each in self.fields]
        self.widget = box("page", *question_head(prompt), *inputs, *below)

    def is_touched(self, message: FormMessage) -> bool:
        """Return True if the user entered something, as the widgets or `message` show."""
        return any(each.is_touched(one) for each, one in self._split(message))

    def _split(self, message: FormMessage) -> Iterable[tuple[_Field, FormMessage]]:
        # The state of the widget replaces what the page did not report.
        with_widget = [each for each in self.fields if each.control.widget is not None]
        reports = dict(zip(with_widget, split_reports(message, len(with_widget)), strict=True))
        return [(each, reports.get(each, {})) for each in self.fields]

    def show_problems(self, reading: _PageInput) -> None:
        """Show the errors of `reading`. The next click confirms empty values."""
        for number, each in enumerate(self.fields):
            words = reading.problems.get(number, "")
            each.show_problem(words, confirm=bool(words) and number in reading.confirmable)
        self._problem.value = isolate_direction(upper_first(reading.problems.get(ALL_FIELDS, "")))

    def read_and_keep(self, message: FormMessage) -> _PageInput:
        """Return the input of the page, as reported in `message`. Its fields keep it."""
        if self._form is not None:
            return self._read_fields(self._form, message)

        [each] = self.fields
        found = each.read_and_keep(message)
        if isinstance(found, Answered):
            return _PageInput(PageDraft(found))

        empty = each.read_as_empty(message)
        draft = PageDraft(empty=empty) if found.blank else PageDraft(problem=found.why)
        confirmable = frozenset[int]() if empty is None else frozenset((0,))
        return _PageInput(draft, {0: found.why}, confirmable)

    def _read_fields(self, form: FormAnswer, message: FormMessage) -> _PageInput:
        values: dict[str, JsonValue] = {}
        problems: dict[int, str] = {}
        confirmable = set[int]()
        wrong = False

        for number, (each, reported) in enumerate(self._split(message)):
            found = _read_field(form, each, reported)
            if found is None:
                continue

            question = each.prompt.question
            if isinstance(found, Answered):
                values[question.id] = found.value
                continue

            problems[number] = found.why
            wrong = wrong or not found.blank
            if question.required and each.read_as_empty(reported) is not None:
                confirmable.add(number)

        if problems:
            # Blank fields leave the question open. Invalid or partial input is an error.
            is_open = not wrong and not (values and self.is_touched(message))
            draft = PageDraft() if is_open else PageDraft(problem=next(iter(problems.values())))
            return _PageInput(draft, problems, frozenset(confirmable))

        return self._validate(form, values)

    def _validate(self, form: FormAnswer, values: dict[str, JsonValue]) -> _PageInput:
        numbers = {each.id: number for number, each in enumerate(form.fields)}
        problems: dict[int, str] = {}

        try:
            found = form.problems(values)
        except Exception as exc:  # the check is the tool's code; the form must stay usable
            log.exception("The check of a form failed")
            found = {"": prompt_text.UNCHECKED.format(type(exc).__name__)}

        for name, why in found.items():
            number = numbers.get(name, ALL_FIELDS)
            problems[number] = f"{problems[number]} {why}" if number in problems else why

        if problems:
            return _PageInput(PageDraft(problem=next(iter(problems.values()))), problems)

        return _PageInput(PageDraft(Answered(values, "form")))

    def close(self) -> None:
        close_widgets(self.widget)
        close_widgets(self._problem)  # not part of `widget` for a single field


def _read_field(
    form: FormAnswer, each: _Field, reported: FormMessage
) -> Answered | NoValidAnswer | None:
    """Return the value or the error of a field; None if it is optional and left empty."""
    found = each.read_and_keep(reported)
    if isinstance(found, Answered):
        return found

    empty = each.read_as_empty(reported)
    if each.prompt.question.required:
        if found.blank and empty is None:
            return NoValidAnswer(REQUIRED, blank=True)

        return found

    if not found.blank:
        return found

    # A deleted proposal is an empty answer, if that is valid and kept.
    is_proposed = prompt_text.get_preselected(each.prompt) is not None
    if is_proposed and form.keeps_cleared:
        return empty

    return None


def _field_head(prompt: QuestionPrompt) -> Iterator[widgets.Widget]:
    name = isolate_direction(prompt_text.format_question(prompt))
    if prompt.question.required:
        name += ' <span class="jp-nb-mark" aria-hidden="true">*</span>'

    yield html(name, "field-name")
    if (address := prompt_text.find_address(prompt)) is not None:
        yield html(prompt_text.render_address(address), "address")

    yield from field_description(prompt)
    if hint := prompt_text.make_editable_text(prompt).hint:
        yield text(hint, "hint")


def _summary_row(number: int, line: SummaryLine) -> str:
    # The rows are HTML of one widget, because many widgets are slow.
    change = prompt_text.ANSWER_LABEL if line.is_open else prompt_text.CHANGE_LABEL
    buttons = [_inner_button(f"go-{number}", change, line.asked)]
    if line.empty is not None:
        buttons.append(_inner_button(f"empty-{number}", line.empty, line.asked))

    state = ' class="jp-nb-open"' if line.is_open else ""
    return (
        f"<li{state}><div><span>{number + 1}. {isolate_direction(line.asked)}</span>"
        f"<b>{isolate_direction(line.answer)}</b></div><div>{''.join(buttons)}</div></li>"
    )


def _inner_button(does: str, label: str, about: str) -> str:
    name = escape(f"{label}: {about}")
    return (
        f'<button type="button" class="jupyter-button jp-nb-do-{does}" aria-label="{name}">'
        f"{escape(label)}</button>"
    )


LABELS: Final = {
    "back": prompt_text.BACK_LABEL,
    "next": prompt_text.NEXT_LABEL,
    "submit": prompt_text.SUBMIT_LABEL,
    "decline": prompt_text.DECLINE_LABEL,
    "cancel": prompt_text.CANCEL_LABEL,
    "discard": prompt_text.DISCARD_LABEL,
    "reply": prompt_text.REPLY_BUTTON_LABEL,
    "stop": prompt_text.STOP_TURN_LABEL,
    "resume": prompt_text.BACK_LABEL,
}
"""Label of each button, by its action. The label of `send` depends on the answers."""


class PagedForm(PromptForm):
    """A form with several questions.

    A page is created when it is first shown, and keeps its content while other pages are visible.
    """

    def __init__(self, prompt: FormPrompt, context: FormContext) -> None:
        first = prompt.pages[0]
        title = prompt_text.format_header(first) or prompt_text.format_page_header(first)
        super().__init__(prompt, title, context)
        self._prompt = prompt
        self._draft = FormDraft(prompt, "form")
        self._pages: dict[int, _Page] = {}
        self._temporary: widgets.Widget | None = None  # closed when another step is shown
        self._buttons: dict[str, widgets.Button] = {}  # created on first use
        self._menu: widgets.VBox | None = None  # created on first use
        self._top = html("", "progress")
        self._body = box("body")
        self._row = action_row(first, ())
        self._asked_by = self._row.children
        self._form.children = [self._top, self._body, self._bridge, self._note, self._row]
        self._draw()

    @property
    def _step(self) -> int:
        return self._draft.step

    def _is_busy(self) -> bool:
        match self._draft.screen:
            case "page":
                return self._writing or any(each.control.in_use() for each in self._page.fields)
            case "menu":
                return self._writing or bool(self._reply_box.value.strip())
            case _:
                return False

    def _expire(self) -> None:
        # Keep the page's answer and turn to the next page.
        page = self._page
        picked = page.read_and_keep({}).draft.answer if page.is_touched({}) else None
        self._run_action(lambda: self._draft.expire(picked))
        if self._draft.end is None:
            self._show_note(prompt_text.TIME_WENT)

    def discard(self) -> None:
        """Close all widgets, including those of hidden pages."""
        super().discard()
        for page in self._pages.values():
            page.close()

        if self._menu is not None:
            close_widgets(self._menu)

        for hidden in self._buttons.values():
            close_widgets(hidden)

    @property
    def _page(self) -> _Page:
        # The current page, also while another screen covers it.
        number = self._draft.page
        if number not in self._pages:
            self._pages[number] = _Page(self._draft.asked, self._changed)
        return self._pages[number]

    @cached_property
    def _reply_box(self) -> widgets.Textarea:
        reply_box = widgets.Textarea(rows=3)
        reply_box.add_class("jp-nb-control")
        reply_box.observe(lambda _: self._changed(), names="value")
        return reply_box

    def _make_menu(self) -> widgets.VBox:
        label = text(prompt_text.REPLY_LABEL, "field-name")
        return box(
            "page",
            text(prompt_text.MENU_QUESTION, "question"),
            text(prompt_text.MENU_HINT, "hint"),
            box("field", label, self._reply_box),
        )

    def _changed(self, is_new: bool = True) -> None:
        if is_new:  # the message was about the previous content
            self._show_note("")
        self._clock.restart()

    def _draw(self) -> None:
        match self._draft.screen:
            case "page":
                self._draw_page()
            case "summary":
                self._draw_summary()
            case "menu":
                self._draw_menu()
            case "discard":
                self._draw_discard()
            case other:
                assert_never(other)

    def _draw_page(self) -> None:
        draft = self._draft
        page = self._page
        buttons: dict[str, FormAction] = {}
        if len(self._prompt.pages) > 1:
            buttons["back"] = self._back

        if not draft.is_last:
            buttons["next"] = lambda message: self._leave_page(message, draft.next)

        if draft.can_submit:
            buttons["submit"] = lambda message: self._leave_page(message, draft.submit)

        if self._prompt.declines:
            buttons["decline"] = self._decline

        buttons["cancel"] = self._cancel
        primary = "submit" if draft.is_last else "next"
        controls = [each.control for each in page.fields]
        self._show_step(
            page.widget,
            buttons,
            {"unchosen": self._submit_untouched},
            primary=primary,
            controls=[control.model_id for control in controls if control.widget is not None],
        )
        if draft.demanded:
            reading = page.read_and_keep({})
            page.show_problems(reading)
            if not reading.problems:
                self._show_note(prompt_text.DEMANDED)

    def _draw_summary(self) -> None:
        draft = self._draft
        lines = enumerate(prompt_text.summarize_form(draft))
        rows = [_summary_row(number, line) for number, line in lines]
        screen = box(
            "page",
            text(prompt_text.get_summary_heading(draft), "question"),
            html(f"<ol>{''.join(rows)}</ol>", "summary"),
        )
        buttons: dict[str, FormAction] = {
            "resume": self._resume,
            "send": lambda _: draft.send(),
        }
        others: dict[str, FormAction] = {
            "go": lambda message: draft.go(_parse_page_number(message)),
            "empty": lambda message: draft.confirm_empty(_parse_page_number(message)),
            "cancel": self._resume,
            "unchosen": self._report_no_choice,
        }
        self._show_step(screen, buttons, others, is_kept=False)

    def _draw_menu(self) -> None:
        if self._menu is None:
            self._menu = self._make_menu()

        buttons: dict[str, FormAction] = {
            "reply": self._reply,
            "stop": lambda _: self._draft.stop(),
            "resume": self._resume,
        }
        self._show_step(
            self._menu,
            buttons,
            {"cancel": self._resume, "unchosen": self._reply},
            primary="reply",
            controls=[self._reply_box.model_id],
        )

    def _draw_discard(self) -> None:
        screen = box("page", text(prompt_text.DISCARD_WARNING, "question"))
        buttons: dict[str, FormAction] = {
            "resume": self._resume,
            "discard": lambda _: self._draft.discard(),
        }
        others = {"cancel": self._resume, "unchosen": self._report_no_choice}
        self._show_step(screen, buttons, others, is_kept=False)

    def _show_step(
        self,
        widget: widgets.Widget,
        buttons: Mapping[str, FormAction],
        others: Mapping[str, FormAction],
        *,
        primary: str = "",
        controls: Sequence[str] = (),
        is_kept: bool = True,
    ) -> None:
        """Show `widget` with `buttons`. `others` are actions without a button; Enter is `primary`.

        `controls` are the ids of its models. If it `is_kept`, it may be shown again later.
        """
        previous = self._temporary
        self._temporary = None if is_kept else widget
        self._actions = {**others, **buttons}
        self._writing = False
        self._note.value = ""
        self._top.value = self._progress()
        widget.add_class(f"jp-nb-screen-{widget.model_id}")
        self._body.children = (widget,)
        row = [self._button(name, primary=name == primary) for name in buttons]
        self._row.children = (*row, *self._asked_by)
        guard_widgets(self.widget)

        with self._bridge.hold_sync():  # send one message, after those of the new widgets
            self._bridge.controls = list(controls)
            self._bridge.screen = f"jp-nb-screen-{widget.model_id}"
            self._bridge.step = self._draft.step

        if previous is not None:
            close_widgets(previous)

    def _button(self, name: str, *, primary: bool) -> widgets.Button:
        if name not in self._buttons:
            self._buttons[name] = button("", partial(self._press, name), does=name)

        made = self._buttons[name]
        made.description = self._label(name)
        made.button_style = "primary" if primary else ""
        if primary:
            made.add_class("jp-nb-primary")
        else:
            made.remove_class("jp-nb-primary")
        made.disabled = name == "back" and self._draft.is_first

        return made

    def _label(self, name: str) -> str:
        if name == "send":
            return (
                prompt_text.SEND_AS_IS_LABEL
                if self._draft.open_pages
                else prompt_text.SEND_ALL_LABEL
            )
        if name == "submit" and len(self._prompt.pages) == 1:
            return prompt_text.get_submit_label(self._prompt.pages[0])
        return LABELS[name]

    def _progress(self) -> str:
        asked = self._draft.asked
        on_page = self._draft.screen == "page"
        label = prompt_text.format_header(asked)
        topic = prompt_text.format_page_header(asked)
        progress = prompt_text.format_progress(self._draft) if on_page else None
        parts = [label, progress]
        said = "".join(f"<span>{isolate_direction(part)}</span>" for part in parts if part)

        return f"{said}<b>{isolate_direction(topic)}</b>" if topic and on_page else said

    def _run_action(self, act: Callable[[], None]) -> None:
        before = self._draft.step
        super()._run_action(act)
        if self._draft.end is not None:
            self._finish(self._draft.end)
        elif self._draft.step != before:
            self._begin_step()
            try:
                self._draw()
            except Exception as exc:  # the user could not answer it, so the form ends
                log.exception("A page of a form could not be shown")
                self._finish(Unavailable(f"the form failed: {error_summary(exc)}"))

    def _back(self, message: FormMessage) -> None:
        self._draft.hold(self._page.read_and_keep(message).draft)
        self._page.show_problems(NO_PROBLEMS)
        self._draft.back()

    def _leave_page(self, message: FormMessage, go: Callable[[], None]) -> None:
        page = self._page
        reading = page.read_and_keep(message)
        self._draft.hold(reading.draft)
        if reading.draft.problem:
            page.show_problems(reading)
            first = min(reading.problems)
            self._bridge.focus(0 if first == ALL_FIELDS else first)
        else:
            page.show_problems(NO_PROBLEMS)
            go()

    def _cancel(self, message: FormMessage) -> None:
        page = self._page
        entered = page.is_touched(message)
        reading = page.read_and_keep(message).draft
        if reading.answer is not None and (entered or self._draft.pages[self._draft.page].answer):
            self._draft.hold(reading)
        self._draft.cancel(entered=entered)

    def _decline(self, message: FormMessage) -> None:
        self._page.show_problems(NO_PROBLEMS)
        self._draft.decline(entered=self._page.is_touched(message))

    def _resume(self, _: FormMessage) -> None:
        self._draft.resume()

    def _submit_untouched(self, message: FormMessage) -> None:
        # A key submitted the page, but the user changed nothing on it.
        primary = "submit" if self._draft.is_last else "next"
        if self._draft.pages[self._draft.page].answer is not None:  # answered before
            self._actions[primary](message)
        else:
            self._show_note(prompt_text.UNTOUCHED.format(self._label(primary)))

    def _reply(self, message: FormMessage) -> None:
        value = message.get("value")
        words = value if isinstance(value, str) else str(self._reply_box.value)
        if words.strip():
            self._draft.reply(words)
        else:
            self._show_note(prompt_text.REPLY_IS_BLANK)
            self._bridge.focus(0)

    def _report_no_choice(self, _: FormMessage) -> None:
        self._show_note(prompt_text.NO_BUTTON_CHOSEN)


def _parse_page_number(message: FormMessage) -> int:
    place = str(message.get("place"))
    return int(place) if re.fullmatch("[0-9]{1,3}", place) else -1
