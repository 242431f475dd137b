"""`jp.ask`: the questions of the user's code, and their configured and given answers.

An answer comes from the configuration (`configured_answers.py`), from the answers file, or from the
user, in this order. The questions that are left are asked in one prompt. Without a user, defaults
answer optional questions and forms. A tool may also call `jp.ask`: then the configured and the
prepared answers are those for the tool.

Source: `docs/guide.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, assert_never

from pydantic import JsonValue

from jp_nb.agent.prepared_answers import (
    DeclinedByFile,
    GivenAnswer,
    InvalidAnswer,
    OpenDecision,
    PreparedAnswers,
)
from jp_nb.agent.prompting.prompt_ends import Answered, AnyEnd, FormEnd, NotAnswered, Unavailable
from jp_nb.agent.prompting.prompts import FormPrompt, QuestionPrompt, make_prompt
from jp_nb.config.tree.app import AppConfig
from jp_nb.errors import ConfigError, PromptCancelled, PromptUnavailable, UsageError
from jp_nb.session.questions.configured_answers import Answers, ConfiguredAnswers
from jp_nb.toolkit.outcome import MAX_QUESTIONS
from jp_nb.toolkit.question import FormAnswer, Question
from jp_nb.toolkit.secrets.secret_answers import SecretAnswers

OWN_CODE: Final = "jp.ask"
"""The name in the answers file in place of a tool, for questions of the user's code."""
ShowPrompt = Callable[[QuestionPrompt | FormPrompt], AnyEnd]
"""Shows a prompt in the cell, and returns its end when the user has answered or declined."""


def read_questions(what: object, *, title: str | None = None) -> list[Question]:
    """Return the questions of `jp.ask(what)`; `title` is the header of a form made from a type.

    Raises:
        UsageError: `what` is a list that is empty or too long, that contains another object than a
            question, or in which two questions have the same id.
    """
    if isinstance(what, Question):
        return [what]
    if not isinstance(what, list | tuple):
        return [Question.form(getattr(what, "__name__", "form"), what, title)]

    if not what or len(what) > MAX_QUESTIONS:
        raise UsageError(f"expected 1 to {MAX_QUESTIONS} questions, found {len(what)}")

    for index, item in enumerate(what):
        if not isinstance(item, Question):
            raise UsageError(f"the questions: [{index}] is a {type(item).__name__}, not a Question")

    seen_ids: set[str] = set()
    for question in what:
        if question.id in seen_ids:
            raise UsageError(f"two questions have the id {question.id!r}: use different ids")
        seen_ids.add(question.id)

    return [*what]


