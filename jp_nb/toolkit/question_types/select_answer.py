"""Answers that select options: one, several, or the user's own text.

A *pick* is an option that the user selected. An own text counts as a pick. The methods have
several users (`AnswerType`):

    normalized, automatic       answers by the configuration, or without a user
    answer_schema, expects      models that answer in place of the user, and messages
    fixed_texts, reworded       a tool's texts for the user, in which secrets are replaced
    read_picks, make_answer     prompts

Source: `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self

from pydantic import (
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    StrictBool,
    StrictInt,
    model_serializer,
    model_validator,
)

from jp_nb.exact_form import spell_invisible
from jp_nb.record.reading.recorded_answers import NONE_OF_THESE
from jp_nb.text import one_line
from jp_nb.toolkit.question_types.answer_types import AnswerType, Misfit
from jp_nb.toolkit.question_types.select_options import Option, OptionValue, describe_option

OTHER_LABEL = "Other (type your own)"
"""Label of the row with a box for the user's own text."""


@dataclass(frozen=True, slots=True)
class Picks:
    """Parsed answer to a select question: picked options in order, and the user's own text.

    Attributes:
        indices: The indices of the options.
        custom: The own text; None without one.
    """

    indices: tuple[int, ...] = ()
    custom: str | None = None


class SelectAnswer(AnswerType):
    """Answered by one of `options`, with `multi` by several, and with `other` also by a text.

    An answer is the value of the option. With `multi`, it is a list of values in the order of the
    picks. With the user's own text, it is `{"selected": [values], "custom": "text"}`, where
    `selected` is empty without `multi`.

    Attributes:
        options: The options, in the order in which they are shown.
        multi: True if several picks are possible.
        other: True if the user may type an own text.
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
        """Refuse options and limits that allow no answer."""
        if not self.options and not self.other:
            raise ValueError(
                "`options` is empty: a select question needs at least one option, or `other`"
            )
        if len(self._indices) < len(self.options):  # `_indices` has each value once
            raise ValueError("two `options` have the same value")
        if not self.multi and (self.min_picks or self.max_picks is not None):
            raise ValueError("`min_picks` and `max_picks` need `multi`")
        if self.min_picks > min(self._max_count, len(self.options) + self.other):
            raise ValueError("`min_picks` is greater than the number of options that can be picked")
        return self

    @property
    def _max_count(self) -> int:
        """Maximum number of picks: all options and an own text, if there is no limit."""
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
        return self.make_answer(Picks((self.recommended_index or 0,)))

    def make_answer(self, picks: Picks) -> JsonValue:
        """Return the answer for `picks`. Without `multi`, an own text replaces the pick."""
        values: list[JsonValue] = [self.options[index].value for index in picks.indices]
        if picks.custom is not None:
            selected = values if self.multi else []
            return {"selected": selected, "custom": picks.custom}
        return values if self.multi else values[0]

    def read_picks(self, answer: JsonValue) -> Picks | None:
        """Parse `answer`. Return None if it is invalid."""
        custom: str | None = None
        if isinstance(answer, dict):
            if not self.other or answer.keys() != {"selected", "custom"}:
                return None
            selected = answer["selected"]
            own_text = answer["custom"]
            if not isinstance(own_text, str):
                return None
            if selected and not self.multi:
                return None  # an own text takes the place of the only pick
            custom = own_text
        else:
            selected = answer if self.multi else [answer]

        if not isinstance(selected, list):
            return None
        indices = [index for index in map(self._find_index, selected) if index is not None]
        if len(set(indices)) < len(selected):  # an unknown value, or one that is picked twice
            return None

        count = len(indices) if custom is None else len(indices) + 1
        if self.multi and not self.min_picks <= count <= self._max_count:
            return None
        return Picks(tuple(indices), custom)

    @cached_property
    def _indices(self) -> dict[tuple[str, OptionValue], int]:
        """Indices of the options by type and value. Without the type, True and 1 would be equal."""
        indices: dict[tuple[str, OptionValue], int] = {}
        for index, value in enumerate(self.values):
            indices.setdefault((_get_type_name(value), value), index)
        return indices

    def _find_index(self, value: JsonValue) -> int | None:
        if not isinstance(value, str | int | float):
            return None
        return self._indices.get((_get_type_name(value), value))

    def normalized(self, answer: JsonValue) -> JsonValue:
        """Return the configured `answer` with the values of options in place of their labels."""
        if isinstance(answer, dict):
            if not self.other:
                return answer
            selected = answer.get("selected", [])
            return {**answer, "selected": self._replace_labels(selected)}

        if self.multi:
            return self._replace_labels(answer)
        if isinstance(answer, list):
            return answer
        [value] = self._replace_labels([answer])
        return value

    def _replace_labels(self, answer: JsonValue) -> list[JsonValue]:
        """Return the items of `answer`, with values in place of the labels of options."""
        values_by_label: dict[str, JsonValue] = {}
        for option in self.options:
            values_by_label.setdefault(option.shown, option.value)

        values: list[JsonValue] = []
        items = answer if isinstance(answer, list) else [answer]
        for item in items:
            is_value = self._find_index(item) is not None
            if isinstance(item, str) and not is_value:
                values.append(values_by_label.get(item, item))
            else:
                values.append(item)
        return values

    def answer_schema(self) -> dict[str, JsonValue]:
        """Return the schema of the answer, with alternatives if the user may type an answer."""
        value_schema = self._make_value_schema()
        if self.multi:
            schema = self._make_list_schema(value_schema, own_count=0)
            selected = self._make_list_schema(value_schema, own_count=1)
        else:
            schema = value_schema
            selected = {"type": "array", "maxItems": 0}

        if not self.other:
            return schema

        own_text_schema: dict[str, JsonValue] = {
            "type": "object",
            "properties": {"selected": selected, "custom": {"type": "string"}},
            "required": ["selected", "custom"],
            "additionalProperties": False,
        }
        if not self.options and not self.multi:
            return own_text_schema
        return {"anyOf": [schema, own_text_schema]}

    def _make_value_schema(self) -> dict[str, JsonValue]:
        """Return the schema of one picked value, with the labels in its description."""
        are_texts = all(isinstance(value, str) for value in self.values)
        schema: dict[str, JsonValue] = {"type": "string"} if are_texts else {}

        descriptions = [*filter(None, map(describe_option, self.options))]
        if descriptions:
            schema["description"] = one_line("; ".join(descriptions), limit=2000)
        schema["enum"] = list(self.values)
        return schema

    def _make_list_schema(
        self, value_schema: dict[str, JsonValue], *, own_count: int
    ) -> dict[str, JsonValue]:
        """Return the schema of the picked values beside `own_count` own texts, which are picks."""
        schema: dict[str, JsonValue] = {
            "type": "array",
            "items": value_schema,
            "uniqueItems": True,
        }
        if self.min_picks > own_count:
            schema["minItems"] = self.min_picks - own_count
        if not self.options:  # the user can only type an own text
            schema |= {"items": {}, "maxItems": 0}
        elif self.max_picks is not None:
            schema["maxItems"] = self.max_picks - own_count
        return schema

    def misfit(self, answer: JsonValue) -> Misfit | None:
        """Return `type` for a wrong type, and `option` for another invalid answer."""
        if self.read_picks(answer) is not None:
            return None
        if self.multi:
            return "option" if isinstance(answer, list | dict) else "type"
        types = {_get_type_name(value) for value in self.values}
        is_known_type = _get_type_name(answer) in types or isinstance(answer, dict)
        return "option" if is_known_type else "type"

    @property
    def expects(self) -> str:
        """The number of options in a list, or the type of a single answer."""
        if self.multi:
            return f"a list of {self._pick_range}options"
        are_texts = all(isinstance(value, str) for value in self.values)
        return "a string" if are_texts else "one of the options"

    @property
    def _pick_range(self) -> str:
        """The limits of the number of picks, such as `2 to 3 `; "" without limits."""
        if self.max_picks is None:
            return f"at least {self.min_picks} " if self.min_picks else ""
        if self.min_picks == self.max_picks:
            return f"{self.min_picks} "
        return f"{self.min_picks} to {self.max_picks} "

    def format_answer(self, answer: JsonValue) -> str:
        """Return the labels in the order of the picks, and the own text. Escape invisible text."""
        picks = self.read_picks(answer)
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
        """Return a copy whose descriptions are replaced by the results of `change`.

        The labels stay, because answers may contain them (`fixed_texts`).
        """
        options = tuple(option.reworded(change) for option in self.options)
        return self.model_copy(update={"options": options})

    @model_serializer(mode="wrap")
    def _omit_defaults(self, serialize: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        """Return the JSON object of the type, without an index that marks no option."""
        shape = super()._omit_defaults(serialize)
        if self.recommended_index is None:
            shape.pop("recommended", None)
        return shape


def _get_type_name(value: object) -> str:
    """Return the name of the Python type, and `number` for both types of numbers."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    return type(value).__name__
