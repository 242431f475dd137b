"""The options of a selection: their values, labels, and descriptions.

A value is the answer. A label only replaces it on the screen, so a model and a record see values.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    field_validator,
    model_serializer,
    model_validator,
)

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
        # One message, in place of one for each type of `OptionValue`.
        if not isinstance(value, str | int | float):
            raise ValueError("expected a text, a number, or a boolean")
        return value

    @model_serializer(mode="plain")
    def _compact(self) -> JsonValue:
        """Return only the value, unless the option has a label or a description."""
        more: dict[str, JsonValue] = {}
        if self.label is not None and self.label != self.value:
            more["label"] = self.label
        if self.description is not None:
            more["description"] = self.description

        return {"value": self.value, **more} if more else self.value

    def reworded(self, change: Callable[[str], str]) -> Self:
        """Return a copy whose description is the result of `change`.

        The label stays, because a configured answer may name it.
        """
        if self.description is None:
            return self
        return self.model_copy(update={"description": change(self.description)})

    @property
    def shown(self) -> str:
        """The displayed text: the label, or else the value."""
        return str(self.value) if self.label is None else self.label


def describe_option(option: Option) -> str:
    """Return the value with its label and description, for a model; "" without both."""
    label = None if option.shown == str(option.value) else option.shown
    text = ", ".join(filter(None, [label, option.description]))
    return f"{json.dumps(option.value)}: {text}" if text else ""
