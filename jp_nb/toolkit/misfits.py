"""Compare JSON data with its JSON schema, and describe the parts that do not fit.

`list_misfits` reads the schemas of the user. `find_property_problems` also reads those of a server,
which may be made to take forever: its patterns run in linear time, and a schema whose validation
takes too many steps is refused.

Source: `docs/guide.md`, https://json-schema.org/draft/2020-12.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.json_schema import Schema, count_steps, format_schema_path
from jp_nb.json_values import MAX_SCHEMA_LEVELS, is_deeper
from jp_nb.jsonschema_import import delay_parsers
from jp_nb.text import one_line
from jp_nb.toolkit.linear_patterns import matches_pattern

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError  # type: ignore[import-untyped]
    from jsonschema.protocols import Validator  # type: ignore[import-untyped]

MAX_EXCERPT: Final = 200
MAX_MISFITS: Final = 10
"""Maximum number of parts of an answer that are described."""


def find_validator(schema: Schema) -> type[Validator]:
    """Return the validator for the JSON Schema version of `schema`.

    Raises:
        UsageError: `$schema` is not a text.
    """
    from jsonschema.validators import (  # type: ignore[import-untyped]
        Draft202012Validator,
        validator_for,
    )

    dialect = schema.get("$schema", "")
    if not isinstance(dialect, str):
        raise UsageError("$.$schema: expected the URL of a JSON Schema version, as a text")
    found: type[Validator] = validator_for(schema, default=Draft202012Validator)
    return found


def list_misfits(data: JsonValue, schema: Schema) -> list[str]:
    """Return a line for each part of `data` that does not fit `schema`, the best one first."""
    errors = _find_errors(data, schema)
    lines: dict[str, None] = {}

    for error in errors:
        where = format_schema_path(error.absolute_path)
        found = excerpt(error.instance) if error.absolute_path else ""
        shown = f", found {found}" if found else ""
        lines[f"{where}: {format_misfit(error)}{shown}"] = None

    return list(lines)


def _find_errors(data: JsonValue, schema: Schema) -> list[ValidationError]:
    with delay_parsers():
        from jsonschema.exceptions import ValidationError, best_match
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    # An empty registry never fetches a schema.
    validator = find_validator(schema)(dict(schema), registry=Registry())
    try:
        best = best_match(validator.iter_errors(data))
        if best is None:
            return []
        others = islice(validator.iter_errors(data), MAX_MISFITS)
        return [best, *(best_match(iter([error])) for error in others)][:MAX_MISFITS]
    except RecursionError:
        return [ValidationError("nested too deeply", validator="depth", instance=data)]
    except OverflowError:
        return [ValidationError("too large a number", validator="size", instance=data)]
    except Unresolvable as exc:
        return [ValidationError("leads nowhere", "$ref", validator_value=exc.ref, instance=data)]


_EXPECTED: Final[Mapping[str, str]] = {
    "$ref": "the schema does not define {}",
    "additionalProperties": "expected only the keys of the schema",
    "anyOf": "expected a value that fits one of the alternatives",
    "const": "expected {}",
    "depth": "expected a value that is nested less deeply",
    "enum": "expected one of {}",
    "exclusiveMaximum": "expected less than {}",
    "exclusiveMinimum": "expected more than {}",
    "format": "expected a {}",
    "maxItems": "expected at most {} items",
    "maxLength": "expected at most {} characters",
    "maximum": "expected at most {}",
    "minItems": "expected at least {} items",
    "minLength": "expected at least {} characters",
    "minimum": "expected at least {}",
    "multipleOf": "expected a multiple of {}",
    "oneOf": "expected a value that fits exactly one of the alternatives",
    "pattern": "expected a text that matches {}",
    "size": "expected smaller numbers",
    "uniqueItems": "expected unique items",
}


def format_misfit(error: ValidationError) -> str:
    """Return what the schema expects instead, in the words of `jp_nb`."""
    keyword = str(error.validator)
    demand = error.validator_value
    if keyword == "type":
        types = [demand] if isinstance(demand, str) else demand
        return f"expected {' or '.join(types)}"
    if keyword == "required" and isinstance(error.instance, dict):
        missing = [name for name in demand if name not in error.instance]
        return f"expected {', '.join(repr(name) for name in missing)} in it"

    text = _EXPECTED.get(keyword, f"expected a value that meets `{keyword}`: {{}}")
    return text.format(excerpt(demand)) if "{}" in text else text


def excerpt(value: object) -> str:
    """Return the beginning of a JSON value as JSON."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "…"
    shown = text if len(text) <= MAX_EXCERPT else f"{text[:MAX_EXCERPT]}…"
    return json.dumps(shown, ensure_ascii=False) if isinstance(value, str) else shown


# --- schemas of servers --------------------------------------------------------------------------

MAX_STEPS: Final = 10_000
"""Maximum number of subschemas that one validation of a server's schema applies."""
CHECKED_FORMATS: Final = ("ipv4", "ipv6", "uuid")
"""Formats that are checked besides those of `TextAnswer`. Others are left to the server."""


def find_schema_problem(schema: Schema) -> str | None:
    """Return the reason why a server's `schema` cannot be used for checks, or None."""
    if is_deeper(dict(schema), MAX_SCHEMA_LEVELS):
        return f"more than {MAX_SCHEMA_LEVELS} objects and lists are nested"
    try:
        steps = count_steps(schema, limit=MAX_STEPS)
    except UsageError as exc:
        return str(exc)
    return f"its check takes more than {MAX_STEPS} steps" if steps > MAX_STEPS else None


def find_property_problems(data: Mapping[str, JsonValue], schema: Schema) -> dict[str, str]:
    """Return the problems of `data` by the name of the property. "" is for `data` as a whole.

    `find_schema_problem` has accepted `schema`.
    """
    with delay_parsers():
        from jsonschema import FormatChecker  # type: ignore[import-untyped]
        from jsonschema.exceptions import best_match
        from jsonschema.validators import extend
    from referencing import Registry

    # An empty registry never fetches a schema.
    safe = extend(find_validator(schema), {"pattern": _check_pattern, "patternProperties": None})
    checker = safe(dict(schema), registry=Registry(), format_checker=FormatChecker(CHECKED_FORMATS))
    problems: dict[str, str] = {}

    try:
        for error in islice(checker.iter_errors(dict(data)), MAX_MISFITS):
            deepest = best_match(iter([error]))
            place = str(deepest.absolute_path[0]) if deepest.absolute_path else ""
            problems.setdefault(place, _describe_misfit(deepest))
    except Exception as exc:  # a keyword has a value that it cannot have, such as `multipleOf: 0`
        problems.setdefault("", UNCHECKABLE.format(type(exc).__name__))

    return problems


def _describe_misfit(error: ValidationError) -> str:
    if error.validator == "format":
        return f"expected the format {excerpt(error.validator_value)}"
    return one_line(format_misfit(error))


UNCHECKABLE: Final = "this input cannot be checked, because the schema of the form is invalid ({})"


def _check_pattern(
    validator: Validator, pattern: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    from jsonschema.exceptions import ValidationError

    if isinstance(instance, str) and not matches_pattern(instance, str(pattern)):
        yield ValidationError("does not match")
