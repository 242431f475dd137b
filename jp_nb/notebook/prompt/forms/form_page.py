"""One page of a form: the widgets of a question, of several fields, or of a decision.

`page_input.py` makes the input of the page from the widgets and the message of a click.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jp_nb.agent.prompting.prompts import ActionPrompt, QuestionPrompt, SimplePrompt
from jp_nb.notebook.prompt.controls.controls import make_action_buttons
from jp_nb.notebook.prompt.controls.form_control import FormControl, FormMessage
from jp_nb.notebook.prompt.controls.form_widgets import isolate_direction, make_box, make_text
from jp_nb.notebook.prompt.controls.widget_closing import close_widgets
from jp_nb.notebook.prompt.controls.widget_sharing import SharedLook
from jp_nb.notebook.prompt.forms.decision_exhibits import make_decision_details, make_items
from jp_nb.notebook.prompt.forms.decision_items import DecisionItem
from jp_nb.notebook.prompt.forms.form_field import FormField
from jp_nb.notebook.prompt.forms.form_heads import make_question_head
from jp_nb.notebook.prompt.forms.page_input import (
    ALL_FIELDS,
    NO_CHOICE_MADE,
    FieldReport,
    PageInput,
    read_page_fields,
    read_single_field,
)
from jp_nb.text import upper_first
from jp_nb.toolkit.question import FormAnswer


class FormPage:
    """One page of a form. It keeps its content while other pages are visible.

    A click on a button has a message with the state of each control. `read_and_keep` returns the
    input of the page (`PageInput`): an answer, a problem, or neither if the question stays open.

    The page calls `changed` after each change of a control: with True for new input, and with False
    for the late update of a widget whose state the last click already had.

    With `in_form`, it is a page of a form, where no control answers at once.

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

        # Fields of one page need their names, and a button that sends them together.
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

    def _split(self, message: FormMessage) -> list[FieldReport]:
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
            return read_page_fields(self._form, self._split(message))
        if self.choices is not None:
            return NO_CHOICE_MADE

        [form_field] = self.fields
        return read_single_field(form_field, message)

    def close(self) -> None:
        """Close all widgets of the page."""
        close_widgets(self.widget)
        for form_field in self.fields:
            form_field.close()
        self._look.close()


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
