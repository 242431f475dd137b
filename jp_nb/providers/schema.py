"""JSON schemas as the protocols accept them, and their answers as the user's schema means them.

A constraint that an API rejects moves into the description of its node, where the model still
reads it. The user's own schema stays what an answer is validated against.

Source: `spec/providers.md` section 5.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import JsonValue

Schema = dict[str, JsonValue]

_WRAPPED: Final = "value"
_TO_DESCRIPTION: Final = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
)
_NEVER_STRICT: Final = frozenset(
    {"not", "if", "then", "else", "allOf", "patternProperties", "dependentRequired",
     "dependentSchemas", "propertyNames", "prefixItems", "contains"}
)  # fmt: skip
_DROPPED: Final = frozenset({"default", "title", "examples", "$schema", "$id"})
_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """What to send for a user's `original` schema.

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
        """Whether an answer to `schema` is one to `original`, without `restore`."""
        return not (self.wrapped or self.nullable)

    def restore(self, text: str) -> str:
        """The answer `text` as an answer to `original`; unchanged if it is no complete JSON."""
        try:
            value: JsonValue = json.loads(text)
        except ValueError:
            return text
        if self.wrapped and isinstance(value, dict) and set(value) == {_WRAPPED}:
            value = value[_WRAPPED]
        if self.nullable:
            value = _without_nulls(value, self.original, self.original)
        return json.dumps(value, ensure_ascii=False)


def plain(schema: Mapping[str, JsonValue]) -> AnswerSchema:
    """For servers that make a grammar of any schema (llama.cpp, Ollama)."""
    return AnswerSchema(schema, dict(schema))


def for_anthropic(schema: Mapping[str, JsonValue]) -> AnswerSchema:
    """For `output_config.format` (section 5.2)."""
    root, wrapped = _object_root(schema)
    return AnswerSchema(schema, _Walker("anthropic").node(root), wrapped=wrapped)


def for_openai(schema: Mapping[str, JsonValue]) -> AnswerSchema:
    """For `strict` schemas (section 5.3); not strict where the schema cannot be."""
    root, wrapped = _object_root(schema)
    walker = _Walker("openai")
    strict = walker.node(root)
    if not walker.possible:
        return AnswerSchema(schema, root, strict=False, wrapped=wrapped)
    return AnswerSchema(schema, strict, wrapped=wrapped, nullable=walker.nullable)


def _object_root(schema: Mapping[str, JsonValue]) -> tuple[Schema, bool]:
    """`schema` if its answers are objects; else an object that holds such an answer."""
    target = _resolved(schema, schema)
    definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    if target.get("type") == "object" or "properties" in target:
        return {**definitions, **target}, False
    inner = {key: value for key, value in schema.items() if key not in definitions}
    root: Schema = {
        "type": "object",
        "properties": {_WRAPPED: inner},
        "required": [_WRAPPED],
        **definitions,
    }
    return root, True


class _Walker:
    """Rewrites a schema, node by node, for one dialect."""

    def __init__(self, dialect: Literal["anthropic", "openai"]) -> None:
        self.strict = dialect == "openai"
        self.possible = True
        self.nullable = False

    def node(self, schema: Mapping[str, JsonValue]) -> Schema:
        """The node to send for `schema`."""
        if self.strict and (not schema or _NEVER_STRICT & schema.keys()):
            self.possible = False
        result: Schema = {}
        notes: list[str] = []
        for key, value in schema.items():
            if key in _DROPPED:
                continue
            if self._is_description(key, value):
                notes.append(f"{key}: {json.dumps(value, ensure_ascii=False)}")
            else:
                key, value = self._keyword(key, value)
                result[key] = value
        if result.get("type") == "object" or "properties" in result:
            self._object(schema, result)
        if notes:
            described = str(result.get("description", ""))
            result["description"] = f"{described} {{{', '.join(notes)}}}".strip()
        return result

    def _is_description(self, key: str, value: JsonValue) -> bool:
        if key == "minItems" and not self.strict:
            return value not in (0, 1)
        return key in _TO_DESCRIPTION or (key == "format" and value not in _FORMATS)

    def _keyword(self, key: str, value: JsonValue) -> tuple[str, JsonValue]:
        match key, value:
            case (("properties" | "$defs" | "definitions"), dict()):
                return key, {name: self._child(child) for name, child in value.items()}
            case "items", dict():
                return key, self.node(value)
            case (("anyOf" | "oneOf"), list()):
                return "anyOf", [self._child(child) for child in value]
            case "allOf", list():
                return key, [self._child(child) for child in value]
            case "const", _ if self.strict:
                return "enum", [value]
        return key, value

    def _child(self, value: JsonValue) -> JsonValue:
        if isinstance(value, dict):
            return self.node(value)
        self.possible = False  # `true`: anything
        return value

    def _object(self, schema: Mapping[str, JsonValue], result: Schema) -> None:
        result["additionalProperties"] = False
        properties = result.get("properties")
        if not isinstance(properties, dict) or isinstance(schema.get("additionalProperties"), dict):
            self.possible = False  # a map with keys of the model's choice
            return
        if not self.strict:
            return
        given = schema.get("required")
        required = given if isinstance(given, list) else []
        for name, child in properties.items():
            if name not in required and isinstance(child, dict):
                self.nullable = True
                properties[name] = _or_null(child)
        result["required"] = list(properties)


def _or_null(schema: Schema) -> Schema:
    kind = schema.get("type")
    if not isinstance(kind, str) or kind in ("object", "array"):
        return {"anyOf": [schema, {"type": "null"}]}
    nullable: Schema = {**schema, "type": [kind, "null"]}
    choices = schema.get("enum")
    if isinstance(choices, list) and None not in choices:
        nullable["enum"] = [*choices, None]
    return nullable


def _resolved(
    schema: Mapping[str, JsonValue], root: Mapping[str, JsonValue]
) -> Mapping[str, JsonValue]:
    """The schema that `$ref` names, within `root`; `schema` itself if it names none."""
    seen: set[str] = set()
    while isinstance(ref := schema.get("$ref"), str) and ref.startswith("#/") and ref not in seen:
        seen.add(ref)
        target: JsonValue = dict(root)
        for part in ref[2:].split("/"):
            target = target.get(part) if isinstance(target, dict) else None
        if not isinstance(target, dict):
            break
        schema = target
    return schema


def _without_nulls(
    value: JsonValue, schema: Mapping[str, JsonValue], root: Mapping[str, JsonValue]
) -> JsonValue:
    """`value` without the null properties that `schema` allows to be absent."""
    schema = _resolved(schema, root)
    items = schema.get("items")
    properties = schema.get("properties")
    if isinstance(value, list) and isinstance(items, dict):
        return [_without_nulls(item, items, root) for item in value]
    if not isinstance(value, dict) or not isinstance(properties, dict):
        return value
    given = schema.get("required")
    required = given if isinstance(given, list) else []
    kept: dict[str, JsonValue] = {}
    for name, item in value.items():
        child = properties.get(name)
        if item is None and name not in required:
            continue
        kept[name] = _without_nulls(item, child, root) if isinstance(child, dict) else item
    return kept
