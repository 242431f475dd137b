"""Ask the fields of a form's page on stdin, one by one, until their values fit together.

A page whose answer is an object has a field for each of its values. `FormQuestions`
(`form_questions.py`) asks one field, for which the user types an answer or a key. `KEEP_KEY`, an
empty line, keeps the earlier value, and `CLEAR_KEY` removes it. `BACK_KEY` leads to the previous
field, and `LEAVE_KEY` out of the form.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from jp_nb.agent.prompting.form_draft import FormDraft
from jp_nb.agent.prompting.page_drafts import BLANK, PageDraft
from jp_nb.agent.prompting.prompt_ends import Answered
from jp_nb.agent.prompting.prompts import QuestionPrompt
from jp_nb.notebook.prompt.stdin_prompts.barred_lines import bar_text
from jp_nb.notebook.prompt.stdin_prompts.form_questions import (
    BACK_KEY,
    CLEAR_KEY,
    KEEP_KEY,
    LEAVE_KEY,
    FormQuestions,
)
from jp_nb.notebook.prompt.stdin_prompts.input_console import Console
from jp_nb.notebook.prompt.stdin_prompts.stdin_dialogue import STDIN, StdinChannel, write_lines
from jp_nb.rendering.prompt_texts import prompt_text
from jp_nb.text import one_line, upper_first
from jp_nb.toolkit.question import FormAnswer, Question


class StdinFields:
    """Asks the fields of the current page of `draft`, and stores their values in the draft.

    The values of each page stay, also invalid ones, in case the user returns to the page.
    """

    def __init__(
        self, console: Console, draft: FormDraft, channel: StdinChannel, questions: FormQuestions
    ) -> None:
        self._console = console
        self._draft = draft
        self._channel = channel
        self._questions = questions
        # The values typed so far, by page, and then by id of the field.
        self._values: dict[int, dict[str, JsonValue]] = {}

    def ask(self, kind: FormAnswer) -> str:
        """Ask the fields of `kind` in rounds, until all fit; return the key that ended them.

        The first round asks all fields. A further one asks those with problems again, until they
        fit or the user changes nothing.
        """
        values = self._values.setdefault(self._draft.page, {})
        preset = prompt_text.get_preselected(self._draft.question)
        if not values and isinstance(preset, dict):
            values |= preset

        fields: Sequence[Question] = kind.fields
        problems: Mapping[str, str] = {}

        while True:
            values_before = dict(values)
            key = self._ask_round(kind, fields, values, problems)
            if key != KEEP_KEY:
                return key

            problems = _find_problems(kind, values)
            if not problems or values == values_before:
                return KEEP_KEY

            if form_problem := problems.get(""):  # of several values together
                self._write(upper_first(one_line(form_problem)))

            fields = [field for field in kind.fields if field.id in problems] or kind.fields

    def _ask_round(
        self,
        kind: FormAnswer,
        fields: Sequence[Question],
        values: dict[str, JsonValue],
        earlier_problems: Mapping[str, str],
    ) -> str:
        """Ask `fields` once, and store their answers in `values`.

        Return the key with which the user left the page, or `KEEP_KEY` after the last field.
        `earlier_problems` are those of the values before this round.
        """
        index = 0
        while index < len(fields):
            field = fields[index]
            typed = self._ask_field(kind, field, values, earlier_problems.get(field.id))
            if typed == LEAVE_KEY or (typed == BACK_KEY and index == 0):
                return typed
            index += -1 if typed == BACK_KEY else 1

        return KEEP_KEY

    def _ask_field(
        self,
        kind: FormAnswer,
        field: Question,
        values: dict[str, JsonValue],
        earlier_problem: str | None,
    ) -> str:
        """Ask `field`, and store its answer in `values` and in the draft of the page.

        Return the typed key, "" for an answer.
        """
        number = kind.fields.index(field)
        page = self._draft.question.fields[number]
        question = prompt_text.format_question(page)
        self._write(f"Field {number + 1} of {len(kind.fields)}: {question}")
        self._write(*bar_text(prompt_text.format_context(page)))
        if earlier_problem is not None:
            self._write(f"  ✗ {upper_first(one_line(earlier_problem))}")

        current = Answered(values[field.id], STDIN) if field.id in values else None
        typed = self._questions.ask(page, current, may_stay_open=not field.required)
        if isinstance(typed, Answered):
            values[field.id] = typed.value
        elif typed == CLEAR_KEY:
            del values[field.id]

        self._draft.store_draft(self._make_draft(kind, values))
        return "" if isinstance(typed, Answered) else typed

    def _make_draft(self, kind: FormAnswer, values: Mapping[str, JsonValue]) -> PageDraft:
        """Return the draft of the page: its values, or the first problem of a field."""
        if not values:
            return BLANK

        problems = _find_problems(kind, values)
        if not problems:
            return PageDraft(Answered({**values}, self._channel))

        first = next((field for field in kind.fields if field.id in problems), None)
        if first is None:  # a problem of the whole form
            return PageDraft(problem=one_line(next(iter(problems.values()))))

        question = prompt_text.format_question(QuestionPrompt(first))
        return PageDraft(problem=f"{question}: {one_line(problems[first.id])}")

    def _write(self, *lines: str) -> None:
        write_lines(self._console, lines)


def _find_problems(kind: FormAnswer, values: Mapping[str, JsonValue]) -> Mapping[str, str]:
    """Return the problems of `values` by id of the field, those of the whole form as "".

    A page without any value is open, and has no problem.
    """
    return kind.problems(values) if values else {}
