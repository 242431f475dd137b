"""Questions of ordinary code, `jp.ask`: what is configured first, then the person.

Source: `docs/guide.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn, assert_never

from pydantic import JsonValue

from jp_nb.agent.prepared_answers import Declined, Given, OpenDecision, PreparedAnswers, Unfit
from jp_nb.agent.prompts import (
    Answered,
    FormEnd,
    FormPrompt,
    NotAnswered,
    QuestionPrompt,
    Unavailable,
    needs_form,
)
from jp_nb.config.paths import format_path
from jp_nb.config.tree.app_config import AppConfig
from jp_nb.config.tree.tool_config import STAR
from jp_nb.errors import ConfigError, ConfigProblem, PromptCancelled, PromptUnavailable, UsageError
from jp_nb.tooling.outcome import MAX_QUESTIONS
from jp_nb.tooling.question import FormAnswer, Question

OWN_CODE: Final = "jp.ask"
"""Stands for the tool in the answers file, where ordinary code asks."""
Answers = dict[str, JsonValue]
PutToPerson = Callable[
    [QuestionPrompt | FormPrompt], Answered | FormEnd | NotAnswered | Unavailable
]


def questions_of(what: object, *, title: str | None = None) -> list[Question]:
    """Return the questions that `jp.ask(what)` puts; `title` stands above the fields of a type.

    Raises:
        UsageError: If `what` is nothing to ask.
    """
    if isinstance(what, Question):
        return [what]
    if not isinstance(what, list | tuple):
        return [Question.form(getattr(what, "__name__", "form"), what, title)]
    if not what or len(what) > MAX_QUESTIONS:
        raise UsageError(f"expected 1 to {MAX_QUESTIONS} questions, found {len(what)}")
    for index, each in enumerate(what):
        if not isinstance(each, Question):
            raise UsageError(f"the questions: [{index}] is a {type(each).__name__}, not a Question")
    ids = [each.id for each in what]
    if twice := [name for index, name in enumerate(ids) if name in ids[:index]]:
        raise UsageError(f"two questions have the id {twice[0]!r}: use different ids")
    return [*what]


class OwnQuestions:
    """Questions that are asked together, on their way to their answers.

    Args:
        questions: With distinct ids.
        config: May hold answers.
        label: A header above them.
        tool: Whose configured answers count; None: those of `*`.
        prepared: What was decided beforehand; of no tool it stands at `jp.ask`.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        config: AppConfig,
        *,
        label: str | None,
        tool: str | None,
        prepared: PreparedAnswers,
    ) -> None:
        self._questions = questions
        self._label = label
        self._tool = tool
        self._asker = tool or OWN_CODE
        self._prepared = prepared
        found = config.conversation.tools.get(tool or STAR)
        self._configured = {
            name: each.answer
            for name, each in (found.questions if found else {}).items()
            if each.answer is not None
        }
        self._answers: Answers = {}
        self._parts: dict[str, Answers] = {}
        for question in questions:
            self._take_configured(question)

    def answers(self, put: PutToPerson) -> Answers:
        """Return the answers by question id; `put` asks the person for what is not configured.

        An optional question that was left open is answered by None.

        Raises:
            PromptUnavailable: If somebody has to be asked, and nobody can be.
            PromptCancelled: If somebody was asked and gave no answer.
        """
        for question in self._wanted():
            self._take_prepared(question)
        if wanted := self._wanted():
            self._ask(wanted, put)
        return {question.id: self._answers[question.id] for question in self._questions}

    def _wanted(self) -> list[Question]:
        return [question for question in self._questions if question.id not in self._answers]

    # --- what is configured, or was decided beforehand ---------------------------------------

    def _take_configured(self, question: Question) -> None:
        """Take what answers `question`, or fields of it, without asking.

        Raises:
            ConfigError: If that is no answer.
        """
        kind = question.answer_type
        if question.id in self._configured:
            answer = kind.settled(self._configured[question.id])
            if question.misfit(answer):
                self._refuse(question, answer)
            self._answers[question.id] = answer
        elif isinstance(kind, FormAnswer):
            self._take_fields(question, kind)

    def _take_prepared(self, question: Question) -> None:
        """Take what was decided about `question` beforehand.

        Raises:
            ConfigError: If that is no answer.
            PromptCancelled: If it was decided that it gets none, and it needs one.
        """
        match self._prepared.answer(self._asker, question):
            case Given(value=value):
                self._take(question, value)
            case Declined() if question.required:
                raise _unanswered([question], NotAnswered("declined"))
            case Declined():
                self._answers[question.id] = None
            case Unfit(why=why):
                self._note_open(question, why)
                raise ConfigError(why)

    def _note_open(self, question: Question, why: str) -> None:
        self._prepared.left_open(OpenDecision("question", self._asker, why, question))

    def _take_fields(self, question: Question, kind: FormAnswer) -> None:
        given: Answers = {}
        for field in kind.fields:
            if field.id not in self._configured:
                continue
            given[field.id] = field.answer_type.settled(self._configured[field.id])
            if field.misfit(given[field.id]):
                raise ConfigError(_expected(field), path=self._path(field.id))
        self._parts[question.id] = given
        if len(given) < len(kind.fields):
            return
        if problems := kind.problems(given):
            self._blame({self._path(name or kind.fields[0].id): x for name, x in problems.items()})
        self._answers[question.id] = given

    def _refuse(self, question: Question, answer: JsonValue) -> NoReturn:
        """Raise the error of a configured `answer` that does not fit."""
        kind, path = question.answer_type, self._path(question.id)
        if not isinstance(kind, FormAnswer) or not isinstance(answer, dict):
            raise ConfigError(_expected(question), path=path)
        problems = kind.misplaced(answer) or kind.problems(answer)
        self._blame({f"{path}.{name}" if name else path: x for name, x in problems.items()})

    def _blame(self, problems: Mapping[str, str]) -> NoReturn:
        (path, words), *others = problems.items()
        more = [ConfigProblem(where, "value", why) for where, why in others]
        raise ConfigError(words, path=path, others=more)

    def _path(self, name: str) -> str:
        keys = ("conversation", "tools", self._tool or STAR, "questions", name, "answer")
        return format_path(keys)

    # --- what is asked -----------------------------------------------------------------------

    def _ask(self, wanted: Sequence[Question], put: PutToPerson) -> None:
        pages = tuple(self._page(question) for question in wanted)
        alone = len(pages) == 1 and not needs_form(pages[0].question)
        match put(pages[0] if alone else FormPrompt(pages)):
            case Answered(value=value):
                self._take(wanted[0], value)
            case FormEnd(ends=ends):
                for question, end in zip(wanted, ends, strict=True):
                    if isinstance(end, Answered):
                        self._take(question, end.value)
                    elif question.required:
                        raise _unanswered([question], end)
                    else:
                        self._answers[question.id] = None
            case NotAnswered() as end:
                raise _unanswered(wanted, end)
            case Unavailable() as nobody:
                self._go_without(wanted, nobody)
            case other:
                assert_never(other)

    def _page(self, question: Question) -> QuestionPrompt:
        kind, given = question.answer_type, self._parts.get(question.id)
        if isinstance(kind, FormAnswer) and given:
            question = question.model_copy(update={"answer_type": kind.rest(given)})
        return QuestionPrompt(question, label=self._label, tool=self._tool)

    def _take(self, question: Question, value: JsonValue) -> None:
        given = self._parts.get(question.id)  # what the person was not asked
        if given and isinstance(value, dict):
            value = {**given, **value}
        self._answers[question.id] = value

    def _go_without(self, wanted: Sequence[Question], nobody: Unavailable) -> None:
        """Answer `wanted` as nobody has to: by defaults of fields, or what is optional by itself.

        Raises:
            PromptUnavailable: If somebody has to; it names what is missing.
        """
        missing = [each for question in wanted for each in self._without(question)]
        if missing:
            for question in wanted:
                self._note_open(question, nobody.reason)
            raise self._needs_person(wanted, missing, nobody)

    def _without(self, question: Question) -> list[Question]:
        """Answer `question` if nobody has to; return what somebody has to answer of it."""
        kind, given = question.answer_type, self._parts.get(question.id, {})
        self._answers[question.id] = None if given else question.automatic
        if question.may_stay_open and not given:
            return []
        if not isinstance(kind, FormAnswer) or question.exclusive:
            return [question]
        answer = kind.filled(given)
        missing = [x for x in kind.fields if x.required and x.id not in answer]
        if not missing and (problems := kind.problems(answer)):
            blamed = [name for name in problems if name in given] or [*given]
            if not blamed:
                return [question]
            whole = "; ".join(problems.values())
            self._blame({self._path(name): problems.get(name, whole) for name in blamed[:1]})
        self._answers[question.id] = answer
        return missing

    def _needs_person(
        self, wanted: Sequence[Question], missing: Sequence[Question], nobody: Unavailable
    ) -> PromptUnavailable:
        settings = ", ".join(self._path(question.id) for question in missing)
        return PromptUnavailable(
            f"{named(wanted, 'needs', 'need')} a user, and no user is available: "
            f"{nobody.reason}. To answer without a user, set {settings}",
            reason=nobody.reason,
        )


def named(questions: Sequence[Question], one: str, several: str) -> str:
    """Return what `questions` ask, and the verb that goes with one or with `several`."""
    names = ", ".join(repr(question.text) for question in questions)
    return f"{names} {several if questions[1:] else one}"


def _expected(question: Question) -> str:
    return f"does not answer the question: expected {question.answer_type.expects}"


def _unanswered(questions: Sequence[Question], end: NotAnswered) -> PromptCancelled:
    return PromptCancelled(f"{named(questions, 'was', 'were')} not answered", end=end.end)
