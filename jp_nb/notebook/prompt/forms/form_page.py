"""One page of a form: a question, several fields, or a decision, with its current input.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.prompting.page_drafts import PageDraft
from jp_nb.agent.prompting.prompt_ends import Answered
from jp_nb.agent.prompting.prompts import ActionPrompt, QuestionPrompt, SimplePrompt
from jp_nb.notebook.prompt.controls.controls import make_action_buttons
from jp_nb.notebook.prompt.controls.form_control import FormControl, FormMessage, NoValidAnswer
from jp_nb.notebook.prompt.controls.form_widgets import isolate_direction, make_box, make_text
from jp_nb.notebook.prompt.controls.widget_sharing import SharedLook, close_widgets
from jp_nb.notebook.prompt.forms.decision_exhibits import make_decision_details, make_items
from jp_nb.notebook.prompt.forms.decision_items import DecisionItem
from jp_nb.notebook.prompt.forms.form_field import FormField
from jp_nb.notebook.prompt.forms.form_heads import make_question_head
from jp_nb.rendering.prompt_texts import form_text, prompt_text
from jp_nb.text import upper_first
from jp_nb.toolkit.question import FormAnswer
from jp_nb.toolkit.question_types.form_answer import REQUIRED

log = logging.getLogger(__name__)

ALL_FIELDS = -1
"""Key of a problem that concerns the whole page."""


@dataclass(frozen=True, slots=True)
class PageInput:
    """The current input of a page.

    Attributes:
        draft: The answer of the page, or the error of its input.
        problems: Messages to the user by the number of the field, or by `ALL_FIELDS`. A page whose
            question may stay open also has one, which is shown if the user submits the page.
        confirmable: The numbers of fields that are empty. If the user submits the page once more,
            they give an empty answer.
    """

    draft: PageDraft
    problems: Mapping[int, str] = field(default_factory=dict)
    confirmable: frozenset[int] = frozenset()


NO_PROBLEMS: Final = PageInput(PageDraft())

NO_CHOICE_MADE: Final = PageInput(PageDraft(), {0: prompt_text.NO_BUTTON_CHOSEN})
"""Input of a page whose buttons answer at once."""


class FormPage:
    """One page of a form. It keeps its content while other pages are visible.

    After each change by the user it calls `changed`: with True, or with False if the last click
    already reported it. With `in_form`, the prompt is a form, where no control answers at once.

    A click has a message with the state of each control. `read_and_keep` makes of it the input of
    the page (`PageInput`): an answer, a problem, or neither if the question stays open.

    Attributes:
        fields: One field for each answer; empty for a decision.
        choices: Buttons that answer at once; None if the user submits the page.
        items: The parts of a decision that the user can exclude, by key.
        widget: The box with all widgets of the page but its buttons.
    """

    def __init__(
        self, prompt: SimplePrompt, changed: Callable[[bool], None], *, in_form: bool
    ) -> None:
        self._form: FormAnswer | None = None  # the answer type of a question with several fields
        self._problem = make_text("", "problem")  # of all fields together
        self.fields: list[FormField] = []
        self.choices: FormControl | None = None
        self.items: dict[str, DecisionItem] = {}
        self._look = SharedLook()  # of the many widgets of a decision

        if isinstance(prompt, ActionPrompt):
            self.choices = make_action_buttons(prompt)
            self.items = make_items(prompt, lambda: changed(True), self._look)
            inputs = [*make_decision_details(prompt, self.items, self._look)]
        else:
            self._add_fields(prompt, changed, in_form=in_form)
            inputs = [form_field.widget for form_field in self.fields]

        self.widget = make_box("page", *make_question_head(prompt), *inputs, self._problem)

    def _add_fields(
        self, prompt: QuestionPrompt, changed: Callable[[bool], None], *, in_form: bool
    ) -> None:
        """Add the fields of a question with several ones, or the control of any other question."""
        kind = prompt.question.answer_type
        if isinstance(kind, FormAnswer):
            self._form = kind

        named = self._form is not None
        for question in prompt.fields:
            self.fields.append(FormField(question, changed, named=named, in_form=in_form or named))

        only_control = self.fields[0].control if len(self.fields) == 1 else None
        if only_control is not None and only_control.buttons is not None:
            self.choices = only_control

    def use_stock_views(self, *, stock: bool) -> None:
        """Show all controls with stock widgets alone, or with their own widgets again."""
        for form_field in self.fields:
            form_field.use_stock_view(stock=stock)

    def is_touched(self, message: FormMessage) -> bool:
        """Return True if the user entered something, as the widgets or `message` show."""
        return any(form_field.is_touched(report) for form_field, report in self._split(message))

    def _split(self, message: FormMessage) -> Iterable[tuple[FormField, FormMessage]]:
        """Return each field with its part of `message`, which has one for each field with a widget.

        A field reads its widget if its part is empty.
        """
        with_widget = [
            form_field for form_field in self.fields if form_field.control.widget is not None
        ]
        reports = dict(zip(with_widget, split_reports(message, len(with_widget)), strict=True))
        return [(form_field, reports.get(form_field, {})) for form_field in self.fields]

    def read_picks(self, message: FormMessage) -> frozenset[str] | None:
        """Return the keys of the checked items; None if the page has no items."""
        if not self.items:
            return None

        reports = split_reports(message, len(self.items))
        pairs = zip(self.items.items(), reports, strict=True)
        return frozenset(key for (key, item), report in pairs if item.read_report(report))

    def show_problems(self, reading: PageInput) -> None:
        """Show the errors of `reading`. The next click confirms empty values."""
        for number, form_field in enumerate(self.fields):
            problem = reading.problems.get(number, "")
            is_confirmed = bool(problem) and number in reading.confirmable
            form_field.show_problem(problem, confirm=is_confirmed)

        self._problem.value = isolate_direction(upper_first(reading.problems.get(ALL_FIELDS, "")))

    def read_and_keep(self, message: FormMessage) -> PageInput:
        """Return the input of the page, as reported in `message`. Its fields keep it."""
        if self._form is not None:
            return self._read_fields(self._form, message)
        if self.choices is not None:
            return NO_CHOICE_MADE

        [form_field] = self.fields
        return _read_only_field(form_field, message)

    def _read_fields(self, form: FormAnswer, message: FormMessage) -> PageInput:
        """Return the values of all fields as one answer, if each of them fits.

        Blank fields leave the question open. Invalid or partial input is an error.
        """
        values: dict[str, JsonValue] = {}
        problems: dict[int, str] = {}
        confirmable = set[int]()
        has_invalid = False

        for number, (form_field, report) in enumerate(self._split(message)):
            result = _read_field(form, form_field, report)
            if result is None:
                continue

            question = form_field.prompt.question
            if isinstance(result, Answered):
                values[question.id] = result.value
                continue

            problems[number] = result.why
            has_invalid = has_invalid or not result.may_stay_open
            if question.required and result.confirmable:
                confirmable.add(number)

        if problems:
            is_partial = bool(values) and self.is_touched(message)
            is_open = not has_invalid and not is_partial
            draft = PageDraft() if is_open else PageDraft(problem=next(iter(problems.values())))
            return PageInput(draft, problems, frozenset(confirmable))

        return self._validate(form, values)

    def _validate(self, form: FormAnswer, values: dict[str, JsonValue]) -> PageInput:
        """Check all values together, also with the check of the tool."""
        numbers = {question.id: number for number, question in enumerate(form.fields)}
        problems: dict[int, str] = {}

        try:
            problems_by_name = form.problems(values)
        except Exception as exc:  # the check is the tool's code; the form must stay usable
            log.exception("The check of a form failed")
            problems_by_name = {"": form_text.UNCHECKED.format(type(exc).__name__)}

        for name, why in problems_by_name.items():
            number = numbers.get(name, ALL_FIELDS)
            problems[number] = f"{problems[number]} {why}" if number in problems else why

        if problems:
            return PageInput(PageDraft(problem=next(iter(problems.values()))), problems)

        return PageInput(PageDraft(Answered(values, "form")))

    def close(self) -> None:
        """Close all widgets of the page."""
        close_widgets(self.widget)
        for form_field in self.fields:
            form_field.close()
        self._look.close()


def _read_only_field(form_field: FormField, message: FormMessage) -> PageInput:
    """Return the input of a page with a single question."""
    result = form_field.read_and_keep(message)
    if isinstance(result, Answered):
        return PageInput(PageDraft(result))

    if result.may_stay_open:
        # The summary of a form offers to send the empty answer, if it is valid.
        draft = PageDraft(empty=form_field.read_as_empty(message))
    else:
        draft = PageDraft(problem=result.why)

    confirmable = frozenset[int]((0,)) if result.confirmable else frozenset[int]()
    return PageInput(draft, {0: result.why}, confirmable)


def _read_field(
    form: FormAnswer, form_field: FormField, report: FormMessage
) -> Answered | NoValidAnswer | None:
    """Return the value or the error of a field; None if it is optional and left empty.

    A required field that is left empty is an error, which the user may confirm if the empty answer
    is valid.
    """
    result = form_field.read_and_keep(report)
    if isinstance(result, Answered):
        return result

    empty = form_field.read_as_empty(report)
    if form_field.prompt.question.required:
        if result.may_stay_open and empty is None:
            return NoValidAnswer(REQUIRED, may_stay_open=True)
        return result

    if not result.may_stay_open:
        return result

    # A deleted proposal is an empty answer, if that is valid and kept.
    is_proposed = prompt_text.get_preselected(form_field.prompt) is not None
    if is_proposed and form.keeps_cleared:
        return empty

    return None


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
