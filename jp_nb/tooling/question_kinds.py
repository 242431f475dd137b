"""The kinds of questions, one class each: what fits as an answer, as a schema, a check and words.

A new kind is a class listed in `QUESTION_KINDS` of `tooling/question.py`, and one entry each in
`RECORDED_KINDS` of `record/inquiry_events.py` (what a record needs of it), `FORM_CONTROLS` of
`notebook/prompt/controls.py` and `STDIN_DIALOGUES` of `notebook/prompt/stdin.py`.

Source: `docs/extending.md`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    StrictBool,
    StrictFloat,
    StrictInt,
    model_serializer,
    model_validator,
)

from jp_nb.config.secret_names import SECRET_ANSWER
from jp_nb.safe_text import one_line
from jp_nb.tooling.text_formats import FORMATS, TextFormat

Misfit = Literal["type", "option", "value"]
"""Says what is wrong with an answer: its type, that it is not among the options, or out of bounds.
"""


MAX_FIELDS = 50
"""Of a form: nobody fills in more on one page."""


class AnswerType(BaseModel, ABC):
    """The kind of a question and of its answers: one class for each, whose fields make it precise.

    Attributes:
        type: Name of the kind, on the wire and in records.
        secret: Whether an answer is never shown, stored or sent to a model.
        rememberable: Whether the person may answer for the rest of the turn.
    """

    model_config = ConfigDict(frozen=True, defer_build=True, extra="forbid")
    type: str
    secret: ClassVar[bool] = False
    rememberable: ClassVar[bool] = False

    @abstractmethod
    def answer_schema(self) -> dict[str, JsonValue]:
        """Return the JSON schema of an answer."""

    @abstractmethod
    def misfit(self, answer: JsonValue) -> Misfit | None:
        """Return why `answer` does not fit; None if it does."""

    @property
    def expects(self) -> str:
        """What an answer is, in words that follow "expected": `a number from 1 to 5`."""
        return "a string"

    def complaint(self, answer: JsonValue) -> str:
        """Return what is wrong with an `answer` that does not fit, in words."""
        return f"expected {self.expects}"

    @property
    def has_secret(self) -> bool:
        """True if an answer, or a part of it, is secret."""
        return self.secret

    @property
    def automatic(self) -> JsonValue:
        """The answer of an optional question where nobody decides; None: it stays open."""
        return None

    def settled(self, answer: JsonValue) -> JsonValue:
        """Return what a configured `answer` means: an option may be named by its label."""
        return answer

    def kept(self, answer: JsonValue) -> JsonValue:
        """Return what a record may hold of `answer`."""
        return SECRET_ANSWER if self.secret else answer

    def secrets(self, answer: JsonValue) -> Iterator[JsonValue]:
        """Yield the secret parts of `answer`."""
        if self.secret:
            yield answer

    def in_words(self, answer: JsonValue) -> str:
        """Return what a person reads of a fitting `answer`, in one line."""
        return one_line(str(answer), limit=200)

    @model_serializer(mode="wrap")
    def _compact(self, whole: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        fields = type(self).model_fields
        return {
            name: value
            for name, value in whole(self).items()
            if name == "type" or value != fields[name].default
        }

    def recorded(self) -> dict[str, JsonValue]:
        """Return the object that stands for it in an inquiry's entry: what is not set is absent."""
        return self.model_dump(mode="json")

    def verbatim(self) -> tuple[str, ...]:
        """Return the texts that come back as an answer, and can therefore not be altered."""
        return ()

    def reworded(self, change: Callable[[str], str]) -> Self:
        """Return the same kind, each text that is only shown as `change` returns it."""
        return self

    def validated(self, answer: JsonValue) -> Any:
        """Return a fitting `answer` as Python code wants it."""
        return answer


class BooleanAnswer(AnswerType):
    """Answered by JSON `true` or `false`."""

    type: Literal["boolean"] = "boolean"
    rememberable: ClassVar[bool] = True

    def answer_schema(self) -> dict[str, JsonValue]:
        """Return the schema of a boolean."""
        return {"type": "boolean"}

    def misfit(self, answer: JsonValue) -> Misfit | None:
        """Return `type` for anything but a boolean."""
        return None if isinstance(answer, bool) else "type"

    @property
    def expects(self) -> str:
        """What an answer is."""
        return "a boolean"

    def in_words(self, answer: JsonValue) -> str:
        """Return `Yes` or `No`."""
        return "Yes" if answer else "No"


class TextAnswer(AnswerType):
    """Answered by any string, also the empty one, unless bounds or a format say otherwise.

    Attributes:
        format: `email`, `uri`, `date` (2026-11-23), `time` (17:30) or `date-time` (ISO 8601).
        min_length: In characters.
        max_length: In characters; None: no bound.
        lines: Whether a text of several lines is expected: a larger box.
    """

    type: Literal["text"] = "text"
    format: TextFormat | None = None
    min_length: StrictInt = Field(0, ge=0)
    max_length: StrictInt | None = Field(None, ge=0)
    lines: StrictBool = True

    @model_validator(mode="after")
    def _answerable(self) -> Self:
        if self.max_length is not None and self.min_length > self.max_length:
            raise ValueError("`min_length` is greater than `max_length`")
        return self

    def answer_schema(self) -> dict[str, JsonValue]:
        """Return the schema of such a string."""
        schema: dict[str, JsonValue] = {"type": "string"}
        if self.format is not None:
            schema["format"] = self.format
        if self.min_length:
            schema["minLength"] = self.min_length
        if self.max_length is not None:
            schema["maxLength"] = self.max_length
        return schema

    def misfit(self, answer: JsonValue) -> Misfit | None:
        """Return `type` for what is no string, `value` for one that breaks a bound."""
        if not isinstance(answer, str):
            return "type"
        longest = math.inf if self.max_length is None else self.max_length
        fits = self.min_length <= len(answer) <= longest
        return None if fits and (self.format is None or FORMATS[self.format](answer)) else "value"

    @property
    def expects(self) -> str:
        """What an answer is."""
        what = "a string" if self.format is None else _FORMAT_WORDS[self.format]
        return f"{what}{_bounds(self.min_length or None, self.max_length, ' characters')}"


