"""Types of answers: boolean, text, secret, number, integer, select, and url.

To add a type, define a class and add an entry to each of these tables:

- `QUESTION_KINDS` in `jp_nb/toolkit/question.py`
- `RECORDED_KINDS` in `jp_nb/record/events.py`
- `FORM_CONTROLS` in `jp_nb/notebook/prompt/controls.py`
- `STDIN_DIALOGUES` in `jp_nb/notebook/prompt/stdin.py`

Source: `docs/extending.md`, `docs/turns.md`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Literal, Self

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
    StrictStr,
    field_validator,
    model_serializer,
    model_validator,
)

from jp_nb.config.secrets import SECRET_ANSWER
from jp_nb.record.recorded_answers import DONE_ANSWER
from jp_nb.record.recorded_answers import NONE_OF_THESE as NONE_OF_THESE
from jp_nb.text import one_line, spell_invisible
from jp_nb.toolkit.misfits import is_linear_pattern, matches_pattern
from jp_nb.toolkit.parameters import TextFormat, has_format, has_type
from jp_nb.toolkit.web_address import MAX_URL_CHARS, remove_details

Misfit = Literal["type", "option", "value"]
"""Reason why an answer is invalid: its type, an unknown option, or a value that is not allowed."""

MAX_FIELDS = 50  # limit for the fields of one form


class AnswerType(BaseModel):
    """Base class of the types of answers. The fields of a subclass limit the valid answers.

    Attributes:
        type: Name of the type, in the JSON of tools and in records.
        json_type: JSON type of an answer.
        secret: True if an answer is never shown, stored, or sent to a model.
        needs_user: True if no model may answer, because the user has to do something.
        rememberable: True if the user may give one answer for all repetitions of the question in
            the turn.
    """

    model_config = ConfigDict(frozen=True, defer_build=True, extra="forbid")
    type: str
    json_type: ClassVar[str] = "string"
    secret: ClassVar[bool] = False
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
        return self.secret

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
        return SECRET_ANSWER if self.secret else answer

    def secrets(self, answer: JsonValue) -> Iterator[JsonValue]:
        """Yield the secret parts of `answer`."""
        if self.secret:
            yield answer

    def format_answer(self, answer: JsonValue) -> str:
        """Return a valid `answer` as text for the user, in one line."""
        return one_line(str(answer), limit=200)

    @model_serializer(mode="wrap")
    def _compact(self, whole: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        fields = type(self).model_fields
        return {
            name: value
            for name, value in whole(self).items()
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


class TextAnswer(AnswerType):
    """Answered by any string, including the empty one, within the bounds and the format.

    Attributes:
        format: `email`, `uri`, `date` (2026-11-23), `time` (17:30), or `date-time` (ISO 8601).
        pattern: Regular expression that is found in the text, without lookaround and
            back-references, so that it is checked in linear time.
        lines: True to show a box for several lines.
    """

    type: Literal["text"] = "text"
    format: TextFormat | None = None
    min_length: StrictInt = Field(0, ge=0)
    max_length: StrictInt | None = Field(None, ge=0)
    pattern: str | None = None
    lines: StrictBool = True

    @model_validator(mode="after")
    def _check_answerable(self) -> Self:
        if self.max_length is not None and self.min_length > self.max_length:
            raise ValueError("`min_length` is greater than `max_length`")
        if self.pattern is not None and not is_linear_pattern(self.pattern):
            raise ValueError(
                "`pattern` is not a regular expression that can be checked in linear time: write "
                "it without lookaround and back-references"
            )
        return self

    def answer_schema(self) -> dict[str, JsonValue]:
        """Return the schema of a string with these conditions."""
        bounds = {"minLength": self.min_length or None, "maxLength": self.max_length}
        conditions: dict[str, JsonValue] = {
            "format": self.format,
            "pattern": self.pattern,
            **bounds,
        }
        stated = {keyword: value for keyword, value in conditions.items() if value is not None}
        return super().answer_schema() | stated

    def misfit(self, answer: JsonValue) -> Misfit | None:
        """Return `type` if `answer` is not a string, and `value` if it breaks a condition."""
        if not isinstance(answer, str):
            return "type"

        longest = math.inf if self.max_length is None else self.max_length
        fits = self.min_length <= len(answer) <= longest
        fits = fits and (self.format is None or has_format(answer, self.format))
        fits = fits and (self.pattern is None or matches_pattern(answer, self.pattern))
        return None if fits else "value"

    @property
    def expects(self) -> str:
        """The format or `a string`, with the bounds and the pattern."""
        what = "a string" if self.format is None else _FORMAT_WORDS[self.format]
        bounds = _format_bounds(self.min_length or None, self.max_length, " characters")
        if self.pattern is None:
            return f"{what}{bounds}"

        pattern = one_line(spell_invisible(self.pattern), limit=MAX_SHOWN_PATTERN)
        return f"{what}{bounds} that matches {pattern}"


MAX_SHOWN_PATTERN: Final = 200
"""Maximum number of characters of a pattern in the description of a valid answer."""
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


def _check_number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) == math.inf:
        raise ValueError("expected a number")
    return value


Bound = Annotated[
    StrictInt | Annotated[StrictFloat, Field(allow_inf_nan=False)], BeforeValidator(_check_number)
]
"""A number. An integer keeps all digits."""


BOUNDS: Final = {
    "minimum": "minimum",
    "maximum": "maximum",
    "exclusiveMinimum": "above",
    "exclusiveMaximum": "below",
}
"""Fields of `NumberAnswer` by keyword of JSON Schema."""


class NumberAnswer(AnswerType):
    """Answered by a finite number within bounds, of which `above` and `below` are exclusive."""

    type: Literal["number"] = "number"
    json_type: ClassVar[str] = "number"
    minimum: Bound | None = None
    maximum: Bound | None = None
    above: Bound | None = None
    below: Bound | None = None

    @model_validator(mode="after")
    def _check_answerable(self) -> Self:
        least = max((x for x in (self.minimum, self.above) if x is not None), default=None)
        most = min((x for x in (self.maximum, self.below) if x is not None), default=None)
        if least is None or most is None:
            return self

        is_empty = least > most or (least == most and least in (self.above, self.below))
        if self.json_type == "integer":
            first = math.floor(least) + 1 if least == self.above else math.ceil(least)
            last = math.ceil(most) - 1 if most == self.below else math.floor(most)
            is_empty = first > last

        if is_empty:
            raise ValueError(f"no number is{self._range}")
        return self

    def answer_schema(self) -> dict[str, JsonValue]:
        """Return the schema of a number with these bounds."""
        bounds = ((keyword, getattr(self, field)) for keyword, field in BOUNDS.items())
        return super().answer_schema() | {key: x for key, x in bounds if x is not None}

    def misfit(self, answer: JsonValue) -> Misfit | None:
        """Return `type` if `answer` is not a number, and `value` if it is out of bounds."""
        if super().misfit(answer) or not isinstance(answer, int | float):
            return "type"

        fits = (
            # `isfinite` raises OverflowError for integers that are too large for a float.
            (isinstance(answer, int) or math.isfinite(answer))
            and (self.minimum is None or answer >= self.minimum)
            and (self.maximum is None or answer <= self.maximum)
            and (self.above is None or answer > self.above)
            and (self.below is None or answer < self.below)
        )
        return None if fits else "value"

    @property
    def expects(self) -> str:
        """The kind of number, with the bounds."""
        return f"{self._noun}{self._range}"

    @property
    def _range(self) -> str:
        more = f" above {_format_number(self.above)}" if self.above is not None else ""
        less = f" below {_format_number(self.below)}" if self.below is not None else ""
        return f"{_format_bounds(self.minimum, self.maximum)}{more}{less}"

    _noun: ClassVar[str] = "a number"

    def from_text(self, text: str) -> JsonValue:
        """Parse the user's input. The bounds are not checked.

        Raises:
            ValueError: It is not a number.
        """
        if text.strip().lstrip("+-").isdecimal():
            return int(text)
        return float(text)


class IntegerAnswer(NumberAnswer):
    """Answered by an integer within bounds."""

    type: Literal["integer"] = "integer"  # type: ignore[assignment]  # replaces `number`
    json_type: ClassVar[str] = "integer"
    _noun: ClassVar[str] = "a whole number"

    def from_text(self, text: str) -> JsonValue:
        """Parse the user's input. The bounds are not checked.

        Raises:
            ValueError: It is not a whole number.
        """
        return int(text)


def _format_bounds(least: float | None, most: float | None, unit: str = "") -> str:
    if least is not None and most is not None:
        of = "of" if unit else "from"
        return f" {of} {_format_number(least)} to {_format_number(most)}{unit}"
    if least is not None:
        return f" of at least {_format_number(least)}{unit}"
    return f" of at most {_format_number(most)}{unit}" if most is not None else ""


def _format_number(number: float) -> str:
    return str(number).removesuffix(".0")


OptionValue = (
    StrictStr | StrictBool | StrictInt | Annotated[StrictFloat, Field(allow_inf_nan=False)]
)


class Option(BaseModel):
    """One option of a selection. In JSON, it is an object with these keys, or only its value.

    Attributes:
        value: The answer if the user picks the option: a text, a number, or a boolean.
        label: The displayed text, in one line; None to show the value.
        description: Lines that are shown below the label.
    """

    model_config = ConfigDict(frozen=True, defer_build=True, extra="forbid")
    value: OptionValue
    label: str | None = None
    description: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _accept_plain_value(cls, data: Any) -> Any:
        return data if isinstance(data, dict | Option) else {"value": data}

    @field_validator("value", mode="before")
    @classmethod
    def _check_scalar(cls, value: Any) -> Any:
        if not isinstance(value, str | int | float):
            raise ValueError("expected a text, a number, or a boolean")
        return value

    @model_serializer(mode="plain")
    def _compact(self) -> JsonValue:
        more: dict[str, JsonValue] = {}
        if self.label is not None and self.label != self.value:
            more["label"] = self.label
        if self.description is not None:
            more["description"] = self.description

        return {"value": self.value, **more} if more else self.value

    def reworded(self, change: Callable[[str], str]) -> Self:
        """Return a copy whose description is the result of `change`."""
        if self.description is None:
            return self
        return self.model_copy(update={"description": change(self.description)})

    @property
    def shown(self) -> str:
        """The displayed text: the label, or else the value."""
        return str(self.value) if self.label is None else self.label


@dataclass(frozen=True, slots=True)
class Picks:
    """Parsed answer to a select question: picked options in order, and the user's own text."""

    indices: tuple[int, ...] = ()
    custom: str | None = None


