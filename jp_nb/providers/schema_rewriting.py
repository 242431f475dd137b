"""JSON schemas rewritten as a protocol accepts them, node by node.

A constraint that an API rejects moves into the description of its node, where the model still
reads it.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.json_schema import (
    DEFINITIONS,
)
from jp_nb.providers.schema_parts import (
    DROPPED,
    MAX_WRITTEN_OUT,
    Schema,
    all_of,
    expanded,
    is_composed,
    is_mixed,
    one_type,
    resolved,
    type_names,
    undeclared,
)

WRAPPED: Final = "value"
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
UNENFORCEABLE: Final = (
    "not", "if", "then", "else", "patternProperties", "propertyNames", "dependentRequired",
    "dependentSchemas", "dependencies", "prefixItems", "additionalItems", "contains",
    "unevaluatedProperties", "unevaluatedItems",
)  # fmt: skip
SAYS_WHAT: Final = frozenset(
    {"type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf", "properties", "items"}
)
"""Keywords one of which a schema needs to say something about its value that is enforced."""
_STAYS: Final = re.compile(rf"#(/properties/{WRAPPED}|/(\$defs|definitions)/[^/]+)?")
"""References to what a strict schema has in the same place, and says the same of."""
_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
_MAX_NODES: Final = 20_000
"""Of a schema whose references are written out."""


def object_root(schema: Mapping[str, JsonValue]) -> tuple[Schema, bool]:
    """`schema` if its answers are objects; else an object that holds such an answer."""
    whole = resolved(schema, schema)
    definitions = {key: schema[key] for key in DEFINITIONS if key in schema}
    if type_names(whole) == {"object"} or ("properties" in whole and "type" not in whole):
        return {**definitions, **whole}, False
    inner = {key: value for key, value in schema.items() if key not in definitions}
    root: Schema = {
        "type": "object",
        "properties": {WRAPPED: _moved(inner)},
        "required": [WRAPPED],
        **{key: _moved(value) for key, value in definitions.items()},
    }
    return root, True


def _moved(value: JsonValue) -> JsonValue:
    """`value` with what it refers to at the root's new place; definitions stay where they are."""
    if isinstance(value, list):
        return [_moved(item) for item in value]
    if not isinstance(value, dict):
        return value
    moved = {key: _moved(item) for key, item in value.items()}
    reference = value.get("$ref")
    kept = tuple(f"#/{key}/" for key in DEFINITIONS)
    if isinstance(reference, str) and not reference.startswith(kept):
        moved["$ref"] = f"#/properties/{WRAPPED}{reference.removeprefix('#')}"
    return moved


def _is_enforceable(schema: Mapping[str, JsonValue]) -> bool:
    """Return True if OpenAI can enforce what `schema` itself says, its parts aside."""
    reference = schema.get("$ref")
    if isinstance(reference, str) and not _STAYS.fullmatch(reference):
        return False
    if is_mixed(schema) or undeclared(schema):
        return False
    return bool(SAYS_WHAT & schema.keys()) and not any(word in schema for word in UNENFORCEABLE)


class SchemaRewriter:
    """Rewrites a schema, node by node, for one dialect."""

    def __init__(
        self, dialect: Literal["anthropic", "openai"], root: Mapping[str, JsonValue]
    ) -> None:
        self.strict = dialect == "openai"
        self.possible = True
        self.nullable = False
        self.too_large = False
        self._nodes = 0
        self._root = root
        self._written_out: list[JsonValue] = []

    def node(self, schema: Mapping[str, JsonValue]) -> Schema:
        """The node to send for `schema`."""
        self._nodes += 1
        if self._nodes > _MAX_NODES or len(self._written_out) > MAX_WRITTEN_OUT:
            self.too_large = True
            self.possible = False
            return {}
        reference = schema.get("$ref")
        moves = isinstance(reference, str) and not _STAYS.fullmatch(reference)
        if not is_composed(schema) and (self.strict or not moves):
            return self._simple(schema)
        # Neither dialect takes a `$ref` with anything beside it.
        references = [each["$ref"] for each in (schema, *all_of(schema)) if "$ref" in each]
        if any(reference in self._written_out for reference in references):
            if "allOf" in schema:
                self.possible = False
            return {"$ref": references[0]}  # once more of the same: what is beside it goes
        self._written_out += references
        written = expanded(schema, self._root)
        if written is None:
            self.possible = False
        node = self._simple(schema if written is None else written)
        del self._written_out[len(self._written_out) - len(references) :]
        return node

    def _simple(self, schema: Mapping[str, JsonValue]) -> Schema:
        schema = one_type(schema)
        if not _is_enforceable(schema):
            self.possible = False
        result: Schema = {}
        notes: list[str] = []
        for key, value in schema.items():
            if key in DROPPED:
                continue
            if self._is_description(key, value):
                notes.append(f"{key}: {json.dumps(value, ensure_ascii=False)}")
            else:
                key, value = self._keyword(key, value)
                result[key] = value
        if "properties" in result:
            result.setdefault("type", "object")
        if result.get("type") == "object":
            self._object(schema, result)
        if result.get("type") == "array" and "items" not in result:
            self.possible = False
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
            case "items", _:
                return key, self._child(value)
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
        self.possible = False  # `true`: anything; a list: one for each item
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
