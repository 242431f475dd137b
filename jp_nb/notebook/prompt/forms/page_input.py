"""Read the input of a form's page: an answer, a problem, or neither if the question stays open.

A click reports the state of each control. `FormField` (`form_field.py`) reads such a report:

- `read_and_keep` returns the answer, or a `NoValidAnswer` with the reason (`why`). It keeps the
  report, to compare later changes with it. The field `may_stay_open` if it is empty, and is
  `confirmable` if a second click sends it as an empty answer.
- `read_as_empty` returns this empty answer, or None if it is not valid. The second click sends it,
  or the summary of the form.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.prompting.page_drafts import PageDraft
from jp_nb.agent.prompting.prompt_ends import Answered
from jp_nb.notebook.prompt.controls.form_control import FormMessage, NoValidAnswer
from jp_nb.notebook.prompt.forms.form_field import FormField
from jp_nb.rendering.prompt_texts import form_text, prompt_text
from jp_nb.toolkit.question import FormAnswer
from jp_nb.toolkit.question_types.form_answer import REQUIRED

log = logging.getLogger(__name__)

FieldReport = tuple[FormField, FormMessage]
"""A field, and the state of its control in a click's message; `{}` if it is not reported."""

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


def read_page_fields(form: FormAnswer, reports: Sequence[FieldReport]) -> PageInput:
    """Return the values of all fields as one answer, if each of them fits.

    Blank fields leave the question open. Invalid or partial input is an error.
    """
    values: dict[str, JsonValue] = {}
    problems: dict[int, str] = {}
    confirmable = set[int]()
    has_invalid = False

    for number, (form_field, report) in enumerate(reports):
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

    if not problems:
        return _validate_values(form, values)

    # Values that are only proposed do not make the input partial: the user has entered nothing.
    is_touched = any(form_field.is_touched(report) for form_field, report in reports)
    is_partial = bool(values) and is_touched
    is_open = not has_invalid and not is_partial
    draft = PageDraft() if is_open else PageDraft(problem=next(iter(problems.values())))
    return PageInput(draft, problems, frozenset(confirmable))


def _validate_values(form: FormAnswer, values: dict[str, JsonValue]) -> PageInput:
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


def read_single_field(form_field: FormField, message: FormMessage) -> PageInput:
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

    # A proposal that the user deleted is an empty answer, unless the form omits such fields.
    is_proposed = prompt_text.get_preselected(form_field.prompt) is not None
    if is_proposed and form.keeps_cleared:
        return empty

    return None
