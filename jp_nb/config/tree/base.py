"""Base classes of the configuration tree, and the checks of values that its tables share.

A table is a `ConfigTable`. A table with a short form is a `ShortTable`; its `expand` turns the
short form into the table. A setting that is a table or another value has the discriminator
`TABLE_OR_PLAIN_FORM`, so that errors within the table keep their path. A value in no known form is
a `ValueError` with the accepted forms. `merge_rules.py` has the rules by which settings merge.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Strict,
    Tag,
    model_validator,
)

from jp_nb.config.tree.value_errors import UnexpectedValueError


class ConfigTable(BaseModel):
    """A table of settings. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class ShortTable(ConfigTable):
    """A table with a short form, which by default is the text of the field `TEXT`."""

    TEXT: ClassVar[str] = ""
    FORMS: ClassVar[str] = ""
    """The accepted forms, in words."""

    @classmethod
    def expand(cls, value: Any) -> Any:
        """Return the table for a short form."""
        if isinstance(value, str) and cls.TEXT:
            return {cls.TEXT: value}
        raise UnexpectedValueError(cls.FORMS, value)

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, value: Any) -> Any:
        return value if value is None or isinstance(value, (dict, cls)) else cls.expand(value)


def table() -> Any:
    """Return a field for a table that always exists.

    The default is validated as a part of the parent. A default object would need a validator of its
    own, and building these would double the time of the first validation.
    """
    return Field(default_factory=dict, validate_default=True)  # a plain default is deep-copied


# Strict, so that `"yes"` is not true, and `true` is not 1.
Flag = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Field(ge=0)]
Positive = Annotated[int, Strict(), Field(gt=0)]
Whole = Annotated[int, Strict()]  # also a negative one
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]

TABLE_FORM: Final = Tag("~table")
PLAIN_FORM: Final = Tag("~plain")
"""Marks of the two members of a union: a table, and another value. No setting has such a name."""

TABLE_OR_PLAIN_FORM: Final = Discriminator(
    lambda value: (TABLE_FORM if isinstance(value, (dict, BaseModel)) else PLAIN_FORM).tag
)


def before(read: Callable[[Any], Any]) -> BeforeValidator:
    """Return a validator that normalizes the accepted forms of a value. None is not changed."""
    return BeforeValidator(lambda value: None if value is None else read(value))


def one_of(*types: type, expected: str) -> BeforeValidator:
    """Return a validator that only accepts values of `types`, with `expected` for its error."""

    def read(value: Any) -> Any:
        if isinstance(value, types):
            return value
        raise UnexpectedValueError(expected, value)

    return before(read)


def not_blank(expected: str) -> AfterValidator:
    """Return a validator for a text with more than white space, with `expected` for its error."""

    def check(value: str) -> str:
        if not value.strip():
            raise ValueError(f"expected {expected}, found nothing")
        return value

    return AfterValidator(check)


def read_number(value: Any) -> int | None:
    """Return `value`, a whole number or its digits, as a number; None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    return value if type(value) is int and value >= 0 else None


def read_on_off(value: Any) -> Any:
    """Return `on` or `off` for a boolean: in TOML, the words are easily written as booleans."""
    return ("off", "on")[value] if isinstance(value, bool) else value