class CodeQuestions:
    """Questions of the user's code that are asked together, and their answers.

    The configuration can answer a whole question, or single fields of a form. The user is then
    asked only for the other fields.

    Args:
        config: The effective configuration, with the configured answers.
        label: The heading of the prompt.
        tool: Name of the tool whose code asks; None for code of a cell.
        prepared: The answers file.
        secrets: Hides the secrets of earlier answers in the texts of questions.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        config: AppConfig,
        *,
        label: str | None,
        tool: str | None,
        prepared: PreparedAnswers,
        secrets: SecretAnswers,
    ) -> None:
        self._questions = questions
        self._label = label
        self._tool = tool
        self._asker = tool or OWN_CODE
        self._prepared = prepared
        self._secrets = secrets

        self._configured = ConfiguredAnswers(config, tool)
        # The configured answers to fields of a form, by the id of the question with the form. The
        # prompt does not show these fields, and `_keep_answer` adds them to the user's answer.
        self._configured_fields: dict[str, Answers] = {}
        # The answers so far, by question id.
        self._answers: Answers = {}

    def find_answers(self, show: ShowPrompt) -> Answers:
        """Return the answers by question id. `show` asks the user for missing ones.

        The answer to an optional question can be None.

        Raises:
            ConfigError: A configured or prepared answer does not fit.
            PromptUnavailable: A question needs the user, and no user is available.
            PromptCancelled: The user or the answers file declined a question.
        """
        for question in self._questions:
            self._take_configured(question)
        # In a loop of its own: a wrong configured answer is reported before any is left open.
        for question in self._list_open_questions():
            self._take_prepared(question)

        open_questions = self._list_open_questions()
        if open_questions:
            self._ask(open_questions, show)

        return {question.id: self._answers[question.id] for question in self._questions}

    def _list_open_questions(self) -> list[Question]:
        return [question for question in self._questions if question.id not in self._answers]

    def _take_configured(self, question: Question) -> None:
        """Take the configured answer to `question`, or to fields of its form."""
        answer = self._configured.find_answer(question)
        if answer is None:
            self._configured_fields[question.id] = self._configured.find_fields(question)
        else:
            self._answers[question.id] = answer

    def _take_prepared(self, question: Question) -> None:
        """Take the answer of the answers file. The question stays open if the file has none."""
        match self._prepared.find_answer(self._asker, question):
            case GivenAnswer(value=value):
                self._keep_answer(question, value)
            case DeclinedByFile() if question.required:
                raise _make_unanswered_error([question], NotAnswered("declined"))
            case DeclinedByFile():
                self._answers[question.id] = None
            case InvalidAnswer(why=why):
                self._report_open(question, why)
                raise ConfigError(why)

    def _report_open(self, question: Question, why: str) -> None:
        """Report a question without an answer, so that the user can prepare it for the next run."""
        self._prepared.note_open(OpenDecision("question", self._asker, why, question))

    def _ask(self, questions: Sequence[Question], show: ShowPrompt) -> None:
        """Ask the user in one prompt: a single question, or a form with a page for each one."""
        pages = tuple(self._make_page(question) for question in questions)
        match show(make_prompt(pages)):
            case Answered(value=value):
                self._keep_answer(questions[0], value)
            case FormEnd(ends=ends):
                for question, end in zip(questions, ends, strict=True):
                    if isinstance(end, Answered):
                        self._keep_answer(question, end.value)
                    elif question.required:
                        raise _make_unanswered_error([question], end)
                    else:
                        self._answers[question.id] = None
            case NotAnswered() as end:
                raise _make_unanswered_error(questions, end)
            case Unavailable() as unavailable:
                self._answer_without_user(questions, unavailable)
            case other:
                assert_never(other)

    def _make_page(self, question: Question) -> QuestionPrompt:
        """Return the page of a question. A form shows only the fields without an answer."""
        kind = question.answer_type
        configured = self._configured_fields.get(question.id)
        if isinstance(kind, FormAnswer) and configured:
            # Its checks see the answers to all fields, also to those that it does not show.
            remaining_form = kind.make_remaining_form(configured)
            question = question.model_copy(update={"answer_type": remaining_form})
        question = self._secrets.hide_in_question(question)
        return QuestionPrompt(question, label=self._label, tool=self._tool)

    def _keep_answer(self, question: Question, value: JsonValue) -> None:
        """Keep a given answer, together with the configured fields that the form did not show."""
        configured = self._configured_fields.get(question.id)
        if configured and isinstance(value, dict):
            value = {**configured, **value}
        self._answers[question.id] = value

    def _answer_without_user(self, questions: Sequence[Question], unavailable: Unavailable) -> None:
        """Answer all `questions` by defaults, or raise `PromptUnavailable` if one needs the user.

        The caller then gets no answer at all. So all questions are reported as open, also those
        that have defaults: the user may want to prepare other answers.
        """
        missing: list[Question] = []
        for question in questions:
            missing += self._apply_defaults(question)
        if not missing:
            return

        for question in questions:
            self._report_open(question, unavailable.reason)

        settings = ", ".join(self._configured.format_path(question.id) for question in missing)
        asked = format_questions(questions, singular="needs", plural="need")
        raise PromptUnavailable(
            f"{asked} a user, and no user is available: "
            f"{unavailable.reason}. To answer without a user, set {settings}",
            reason=unavailable.reason,
        )

    def _apply_defaults(self, question: Question) -> list[Question]:
        """Answer `question` by defaults if possible; return the questions that need the user.

        - An optional question gets its automatic answer, or stays open (None).
        - A form gets its configured fields, and the defaults of the others.
        - Any other question needs the user, and so does a form that only the user may answer
          (`exclusive`), or that the user only confirms, because it has no fields.
        """
        kind = question.answer_type
        configured = self._configured_fields.get(question.id, {})
        if question.may_stay_open and not configured:
            self._answers[question.id] = question.automatic
            return []

        if not isinstance(kind, FormAnswer) or not kind.fields or question.exclusive:
            return [question]
        return self._fill_form(question, kind, configured)

    def _fill_form(
        self, question: Question, form: FormAnswer, configured: Answers
    ) -> list[Question]:
        """Answer a form by its `configured` fields and defaults; return the missing questions.

        These are the required fields without an answer, or `question` itself if the defaults do not
        fit together.

        Raises:
            ConfigError: The configured fields do not fit to the defaults.
        """
        answer = form.with_defaults(configured)
        missing = [field for field in form.fields if field.required and field.id not in answer]
        if missing:
            return missing

        problems = form.problems(answer)
        if problems and configured:
            self._configured.raise_field_problem(problems, configured)
        if problems:
            return [question]

        self._answers[question.id] = answer
        return []


def format_questions(questions: Sequence[Question], *, singular: str, plural: str) -> str:
    """Return the texts of `questions`, and the verb in the `singular` or the `plural`."""
    names = ", ".join(repr(question.text) for question in questions)
    verb = plural if len(questions) > 1 else singular
    return f"{names} {verb}"


def _make_unanswered_error(questions: Sequence[Question], end: NotAnswered) -> PromptCancelled:
    """Return the error that required questions were declined, or ended in another way."""
    return PromptCancelled(
        f"{format_questions(questions, singular='was', plural='were')} not answered", end=end.end
    )
