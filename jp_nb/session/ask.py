"""`jp_nb.ask` for the user's code, and the answers file of a session.

A runner names a file in `JP_NB_DECISIONS`; each of its lines is one of

    {"used": ["questions", "publish", "audience"]}      a part of the answers file, by its key
    {"open": "question", "tool": "publish", "why": "…", "detail": [], "question": {…}}

`question` is the question of the tool (`docs/turns.md`); other kinds of decisions have none.

Source: `docs/guide.md`, `docs/turns.md`, `docs/answers.md`.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn, assert_never, cast

from pydantic import JsonValue

from jp_nb.agent.prompts import (
    Answered,
    DecisionKind,
    DeclinedByFile,
    FormEnd,
    FormPrompt,
    GivenAnswer,
    InvalidAnswer,
    NotAnswered,
    OpenDecision,
    PreparedAnswers,
    PreparedDecision,
    QuestionPrompt,
    Unavailable,
    needs_form,
)
from jp_nb.config.schema import format_path
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.tools import STAR
from jp_nb.errors import ConfigError, ConfigProblem, PromptCancelled, PromptUnavailable, UsageError
from jp_nb.storage import environment
from jp_nb.storage.answers_file import (
    DECISIONS,
    SKIP,
    AnswersFile,
    PreparedAnswer,
    Section,
    Variable,
    decode_answers,
    parse_answers,
    read_answers,
)
from jp_nb.storage.config_files import ConfigFiles
from jp_nb.storage.files import Stamp, stamp
from jp_nb.text import one_line
from jp_nb.tools.answer_types import AnswerType
from jp_nb.tools.outcome import MAX_QUESTIONS
from jp_nb.tools.question import FormAnswer, Question

OWN_CODE: Final = "jp.ask"
"""Stands for the tool in the answers file, where ordinary code asks."""
Answers = dict[str, JsonValue]
PutToPerson = Callable[
    [QuestionPrompt | FormPrompt], Answered | FormEnd | NotAnswered | Unavailable
]


def read_questions(what: object, *, title: str | None = None) -> list[Question]:
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


class CodeQuestions:
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
            answer = kind.normalized(self._configured[question.id])
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
            case GivenAnswer(value=value):
                self._take(question, value)
            case DeclinedByFile() if question.required:
                raise _unanswered([question], NotAnswered("declined"))
            case DeclinedByFile():
                self._answers[question.id] = None
            case InvalidAnswer(why=why):
                self._note_open(question, why)
                raise ConfigError(why)

    def _note_open(self, question: Question, why: str) -> None:
        self._prepared.note_open(OpenDecision("question", self._asker, why, question))

    def _take_fields(self, question: Question, kind: FormAnswer) -> None:
        given: Answers = {}
        for field in kind.fields:
            if field.id not in self._configured:
                continue
            given[field.id] = field.answer_type.normalized(self._configured[field.id])
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
        problems = kind.find_unknown_fields(answer) or kind.problems(answer)
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
            case Unavailable() as unavailable:
                self._go_without(wanted, unavailable)
            case other:
                assert_never(other)

    def _page(self, question: Question) -> QuestionPrompt:
        kind, given = question.answer_type, self._parts.get(question.id)
        if isinstance(kind, FormAnswer) and given:
            question = question.model_copy(update={"answer_type": kind.remaining_form(given)})
        return QuestionPrompt(question, label=self._label, tool=self._tool)

    def _take(self, question: Question, value: JsonValue) -> None:
        given = self._parts.get(question.id)  # what the person was not asked
        if given and isinstance(value, dict):
            value = {**given, **value}
        self._answers[question.id] = value

    def _go_without(self, wanted: Sequence[Question], unavailable: Unavailable) -> None:
        """Answer `wanted` as nobody has to: by defaults of fields, or what is optional by itself.

        Raises:
            PromptUnavailable: If somebody has to; it names what is missing.
        """
        missing = [each for question in wanted for each in self._without(question)]
        if missing:
            for question in wanted:
                self._note_open(question, unavailable.reason)
            raise self._needs_person(wanted, missing, unavailable)

    def _without(self, question: Question) -> list[Question]:
        """Answer `question` if nobody has to; return what somebody has to answer of it."""
        kind, given = question.answer_type, self._parts.get(question.id, {})
        self._answers[question.id] = None if given else question.automatic
        if question.may_stay_open and not given:
            return []
        if not isinstance(kind, FormAnswer) or question.exclusive:
            return [question]
        answer = kind.with_defaults(given)
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
        self, wanted: Sequence[Question], missing: Sequence[Question], unavailable: Unavailable
    ) -> PromptUnavailable:
        settings = ", ".join(self._path(question.id) for question in missing)
        return PromptUnavailable(
            f"{format_questions(wanted, 'needs', 'need')} a user, and no user is available: "
            f"{unavailable.reason}. To answer without a user, set {settings}",
            reason=unavailable.reason,
        )


def format_questions(questions: Sequence[Question], one: str, several: str) -> str:
    """Return what `questions` ask, and the verb that goes with one or with `several`."""
    names = ", ".join(repr(question.text) for question in questions)
    return f"{names} {several if questions[1:] else one}"


def _expected(question: Question) -> str:
    return f"does not answer the question: expected {question.answer_type.expects}"


def _unanswered(questions: Sequence[Question], end: NotAnswered) -> PromptCancelled:
    return PromptCancelled(
        f"{format_questions(questions, 'was', 'were')} not answered", end=end.end
    )


log = logging.getLogger(__name__)

Said = JsonValue | Variable | Mapping[str, JsonValue | Variable]
_SECTIONS: Final[Mapping[DecisionKind, Section]] = {
    "permission": "permissions",
    "result": "results",
    "change": "changes",
}


class SessionAnswers:
    """What the answers file says, if there is one; it is read again when it changes."""

    def __init__(self) -> None:
        self._file = AnswersFile("")
        self._read: tuple[Path, Stamp] | None = None
        self._used: set[tuple[str, ...]] = set()
        self._log_works = True

    def load(self, path: str | None, files: ConfigFiles) -> None:
        """Take the file at `path`, which is relative to the notebook's folder, from now on.

        A relative path names a file that came with the folder: in a live kernel it is not used
        before the user agreed to its content. None: there is no file.

        Raises:
            ConfigError: If it cannot be read, is not the user's own, or is wrong; line and file
                are named.
        """
        if path is None:
            self._file, self._read = AnswersFile(""), None
            return
        try:
            format_questions = Path(path).expanduser()
        except RuntimeError as exc:  # of a user that there is not
            raise ConfigError(
                f"the path of the answers file is not valid: {exc}", file=path
            ) from exc
        file = files.folder / format_questions
        before, asks = _stamp(file), not format_questions.is_absolute() and files.trust is not None
        if asks or before is None or before != self._read:  # a consent may have been revoked
            content = read_answers(file)
            found = parse_answers(decode_answers(file, content), file.name)
            leaves = [(".".join(each.key), _shown(each)) for each in found.answers]
            self._read = before
            if asks and not files.counts(file, content, leaves):
                self._read, found = None, AnswersFile("")
                files.say(
                    f"{file} can answer questions and permit calls for you. It is "
                    "ignored until `%jp trust --workspace`"
                )
            self._file = found

    # --- what was decided beforehand -----------------------------------------------------------

    def answer(self, tool: str, question: Question) -> PreparedDecision | None:
        """Return the answer to `question` of `tool`; None if the file has none."""
        found = self._file.find("questions", tool, question.id)
        if found is None:
            return None
        self._use(found)
        place = self._file.place(found)
        if found.skip:
            return DeclinedByFile(place)
        return _fitted(found.value, question, place)

    def answers_questions_of(self, tool: str) -> bool:
        """Return whether the file says something about questions of `tool`."""
        return self._file.answers_questions_of(tool)

    def decision(self, kind: DecisionKind, tool: str) -> PreparedDecision | None:
        """Return what the file says about `tool`; None if that is nothing."""
        found = self._file.find(_SECTIONS[kind], tool)
        if found is None:
            return None
        self._use(found)
        place = self._file.place(found)
        return DeclinedByFile(place) if found.skip else GivenAnswer(None, place)

    # --- what a runner is told -----------------------------------------------------------------

    def note_open(self, decision: OpenDecision) -> None:
        """Note what nobody decided, if a runner wants to know."""
        entry: dict[str, JsonValue] = {
            "open": decision.kind,
            "tool": decision.tool,
            "why": decision.why,
            "detail": list(decision.detail),
        }
        if decision.question is not None:
            entry["question"] = decision.question.model_dump(mode="json")
        self._tell(entry)

    def _use(self, answer: PreparedAnswer) -> None:
        if answer.key not in self._used:
            self._used.add(answer.key)
            self._tell({"used": list(answer.key)})

    def _tell(self, entry: dict[str, JsonValue]) -> None:
        path = os.environ.get(environment.DECISIONS)
        if not path or not self._log_works:
            return
        try:
            with open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
        except OSError as exc:
            self._log_works = False
            log.warning("Cannot write the open decisions to %s: %s", path, exc.strerror)


def _stamp(file: Path) -> tuple[Path, Stamp] | None:
    try:
        return file, stamp(file)
    except OSError:
        return None  # to read it says why


def _shown(answer: PreparedAnswer) -> JsonValue:
    if answer.key[0] != "questions":
        return SKIP if answer.skip else DECISIONS[cast(Section, answer.key[0])]
    if answer.skip:
        return {SKIP: True}
    if isinstance(answer.value, Mapping):
        return {name: _named(value) for name, value in answer.value.items()}
    return _named(answer.value)


def _named(value: JsonValue | Variable) -> JsonValue:
    return {"env": value.name} if isinstance(value, Variable) else value


def _fitted(said: Said, question: Question, place: str) -> GivenAnswer | InvalidAnswer:
    """Return what is `said` as an answer to `question`, or why it is none."""
    kind = question.answer_type
    secrets = _secret_parts(question)
    for name, value in _parts(said, question):
        if name in secrets and not isinstance(value, Variable):
            return InvalidAnswer(
                f"{place}: give a secret such as {name!r} as an environment variable: "
                '{ env = "NAME" }'
            )
        if isinstance(value, Variable) and name not in secrets:
            return InvalidAnswer(
                f"{place}: {name!r} is not a secret, so its answer is recorded and "
                "sent. An environment variable can only answer secret questions"
            )
    try:
        answer = _with_variables(said)
    except KeyError as exc:
        return InvalidAnswer(
            f"{place}: the environment variable {exc.args[0]!r} is not set or is empty"
        )
    if isinstance(kind, FormAnswer) and isinstance(answer, dict):
        answer = kind.with_defaults(answer)
    answer = kind.normalized(answer)
    if question.misfit(answer) is None:
        return GivenAnswer(answer, place)
    why = _complaint(kind, answer)
    return InvalidAnswer(
        f"{place}: the answer to {question.id!r} does not fit{f': {why}' if why else ''}"
    )


def _complaint(kind: AnswerType, answer: JsonValue) -> str:
    """Return what is wrong with `answer`, without secrets; "" where that would tell of one."""
    if kind.has_secret:
        if not (isinstance(kind, FormAnswer) and isinstance(answer, dict)):
            return ""
        kind = kind.model_copy(update={"check": None})  # which may quote what it was given
    return one_line(kind.format_problem(answer))


def _parts(said: Said, question: Question) -> list[tuple[str, object]]:
    """Return what is said of each field of a form, or of the question itself, by id."""
    return [*said.items()] if isinstance(said, Mapping) else [(question.id, said)]


def _secret_parts(question: Question) -> set[str]:
    kind = question.answer_type
    if isinstance(kind, FormAnswer):
        return {field.id for field in kind.fields if field.answer_type.secret}
    return {question.id} if kind.secret else set()


def _with_variables(said: Said) -> JsonValue:
    """Return `said` with the texts of the environment variables it names.

    Raises:
        KeyError: If one is not set, or empty; its argument is the name.
    """
    if isinstance(said, Variable):
        return _text_of(said)
    if isinstance(said, Mapping):
        return {
            name: _text_of(value) if isinstance(value, Variable) else value
            for name, value in said.items()
        }
    return said


def _text_of(variable: Variable) -> str:
    text = os.environ.get(variable.name, "")
    if not text:  # CI sets one that holds a secret it does not have
        raise KeyError(variable.name)
    return text
