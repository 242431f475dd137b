"""The base class of the types of answers, and the simplest types, which have no conditions.

A question has an answer type, which checks, describes, and converts its answers. Texts,
numbers, selections, and forms have modules of their own (`text_answer.py`, `number_answer.py`,
`select_answer.py`, `question.py`).

To add a type, define a class and add an entry to each of these tables:

- `QUESTION_KINDS` in `jp_nb/toolkit/question.py`
- `RECORDED_KINDS` in `jp_nb/record/entries/inquiry_events.py`
- `FORM_CONTROLS` in `jp_nb/notebook/prompt/controls/controls.py`
- `STDIN_DIALOGUES` in `jp_nb/notebook/prompt/stdin_prompts/stdin_questions.py`

Source: `docs/extending.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from jp_nb.config.secrets.replacements import SECRET_ANSWER
from jp_nb.record.reading.recorded_answers import DONE_ANSWER
from jp_nb.record.reading.recorded_answers import NONE_OF_THESE as NONE_OF_THESE  # for importers
from jp_nb.text import one_line
from jp_nb.toolkit.arguments.json_types import has_type
from jp_nb.toolkit.question_types.web_address import MAX_URL_CHARS, remove_details

Misfit = Literal["type", "option", "value"]
"""Reason why an answer is invalid: its type, an unknown option, or a value that is not allowed."""

MAX_FIELDS = 50  # limit for the fields of one form


class AnswerType(BaseModel):
    """Base class of the types of answers. The fields of a subclass limit the valid answers.

    Attributes:
        type: Name of the type, in the JSON of tools and in records.
        json_type: JSON type of an answer.
        is_secret: True if an answer is never shown, stored, or sent to a model.
        needs_user: True if no model may answer, because the user has to do something.
        rememberable: True if the user may give one answer for all repetitions of the question in
            the turn.
    """

    model_config = ConfigDict(frozen=True, defer_build=True, extra="forbid")
    type: str
    json_type: ClassVar[str] = "string"
    is_secret: ClassVar[bool] = False
    needs_user: ClassVar[bool] = False
    rememberable: ClassVar[bool] = False

    def answer_schema(self) -> dict[str, JsonValue]:
        """Return the JSON schema of an answer."""
        return {"type": self.json_type}

    def misfit(self, answer: JsonValue) -> Misfit | None:
        """Return the reason why `answer` is invalid, or None."""
        return None if has_type(answer, {self.json_type}) else "type"

    @property
    def expects(self) -> str:
        """Description of a valid answer, such as `a number from 1 to 5`."""
        return "a string"

    def format_problem(self, answer: JsonValue) -> str:
        """Return the reason why `answer` is invalid, as text."""
        return f"expected {self.expects}"

    @property
    def has_secret(self) -> bool:
        """True if an answer, or a part of it, is secret."""
        return self.is_secret

    @property
    def is_for_user(self) -> bool:
        """True if no model may answer: the user has to do something, or a part is secret."""
        return self.needs_user or self.has_secret

    @property
    def automatic(self) -> JsonValue:
        """The answer to an optional question when no user is available; None to leave it open."""
        return None

    def normalized(self, answer: JsonValue) -> JsonValue:
        """Return the configured `answer` with the values of options in place of their labels."""
        return answer

    def redacted(self, answer: JsonValue) -> JsonValue:
        """Return `answer` without secrets, for the record."""
        return SECRET_ANSWER if self.is_secret else answer

    def secrets(self, answer: JsonValue) -> Iterator[JsonValue]:
        """Yield the secret parts of `answer`."""
        if self.is_secret:
            yield answer

    def format_answer(self, answer: JsonValue) -> str:
        """Return a valid `answer` as text for the user, in one line."""
        return one_line(str(answer), limit=200)

    @model_serializer(mode="wrap")
    def _omit_defaults(self, serialize: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        """Return the JSON object of the type, without fields that have their default."""
        fields = type(self).model_fields
        return {
            name: value
            for name, value in serialize(self).items()
            if name == "type" or value != fields[name].default
        }

    def to_record(self) -> dict[str, JsonValue]:
        """Return the JSON object for the inquiry in the record, without default values."""
        return self.model_dump(mode="json")

    def fixed_texts(self) -> tuple[str, ...]:
        """Return the texts that are part of answers, so they must not be changed."""
        return ()

    def reworded(self, change: Callable[[str], str]) -> Self:
        """Return a copy whose displayed texts are replaced by the results of `change`."""
        return self

    def validated(self, answer: JsonValue) -> Any:
        """Convert a valid `answer` to its Python value."""
        return answer


class BooleanAnswer(AnswerType):
    """Answered by JSON `true` or `false`."""

    type: Literal["boolean"] = "boolean"
    json_type: ClassVar[str] = "boolean"
    rememberable: ClassVar[bool] = True
    expects: ClassVar[str] = "a boolean"

    def format_answer(self, answer: JsonValue) -> str:
        """Return `Yes` or `No`."""
        return "Yes" if answer else "No"


class SecretAnswer(AnswerType):
    """Answered by a string that is never shown, stored or sent to a model."""

    type: Literal["secret"] = "secret"
    is_secret: ClassVar[bool] = True

    def format_answer(self, answer: JsonValue) -> str:
        """Return the placeholder for secrets."""
        return SECRET_ANSWER


class UrlAnswer(AnswerType):
    """Answered by `true`, once the user has opened `url` in a browser and has done what it asks.

    Only the user opens it, with a button. It is recorded without its query, which may have a key.
    """

    type: Literal["url"] = "url"
    json_type: ClassVar[str] = "boolean"
    needs_user: ClassVar[bool] = True
    expects: ClassVar[str] = "true, after the user opened the address"
    url: str = Field(min_length=1, max_length=MAX_URL_CHARS)

    def answer_schema(self) -> dict[str, JsonValue]:
        """Return the schema of `true`."""
        return super().answer_schema() | {"const": True}

    def misfit(self, answer: JsonValue) -> Misfit | None:
        """Return `type` for another type, and `value` for `false`."""
        if super().misfit(answer) is not None:
            return "type"
        return None if answer else "value"

    def format_answer(self, answer: JsonValue) -> str:
        """Return `done`."""
        return DONE_ANSWER

    def to_record(self) -> dict[str, JsonValue]:
        """Return the JSON object for the record, with the URL without its details."""
        return super().to_record() | {"url": remove_details(self.url)}

    def fixed_texts(self) -> tuple[str, ...]:
        """Return the URL."""
        return (self.url,)


def format_bounds(least: float | None, most: float | None, unit: str = "") -> str:
    """Return the end of a description, such as ` from 1 to 5`; "" without bounds."""
    if least is not None and most is not None:
        preposition = "of" if unit else "from"  # a string of 1 to 5 characters
        return f" {preposition} {format_number(least)} to {format_number(most)}{unit}"
    if least is not None:
        return f" of at least {format_number(least)}{unit}"
    if most is not None:
        return f" of at most {format_number(most)}{unit}"
    return ""


def format_number(number: float) -> str:
    """Return `number` without the fraction `.0`."""
    return str(number).removesuffix(".0")
