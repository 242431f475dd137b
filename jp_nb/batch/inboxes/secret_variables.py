"""Ask for the name of an environment variable in place of a secret.

An answers file never contains a secret: it has `{ env = "NAME" }`, and each run reads the variable.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from jp_nb.batch.inboxes.answer_entries import AnswerValue
from jp_nb.storage.configuration.answers_content import EnvironmentVariable
from jp_nb.toolkit.question import FormAnswer, Question
from jp_nb.toolkit.question_types.text_answer import TextAnswer

_VARIABLE_NAME: Final = TextAnswer(lines=False, pattern="^[A-Za-z_][A-Za-z0-9_]*$")
_VARIABLE_HELP: Final = "the name of an environment variable of the runs, not the secret itself"


def make_inbox_question(question: Question) -> Question:
    """Return the question as the inbox asks it: required, and without secrets."""
    kind = question.answer_type
    if isinstance(kind, FormAnswer):
        fields = tuple(map(_ask_for_variable, kind.fields))
        kind = kind.model_copy(update={"fields": fields})
        question = question.model_copy(update={"answer_type": kind})

    # Exclusive: a model must not answer in place of the user.
    return _ask_for_variable(question).model_copy(update={"required": True, "exclusive": True})


def _ask_for_variable(question: Question) -> Question:
    """Return a question about a variable, if the answer is a secret; else the same question."""
    if not question.answer_type.is_secret:
        return question

    text = f"{question.text} ({_VARIABLE_HELP})"
    return question.model_copy(update={"text": text, "answer_type": _VARIABLE_NAME})


def read_inbox_answer(question: Question, value: JsonValue) -> AnswerValue:
    """Return the answer to `make_inbox_question(question)` with the variables that it names."""
    kind = question.answer_type
    if kind.is_secret:
        return EnvironmentVariable(str(value))
    if not isinstance(kind, FormAnswer) or not isinstance(value, dict):
        return value

    secrets = {field.id for field in kind.fields if field.answer_type.is_secret}
    answers: dict[str, JsonValue | EnvironmentVariable] = {}
    for name, field_value in value.items():
        if field_value is None:  # an optional field that the user left empty
            continue
        if name in secrets:
            answers[name] = EnvironmentVariable(str(field_value))
        else:
            answers[name] = field_value
    return answers
