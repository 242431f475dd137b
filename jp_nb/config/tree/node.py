"""The building blocks of every table of the configuration tree.

A table is a `ConfigTable`. One that may also be written in a short form is a `ShortTable`, whose
`expand` turns that form into the table. A field of several forms holds either a table or something
plain, told apart by `TABLE_OR_PLAIN`, so that an error inside the table keeps its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Strict,
    Tag,
    model_validator,
)

from jp_nb.config.secret_names import looks_secret, may_hold_secret


class ConfigTable(BaseModel):
    """A group of fields. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class ShortTable(ConfigTable):
    """A table that may be written shorter."""

    @classmethod
    def expand(cls, value: Any) -> Any:
        """The table that a short form means; a table, and None, as it is.

        Raises:
            ValueError: If there is no such form; the message says what is accepted.
        """
        raise NotImplementedError

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, value: Any) -> Any:
        return cls.expand(value)


def table() -> Any:
    """Return a field whose table is there also where nothing of it is set.

    It is validated as a part of what it lies in. Were its default an object, its model would be
    built on its own as well: that took half the time of the first validation.
    """
    return Field({}, validate_default=True)


# --- scalars ---------------------------------------------------------------------------------

Flag = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Field(ge=0)]
Positive = Annotated[int, Strict(), Field(gt=0)]
Whole = Annotated[int, Strict()]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]


# --- fields of several forms -----------------------------------------------------------------

TABLE: Final = Tag("~table")
PLAIN: Final = Tag("~plain")


def _table_or_plain(value: Any) -> str:
    return (TABLE if isinstance(value, (dict, BaseModel)) else PLAIN).tag


TABLE_OR_PLAIN: Final = Discriminator(_table_or_plain)


def before(read: Callable[[Any], Any]) -> BeforeValidator:
    """A validator that brings every accepted spelling into one form, and leaves None alone."""
    return BeforeValidator(lambda value: None if value is None else read(value))


def word(literal: Any) -> BeforeValidator:
    """Return a validator of the closed set of words that `literal` lists: it names them all."""
    words = get_args(literal)

    def read(value: Any) -> Any:
        if isinstance(value, str) and value in words:
            return value
        listed = ", ".join(words)
        raise ValueError(f"expected one of {listed}, {found(value)}")

    return before(read)


# --- what an error may show ------------------------------------------------------------------

_LONGEST = 80
_BEGINNING = 4


def shortened(text: str) -> str:
    """`text` for an error: not too long, and of what may be a key its beginning alone."""
    if looks_secret(text[: 5 * _LONGEST]):
        return f"{text[:_BEGINNING]}…"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def found(value: object, path: str = "") -> str:
    """`found …`, for an error: never a table's contents, and nothing that may be a secret.

    Args:
        value: What was given.
        path: Where, if known.
    """
    match value:
        case dict() | BaseModel():
            return "found a table"
        case list() | tuple():
            return "found a list"
        case None:
            return "found nothing"
    if may_hold_secret(path) or (isinstance(value, str) and looks_secret(value[: 5 * _LONGEST])):
        return "found something else (not shown: it may be a secret)"
    shown = repr(value) if isinstance(value, (str, int, float)) else str(value)
    if isinstance(value, bool):
        shown = str(value).lower()
    return f"found {shown if len(shown) <= _LONGEST else shown[:_LONGEST] + '…'}"
