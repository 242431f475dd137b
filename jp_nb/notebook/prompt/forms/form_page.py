"""One page of a form: a question, several fields, or a decision, with its current input.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.prompting.form_draft import PageDraft
from jp_nb.agent.prompting.prompt_ends import Answered
from jp_nb.agent.prompting.prompts import ActionPrompt, SimplePrompt
from jp_nb.notebook.prompt.controls.controls import make_action_buttons
from jp_nb.notebook.prompt.controls.form_control import FormControl, FormMessage, NoValidAnswer
from jp_nb.notebook.prompt.controls.form_widgets import (
    close_widgets,
    isolate_direction,
    make_box,
    make_text,
)
from jp_nb.notebook.prompt.forms.decision_items import DecisionItem
from jp_nb.notebook.prompt.forms.form_field import FormField
from jp_nb.notebook.prompt.forms.form_heads import make_decision_details, make_question_head
from jp_nb.rendering.prompt_texts import form_text, prompt_text
from jp_nb.text import upper_first
from jp_nb.toolkit.question import FormAnswer
from jp_nb.toolkit.question_types.form_answer import REQUIRED

log = logging.getLogger(__name__)

ALL_FIELDS = -1
"""Key of a problem that concerns the whole page."""


@dataclass(frozen=True, slots=True)
class PageInput:
    """The current input of a page, with messages by number of the field or `ALL_FIELDS`.

    The `confirmable` fields give an empty answer after the user confirms it.
    """

    draft: PageDraft
    problems: Mapping[int, str] = field(default_factory=dict)
    confirmable: frozenset[int] = frozenset()


NO_PROBLEMS: Final = PageInput(PageDraft())

NO_CHOICE_MADE: Final = PageInput(PageDraft(), {0: prompt_text.NO_BUTTON_CHOSEN})
"""Input of a page whose buttons answer at once."""


class FormPage:
    """One page of a form. It keeps its content while other pages are visible.

    Attributes:
        fields: One for each answer; empty for a decision.
        choices: Buttons that answer at once; None if the user submits the page.
        items: The parts of a decision that the user can leave out, by key.
        widget: The box with all widgets of the page but its buttons.
    """

    def __init__(
        self, prompt: SimplePrompt, changed: Callable[[bool], None], *, in_form: bool
    ) -> None:
        self._form: FormAnswer | None = None
        self._problem = make_text("", "problem")  # of all fields together
        self.fields: list[FormField] = []
        self.choices: FormControl | None = None
        self.items: dict[str, DecisionItem] = {}

        if isinstance(prompt, ActionPrompt):
            self.choices = make_action_buttons(prompt)
            self.items = {
                detail.item.key: DecisionItem(detail.item, lambda: changed(True))
                for detail in prompt.exhibits
                if detail.item is not None
            }
            self.widget = make_box(
                "page",
                *make_question_head(prompt),
                *make_decision_details(prompt, self.items),
                self._problem,
            )
            return

        kind = prompt.question.answer_type
        if isinstance(kind, FormAnswer):
            self._form = kind

        named = self._form is not None
        for each in prompt.fields:
            self.fields.append(FormField(each, changed, named=named, in_form=in_form or named))

        first = self.fields[0].control if len(self.fields) == 1 else None
        if first is not None and first.buttons is not None:
            self.choices = first

        inputs = [each.widget for each in self.fields]
        self.widget = make_box("page", *make_question_head(prompt), *inputs, self._problem)

    def use_stock_views(self, *, stock: bool) -> None:
        """Show all controls with stock widgets alone, or with their own widgets again."""
        for each in self.fields:
            each.use_stock_view(stock=stock)

    def is_touched(self, message: FormMessage) -> bool:
        """Return True if the user entered something, as the widgets or `message` show."""
        return any(each.is_touched(one) for each, one in self._split(message))

    def _split(self, message: FormMessage) -> Iterable[tuple[FormField, FormMessage]]:
        # The state of the widget replaces what the page did not report.
        with_widget = [each for each in self.fields if each.control.widget is not None]
        reports = dict(zip(with_widget, split_reports(message, len(with_widget)), strict=True))
        return [(each, reports.get(each, {})) for each in self.fields]

    def read_picks(self, message: FormMessage) -> frozenset[str] | None:
        """Return the keys of the checked items; None if the page has no items."""
        if not self.items:
            return None

        reports = split_reports(message, len(self.items))
        pairs = zip(self.items.items(), reports, strict=True)
        return frozenset(key for (key, item), report in pairs if item.read_report(report))

    def show_problems(self, reading: PageInput) -> None:
        """Show the errors of `reading`. The next click confirms empty values."""
        for number, each in enumerate(self.fields):
            words = reading.problems.get(number, "")
            each.show_problem(words, confirm=bool(words) and number in reading.confirmable)
        self._problem.value = isolate_direction(upper_first(reading.problems.get(ALL_FIELDS, "")))

    def read_and_keep(self, message: FormMessage) -> PageInput:
        """Return the input of the page, as reported in `message`. Its fields keep it."""
        if self._form is not None:
            return self._read_fields(self._form, message)

        if self.choices is not None:
            return NO_CHOICE_MADE

        [each] = self.fields
        found = each.read_and_keep(message)
        if isinstance(found, Answered):
            return PageInput(PageDraft(found))

        empty = each.read_as_empty(message)
        draft = PageDraft(empty=empty) if found.blank else PageDraft(problem=found.why)
        confirmable = frozenset[int]((0,)) if found.confirmable else frozenset[int]()
        return PageInput(draft, {0: found.why}, confirmable)

    def _read_fields(self, form: FormAnswer, message: FormMessage) -> PageInput:
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
            if question.required and found.confirmable:
                confirmable.add(number)

        if problems:
            # Blank fields leave the question open. Invalid or partial input is an error.
            is_open = not wrong and not (values and self.is_touched(message))
            draft = PageDraft() if is_open else PageDraft(problem=next(iter(problems.values())))
            return PageInput(draft, problems, frozenset(confirmable))

        return self._validate(form, values)

    def _validate(self, form: FormAnswer, values: dict[str, JsonValue]) -> PageInput:
        numbers = {each.id: number for number, each in enumerate(form.fields)}
        problems: dict[int, str] = {}

        try:
            found = form.problems(values)
        except Exception as exc:  # the check is the tool's code; the form must stay usable
            log.exception("The check of a form failed")
            found = {"": form_text.UNCHECKED.format(type(exc).__name__)}

        for name, why in found.items():
            number = numbers.get(name, ALL_FIELDS)
            problems[number] = f"{problems[number]} {why}" if number in problems else why

        if problems:
            return PageInput(PageDraft(problem=next(iter(problems.values()))), problems)

        return PageInput(PageDraft(Answered(values, "form")))

    def close(self) -> None:
        """Close all widgets of the page."""
        close_widgets(self.widget)
        for each in self.fields:
            each.close()


def _read_field(
    form: FormAnswer, each: FormField, reported: FormMessage
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
