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

from jp_nb.toolkit.question_types.answer_types import (
    AnswerType,
    Misfit,
    format_bounds,
    format_number,
)


def _check_number(value: Any) -> Any:
    """Refuse other values with one message, in place of one for each member of the union."""
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) == math.inf:
        raise ValueError("expected a number")
    return value


Bound = Annotated[
    StrictInt | Annotated[StrictFloat, Field(allow_inf_nan=False)], BeforeValidator(_check_number)
]
"""A finite number. It is no plain `float`, so that a large integer keeps all its digits."""
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
    _noun: ClassVar[str] = "a number"

    @model_validator(mode="after")
    def _check_answerable(self) -> Self:
        """Refuse bounds between which there is no number."""
        lower_bounds = [bound for bound in (self.minimum, self.above) if bound is not None]
        upper_bounds = [bound for bound in (self.maximum, self.below) if bound is not None]
        if not lower_bounds or not upper_bounds:
            return self

        least = max(lower_bounds)
        most = min(upper_bounds)
        if self.json_type == "integer":
            first = math.floor(least) + 1 if least == self.above else math.ceil(least)
            last = math.ceil(most) - 1 if most == self.below else math.floor(most)
            has_valid_number = first <= last
        else:
            is_exclusive = least == self.above or most == self.below
            has_valid_number = least < most or (least == most and not is_exclusive)

        if not has_valid_number:
            raise ValueError(f"no number is{self._range}")
        return self

    def answer_schema(self) -> dict[str, JsonValue]:
        """Return the schema of a number with these bounds."""
        schema = super().answer_schema()
        for keyword, field in BOUNDS.items():
            bound = getattr(self, field)
            if bound is not None:
                schema[keyword] = bound
        return schema

    def misfit(self, answer: JsonValue) -> Misfit | None:
        """Return `type` if `answer` is not a number, and `value` if it is out of bounds."""
        if super().misfit(answer) or not isinstance(answer, int | float):
            return "type"

        # `isfinite` raises OverflowError for integers that are too large for a float.
        if isinstance(answer, float) and not math.isfinite(answer):
            return "value"

        fits = (
            (self.minimum is None or answer >= self.minimum)
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
        """The bounds in words, such as ` from 1 to 5`; "" without bounds."""
        more = f" above {format_number(self.above)}" if self.above is not None else ""
        less = f" below {format_number(self.below)}" if self.below is not None else ""
        return f"{format_bounds(self.minimum, self.maximum)}{more}{less}"

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
