"""Answers in the configuration to questions of the user's code (`jp.ask`), with checks.

They are the settings `conversation.tools.NAME.questions.ID.answer`. `NAME` is the tool whose code
asks; `*` is code of a cell. `ID` is the id of a question, or of a field of a form. So a user can
configure a whole answer, or only some fields of a form.

Questions and types of answers (`toolkit/question_types/`) check them: `misfit` is None if an answer
is valid, `problems` has the errors by field (with "" for the whole form), and `normalized` puts
the value of an option in place of its label. Each error names the setting that the user can change.

Source: `docs/guide.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from pydantic import JsonValue

from jp_nb.config.setting_paths import format_path
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.tool_settings import STAR
from jp_nb.errors import ConfigError, ConfigProblem
from jp_nb.toolkit.question import FormAnswer, Question

Answers = dict[str, JsonValue]
"""Answers by the id of a question, or of a field of a form."""


class ConfiguredAnswers:
    """The configured answers for one tool, or for code of a cell if `tool` is None."""

    def __init__(self, config: AppConfig, tool: str | None) -> None:
        self._tool = tool or STAR
        self._answers: Answers = {}

        settings = config.conversation.tools.get(self._tool)
        if settings is not None:
            for question_id, question in settings.questions.items():
                if question.answer is not None:
                    self._answers[question_id] = question.answer

    def find_answer(self, question: Question) -> JsonValue:
        """Return the answer to the whole question, or None.

        The configured fields of a form (`find_fields`) are its answer if they are all of them.

        Raises:
            ConfigError: The answer is not valid. The error has the path of each wrong field.
        """
        kind = question.answer_type
        if question.id in self._answers:
            answer = kind.normalized(self._answers[question.id])
            if question.misfit(answer):
                self._raise_misfit(question, answer)
            return answer

        if not isinstance(kind, FormAnswer):
            return None

        fields = self.find_fields(question)
        # A form without fields has no configured one: the user has to confirm it.
        if not fields or len(fields) < len(kind.fields):
            return None

        problems = kind.problems(fields)
        if problems:
            # A problem of the whole form is reported at its first field.
            first_id = kind.fields[0].id
            _raise_problems(
                {
                    self.format_path(field_id or first_id): problem
                    for field_id, problem in problems.items()
                }
            )
        return fields

    def find_fields(self, question: Question) -> Answers:
        """Return the configured answers to single fields, by field id; empty for another question.

        Raises:
            ConfigError: An answer does not fit its field.
        """
        kind = question.answer_type
        if not isinstance(kind, FormAnswer):
            return {}

        configured: Answers = {}
        for field in kind.fields:
            if field.id not in self._answers:
                continue
            answer = field.answer_type.normalized(self._answers[field.id])
            if field.misfit(answer):
                raise ConfigError(_format_expected(field), path=self.format_path(field.id))
            configured[field.id] = answer
        return configured

    def format_path(self, name: str) -> str:
        """Return the path of the setting with the answer to the question or field `name`."""
        return format_path(("conversation", "tools", self._tool, "questions", name, "answer"))

    def raise_field_problem(self, problems: Mapping[str, str], configured: Answers) -> NoReturn:
        """Raise a `ConfigError` for a form whose `configured` fields and defaults do not fit.

        Without a user, the defaults answer the fields that are not configured. Only a configured
        field has a setting, so the error names the first one with a problem. If only other fields
        or the whole form have problems, it names the first configured field, and lists them all.
        """
        for field_id, problem in problems.items():
            if field_id in configured:
                raise ConfigError(problem, path=self.format_path(field_id))

        first_id = next(iter(configured))
        message = "; ".join(problems.values())
        raise ConfigError(message, path=self.format_path(first_id))

    def _raise_misfit(self, question: Question, answer: JsonValue) -> NoReturn:
        """Raise a `ConfigError` for a configured answer, with the paths of its wrong fields."""
        kind = question.answer_type
        path = self.format_path(question.id)
        if not isinstance(kind, FormAnswer) or not isinstance(answer, dict):
            raise ConfigError(_format_expected(question), path=path)

        problems = kind.find_unknown_fields(answer) or kind.problems(answer)
        _raise_problems({_join_path(path, name): problem for name, problem in problems.items()})


def _join_path(path: str, name: str) -> str:
    """Return the path of the field `name` of the answer at `path`; "" is the whole answer."""
    return f"{path}.{name}" if name else path


def _raise_problems(problems: Mapping[str, str]) -> NoReturn:
    """Raise one `ConfigError` for all `problems`, by the paths of their settings."""
    (path, message), *others = problems.items()
    more = [ConfigProblem(path, "value", message) for path, message in others]
    raise ConfigError(message, path=path, others=more)


def _format_expected(question: Question) -> str:
    return f"does not answer the question: expected {question.answer_type.expects}"
