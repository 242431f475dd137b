"""Answers that are texts, within bounds, in a format, or that match a pattern.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import Field, JsonValue, StrictBool, StrictInt, model_validator

from jp_nb.exact_form import spell_invisible
from jp_nb.text import one_line
from jp_nb.toolkit.question_types.answer_types import AnswerType, Misfit, format_bounds
from jp_nb.toolkit.question_types.linear_patterns import is_linear_pattern, matches_pattern
from jp_nb.toolkit.question_types.text_formats import TextFormat, has_format

MAX_SHOWN_PATTERN: Final = 200
"""Maximum number of characters of a pattern in the description of a valid answer."""

_FORMAT_WORDS: dict[TextFormat, str] = {
    "email": "an e-mail address such as name@example.org",
    "uri": "an address such as https://example.org",
    "date": "a date such as 2026-11-23",
    "time": "a time such as 17:30",
    "date-time": "a date and time such as 2026-11-23T17:30:00Z",
}


class TextAnswer(AnswerType):
    """Answered by any string, including the empty one, within the bounds and the format.

    Attributes:
        format: `email`, `uri`, `date` (2026-11-23), `time` (17:30), or `date-time` (ISO 8601).
        min_length: Minimum number of characters.
        max_length: Maximum number of characters; None for no limit.
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
        """Refuse conditions that no text meets, and patterns that could take forever."""
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
        keywords: dict[str, JsonValue] = {
            "format": self.format,
            "pattern": self.pattern,
            "minLength": self.min_length or None,
            "maxLength": self.max_length,
        }
        conditions = {keyword: value for keyword, value in keywords.items() if value is not None}
        return super().answer_schema() | conditions

    def misfit(self, answer: JsonValue) -> Misfit | None:
        """Return `type` if `answer` is not a string, and `value` if it breaks a condition."""
        if not isinstance(answer, str):
            return "type"

        if len(answer) < self.min_length:
            return "value"
        if self.max_length is not None and len(answer) > self.max_length:
            return "value"
        if self.format is not None and not has_format(answer, self.format):
            return "value"
        if self.pattern is not None and not matches_pattern(answer, self.pattern):
            return "value"
        return None

    @property
    def expects(self) -> str:
        """The format or `a string`, with the bounds and the pattern."""
        kind = "a string" if self.format is None else _FORMAT_WORDS[self.format]
        bounds = format_bounds(self.min_length or None, self.max_length, " characters")
        if self.pattern is None:
            return f"{kind}{bounds}"

        pattern = one_line(spell_invisible(self.pattern), limit=MAX_SHOWN_PATTERN)
        return f"{kind}{bounds} that matches {pattern}"
