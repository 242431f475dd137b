"""Hide the answers to secret questions in outcomes of tools and in questions.

A tool that got a password may repeat it in its result, in an error, or in its next question. The
answers are known only in this process. In texts, a placeholder replaces them. A structured value or
a configuration change that contains one is dropped.

Source: `docs/record.md`, `docs/turns.md`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import JsonValue

from jp_nb.config.redactor import Redactor
from jp_nb.config.secrets.replacements import SECRET_ANSWER
from jp_nb.images import Image
from jp_nb.toolkit.outcome import NeedsInput, Outcome, Success, ToolFailure
from jp_nb.toolkit.question import FormAnswer, Question

MAY_NOT_BE_STORED = "it contains the answer to a secret question, which must not be stored"
MAY_NOT_BE_OFFERED = "The tool put a secret into a required part of a question: {}"


class SecretAnswers(Redactor):
    """The secret answers of a session, only in memory. Thread-safe, as `Redactor` is.

    The base class hides them in texts (`hide`).
    """

    def __init__(self) -> None:
        super().__init__(SECRET_ANSWER)

    @property
    def _has_answers(self) -> bool:
        return bool(self._forms)  # `Redactor` keeps each secret in all forms that it recognizes

    def add_answer(self, question: Question, answer: JsonValue) -> None:
        """Hide the secret parts of the answer to `question` in later texts."""
        for secret in question.answer_type.secrets(answer):
            if isinstance(secret, str):
                self.add(secret)

    def hide_in_outcome(self, outcome: Outcome) -> Outcome:
        """Return `outcome` without secrets. A configuration change with a secret is rejected.

        The result is a `ToolFailure` if a question has a secret in its id or in its options.
        """
        if not self._has_answers:
            return outcome

        hidden: dict[str, Any] = {}
        match outcome:
            case Success(config=config, unset=unset, malformed=malformed):
                hidden["content"] = self.hide(outcome.content)
                hidden["structured"] = self._drop_secret(outcome.structured)
                hidden["images"] = tuple(map(self._hide_in_name, outcome.images))
                if self._has_secret([config, *unset]):
                    hidden |= {"config": None, "unset": (), "malformed": MAY_NOT_BE_STORED}
                elif malformed is not None:
                    hidden["malformed"] = self.hide(malformed)
            case ToolFailure(message=message, trace=trace):
                hidden["message"] = self.hide(message)
                hidden["trace"] = tuple(map(self.hide, trace))
                hidden["structured"] = self._drop_secret(outcome.structured)
            case NeedsInput(questions=questions):
                for question in questions:
                    if self._has_secret([question.id, *question.answer_type.fixed_texts()]):
                        return ToolFailure(MAY_NOT_BE_OFFERED.format(self.hide(question.text)))
                hidden["questions"] = tuple(map(self.hide_in_question, questions))
        return outcome.model_copy(update=hidden)

    def _hide_in_name(self, image: Image) -> Image:
        """Return `image` without secrets in its name. Its pixels are not searched."""
        return replace(image, name=self.hide(image.name))

    def hide_in_question(self, question: Question) -> Question:
        """Return `question` without secrets in its displayed texts and defaults."""
        if not self._has_answers:
            return question
        return self._drop_secret_defaults(question.reworded(self.hide))

    def _drop_secret_defaults(self, question: Question) -> Question:
        """Return `question` without defaults that contain a secret, also those of its fields."""
        kind = question.answer_type
        if isinstance(kind, FormAnswer):
            fields = tuple(map(self._drop_secret_defaults, kind.fields))
            kind = kind.model_copy(update={"fields": fields})

        default = self._drop_secret(question.default)
        return question.model_copy(update={"answer_type": kind, "default": default})

    def _drop_secret(self, value: JsonValue) -> JsonValue:
        return None if self._has_secret(value) else value

    def _has_secret(self, value: Any) -> bool:
        """Return True if a text or a number in a JSON value contains a secret, keys included."""
        if isinstance(value, dict):
            value = [*value, *value.values()]
        if isinstance(value, (list, tuple)):
            return any(map(self._has_secret, value))
        if value is None or isinstance(value, bool):
            return False
        return self.hide(str(value)) != str(value)
