"""Check the answer to a form by the JSON schema of an MCP server, which may be hostile.

A schema can be made to take forever. So one whose check takes too many steps is refused before, and
the check itself is bounded (`bounded_validator.py`). A step is one subschema that is applied to one
value.

Source: https://json-schema.org/draft/2020-12, `docs/mcp.md`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.json_limits import MAX_SCHEMA_LEVELS, is_deeper
from jp_nb.json_schema import Schema
from jp_nb.jsonschema_import import delay_parsers
from jp_nb.schema_loops import count_steps
from jp_nb.text import one_line
from jp_nb.toolkit.arguments.misfits import MAX_MISFITS, excerpt, format_misfit
from jp_nb.toolkit.question_types.bounded_validator import (
    CheckTimeoutError,
    make_bounded_validator,
)

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError  # type: ignore[import-untyped]

log = logging.getLogger(__name__)

MAX_STEPS: Final = 10_000
"""Maximum number of subschemas that one validation of a server's schema applies."""
UNCHECKABLE: Final = "this input cannot be checked, because the schema of the form is invalid ({})"


def find_schema_problem(schema: Schema) -> str | None:
    """Return the reason why a server's `schema` cannot be used for checks, or None."""
    if is_deeper(dict(schema), MAX_SCHEMA_LEVELS):
        return f"more than {MAX_SCHEMA_LEVELS} objects and lists are nested"
    if not isinstance(schema.get("$schema", ""), str):
        return "`$schema` is not a text"

    try:
        steps = count_steps(schema, limit=MAX_STEPS)
    except UsageError as exc:  # a reference leads to nothing, or out of the schema
        return str(exc)
    return f"its check takes more than {MAX_STEPS} steps" if steps > MAX_STEPS else None


def find_property_problems(data: Mapping[str, JsonValue], schema: Schema) -> dict[str, str]:
    """Return the problems of `data` by the name of the property. "" is for `data` as a whole.

    `find_schema_problem` has accepted `schema`. A check that takes too long ends with the problems
    so far: the server checks the data itself.
    """
    with delay_parsers():  # `jsonschema` loads faster without them
        from jsonschema.exceptions import best_match

    validator = make_bounded_validator(schema)
    problems: dict[str, str] = {}

    try:
        for error in islice(validator.iter_errors(dict(data)), MAX_MISFITS):
            # Of an error in `anyOf`, the one of the alternative that fits best.
            deepest = best_match(iter([error]))
            place = str(deepest.absolute_path[0]) if deepest.absolute_path else ""
            problems.setdefault(place, _describe_misfit(deepest))
    except CheckTimeoutError:
        log.debug("the check of a server's schema took too long, and is left to the server")
    except Exception as exc:  # a keyword has a value that it cannot have, such as `multipleOf: 0`
        problems.setdefault("", UNCHECKABLE.format(type(exc).__name__))

    return problems


def format_problems(problems: Mapping[str, str]) -> list[str]:
    """Return the `problems` in words, by the names of properties; "" is the whole value."""
    lines: list[str] = []
    for name, text in problems.items():
        line = f"{name}: {text}" if name else text
        lines.append(line)
    return lines


def _describe_misfit(error: ValidationError) -> str:
    if error.validator == "format":
        return f"expected the format {excerpt(error.validator_value)}"
    return one_line(format_misfit(error))
