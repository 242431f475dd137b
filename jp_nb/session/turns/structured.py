"""Read the schema of a structured answer: a JSON schema, or a type.

Source: `docs/guide.md`, `docs/providers.md`.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, JsonValue, TypeAdapter
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from jp_nb.errors import UsageError
from jp_nb.finite_schemas import without_infinite_numbers
from jp_nb.json_limits import MAX_SCHEMA_LEVELS, is_deeper
from jp_nb.json_schema import format_schema_path, walk_schemas
from jp_nb.jsonschema_import import delay_parsers
from jp_nb.schema_loops import ONLY_ITSELF, find_loop
from jp_nb.toolkit.arguments.misfits import MAX_EXCERPT, find_validator, format_misfit
from jp_nb.type_schemas import TypeSchema

_TAKES: Final = (
    "a pydantic model, a dataclass, a TypedDict, another type that pydantic can describe, or a "
    "dict with a JSON schema"
)
_KEYWORDS: Final = frozenset({"$defs", "$ref", "$schema", "allOf", "anyOf", "const", "enum",
                              "items", "oneOf", "properties", "type"})  # fmt: skip
"""Keywords of JSON schemas. A dict with one of them may be a schema."""
_TYPING: Final = frozenset({"typing", "types", "typing_extensions"})
"""Modules of the classes of type forms, such as `list[int]`."""


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """Form of a structured answer: its JSON schema, and its type if it was given as one."""

    schema: dict[str, JsonValue]
    type: TypeAdapter[Any] | None = None


def read_answer_form(what: object, namespace: Mapping[str, Any]) -> AnswerForm:
    """Return the form of a type, of a dict with a JSON schema, or of a variable with either.

    Raises:
        UsageError: The variable does not exist, or its value is not a valid schema. The message
            contains the path of the problem.
    """
    name = what if isinstance(what, str) else getattr(what, "__name__", "schema")
    value = _find_variable(what, namespace) if isinstance(what, str) else what
    adapter: TypeAdapter[Any] | None = None
    is_type_form = type(value).__module__ in _TYPING  # such as `list[int]` or `Literal["a"]`

    if isinstance(value, Mapping):
        schema = _copy_schema(name, value)
    elif isinstance(value, TypeAdapter | type) or is_type_form:
        adapter, described = _describe_type(name, value)
        schema = _copy_schema(name, described)
    else:
        kind = type(value).__name__
        article = "an" if kind[:1].lower() in "aeiou" else "a"
        raise UsageError(f"{name!r} is {article} {kind}, not a schema: expected {_TAKES}")

    _check_schema(name, schema)
    return AnswerForm(schema, adapter)


def _find_variable(name: str, namespace: Mapping[str, Any]) -> Any:
    """Return the variable `name`; the error suggests a variable that could be a schema."""
    if name in namespace:
        return namespace[name]

    names = [
        variable
        for variable, value in namespace.items()
        if isinstance(variable, str) and is_schema_like(value)
    ]
    nearest = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {nearest[0]!r}? A schema is" if nearest else "define it first, as"
    raise UsageError(f"there is no {name!r} in this notebook: {hint} {_TAKES}")


def is_schema_like(value: Any) -> bool:
    """Return True if Tab completion should offer `value` as a schema, without running its code.

    These are dicts with keywords of JSON schema, models, dataclasses, and typed dicts, and forms of
    types such as `list[int]`.
    """
    kind = type(value)
    if issubclass(kind, dict):
        return any(isinstance(key, str) and key in _KEYWORDS for key in dict.keys(value))

    if issubclass(kind, type):
        attributes = vars(value)
        is_model = issubclass(kind, type(BaseModel)) and value is not BaseModel
        is_dataclass = "__dataclass_fields__" in attributes
        is_typed_dict = "__total__" in attributes
        return is_model or is_dataclass or is_typed_dict

    return kind.__name__ in ("GenericAlias", "_GenericAlias", "UnionType", "_LiteralGenericAlias")


def _describe_type(name: str, value: Any) -> tuple[TypeAdapter[Any], object]:
    """Return the adapter of a type, and its JSON schema."""
    try:
        adapter = value if isinstance(value, TypeAdapter) else TypeAdapter(value)
        schema = adapter.json_schema(schema_generator=TypeSchema)
        return adapter, without_infinite_numbers(schema)
    except Exception as exc:  # whatever the type's own code raises
        cause = _describe_cause(exc, PydanticUserError, PydanticUndefinedAnnotation)
        raise UsageError(f"{name!r} has no JSON schema: {cause}") from exc


def _copy_schema(name: str, value: object) -> dict[str, JsonValue]:
    """Return the JSON schema `value` as plain JSON; the user's object may change later."""
    try:
        schema: dict[str, JsonValue] = json.loads(json.dumps(dict(value), allow_nan=False))  # type: ignore[call-overload]  # a mapping
    except Exception as exc:  # whatever the mapping's own code raises
        cause = _describe_cause(exc, TypeError, ValueError, RecursionError)
        raise UsageError(f"{name!r} is not a JSON schema: {cause}") from exc

    if is_deeper(schema, MAX_SCHEMA_LEVELS):
        reason = f"more than {MAX_SCHEMA_LEVELS} objects and lists are nested"
        raise _make_unusable_error(name, reason)
    return schema


def _check_schema(name: str, schema: dict[str, JsonValue]) -> None:
    """Raise `UsageError` if `schema` is not valid, or if it could not be checked safely."""
    with delay_parsers():
        from jsonschema.exceptions import SchemaError  # type: ignore[import-untyped]
        from jsonschema.validators import (  # type: ignore[import-untyped]
            Draft3Validator,
            Draft4Validator,
        )

    validator = find_validator(schema)
    try:
        validator.check_schema(schema)
    except SchemaError as exc:
        where = format_schema_path(exc.absolute_path)
        raise UsageError(f"{name!r} is not a JSON schema: {where}: {format_misfit(exc)}") from exc

    # References that lead back to themselves for the same value (`same_value`): the check of an
    # answer would never end.
    try:
        loop_path = find_loop(schema, same_value=True)
    except UsageError as exc:  # a reference leads to nothing
        raise _make_unusable_error(name, str(exc)) from exc

    # A part with its own id would change what the references inside of it mean, so that is reported
    # before a loop of them.
    keyword = "id" if validator in (Draft3Validator, Draft4Validator) else "$id"
    for path, part in walk_schemas(schema).items():
        is_inside = bool(path)
        if is_inside and keyword in part:
            reason = f"it has its own `{keyword}`, which changes the base of references: remove it"
            raise _make_unusable_error(name, f"{format_schema_path(path)}: {reason}")

    if loop_path is not None:
        raise _make_unusable_error(name, f"{format_schema_path(loop_path)}: {ONLY_ITSELF}")


def _make_unusable_error(name: str, reason: str) -> UsageError:
    return UsageError(f"{name!r} is not a usable JSON schema: {reason}")


def _describe_cause(exc: Exception, *clear_types: type[Exception]) -> str:
    """Return the first line of the message, and the type unless it is one of `clear_types`."""
    line = str(exc).strip().partition("\n")[0][:MAX_EXCERPT]
    return line if isinstance(exc, clear_types) else f"{type(exc).__name__}: {line}"
