"""Read the schema of a structured answer, and check the answer.

Source: `docs/guide.md`, `docs/providers.md`, `docs/turns.md`.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, JsonValue, TypeAdapter
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from jp_nb.errors import AnswerError, UsageError
from jp_nb.json_schema import ONLY_ITSELF, Schema, all_schemas, find_loop, format_schema_path
from jp_nb.json_values import MAX_SCHEMA_LEVELS, is_deeper
from jp_nb.packages import without_parsers
from jp_nb.record.events import ChatResponse, Entry

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError  # type: ignore[import-untyped]
    from jsonschema.protocols import Validator  # type: ignore[import-untyped]

MAX_EXCERPT: Final = 200
_TAKES: Final = (
    "a pydantic model, a dataclass, a TypedDict, another type that pydantic can describe, or a "
    "dict with a JSON schema"
)
_KEYWORDS: Final = frozenset({"$defs", "$ref", "$schema", "allOf", "anyOf", "const", "enum",
                              "items", "oneOf", "properties", "type"})  # fmt: skip
_TYPING: Final = frozenset({"typing", "types", "typing_extensions"})


def read_schema(what: object, namespace: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return the JSON schema of a type, of a dict with a schema, or of a variable with either.

    Raises:
        UsageError: The variable does not exist, or its value is not a valid schema. The message
            contains the path of the problem.
    """
    name = what if isinstance(what, str) else getattr(what, "__name__", "schema")
    value = what
    if isinstance(what, str):
        if what not in namespace:
            names = [k for k, v in namespace.items() if isinstance(k, str) and is_schema_like(v)]
            near = difflib.get_close_matches(what, names, n=1)
            hint = f"did you mean {near[0]!r}? A schema is" if near else "define it first, as"
            raise UsageError(f"there is no {what!r} in this notebook: {hint} {_TAKES}")
        value = namespace[what]
    if isinstance(value, Mapping):
        schema = _copy_schema(name, value)
    elif isinstance(value, TypeAdapter | type) or type(value).__module__ in _TYPING:
        schema = _copy_schema(name, _schema_of_type(name, value))
    else:
        kind = type(value).__name__
        article = "an" if kind[:1].lower() in "aeiou" else "a"
        raise UsageError(f"{name!r} is {article} {kind}, not a schema: expected {_TAKES}")
    _check_schema(name, schema)
    return schema


def is_schema_like(value: Any) -> bool:
    """Return True if Tab completion should offer `value` as a schema, without running its code."""
    kind = type(value)
    if issubclass(kind, dict):
        return any(isinstance(key, str) and key in _KEYWORDS for key in dict.keys(value))
    if issubclass(kind, type):
        own = vars(value)
        is_model = issubclass(kind, type(BaseModel)) and value is not BaseModel
        return is_model or "__dataclass_fields__" in own or "__total__" in own
    return kind.__name__ in ("GenericAlias", "_GenericAlias", "UnionType", "_LiteralGenericAlias")


def _schema_of_type(name: str, value: Any) -> object:
    try:
        adapter = value if isinstance(value, TypeAdapter) else TypeAdapter(value)
        return adapter.json_schema()
    except Exception as exc:  # whatever the type's own code raises
        cause = _describe_cause(exc, PydanticUserError, PydanticUndefinedAnnotation)
        raise UsageError(f"{name!r} has no JSON schema: {cause}") from exc


def _copy_schema(name: str, value: object) -> dict[str, JsonValue]:
    try:
        schema: dict[str, JsonValue] = json.loads(json.dumps(dict(value), allow_nan=False))  # type: ignore[call-overload]  # a mapping
    except Exception as exc:  # whatever the mapping's own code raises
        cause = _describe_cause(exc, TypeError, ValueError, RecursionError)
        raise UsageError(f"{name!r} is not a JSON schema: {cause}") from exc
    if is_deeper(schema, MAX_SCHEMA_LEVELS):
        raise _unusable_error(name, f"more than {MAX_SCHEMA_LEVELS} objects and lists are nested")
    return schema


