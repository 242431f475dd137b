"""Structured answers: the schema that a name in the notebook stands for, and what fits it.

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
from jp_nb.jsonschema_import import without_parsers
from jp_nb.record.events import ChatResponse, Entry

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError  # type: ignore[import-untyped]
    from jsonschema.protocols import Validator  # type: ignore[import-untyped]

MAX_EXCERPT: Final = 200
_TAKES: Final = (
    "a pydantic model, a dataclass, a TypedDict or another type that pydantic can describe, or a "
    "dict with a JSON schema"
)
_KEYWORDS: Final = frozenset({"$defs", "$ref", "$schema", "allOf", "anyOf", "const", "enum",
                              "items", "oneOf", "properties", "type"})  # fmt: skip
_TYPING: Final = frozenset({"typing", "types", "typing_extensions"})


# --- the schema ------------------------------------------------------------------------------


def read_schema(what: object, namespace: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return the JSON schema that `what` stands for: a type, a schema, or the name of either.

    Raises:
        UsageError: If there is no such name, it is not a schema, or the schema is not in order;
            the message names the place in it.
    """
    name = what if isinstance(what, str) else getattr(what, "__name__", "schema")
    value = _named(what, namespace) if isinstance(what, str) else what
    if isinstance(value, Mapping):
        schema = _json(name, value)
    elif isinstance(value, TypeAdapter) or _is_type(value):
        schema = _json(name, _of_type(name, value))
    else:
        raise UsageError(f"{name!r} is {_a(value)}, not a schema: expected {_TAKES}")
    _check(name, schema)
    return schema


def is_schema_like(value: Any) -> bool:
    """Return True if Tab should offer `value`: a model, a typed record, or a likely schema.

    Nothing of `value` is run.
    """
    kind = type(value)
    if issubclass(kind, dict):
        return any(isinstance(key, str) and key in _KEYWORDS for key in dict.keys(value))
    if issubclass(kind, type):
        own = vars(value)
        is_model = issubclass(kind, type(BaseModel)) and value is not BaseModel
        return is_model or "__dataclass_fields__" in own or "__total__" in own
    return kind.__name__ in ("GenericAlias", "_GenericAlias", "UnionType", "_LiteralGenericAlias")


def _named(name: str, namespace: Mapping[str, Any]) -> object:
    if name in namespace:
        return namespace[name]
    names = [k for k, v in namespace.items() if isinstance(k, str) and is_schema_like(v)]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}? A schema is" if near else "define it first, as"
    raise UsageError(f"there is no {name!r} in this notebook: {hint} {_TAKES}")


def _is_type(value: object) -> bool:
    return isinstance(value, type) or type(value).__module__ in _TYPING


def _of_type(name: str, value: Any) -> object:
    try:
        adapter = value if isinstance(value, TypeAdapter) else TypeAdapter(value)
        return adapter.json_schema()
    except (PydanticUserError, PydanticUndefinedAnnotation) as exc:
        raise UsageError(f"{name!r} has no JSON schema: {_first_line(exc)}") from exc
    except Exception as exc:  # whatever the type's own code raises
        raise UsageError(
            f"{name!r} has no JSON schema: {type(exc).__name__}: {_first_line(exc)}"
        ) from exc


def _json(name: str, value: object) -> dict[str, JsonValue]:
    """Return a copy of `value` that nobody else can change."""
    try:
        schema: dict[str, JsonValue] = json.loads(json.dumps(dict(value), allow_nan=False))  # type: ignore[call-overload]  # a mapping
    except (TypeError, ValueError, RecursionError) as exc:
        raise UsageError(f"{name!r} is not a JSON schema: {_first_line(exc)}") from exc
    except Exception as exc:  # whatever the mapping's own code raises
        raise UsageError(
            f"{name!r} is not a JSON schema: {type(exc).__name__}: {_first_line(exc)}"
        ) from exc
    if is_deeper(schema, MAX_SCHEMA_LEVELS):
        raise _unfit(name, f"more than {MAX_SCHEMA_LEVELS} objects and lists are nested")
    return schema


def _check(name: str, schema: dict[str, JsonValue]) -> None:
    """Refuse what is not a schema, or one whose references could not be followed to an end."""
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
        raise UsageError(f"{name!r} is not a JSON schema: {where}: {_misfit(exc)}") from exc
    try:
        endless = find_loop(schema, same_value=True)
    except UsageError as exc:
        raise _unfit(name, str(exc)) from exc
    base = "id" if validator in (Draft3Validator, Draft4Validator) else "$id"
    for path, part in all_schemas(schema).items():
        if path and base in part:
            why = f"it has its own `{base}`, which changes the base of references: remove it"
            raise _unfit(name, f"{format_schema_path(path)}: {why}")
    if endless is not None:
        raise _unfit(name, f"{format_schema_path(endless)}: {ONLY_ITSELF}")


def _unfit(name: str, why: str) -> UsageError:
    return UsageError(f"{name!r} is not a usable JSON schema: {why}")


def _validator(schema: Schema) -> type[Validator]:
    from jsonschema.validators import Draft202012Validator, validator_for

    dialect = schema.get("$schema", "")
    if not isinstance(dialect, str):
        raise UsageError("$.$schema: expected the URL of a JSON Schema version, as a text")
    found: type[Validator] = validator_for(schema, default=Draft202012Validator)
    return found


# --- the answer ------------------------------------------------------------------------------


def check_answer(entries: Sequence[Entry], schema: Schema, *, text: str) -> None:
    """Check that the turn recorded in `entries` came to an answer that fits `schema`.

    Args:
        entries: Of one turn; the last structured response counts.
        schema: The user's own.
        text: What the model said beside it.

    Raises:
        AnswerError: If there is none, or it does not fit.
    """
    answers = [e for e in entries if isinstance(e, ChatResponse) and e.kind == "structured"]
    if not answers:
        said = f"; its text is {_excerpt(text)}" if text.strip() else ""
        raise AnswerError(f"the model gave no structured answer{said}", text=text)
    data = answers[-1].data
    error = _first_misfit(data, schema)
    if error is None:
        return
    where = format_schema_path(error.absolute_path)
    found = _excerpt(error.instance) if error.absolute_path else ""
    whole = f"{where}: {_misfit(error)}{f', found {found}' if found else ''}"
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

    # A registry of its own: nothing is ever fetched.
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


def _misfit(error: ValidationError) -> str:
    """Return what was expected, in words and bounded: the library quotes whole values."""
    keyword, demand = str(error.validator), error.validator_value
    if keyword == "type":
        return f"expected {' or '.join([demand] if isinstance(demand, str) else demand)}"
    if keyword == "required" and isinstance(error.instance, dict):
        missing = [name for name in demand if name not in error.instance]
        return f"expected {', '.join(repr(name) for name in missing)} in it"
    words = _EXPECTED.get(keyword, f"expected a value that meets `{keyword}`: {{}}")
    return words.format(_excerpt(demand)) if "{}" in words else words


# --- words -----------------------------------------------------------------------------------


def _excerpt(value: object) -> str:
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "…"
    shown = text if len(text) <= MAX_EXCERPT else f"{text[:MAX_EXCERPT]}…"
    return json.dumps(shown, ensure_ascii=False) if isinstance(value, str) else shown


def _a(value: object) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def _first_line(exc: BaseException) -> str:
    return str(exc).strip().partition("\n")[0][:MAX_EXCERPT]
