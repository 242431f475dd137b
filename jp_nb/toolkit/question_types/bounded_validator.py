"""A validator for the JSON schema of a server, which may be hostile: its check ends soon.

`jsonschema` matches patterns with Python's `re`, which may take forever, and compares all pairs of
items of some lists. Here, these keywords are checked in linear time or left to the server. The time
limit ends other checks that are long, such as of many alternatives for a large value.

Source: https://json-schema.org/draft/2020-12, `docs/mcp.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from jp_nb.json_schema import Schema
from jp_nb.json_writing import sorted_json
from jp_nb.jsonschema_import import delay_parsers
from jp_nb.toolkit.arguments.misfits import find_validator
from jp_nb.toolkit.question_types.linear_patterns import matches_pattern

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError  # type: ignore[import-untyped]
    from jsonschema.protocols import Validator  # type: ignore[import-untyped]

MAX_CHECK_S: Final = 2.0
"""Maximum time of a check."""
CHECKED_FORMATS: Final = ("ipv4", "ipv6", "uuid")
"""Formats that are checked besides those of `TextAnswer`. Others are left to the server."""

Check = Callable[[Any, Any, Any, Any], "Iterator[ValidationError] | None"]
"""Yields the errors of a keyword: of (validator, value of the keyword, instance, schema)."""


class CheckTimeoutError(Exception):
    """A check took longer than `MAX_CHECK_S`."""


def make_bounded_validator(schema: Schema) -> Validator:
    """Return a validator for `schema` whose check raises `CheckTimeoutError` after `MAX_CHECK_S`.

    The time begins now. The validator never fetches a schema.
    """
    from attrs import evolve

    with delay_parsers():  # `jsonschema` loads faster without them
        from jsonschema import FormatChecker  # type: ignore[import-untyped]
        from jsonschema.validators import extend  # type: ignore[import-untyped]
    from referencing import Registry

    base = find_validator(schema)
    checks: dict[str, Check] = {**base.VALIDATORS, "pattern": _check_pattern}
    if "uniqueItems" in checks:
        checks["uniqueItems"] = _check_unique_items
    if "additionalProperties" in checks:
        checks["additionalProperties"] = _without_patterns(checks["additionalProperties"])
    # Left to the server: their patterns would run in Python's `re`, and the last two compare the
    # properties or items of an instance in pairs.
    for name in ("patternProperties", "unevaluatedProperties", "unevaluatedItems"):
        checks[name] = _skip

    until = monotonic() + MAX_CHECK_S
    limited = {name: _with_time_limit(check, until) for name, check in checks.items()}
    bounded = extend(base, limited)
    # Its validators are classes of attrs. Their own method `evolve` changes to the original
    # validator of another version at a subschema with a `$schema`.
    bounded.evolve = evolve
    checker = FormatChecker(CHECKED_FORMATS)
    validator: Validator = bounded(dict(schema), registry=Registry(), format_checker=checker)
    return validator


def _with_time_limit(check: Check, until: float) -> Check:
    def check_in_time(*given: Any) -> Iterator[ValidationError]:
        if monotonic() > until:
            raise CheckTimeoutError
        yield from check(*given) or ()

    return check_in_time


def _without_patterns(check: Check) -> Check:
    """Return `check` of `additionalProperties`; it leaves objects with `patternProperties` out."""

    def check_without_patterns(
        validator: Any, value: Any, instance: Any, schema: Any
    ) -> Iterator[ValidationError]:
        if "patternProperties" not in schema:
            yield from check(validator, value, instance, schema) or ()

    return check_without_patterns


def _check_pattern(
    validator: Any, pattern: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    from jsonschema.exceptions import ValidationError

    if isinstance(instance, str) and not matches_pattern(instance, str(pattern)):
        yield ValidationError("does not match")


def _check_unique_items(
    validator: Any, value: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    """Check that no two items have the same JSON text; 1 and 1.0 count as different."""
    from jsonschema.exceptions import ValidationError

    if not value or not isinstance(instance, list):
        return
    if len({sorted_json(item) for item in instance}) < len(instance):
        yield ValidationError("has equal items")


def _skip(validator: Any, value: Any, instance: Any, schema: Any) -> None:
    """Yield no error."""