def _check_schema(name: str, schema: dict[str, JsonValue]) -> None:
    with without_parsers():
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import (  # type: ignore[import-untyped]
            Draft3Validator,
            Draft4Validator,
        )

    validator = _validator(schema)
    try:
        validator.check_schema(schema)
    except SchemaError as exc:
        where = format_schema_path(exc.absolute_path)
        raise UsageError(f"{name!r} is not a JSON schema: {where}: {_format_misfit(exc)}") from exc
    try:
        endless = find_loop(schema, same_value=True)
    except UsageError as exc:
        raise _unusable_error(name, str(exc)) from exc
    base = "id" if validator in (Draft3Validator, Draft4Validator) else "$id"
    for path, part in all_schemas(schema).items():
        if path and base in part:
            reason = f"it has its own `{base}`, which changes the base of references: remove it"
            raise _unusable_error(name, f"{format_schema_path(path)}: {reason}")
    if endless is not None:
        raise _unusable_error(name, f"{format_schema_path(endless)}: {ONLY_ITSELF}")


def _unusable_error(name: str, reason: str) -> UsageError:
    return UsageError(f"{name!r} is not a usable JSON schema: {reason}")


def _validator(schema: Schema) -> type[Validator]:
    from jsonschema.validators import Draft202012Validator, validator_for

    dialect = schema.get("$schema", "")
    if not isinstance(dialect, str):
        raise UsageError("$.$schema: expected the URL of a JSON Schema version, as a text")
    found: type[Validator] = validator_for(schema, default=Draft202012Validator)
    return found


def check_answer(entries: Sequence[Entry], schema: Schema, *, text: str) -> None:
    """Check the last structured answer in the `entries` of a turn, or raise `AnswerError`.

    `text` is the other text of the turn, for the error.
    """
    answers = [e for e in entries if isinstance(e, ChatResponse) and e.kind == "structured"]
    if not answers:
        note = f"; its text is {_excerpt(text)}" if text.strip() else ""
        raise AnswerError(f"the model gave no structured answer{note}", text=text)
    data = answers[-1].data
    error = _first_misfit(data, schema)
    if error is None:
        return
    where = format_schema_path(error.absolute_path)
    found = _excerpt(error.instance) if error.absolute_path else ""
    whole = f"{where}: {_format_misfit(error)}{f', found {found}' if found else ''}"
    raise AnswerError(
        f"the answer does not fit the schema: {whole}. The answer, also in `_jp.data`: "
        f"{_excerpt(data)}",
        data=data,
        text=text,
    )


def _first_misfit(data: JsonValue, schema: Schema) -> ValidationError | None:
    with without_parsers():
        from jsonschema.exceptions import ValidationError, best_match
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    # An empty registry never fetches a schema.
    validator = _validator(schema)(dict(schema), registry=Registry())
    try:
        return best_match(validator.iter_errors(data))
    except RecursionError:
        return ValidationError("nested too deeply", validator="depth", instance=data)
    except OverflowError:
        return ValidationError("too large a number", validator="size", instance=data)
    except Unresolvable as exc:
        return ValidationError("leads nowhere", "$ref", validator_value=exc.ref, instance=data)


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


def _format_misfit(error: ValidationError) -> str:
    keyword, demand = str(error.validator), error.validator_value
    if keyword == "type":
        return f"expected {' or '.join([demand] if isinstance(demand, str) else demand)}"
    if keyword == "required" and isinstance(error.instance, dict):
        missing = [name for name in demand if name not in error.instance]
        return f"expected {', '.join(repr(name) for name in missing)} in it"
    text = _EXPECTED.get(keyword, f"expected a value that meets `{keyword}`: {{}}")
    return text.format(_excerpt(demand)) if "{}" in text else text


def _excerpt(value: object) -> str:
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "…"
    shown = text if len(text) <= MAX_EXCERPT else f"{text[:MAX_EXCERPT]}…"
    return json.dumps(shown, ensure_ascii=False) if isinstance(value, str) else shown


def _describe_cause(exc: Exception, *clear: type[Exception]) -> str:
    """Return the first line of the message, with the type of an error that is not `clear`."""
    line = str(exc).strip().partition("\n")[0][:MAX_EXCERPT]
    return line if isinstance(exc, clear) else f"{type(exc).__name__}: {line}"
