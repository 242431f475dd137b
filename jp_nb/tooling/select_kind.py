"""A question answered by one of some options, by several, or by a text of the person's own.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    JsonValue,
    SerializerFunctionWrapHandler,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_serializer,
    model_validator,
)

from jp_nb.safe_text import one_line, spell_unseen
from jp_nb.tooling.question_kinds import AnswerType, Misfit

OptionValue = StrictStr | StrictBool | StrictInt | StrictFloat


class Option(BaseModel):
    """One choice. Written as its bare `value`, or as an object.

    Attributes:
        value: What the answer is.
        label: What the person reads, in one line; None: the value.
        description: Lines below the label.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)
    value: OptionValue
    label: str | None = None
    description: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, data: Any) -> Any:
        return data if isinstance(data, dict | Option) else {"value": data}

    @model_serializer(mode="plain")
    def _compact(self) -> JsonValue:
        more: dict[str, JsonValue] = {}
        if self.label is not None and self.label != self.value:
            more["label"] = self.label
        if self.description is not None:
            more["description"] = self.description
        return {"value": self.value, **more} if more else self.value

    @property
    def shown(self) -> str:
        """The label, else the value as a text."""
        return str(self.value) if self.label is None else self.label


@dataclass(frozen=True, slots=True)
class Picks:
    """A select question's answer, taken apart.

    Attributes:
        indices: Which options were picked, in the order of the picks.
        custom: The person's own text; None if there is none.
    """

    indices: tuple[int, ...] = ()
    custom: str | None = None


