"""Types of single values in the configuration, and validators that the tables share.

A value in no accepted form is a `ValueError` with the accepted forms.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, Strict

from jp_nb.config.tree.value_errors import UnexpectedValueError

# Strict, so that `"yes"` is not true, and `true` is not 1.
Flag = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Field(ge=0)]
Positive = Annotated[int, Strict(), Field(gt=0)]
Whole = Annotated[int, Strict()]  # also a negative one
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]


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
