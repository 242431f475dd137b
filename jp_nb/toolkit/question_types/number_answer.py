"""Answers that are numbers within bounds.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    JsonValue,
    StrictFloat,
    StrictInt,
    model_validator,
)

from jp_nb.record.reading.recorded_answers import NONE_OF_THESE as NONE_OF_THESE
from jp_nb.toolkit.question_types.answer_types import (
    AnswerType,
    Misfit,
    format_bounds,
    format_number,
)


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
        more = f" above {format_number(self.above)}" if self.above is not None else ""
        less = f" below {format_number(self.below)}" if self.below is not None else ""
        return f"{format_bounds(self.minimum, self.maximum)}{more}{less}"

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
