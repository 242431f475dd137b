"""One page of a form: a question, or several fields, with its current input.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import ipywidgets as widgets
from pydantic import JsonValue

from jp_nb.agent.form_draft import PageDraft
from jp_nb.agent.prompts import Answered, QuestionPrompt
from jp_nb.notebook.prompt.controls import FormMessage, NoValidAnswer, SecretField, question_control
from jp_nb.notebook.prompt.form import (
    box,
    close_widgets,
    field_description,
    html,
    isolate_direction,
    question_head,
    split_reports,
    text,
)
from jp_nb.rendering import prompt_text
from jp_nb.text import upper_first
from jp_nb.toolkit.question import REQUIRED, FormAnswer

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


class FormField:
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
        head = _make_field_head(prompt) if named else ()
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
        """Return the empty answer that the user could confirm; None if that is not valid."""
        found = self.control.read({**reported, "confirmed": True})
        return found if isinstance(found, Answered) else None

    def is_touched(self, reported: FormMessage) -> bool:
        """Return True if the user entered something, as the widget or `reported` shows."""
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


class FormPage:
    """One page of a form. It keeps its content while other pages are visible."""

    def __init__(self, prompt: QuestionPrompt, changed: Callable[[bool], None]) -> None:
        kind = prompt.question.answer_type
        self._form = kind if isinstance(kind, FormAnswer) else None
        self._problem = text("", "problem")  # of all fields together
        named = self._form is not None
        below = [self._problem] if named else []
        self.fields = [FormField(each, changed, named=named) for each in prompt.fields]
        inputs = [each.widget for each in self.fields]
        self.widget = box("page", *question_head(prompt), *inputs, *below)

    def is_touched(self, message: FormMessage) -> bool:
        """Return True if the user entered something, as the widgets or `message` show."""
        return any(each.is_touched(one) for each, one in self._split(message))

    def _split(self, message: FormMessage) -> Iterable[tuple[FormField, FormMessage]]:
        # The state of the widget replaces what the page did not report.
        with_widget = [each for each in self.fields if each.control.widget is not None]
        reports = dict(zip(with_widget, split_reports(message, len(with_widget)), strict=True))
        return [(each, reports.get(each, {})) for each in self.fields]

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

        [each] = self.fields
        found = each.read_and_keep(message)
        if isinstance(found, Answered):
            return PageInput(PageDraft(found))

        empty = each.read_as_empty(message)
        draft = PageDraft(empty=empty) if found.blank else PageDraft(problem=found.why)
        confirmable = frozenset[int]() if empty is None else frozenset((0,))
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
            if question.required and each.read_as_empty(reported) is not None:
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
            found = {"": prompt_text.UNCHECKED.format(type(exc).__name__)}

        for name, why in found.items():
            number = numbers.get(name, ALL_FIELDS)
            problems[number] = f"{problems[number]} {why}" if number in problems else why

        if problems:
            return PageInput(PageDraft(problem=next(iter(problems.values()))), problems)

        return PageInput(PageDraft(Answered(values, "form")))

    def close(self) -> None:
        """Close all widgets of the page."""
        close_widgets(self.widget)
        close_widgets(self._problem)  # not part of `widget` for a single field


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


def _make_field_head(prompt: QuestionPrompt) -> Iterator[widgets.Widget]:
    name = isolate_direction(prompt_text.format_question(prompt))
    if prompt.question.required:
        name += ' <span class="jp-nb-mark" aria-hidden="true">*</span>'

    yield html(name, "field-name")
    if (address := prompt_text.find_address(prompt)) is not None:
        yield html(prompt_text.render_address(address), "address")

    yield from field_description(prompt)
    if hint := prompt_text.make_editable_text(prompt).hint:
        yield text(hint, "hint")
