"""Templates of prompts: a text with the names of columns, such as `Classify: {text}`.

Values are inserted as text and never evaluated, so data with braces or code stays data.

Source: `docs/rows.md`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from string import Formatter
from typing import Any, Final

from jp_nb.errors import UsageError
from jp_nb.session.rows.prompt_images import PromptError

_ADVICE: Final = "A template has the names of columns in braces. Write `{{` and `}}` for braces"


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A text with the names of columns in braces.

    Attributes:
        parts: Literal texts, each with the name of the column after it. The name is None at the
            end of the template and after a literal brace, where Python's parser divides a text.
    """

    parts: tuple[tuple[str, str | None], ...]

    @property
    def names(self) -> list[str]:
        """The names of the columns, each once."""
        return list(dict.fromkeys(name for _, name in self.parts if name is not None))

    def fill(self, record: Mapping[str, Any]) -> str:
        """Return the text with the values of `record`.

        Raises:
            PromptError: It has no such name, or its values are empty and leave no text.
        """
        texts: list[str] = []
        for literal, name in self.parts:
            texts.append(literal)
            if name is None:
                continue
            if name not in record:
                raise PromptError(f"the row has no {name!r}")
            texts.append(_format_value(record[name]))

        text = "".join(texts)
        if not text.strip():
            raise PromptError("the prompt is empty: the row has no value for the template")
        return text


def read_template(text: str) -> PromptTemplate:
    """Return the template `text`.

    Raises:
        UsageError: A brace is not closed, or there is more than a name in braces.
    """
    try:
        fields = list(Formatter().parse(text))
    except ValueError as exc:
        raise UsageError(f"the template cannot be read: {exc}. {_ADVICE}") from exc

    parts: list[tuple[str, str | None]] = []
    for literal, name, spec, conversion in fields:
        # Python's own format strings allow more, such as `{price!r:>10}`.
        if name is not None and (not name or spec or conversion):
            conversion_text = f"!{conversion}" if conversion else ""
            spec_text = f":{spec}" if spec else ""
            shown = f"{{{name}{conversion_text}{spec_text}}}"
            raise UsageError(f"the template has {shown}, which is no name of a column. {_ADVICE}")
        parts.append((literal, name))
    return PromptTemplate(tuple(parts))


def _format_value(value: Any) -> str:
    return "" if is_missing(value) else str(value)


def is_missing(value: Any) -> bool:
    """Return True for None, NaN, and the missing values of pandas and numpy."""
    type_name = type(value).__name__
    if value is None or type_name in ("NAType", "NaTType"):
        return True
    if type_name in ("datetime64", "timedelta64"):
        return str(value) == "NaT"
    return isinstance(value, Real) and math.isnan(value)