class SelectAnswer(AnswerType):
    """Answered by one of `options`; with `multi` by several; with `other` by an own text, too.

    Shape of an answer: the option's value; with `multi` a list of values, in the order of the
    picks, perhaps empty; with an own text `{"selected": [values], "custom": "text"}`, where without
    `multi` nothing is selected.

    Attributes:
        multi: Whether several may be picked.
        other: Whether the person may answer in words of their own.
        recommended: Index of the option that whoever asks would choose; one that is out of range
            counts as None. It is marked, and never chosen for the person.
    """

    type: Literal["select"] = "select"
    options: tuple[Option, ...]
    multi: bool = False
    other: bool = False
    recommended: StrictInt | None = None

    @model_validator(mode="after")
    def _answerable(self) -> Self:
        if not self.options and not self.other:
            raise ValueError("`options` is empty: a select question needs at least one, or `other`")
        return self

    @classmethod
    def of(cls, *values: OptionValue) -> Self:
        """Return a choice of one among `values`."""
        return cls(options=tuple(Option(value=value) for value in values))

    @property
    def values(self) -> tuple[OptionValue, ...]:
        """What may be answered, in the order of the options."""
        return tuple(option.value for option in self.options)

    @property
    def labels(self) -> tuple[str, ...]:
        """What the person reads, in the order of the options."""
        return tuple(option.shown for option in self.options)

    @property
    def recommended_index(self) -> int | None:
        """Index of the recommended option; None if there is no such option."""
        index = self.recommended
        return index if index is not None and 0 <= index < len(self.options) else None

    @property
    def automatic(self) -> JsonValue:
        """The recommended option, else the first; None if there is none."""
        if not self.options:
            return None
        return self.answer(Picks((self.recommended_index or 0,)))

    def answer(self, picks: Picks) -> JsonValue:
        """Return the answer that `picks` are. Without `multi`, an own text replaces the pick."""
        values: list[JsonValue] = [self.options[index].value for index in picks.indices]
        if picks.custom is not None:
            return {"selected": values if self.multi else [], "custom": picks.custom}
        return values if self.multi else values[0]

    def picks(self, answer: JsonValue) -> Picks | None:
        """Return `answer` taken apart; None if it does not fit."""
        custom: str | None = None
        selected = answer if self.multi or isinstance(answer, dict) else [answer]
        if isinstance(answer, dict):
            own, selected = answer.get("custom"), answer.get("selected", [])
            if not (self.other and isinstance(own, str) and {*answer} <= {"selected", "custom"}):
                return None
            custom = own
        if not isinstance(selected, list) or (custom is not None and selected and not self.multi):
            return None
        found = [self._index(value) for value in selected]
        if None in found or len(set(found)) < len(found):
            return None
        return Picks(tuple(index for index in found if index is not None), custom)

    @cached_property
    def _places(self) -> dict[tuple[str, OptionValue], int]:
        """Which option has a value; with its type, because True is 1 for a dictionary."""
        places = reversed([*enumerate(self.values)])  # of equal ones the first counts
        return {(_kind(value), value): index for index, value in places}

    def _index(self, value: JsonValue) -> int | None:
        if not isinstance(value, str | int | float):
            return None
        return self._places.get((_kind(value), value))

    def settled(self, answer: JsonValue) -> JsonValue:
        """Return what a configured `answer` means: values or labels, one or a list of them."""
        if isinstance(answer, dict):
            selected = answer.get("selected", [])
            return {**answer, "selected": self._named(selected)} if self.other else answer
        if self.multi and not isinstance(answer, list):
            answer = [answer]
        named = self._named(answer)
        return named if self.multi else named[0] if isinstance(named, list) and named else answer

    def _named(self, answer: JsonValue) -> JsonValue:
        given = answer if isinstance(answer, list) else [answer]
        by_label: dict[JsonValue, JsonValue] = {x.shown: x.value for x in reversed(self.options)}
        return [
            by_label.get(name, name)
            if isinstance(name, str) and self._index(name) is None
            else name
            for name in given
        ]

    def answer_schema(self) -> dict[str, JsonValue]:
        """Return the schema of one option, of a list of them, or of these and an own text."""
        value = self._value_schema()
        several: dict[str, JsonValue] = {"type": "array", "items": value, "uniqueItems": True}
        plain = several if self.multi else value
        if not self.other:
            return plain
        own: dict[str, JsonValue] = {
            "type": "object",
            "properties": {
                "selected": several if self.multi else {"type": "array", "maxItems": 0},
                "custom": {"type": "string"},
            },
            "required": ["selected", "custom"],
            "additionalProperties": False,
        }
        return {"anyOf": [plain, own]} if self.options else own

    def _value_schema(self) -> dict[str, JsonValue]:
        values: list[JsonValue] = list(self.values)
        texts = all(isinstance(value, str) for value in values)
        return {"type": "string", "enum": values} if texts else {"enum": values}

    def misfit(self, answer: JsonValue) -> Misfit | None:
        """Return `option` for something that is not among the options, else `type`."""
        if self.picks(answer) is not None:
            return None
        if self.multi:
            return "option" if isinstance(answer, list | dict) else "type"
        kinds = {type(value) for value in self.values}
        return "option" if type(answer) in kinds or isinstance(answer, dict) else "type"

    @property
    def expects(self) -> str:
        """What an answer is."""
        if self.multi:
            return "a list of options"
        texts = all(isinstance(value, str) for value in self.values)
        return "a string" if texts else "one of the options"

    def in_words(self, answer: JsonValue) -> str:
        """Return the labels, in the order of the picks, and the own text; unseen is spelled out."""
        picks = self.picks(answer)
        if picks is None:
            return one_line(str(answer), limit=200)
        labels = [spell_unseen(self.labels[index]) for index in picks.indices]
        if picks.custom is not None:
            labels.append(f'"{spell_unseen(picks.custom)}"')
        return ", ".join(labels) if labels else NONE_OF_THESE

    def verbatim(self) -> tuple[str, ...]:
        """Return values and labels."""
        return (*map(str, self.values), *self.labels)

    @model_serializer(mode="wrap")
    def _compact(self, whole: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        shape: dict[str, JsonValue] = {
            "type": self.type,
            "options": [option.model_dump() for option in self.options],
        }
        if self.multi:
            shape["multi"] = True
        if self.other:
            shape["other"] = True
        if self.recommended_index is not None:
            shape["recommended"] = self.recommended_index
        return shape


def _kind(value: object) -> str:
    return type(value).__name__


OTHER = "Other (type your own)"
"""Names the row with a box for an own text. What it means is no label and no value."""

NONE_OF_THESE = "none of these"
"""Says that several could be picked, and that none was, on purpose."""
