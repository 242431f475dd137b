"""Base model and field strategies.

A table is a `ConfigTable`. One that may also be written in a short form is a `ShortTable`, whose
`expand` turns that form into the table. A field of several forms holds either a table or something
plain, told apart by `TABLE_OR_PLAIN`, so that an error inside the table keeps its place.

    stop_words: Annotated[list[str], APPEND_SET] = []

A field without a marker: tables and maps recurse per key, lists append, everything else replaces.
A list or a text may always be written as `{value, strategy, dedup, separator}`; that form wins
over the field's own strategy.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, get_args

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

from jp_nb.config.secrets import looks_like_secret, may_hold_secret


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


def closed_set(literal: Any) -> BeforeValidator:
    """Return a validator of the closed set of words that `literal` lists: it names them all."""
    words = get_args(literal)

    def read(value: Any) -> Any:
        if isinstance(value, str) and value in words:
            return value
        listed = ", ".join(words)
        raise ValueError(f"expected one of {listed}, {describe_found(value)}")

    return before(read)


# --- what an error may show ------------------------------------------------------------------

_LONGEST = 80
_BEGINNING = 4


def shorten_for_error(text: str) -> str:
    """`text` for an error: not too long, and of what may be a key its beginning alone."""
    if looks_like_secret(text[: 5 * _LONGEST]):
        return f"{text[:_BEGINNING]}…"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def describe_found(value: object, path: str = "") -> str:
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
    if may_hold_secret(path) or (
        isinstance(value, str) and looks_like_secret(value[: 5 * _LONGEST])
    ):
        return "found something else (not shown: it may be a secret)"
    shown = repr(value) if isinstance(value, (str, int, float)) else str(value)
    if isinstance(value, bool):
        shown = str(value).lower()
    return f"found {shown if len(shown) <= _LONGEST else shown[:_LONGEST] + '…'}"


Strategy = Literal["replace", "append", "preserve", "deep_merge"]
Items = Literal["set", "keyed", "sequence"]


@dataclass(frozen=True, slots=True)
class Merge:
    """The way a field merges.

    Attributes:
        strategy: `replace`; `append` (lists); `preserve` (the earlier one stays); for maps
            `deep_merge` (shared keys recurse).
        dedup: True if a list drops later equal items unless the value says otherwise.
        items: What names one item of a list. `set`: the item itself. `keyed`: one of `keys`.
            `sequence`: nothing, order and repeats matter, so that the list counts as a whole.
        keys: For `keyed`: the fields that may name an item, the first that it has.
        annotated: True if JP itself reads `{value, strategy}` here.
    """

    strategy: Strategy
    dedup: bool = False
    items: Items = "sequence"
    keys: tuple[str, ...] = ()
    annotated: bool = False


REPLACE: Final = Merge("replace")
APPEND: Final = Merge("append")
APPEND_SET: Final = Merge("append", dedup=True, items="set")
PRESERVE: Final = Merge("preserve")
TEXT: Final = Merge("replace", annotated=True)
"""A text that takes `{value, strategy, separator}`; a plain one replaces."""
DEEP: Final = Merge("deep_merge", annotated=True)


def keyed(*keys: str) -> Merge:
    """A list of tables that one of `keys` names."""
    return Merge("append", items="keyed", keys=keys, annotated=True)
