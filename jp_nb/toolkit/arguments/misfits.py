"""Compare JSON data with the JSON schema of the user, and describe the parts that do not fit.

A structured answer of a model that does not fit its schema is sent back with these lines:

    $.price: expected number, found "12 €"

Source: `docs/guide.md`, https://json-schema.org/draft/2020-12.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.json_schema import Schema, format_schema_path
from jp_nb.jsonschema_import import delay_parsers

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
    validator: type[Validator] = validator_for(schema, default=Draft202012Validator)
    return validator


def list_misfits(data: JsonValue, schema: Schema) -> list[str]:
    """Return a line for each part of `data` that does not fit `schema`.

    The most relevant one comes first.

    Raises:
        UsageError: `$schema` is not a text.
    """
    # The keys are the lines: `_find_errors` returns the most relevant error twice.
    lines: dict[str, None] = {}

    for error in _find_errors(data, schema):
        where = format_schema_path(error.absolute_path)
        line = f"{where}: {format_misfit(error)}"
        # At the root, the value would be the whole answer.
        if error.absolute_path:
            line += f", found {excerpt(error.instance)}"
        lines[line] = None

    return list(lines)


def _find_errors(data: JsonValue, schema: Schema) -> list[ValidationError]:
    """Return the errors of `data`, the most relevant one first. It is often returned twice.

    If the check itself fails, that is the only error. Its message is never shown: the keyword
    (`validator`) selects the text in `_EXPECTED`.
    """
    with delay_parsers():  # `jsonschema` then imports a slow package only if a schema needs it
        from jsonschema.exceptions import ValidationError, best_match
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    # An empty registry never fetches a schema.
    validator = find_validator(schema)(dict(schema), registry=Registry())
    try:
        best = best_match(validator.iter_errors(data))
        if best is None:
            return []
        # `best_match` of a single error of an `anyOf` descends to the alternative that fits best.
        errors = islice(validator.iter_errors(data), MAX_MISFITS)
        specific_errors = [best_match(iter([error])) for error in errors]
        return [best, *specific_errors][:MAX_MISFITS]
    except RecursionError:
        return [ValidationError("nested too deeply", validator="depth", instance=data)]
    except OverflowError:
        return [ValidationError("too large a number", validator="size", instance=data)]
    except Unresolvable as exc:
        return [
            ValidationError(
                "leads nowhere", validator="$ref", validator_value=exc.ref, instance=data
            )
        ]


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
"""Demands of the schema, by keyword. `depth` and `size` are the keywords of `_find_errors`."""


def format_misfit(error: ValidationError) -> str:
    """Return the demand of the schema in the words of `jp_nb`, such as `expected number`."""
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
    # A string is shortened before it is quoted, so the closing quote is always there.
    if isinstance(value, str):
        return json.dumps(_shorten(value), ensure_ascii=False)

    try:
        return _shorten(json.dumps(value, ensure_ascii=False))
    except RecursionError:
        return "…"


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_EXCERPT else f"{text[:MAX_EXCERPT]}…"