class SelectAnswer(AnswerType):
    """Answered by one of `options`, with `multi` by several, and with `other` also by a text.

    An answer is the value of the option. With `multi`, it is a list of values in the order of the
    picks. With the user's own text, it is `{"selected": [values], "custom": "text"}`, where
    `selected` is empty without `multi`.

    Attributes:
        min_picks: Minimum number of picks, only with `multi`. An own text counts as a pick.
        max_picks: Maximum number of picks, only with `multi`; None for no limit.
        recommended: Index of the option that is marked as recommended. Out of range means None.
    """

    type: Literal["select"] = "select"
    options: tuple[Option, ...]
    multi: StrictBool = False
    other: StrictBool = False
    recommended: StrictInt | None = None
    min_picks: StrictInt = Field(0, ge=0)
    max_picks: StrictInt | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _check_answerable(self) -> Self:
        if not self.options and not self.other:
            raise ValueError(
                "`options` is empty: a select question needs at least one option, or `other`"
            )
        if len(self._indices) < len(self.options):
            raise ValueError("two `options` have the same value")
        if not self.multi and (self.min_picks or self.max_picks is not None):
            raise ValueError("`min_picks` and `max_picks` need `multi`")
        if self.min_picks > min(self._max_count, len(self.options) + self.other):
            raise ValueError("`min_picks` is greater than the number of options that can be picked")
        return self

    @property
    def _max_count(self) -> int:
        return len(self.options) + 1 if self.max_picks is None else self.max_picks

    @classmethod
    def of(cls, *values: OptionValue) -> Self:
        """Return a choice of one of `values`."""
        return cls(options=tuple(Option(value=value) for value in values))

    def with_options(self, options: Iterable[Option | OptionValue]) -> SelectAnswer:
        """Return a copy with other `options`, of which none is recommended.

        Raises:
            ValueError: There are too few options for `min_picks`, or none at all.
        """
        return SelectAnswer(
            options=tuple(options),
            multi=self.multi,
            other=self.other,
            min_picks=self.min_picks,
            max_picks=self.max_picks,
        )

    @property
    def values(self) -> tuple[OptionValue, ...]:
        """Values of the options."""
        return tuple(option.value for option in self.options)

    @property
    def labels(self) -> tuple[str, ...]:
        """Displayed texts of the options."""
        return tuple(option.shown for option in self.options)

    @property
    def recommended_index(self) -> int | None:
        """Index of the recommended option; None if there is no such option."""
        index = self.recommended
        return index if index is not None and 0 <= index < len(self.options) else None

    @property
    def automatic(self) -> JsonValue:
        """The recommended option, or else the first; None without options or if several are due."""
        if not self.options or self.min_picks > 1:
            return None
        return self.answer(Picks((self.recommended_index or 0,)))

    def answer(self, picks: Picks) -> JsonValue:
        """Return the answer for `picks`. Without `multi`, an own text replaces the pick."""
        values: list[JsonValue] = [self.options[index].value for index in picks.indices]
        if picks.custom is not None:
            selected = values if self.multi else []
            return {"selected": selected, "custom": picks.custom}
        return values if self.multi else values[0]

    def picks(self, answer: JsonValue) -> Picks | None:
        """Parse `answer`. Return None if it is invalid."""
        custom: str | None = None
        selected = answer if self.multi or isinstance(answer, dict) else [answer]
        if isinstance(answer, dict):
            own = answer.get("custom")
            selected = answer.get("selected")
            is_complete = answer.keys() == {"selected", "custom"}
            if not (self.other and isinstance(own, str) and is_complete):
                return None
            custom = own

        if not isinstance(selected, list) or (custom is not None and selected and not self.multi):
            return None
        found = [index for index in map(self._index, selected) if index is not None]
        if len(set(found)) < len(selected):
            return None

        count = len(found) if custom is None else len(found) + 1
        if self.multi and not self.min_picks <= count <= self._max_count:
            return None
        return Picks(tuple(found), custom)

    @cached_property
    def _indices(self) -> dict[tuple[str, OptionValue], int]:
        # The keys contain the type, because True == 1. The first of equal values is used.
        indices: dict[tuple[str, OptionValue], int] = {}
        for index, value in enumerate(self.values):
            indices.setdefault((_json_type(value), value), index)
        return indices

    def _index(self, value: JsonValue) -> int | None:
        if not isinstance(value, str | int | float):
            return None
        return self._indices.get((_json_type(value), value))

    def normalized(self, answer: JsonValue) -> JsonValue:
        """Return the configured `answer` with the values of options in place of their labels."""
        if isinstance(answer, dict):
            if not self.other:
                return answer
            selected = answer.get("selected", [])
            return {**answer, "selected": self._values_of(selected)}
        if self.multi:
            return self._values_of(answer)
        if isinstance(answer, list):
            return answer
        [value] = self._values_of([answer])
        return value

    def _values_of(self, answer: JsonValue) -> list[JsonValue]:
        """Return the items of `answer`, with values in place of the labels of options."""
        by_label: dict[str, JsonValue] = {}
        for option in self.options:
            by_label.setdefault(option.shown, option.value)

        values: list[JsonValue] = []
        for item in answer if isinstance(answer, list) else [answer]:
            if isinstance(item, str) and self._index(item) is None:
                values.append(by_label.get(item, item))
            else:
                values.append(item)
        return values

    def answer_schema(self) -> dict[str, JsonValue]:
        """Return the schema of the answer, with alternatives if the user may type an answer."""
        texts = all(isinstance(value, str) for value in self.values)
        value: dict[str, JsonValue] = {"type": "string"} if texts else {}
        meanings = [*filter(None, map(_describe_option, self.options))]
        if meanings:
            value["description"] = one_line("; ".join(meanings), limit=2000)
        value["enum"] = list(self.values)

        plain = self._list_schema(value, own=0) if self.multi else value
        if not self.other:
            return plain

        none: dict[str, JsonValue] = {"type": "array", "maxItems": 0}
        selected = self._list_schema(value, own=1) if self.multi else none
        own: dict[str, JsonValue] = {
            "type": "object",
            "properties": {"selected": selected, "custom": {"type": "string"}},
            "required": ["selected", "custom"],
            "additionalProperties": False,
        }
        return {"anyOf": [plain, own]} if self.options or self.multi else own

    def _list_schema(self, value: dict[str, JsonValue], *, own: int) -> dict[str, JsonValue]:
        # `own` is the number of own texts, which count as picks.
        schema: dict[str, JsonValue] = {"type": "array", "items": value, "uniqueItems": True}
        if self.min_picks > own:
            schema["minItems"] = self.min_picks - own
        if not self.options:
            schema |= {"items": {}, "maxItems": 0}
        elif self.max_picks is not None:
            schema["maxItems"] = self.max_picks - own
        return schema

    def misfit(self, answer: JsonValue) -> Misfit | None:
        """Return `type` for a wrong type, and `option` for another invalid answer."""
        if self.picks(answer) is not None:
            return None
        if self.multi:
            return "option" if isinstance(answer, list | dict) else "type"
        types = {_json_type(value) for value in self.values}
        return "option" if _json_type(answer) in types or isinstance(answer, dict) else "type"

    @property
    def expects(self) -> str:
        """The number of options in a list, or the type of a single answer."""
        if self.multi:
            return f"a list of {self._pick_range}options"
        texts = all(isinstance(value, str) for value in self.values)
        return "a string" if texts else "one of the options"

    @property
    def _pick_range(self) -> str:
        if self.max_picks is None:
            return f"at least {self.min_picks} " if self.min_picks else ""
        if self.min_picks == self.max_picks:
            return f"{self.min_picks} "
        return f"{self.min_picks} to {self.max_picks} "

    def format_answer(self, answer: JsonValue) -> str:
        """Return the labels in the order of the picks, and the own text. Escape invisible text."""
        picks = self.picks(answer)
        if picks is None:
            return one_line(str(answer), limit=200)

        options = [self.options[index] for index in picks.indices]
        labels = [spell_invisible(option.shown) for option in options]
        if picks.custom is not None:
            labels.append(f'"{spell_invisible(picks.custom)}"')
        return ", ".join(labels) if labels else NONE_OF_THESE

    def fixed_texts(self) -> tuple[str, ...]:
        """Return the values and labels of the options."""
        return (*map(str, self.values), *self.labels)

    def reworded(self, change: Callable[[str], str]) -> Self:
        """Return a copy whose descriptions are replaced by the results of `change`."""
        options = tuple(option.reworded(change) for option in self.options)
        return self.model_copy(update={"options": options})

    @model_serializer(mode="wrap")
    def _compact(self, whole: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        shape = super()._compact(whole)
        if self.recommended_index is None:
            shape.pop("recommended", None)
        return shape


def _describe_option(option: Option) -> str:
    label = None if option.shown == str(option.value) else option.shown
    text = ", ".join(filter(None, [label, option.description]))
    return f"{json.dumps(option.value)}: {text}" if text else ""


def _json_type(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    return type(value).__name__


OTHER_LABEL = "Other (type your own)"
"""Label of the row with a box for the user's own text."""