_FORMAT_WORDS: dict[TextFormat, str] = {
    "email": "an e-mail address such as name@example.org",
    "uri": "an address such as https://example.org",
    "date": "a date such as 2026-11-23",
    "time": "a time such as 17:30",
    "date-time": "a date and time such as 2026-11-23T17:30:00Z",
}


class SecretAnswer(AnswerType):
    """Answered by a string that is never shown, stored or sent to a model."""

    type: Literal["secret"] = "secret"
    secret: ClassVar[bool] = True

    def answer_schema(self) -> dict[str, JsonValue]:
        """Return the schema of a string."""
        return {"type": "string"}

    def misfit(self, answer: JsonValue) -> Misfit | None:
        """Return `type` for anything but a string."""
        return None if isinstance(answer, str) else "type"

    def in_words(self, answer: JsonValue) -> str:
        """Return the same words for every secret."""
        return SECRET_ANSWER


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) == math.inf:
        raise ValueError("expected a number")
    return value


Bound = Annotated[
    StrictInt | Annotated[StrictFloat, Field(allow_inf_nan=False)], BeforeValidator(_number)
]
"""An integer keeps all its digits."""


class NumberAnswer(AnswerType):
    """Answered by a finite number within bounds, both of which belong to the range.

    Attributes:
        above: The answer is greater than this one.
        below: The answer is less than this one.
    """

    type: Literal["number"] = "number"
    minimum: Bound | None = None
    maximum: Bound | None = None
    above: Bound | None = None
    below: Bound | None = None

    @model_validator(mode="after")
    def _answerable(self) -> Self:
        least = max((x for x in (self.minimum, self.above) if x is not None), default=None)
        most = min((x for x in (self.maximum, self.below) if x is not None), default=None)
        if least is None or most is None:
            return self
        open_end = least == self.above or most == self.below
        if least > most or (least == most and open_end) or self._skips(least, most):
            raise ValueError(f"no number is{self._range}")
        return self

    def _skips(self, least: float, most: float) -> bool:
        """Return True if no answer lies between `least` and `most`, which differ."""
        return False

    def answer_schema(self) -> dict[str, JsonValue]:
        """Return the schema of such a number."""
        bounds = {
            "minimum": self.minimum,
            "maximum": self.maximum,
            "exclusiveMinimum": self.above,
            "exclusiveMaximum": self.below,
        }
        return {"type": self.type, **{key: x for key, x in bounds.items() if x is not None}}

    def misfit(self, answer: JsonValue) -> Misfit | None:
        """Return `type` for what is no such number, `value` for one out of bounds."""
        if isinstance(answer, bool) or not isinstance(answer, int | float):
            return "type"
        finite = isinstance(answer, int) or math.isfinite(answer)  # of any number of digits
        return None if finite and self._is_within(answer) else "value"

    def _is_within(self, number: float) -> bool:
        return (
            (self.minimum is None or number >= self.minimum)
            and (self.maximum is None or number <= self.maximum)
            and (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
        )

    @property
    def expects(self) -> str:
        """What an answer is."""
        return f"{self._noun}{self._range}"

    @property
    def _range(self) -> str:
        more = f" above {_digits(self.above)}" if self.above is not None else ""
        less = f" below {_digits(self.below)}" if self.below is not None else ""
        return f"{_bounds(self.minimum, self.maximum)}{more}{less}"

    _noun: ClassVar[str] = "a number"

    def from_text(self, text: str) -> JsonValue:
        """Return the number that somebody typed, not yet held against the bounds.

        Raises:
            ValueError: If it is none.
        """
        return float(text) if not _is_whole(text) else int(text)


class IntegerAnswer(NumberAnswer):
    """Answered by an integer within bounds."""

    type: Literal["integer"] = "integer"  # type: ignore[assignment]  # a kind of its own
    _noun: ClassVar[str] = "a whole number"

    def misfit(self, answer: JsonValue) -> Misfit | None:
        """Return `type` for anything but an integer, `value` for one out of bounds."""
        return super().misfit(answer) if isinstance(answer, int) else "type"

    def _skips(self, least: float, most: float) -> bool:
        first = math.floor(least) + 1 if least == self.above else math.ceil(least)
        last = math.ceil(most) - 1 if most == self.below else math.floor(most)
        return first > last

    def from_text(self, text: str) -> JsonValue:
        """Return the integer that somebody typed, not yet held against the bounds.

        Raises:
            ValueError: If it is none.
        """
        return int(text)


def _is_whole(text: str) -> bool:
    return text.strip().lstrip("+-").isdecimal()


def _bounds(least: float | None, most: float | None, unit: str = "") -> str:
    if least is not None and most is not None:
        return f" {'of' if unit else 'from'} {_digits(least)} to {_digits(most)}{unit}"
    if least is not None:
        return f" of at least {_digits(least)}{unit}"
    return f" of at most {_digits(most)}{unit}" if most is not None else ""


def _digits(number: float) -> str:
    return str(number).removesuffix(".0")
