"""JSON schemas as the protocols accept them, and their answers as the user's schema means them.

A constraint that an API rejects moves into the description of its node, where the model still
reads it. The user's own schema stays what an answer is validated against.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.json_schema import (
    ONLY_ITSELF,
    SchemaPath,
    all_schemas,
    child_schemas,
    find_loop,
    format_place,
)
from jp_nb.providers.schema_parts import (
    Schema,
    alternatives,
    expanded,
    is_composed,
    is_mixed,
    one_type,
    required_names,
    resolved,
    type_names,
    undeclared,
)
from jp_nb.providers.schema_rewriting import (
    SAYS_WHAT,
    UNENFORCEABLE,
    WRAPPED,
    SchemaRewriter,
    object_root,
)

_ANY_JSON: Final = '{["-0123456789tfn'
# https://platform.openai.com/docs/guides/structured-outputs#supported-schemas, as of February 2026
_MAX_STRICT_PROPERTIES: Final = 5000
_MAX_STRICT_OBJECTS: Final = 10
"""Within one another."""
_MAX_STRICT_CHOICES: Final = 1000


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """The schema to send for a user's `original` one, and the way back.

    Attributes:
        original: The user's.
        schema: The one to send.
        strict: Whether the API can enforce `schema` (the OpenAI protocols' `strict`).
        wrapped: Whether the answer comes as `{"value": …}`, because it is not an object.
        nullable: Whether properties that may be absent come as null instead.
    """

    original: Mapping[str, JsonValue]
    schema: Schema
    strict: bool = True
    wrapped: bool = False
    nullable: bool = False

    @property
    def as_is(self) -> bool:
        """Return True if an answer to `schema` is one to `original`, without `restore`."""
        return not (self.wrapped or self.nullable)

    @property
    def begins(self) -> str:
        """The characters with which an answer may begin, as JSON, and no mere talk does."""
        is_object = self.schema.get("type") == "object" and not self.wrapped
        return "{[" if is_object else _ANY_JSON

    def restore(self, text: str) -> str:
        """The answer `text` as an answer to `original`; unchanged if it is no complete JSON."""
        try:
            value: JsonValue = json.loads(text)
            if self.wrapped and isinstance(value, dict) and set(value) == {WRAPPED}:
                value = value[WRAPPED]
            if self.nullable:
                value = _without_nulls(value, self.original, self.original)
            return json.dumps(value, ensure_ascii=False)
        except (ValueError, RecursionError):
            return text


def plain(schema: Mapping[str, JsonValue]) -> AnswerSchema:
    """For servers that make a grammar of any schema (llama.cpp, Ollama)."""
    return AnswerSchema(schema, dict(schema))


def for_json_mode(schema: Mapping[str, JsonValue]) -> AnswerSchema:
    """For servers that are told the schema in words, and answer with objects alone (DeepSeek)."""
    root, wrapped = object_root(schema)
    return AnswerSchema(schema, root, wrapped=wrapped)


def for_anthropic(schema: Mapping[str, JsonValue]) -> AnswerSchema:
    """For `output_config.format`.

    Raises:
        UsageError: If it is too large, as `check_anthropic` says too.
    """
    root, wrapped = object_root(schema)
    walker = SchemaRewriter("anthropic", root)
    sent = walker.node(root)
    if walker.too_large:
        raise _refusal((), "the schema with all of its references expanded is too large")
    return AnswerSchema(schema, sent, wrapped=wrapped)


def for_openai(schema: Mapping[str, JsonValue]) -> AnswerSchema:
    """For `strict` schemas; not strict where the schema cannot be."""
    root, wrapped = object_root(schema)
    walker = SchemaRewriter("openai", root)
    strict = walker.node(root)
    if not walker.possible or _too_large(strict):
        return AnswerSchema(schema, root, strict=False, wrapped=wrapped)
    return AnswerSchema(schema, strict, wrapped=wrapped, nullable=walker.nullable)


def check_references(schema: Mapping[str, JsonValue]) -> None:
    """Raise `UsageError` if a reference in `schema` leads nowhere, or only to itself."""
    if (path := find_loop(schema, same_value=True)) is not None:
        raise UsageError(f"{format_place(path)}: {ONLY_ITSELF}")


def check_anthropic(schema: Mapping[str, JsonValue]) -> None:
    """Raise `UsageError` if `output_config.format` cannot have answers fit `schema`.

    Source: `docs/providers.md`;
    https://platform.claude.com/docs/en/build-with-claude/structured-outputs
    """
    check_references(schema)
    if (path := find_loop(schema)) is not None:
        raise _refusal(path, "the schema is recursive: write out as many levels as you need")
    for path, part in all_schemas(schema).items():
        if why := _anthropic_misfit(part, schema):
            raise _refusal(path, why)
        for way, child in child_schemas(part):
            if isinstance(child, bool) and way[0] != "additionalProperties":
                word = json.dumps(child)
                raise _refusal((*path, *way), f"`{word}` is used as a schema: write out a schema")
        # What `allOf` demands together is looked at as one, where it stands.
        if path[-2:-1] != ("allOf",) and (unknown := undeclared(resolved(part, schema))):
            raise _refusal(
                path, f"`required` names {unknown[0]!r}, which is missing under `properties`"
            )
    for_anthropic(schema)


def _refusal(path: SchemaPath, why: str) -> UsageError:
    return UsageError(f"anthropic does not support this schema: {format_place(path)}: {why}")


def _anthropic_misfit(part: Mapping[str, JsonValue], root: Mapping[str, JsonValue]) -> str | None:
    for keyword in UNENFORCEABLE:
        if keyword in part:
            return f"`{keyword}` is not supported; describe the condition in `description`"
    if not SAYS_WHAT & part.keys():
        return "the schema allows any value; add a `type`"
    choices = part.get("enum", [])
    if isinstance(choices, list) and any(isinstance(choice, dict | list) for choice in choices):
        return "an `enum` can contain only texts, numbers, booleans and null"
    if is_mixed(one_type(resolved(part, root))):
        return "objects or arrays among several types; make each type a schema of an `anyOf`"
    if isinstance(part.get("items"), list):
        return "`items` must be one schema for all items, not a list of schemas"
    if isinstance(part.get("additionalProperties"), dict) or _is_open(part):
        return (
            "an object needs fixed keys; list them under `properties`, or use an "
            "array of objects with a key and a value"
        )
    if is_composed(part) and expanded(part, root) is None:
        return "the schemas of `allOf` or next to `$ref` cannot be merged; write out one schema"
    return None


def _is_open(part: Mapping[str, JsonValue]) -> bool:
    """Return True if `part` is an object that names no properties and may have some."""
    if "object" not in type_names(part) or is_composed(part):
        return False
    return "properties" not in part and part.get("additionalProperties") is not False


def _too_large(strict: Schema) -> bool:
    """Return True if OpenAI would refuse to enforce `strict` for its size."""
    properties = choices = deepest = 0
    for path, part in all_schemas(strict).items():
        names, values = part.get("properties"), part.get("enum")
        properties += len(names) if isinstance(names, dict) else 0
        choices += len(values) if isinstance(values, list) else 0
        if names is not None:
            deepest = max(deepest, 1 + path.count("properties"))
    return (
        properties > _MAX_STRICT_PROPERTIES
        or choices > _MAX_STRICT_CHOICES
        or deepest > _MAX_STRICT_OBJECTS
    )


def _without_nulls(
    value: JsonValue, schema: Mapping[str, JsonValue], root: Mapping[str, JsonValue]
) -> JsonValue:
    """`value` without the null properties that `schema` allows to be absent."""
    schema = resolved(schema, root)
    items = schema.get("items")
    properties = schema.get("properties")
    if isinstance(value, list) and isinstance(items, dict):
        return [_without_nulls(item, items, root) for item in value]
    if isinstance(value, dict) and isinstance(properties, dict):
        return {
            name: _without_nulls(item, child, root) if isinstance(child, dict) else item
            for name, item in value.items()
            for child in [properties.get(name)]
            if item is not None or name in required_names(schema)
        }
    for alternative in alternatives(schema):
        if _fits(value, alternative, root):
            return _without_nulls(value, alternative, root)
    return value


def _fits(value: JsonValue, schema: Mapping[str, JsonValue], root: Mapping[str, JsonValue]) -> bool:
    """Return True if `value`, null for what is absent, has the types and choices of `schema`."""
    schema = resolved(schema, root)
    if "const" in schema and value != schema["const"]:
        return False
    choices, kinds = schema.get("enum"), schema.get("type")
    if isinstance(choices, list) and value not in choices:
        return False
    if kinds is not None and not set(kinds if isinstance(kinds, list) else [kinds]) & _kinds(value):
        return False
    others = alternatives(schema)
    if others and not any(_fits(value, each, root) for each in others):
        return False
    items, properties = schema.get("items"), schema.get("properties")
    if isinstance(value, list) and isinstance(items, dict):
        return all(_fits(item, items, root) for item in value)
    if isinstance(value, dict) and isinstance(properties, dict):
        required = required_names(schema)
        return all(name in value for name in required) and all(
            isinstance(child := properties.get(name), dict)
            and ((item is None and name not in required) or _fits(item, child, root))
            for name, item in value.items()
        )
    return True


def _kinds(value: JsonValue) -> set[JsonValue]:
    """The names that JSON schemas have for what `value` is."""
    match value:
        case None:
            return {"null"}
        case bool():
            return {"boolean"}
        case str():
            return {"string"}
        case list():
            return {"array"}
        case dict():
            return {"object"}
    is_whole = isinstance(value, int) or value.is_integer()
    return {"number", "integer"} if is_whole else {"number"}
