"""Base classes of the configuration tree.

A table is a `ConfigTable`. A table with a short form is a `ShortTable`; its `expand` turns the
short form into the table. A setting that is a table or another value has the discriminator
`TABLE_OR_PLAIN_FORM`, so that errors within the table keep their path. A value in no known form is
a `ValueError` with the accepted forms. `value_checks.py` has the types of single values that the
tables share, and `merge_rules.py` has the rules by which settings merge.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
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


TABLE_FORM: Final = Tag("~table")
PLAIN_FORM: Final = Tag("~plain")
"""Marks of the two members of a union: a table, and another value. No setting has such a name."""

TABLE_OR_PLAIN_FORM: Final = Discriminator(
    lambda value: (TABLE_FORM if isinstance(value, (dict, BaseModel)) else PLAIN_FORM).tag
)
