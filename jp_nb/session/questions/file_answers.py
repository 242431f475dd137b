"""Read an answer of an answers file as the answer to its question.

The value of the file may be an environment variable: that of a secret must be one, and no other
value can be one. The answer is checked as an answer of the user.

Source: `docs/answers.md`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from pydantic import JsonValue

from jp_nb.agent.prepared_answers import GivenAnswer, InvalidAnswer
from jp_nb.storage.configuration.answers_content import EnvironmentVariable
from jp_nb.text import one_line
from jp_nb.toolkit.question import FormAnswer, Question
from jp_nb.toolkit.question_types.answer_types import AnswerType

FileAnswer = JsonValue | EnvironmentVariable | Mapping[str, JsonValue | EnvironmentVariable]
"""The answer to a question. A table has the answers to the fields of a form, by id."""


def read_file_answer(
    file_answer: FileAnswer, question: Question, place: str
) -> GivenAnswer | InvalidAnswer:
    """Return the answer to `question`, with the values of environment variables.

    `place` is the file and the line of the answer, for messages.
    """
    kind = question.answer_type
    try:
        answer = _read_answer(file_answer, question)
    except _InvalidValueError as exc:
        return InvalidAnswer(f"{place}: {exc}")

    if isinstance(kind, FormAnswer) and isinstance(answer, dict):
        answer = kind.with_defaults(answer)
    answer = kind.normalized(answer)  # the value of an option in place of its label
    if question.misfit(answer) is None:
        return GivenAnswer(answer, place)

    # `misfit` tells only the kind of problem. The message explains it.
    message = f"{place}: the answer to {question.id!r} does not fit"
    problem = _format_problem(kind, answer)
    if problem:
        message = f"{message}: {problem}"
    return InvalidAnswer(message)


class _InvalidValueError(Exception):
    """A value of an answers file is not possible for its question or field."""


def _read_answer(file_answer: FileAnswer, question: Question) -> JsonValue:
    """Return the answer of the file with the values of environment variables, field by field.

    Raises:
        _InvalidValueError: A secret is not in an environment variable, or another value is in one.
    """
    kind = question.answer_type
    if not isinstance(file_answer, Mapping):
        return _read_value(question.id, file_answer, is_secret=kind.is_secret)

    secret_ids = {question.id} if kind.is_secret else set()
    if isinstance(kind, FormAnswer):
        secret_ids = {field.id for field in kind.fields if field.answer_type.is_secret}
    return {
        name: _read_value(name, value, is_secret=name in secret_ids)
        for name, value in file_answer.items()
    }


def _read_value(name: str, value: JsonValue | EnvironmentVariable, *, is_secret: bool) -> JsonValue:
    """Return the value of the answer to the question or field `name`, or raise the error."""
    if not isinstance(value, EnvironmentVariable):
        if is_secret:
            raise _InvalidValueError(
                f'give a secret such as {name!r} as an environment variable: {{ env = "NAME" }}'
            )
        return value

    if not is_secret:
        raise _InvalidValueError(
            f"{name!r} is not a secret, so its answer is recorded and "
            "sent. An environment variable can only answer secret questions"
        )

    text = os.environ.get(value.name, "")
    if not text:  # CI sets a variable without its secret to ""
        raise _InvalidValueError(f"the environment variable {value.name!r} is not set or is empty")
    return text


def _format_problem(kind: AnswerType, answer: JsonValue) -> str:
    """Return why `answer` does not fit; "" if the reason could show a secret."""
    if not kind.has_secret:
        return one_line(kind.format_problem(answer))

    if not isinstance(kind, FormAnswer) or not isinstance(answer, dict):
        return ""
    without_check = kind.model_copy(update={"check": None})  # a check may quote the answer
    return one_line(without_check.format_problem(answer))
