"""Answers of a form: an object with a value for each field.

A field is a question itself, so the class `FormAnswer`, which has the type of the fields, is in
`jp_nb/toolkit/question.py`. This module has its rules: the objects that are answers, and how an
answer is checked, shown, stored, and completed with defaults.

A form with the fields `name` and `age` has answers such as `{"name": "Ada", "age": 36}`. A field
that the user left open is absent.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, Protocol, Self, runtime_checkable

from pydantic import Field, JsonValue, model_validator

from jp_nb.config.secrets.replacements import SECRET_ANSWER
from jp_nb.record.reading.recorded_answers import CONFIRMED_ANSWER, EMPTY
from jp_nb.text import one_line
from jp_nb.toolkit.question_types.answer_types import AnswerType, Misfit

REQUIRED: Final = "an answer is required"
Check = Callable[[Mapping[str, JsonValue]], Mapping[str, str]]
"""Return the problems of the answer to a form by field id. "" is the id of the whole form."""


@runtime_checkable
class ConvertingCheck(Protocol):
    """A `Check` that also converts answers to Python values, by its method `value`."""

    def __call__(self, answer: Mapping[str, JsonValue], /) -> Mapping[str, str]: ...  # noqa: D102

    def value(self, answer: Mapping[str, JsonValue]) -> Any: ...  # noqa: D102


class FieldQuestion(Protocol):
    """A field of a form: the parts of a `Question` on which the rules of a form depend."""

    @property
    def id(self) -> str: ...  # noqa: D102

    @property
    def text(self) -> str: ...  # noqa: D102

    @property
    def context(self) -> str | None: ...  # noqa: D102

    @property
    def default(self) -> JsonValue: ...  # noqa: D102

    @property
    def required(self) -> bool: ...  # noqa: D102

    @property
    def answer_type(self) -> AnswerType: ...  # noqa: D102

    @property
    def fits_default(self) -> bool: ...  # noqa: D102

    def misfit(self, answer: JsonValue) -> Misfit | None: ...  # noqa: D102

    def reworded(self, change: Callable[[str], str]) -> Self: ...  # noqa: D102


class FieldsAnswer(AnswerType):
    """Rules of the answers of a form. `FormAnswer` has them, with questions as `fields`.

    Most methods of `AnswerType` apply those of each field to its value.

    Attributes:
        check: Further conditions, such as the validators of a model. They are not serialized.
        keeps_cleared: True if an optional field whose default the user deleted is an empty text,
            False if it is absent. It is not serialized.
    """

    type: Literal["form"] = "form"
    fields: tuple[FieldQuestion, ...]
    check: Check | None = Field(None, exclude=True, repr=False)
    keeps_cleared: bool = Field(True, exclude=True, repr=False)

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        if len({field.id for field in self.fields}) < len(self.fields):
            raise ValueError("two fields have the same id")
        if any(isinstance(field.answer_type, FieldsAnswer) for field in self.fields):
            raise ValueError("a form cannot contain another form")
        return self

    def answer_schema(self) -> dict[str, JsonValue]:
        """Return the schema of the object."""
        required: list[JsonValue] = [field.id for field in self.fields if field.required]
        properties: dict[str, JsonValue] = {}

        for field in self.fields:
            schema: dict[str, JsonValue] = {}
            if field.context is not None:
                schema["description"] = field.context
            schema["title"] = field.text
            properties[field.id] = schema | field.answer_type.answer_schema()

        return {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }

    def format_problem(self, answer: JsonValue) -> str:
        """Return the problems of all fields."""
        if not isinstance(answer, dict):
            return super().format_problem(answer)

        problems = self.find_unknown_fields(answer) or self.problems(answer)
        texts: list[str] = []
        for field_id, problem in problems.items():
            text = f"`{field_id}`: {problem}" if field_id else problem
            texts.append(text)
        return one_line("; ".join(texts))

    def misfit(self, answer: JsonValue) -> Misfit | None:
        """Return `type` for other objects and values, and `value` if a field is invalid."""
        if not isinstance(answer, dict) or self.find_unknown_fields(answer):
            return "type"
        return "value" if self.problems(answer) else None

    def find_unknown_fields(self, answer: Iterable[str]) -> dict[str, str]:
        """Return a problem for each key of `answer` that is not a field."""
        known = {field.id for field in self.fields}
        return {name: "unknown field" for name in answer if name not in known}

    def problems(self, answer: Mapping[str, JsonValue]) -> dict[str, str]:
        """Return the problems by field id. "" is the id of the whole form."""
        problems: dict[str, str] = {}
        for field in self.fields:
            if field.id not in answer:
                if field.required:
                    problems[field.id] = REQUIRED
            elif field.misfit(answer[field.id]):
                problems[field.id] = f"expected {field.answer_type.expects}"

        if problems or self.check is None:
            return problems

        secrets = [secret for secret in self.secrets(answer) if isinstance(secret, str) and secret]
        for field_id, text in self.check(answer).items():
            for secret in secrets:  # a validator may quote its input
                text = text.replace(secret, SECRET_ANSWER)
            problems[field_id] = one_line(text)

        return problems

    def validated(self, answer: JsonValue) -> Any:
        """Convert a valid `answer` if `check` can do so."""
        if isinstance(answer, dict) and isinstance(self.check, ConvertingCheck):
            return self.check.value(answer)
        return answer

    def with_defaults(self, answer: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Return `answer` with the valid defaults of the other fields."""
        defaults = {field.id: field.default for field in self.fields if field.fits_default}
        return {**defaults, **answer}

    def make_remaining_form(self, earlier: Mapping[str, JsonValue]) -> Self:
        """Return a form with the fields that are not in `earlier`. It checks all fields together.

        A problem of a field that is not shown becomes one of the form as a whole.
        """
        fields = tuple(field for field in self.fields if field.id not in earlier)
        labels = {field.id: field.text for field in self.fields}

        def check(answer: Mapping[str, JsonValue]) -> dict[str, str]:
            shown_problems: dict[str, str] = {}
            form_problems: list[str] = []
            for field_id, problem in self.problems({**earlier, **answer}).items():
                if not field_id:
                    form_problems.insert(0, problem)
                elif field_id in earlier:  # the form does not show this field
                    form_problems.append(f"{labels.get(field_id, field_id)}: {problem}")
                else:
                    shown_problems[field_id] = problem

            if form_problems:
                shown_problems[""] = "; ".join(form_problems)
            return shown_problems

        return type(self)(fields=fields, check=check, keeps_cleared=self.keeps_cleared)

    @property
    def automatic(self) -> JsonValue:
        """The default values; None if they are not a valid answer, or if there are no fields."""
        if not self.fields:  # only the user confirms
            return None
        answer = self.with_defaults({})
        return None if self.problems(answer) else answer

    def reworded(self, change: Callable[[str], str]) -> Self:
        """Return a copy whose displayed texts are replaced by the results of `change`."""
        fields = tuple(field.reworded(change) for field in self.fields)
        return self.model_copy(update={"fields": fields})

    @property
    def expects(self) -> str:
        """Description of the object, with the ids of the fields."""
        if not self.fields:
            return "an empty object, as a confirmation"
        ids = [f"`{field.id}`" for field in self.fields]
        return f"an object with {', '.join(ids)}"

    @property
    def has_secret(self) -> bool:
        """True if a field is secret."""
        return any(field.answer_type.has_secret for field in self.fields)

    @property
    def is_for_user(self) -> bool:
        """True if a field is secret, or has a URL."""
        return any(field.answer_type.is_for_user for field in self.fields)

    def _iter_values(self, answer: object) -> Iterator[tuple[FieldQuestion, JsonValue]]:
        """Yield each field that `answer` has, with its value."""
        values = answer if isinstance(answer, Mapping) else {}
        return ((field, values[field.id]) for field in self.fields if field.id in values)

    def redacted(self, answer: JsonValue) -> JsonValue:
        """Return the object without secrets, for the record."""
        return {
            field.id: field.answer_type.redacted(value)
            for field, value in self._iter_values(answer)
        }

    def secrets(self, answer: object) -> Iterator[JsonValue]:
        """Yield the answers of the secret fields."""
        for field, value in self._iter_values(answer):
            yield from field.answer_type.secrets(value)

    def normalized(self, answer: JsonValue) -> JsonValue:
        """Return the configured object with the values of options in place of their labels."""
        if not isinstance(answer, dict):
            return answer
        return answer | {
            field.id: field.answer_type.normalized(value)
            for field, value in self._iter_values(answer)
        }

    def format_answer(self, answer: JsonValue) -> str:
        """Return `name: value` for each field, in one line."""
        parts = (
            f"{field.text}: {field.answer_type.format_answer(value)}"
            for field, value in self._iter_values(answer)
        )
        text = one_line("; ".join(parts), limit=2000)
        if text:
            return text
        return EMPTY if self.fields else CONFIRMED_ANSWER

    def fixed_texts(self) -> tuple[str, ...]:
        """Return the ids of the fields, and the fixed texts of their answers.

        Other texts can have a secret replaced. In these, the answer would change.
        """
        texts = [field.id for field in self.fields]
        for field in self.fields:
            texts += field.answer_type.fixed_texts()
        return tuple(texts)
