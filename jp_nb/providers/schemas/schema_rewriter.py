"""Rewrite a JSON schema for an API that enforces schemas: Anthropic's, or OpenAI's strict mode.

Both APIs enforce only a subset of JSON Schema, and want closed objects, which have no other
properties than the declared ones. The rewriter closes objects, writes out what the subset lacks,
and moves limits such as `minimum` into the description of their node, for the model to read:

    {"type": "integer", "minimum": 1}  ->  {"type": "integer", "description": "{minimum: 1}"}

The keywords of the subset are in `schema_keywords.py`: the API requires one of `CONSTRAINING` in
each node, enforces no schema with an `UNSUPPORTED` one, and knows no limit in `IGNORED`.

It does not fail. If the API cannot enforce the structure, `is_enforceable` is False afterwards.
Gemini enforces another subset: `google_schemas.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.json_schema import Schema
from jp_nb.json_values import JsonObject
from jp_nb.providers.schemas.answer_schemas import WRAPPER_KEY
from jp_nb.providers.schemas.schema_expansion import (
    MAX_EXPANSIONS,
    expand,
    expand_or_keep,
    is_composed,
)
from jp_nb.providers.schemas.schema_keywords import (
    ANNOTATION_KEYWORDS,
    CONSTRAINING,
    IGNORED,
    UNSUPPORTED,
)
from jp_nb.providers.schemas.schema_parts import (
    find_undeclared,
    get_all_of,
    get_alternatives,
    get_property_schemas,
    get_required,
    get_type_names,
)
from jp_nb.providers.schemas.type_lists import has_mixed_types, split_types

_STABLE_REFERENCE: Final = re.compile(rf"#(/properties/{WRAPPER_KEY}|/(\$defs|definitions)/[^/]+)?")
"""References whose targets the rewriter does not move: the root, a definition, and the schema that
`wrap_in_object` put into the root, because it is not one of an object.
"""
_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
"""Values of `format` that both APIs enforce."""
_MAX_NODES: Final = 20_000
"""Maximum size of a schema with expanded references."""


class SchemaRewriter:
    """Rewrites the schema `root`, or one of its parts, for one API.

    Use a new one for each schema. Keywords in `dropped` are omitted.

    Attributes:
        is_enforceable: True if the API can enforce the structure of the schema. Limits that were
            moved into a description do not count.
        has_nullable: True if an optional property was made nullable.
        is_too_large: True if the schema with its expanded references is too large.
    """

    def __init__(
        self,
        api: Literal["anthropic", "openai"],
        root: Schema,
        *,
        dropped: Collection[str] = ANNOTATION_KEYWORDS,
    ) -> None:
        self.is_enforceable = True
        self.has_nullable = False
        self.is_too_large = False
        self._is_openai = api == "openai"
        self._root = root
        self._dropped = dropped
        self._node_count = 0  # of the rewritten nodes
        self._expanding: list[JsonValue] = []  # references around the current node

    def rewrite(self, schema: Schema) -> JsonObject:
        """Return the node to send for `schema`.

        Neither API accepts keywords next to `$ref`, so such a schema is expanded, and so is an
        `allOf`. A recursive one cannot be: it stays a reference, without the keywords next to it.
        """
        self._node_count += 1
        if self._node_count > _MAX_NODES or len(self._expanding) > MAX_EXPANSIONS:
            self.is_too_large = True
            self.is_enforceable = False
            return {}

        # A rewritten schema may have the target of a reference at another place. For Anthropic, the
        # reference is then expanded. For OpenAI, the schema is sent as the user wrote it, without
        # `strict` (`_is_unenforceable`).
        has_moved_target = not self._is_openai and _has_unstable_reference(schema)
        # A schema is composed if it has `allOf`, or keywords next to `$ref`.
        if not (is_composed(schema) or has_moved_target):
            return self._rewrite_simple(schema)

        parts = (schema, *get_all_of(schema))
        references = [part["$ref"] for part in parts if "$ref" in part]

        is_recursive = any(reference in self._expanding for reference in references)
        if is_recursive:
            if "allOf" in schema:  # its other members are lost
                self.is_enforceable = False
            return {"$ref": references[0]}

        self._expanding += references
        expanded = expand(schema, self._root)
        if expanded is None:
            self.is_enforceable = False
            expanded = schema

        node = self._rewrite_simple(expanded)
        del self._expanding[len(self._expanding) - len(references) :]
        return node

    def _rewrite_simple(self, schema: Schema) -> JsonObject:
        """Return the node for a schema whose references and `allOf` need no expansion."""
        schema = split_types(schema)  # `["object", "null"]` becomes an `anyOf`
        if self._is_unenforceable(schema):
            self.is_enforceable = False

        node: JsonObject = {}
        limits: list[str] = []

        for key, value in schema.items():
            if key in self._dropped:
                continue
            if self._belongs_in_description(key, value):
                limits.append(f"{key}: {json.dumps(value, ensure_ascii=False)}")
            else:
                key, value = self._rewrite_keyword(key, value)
                node[key] = value

        if "properties" in node:
            node.setdefault("type", "object")

        if node.get("type") == "object":
            self._close_object(schema, node)
        if node.get("type") == "array" and "items" not in node:
            self.is_enforceable = False

        if limits:
            described = str(node.get("description", ""))
            node["description"] = f"{described} {{{', '.join(limits)}}}".strip()
        return node

    def _is_unenforceable(self, schema: Schema) -> bool:
        """Return True if the API cannot enforce this node, apart from those below it."""
        allows_anything = not CONSTRAINING & schema.keys()
        return bool(
            allows_anything
            or any(key in schema for key in UNSUPPORTED)
            or has_mixed_types(schema)
            or find_undeclared(schema)
            or _has_unstable_reference(schema)
            or has_two_alternatives(schema)
            or has_divided_properties(schema, self._root)
        )

    def _belongs_in_description(self, key: str, value: JsonValue) -> bool:
        """Return True for a limit that the API does not enforce, such as `maximum`."""
        if key == "minItems" and not self._is_openai:
            return value not in (0, 1)
        return key in IGNORED or (key == "format" and value not in _FORMATS)

    def _rewrite_keyword(self, key: str, value: JsonValue) -> tuple[str, JsonValue]:
        """Return the keyword and the value to send, with the schemas in it rewritten."""
        match key, value:
            case (("properties" | "$defs" | "definitions"), dict()):
                return key, {name: self._rewrite_child(child) for name, child in value.items()}
            case "items", _:
                return key, self._rewrite_child(value)
            case (("anyOf" | "oneOf"), list()):
                return "anyOf", [self._rewrite_child(child) for child in value]
            case "allOf", list():
                return key, [self._rewrite_child(child) for child in value]
            case "const", _ if self._is_openai:
                return "enum", [value]
        return key, value

    def _rewrite_child(self, value: JsonValue) -> JsonValue:
        if isinstance(value, dict):
            return self.rewrite(value)
        self.is_enforceable = False  # `true`, or a list of schemas for the items
        return value

    def _close_object(self, schema: Schema, node: JsonObject) -> None:
        """Forbid undeclared properties in `node`. OpenAI also wants each property required."""
        node["additionalProperties"] = False
        properties = node.get("properties")

        if not isinstance(properties, dict) or isinstance(schema.get("additionalProperties"), dict):
            self.is_enforceable = False  # a mapping with arbitrary keys
            return
        if not self._is_openai:
            return

        required = get_required(schema)
        for name, child in properties.items():
            if name not in required and isinstance(child, dict):
                self.has_nullable = True
                properties[name] = _allow_null(child)
        node["required"] = list(properties)


def has_two_alternatives(schema: Schema) -> bool:
    """Return True if a value must fit an `anyOf` and a `oneOf`. The APIs know only one `anyOf`."""
    return "anyOf" in schema and "oneOf" in schema


def has_divided_properties(schema: Schema, root: Schema) -> bool:
    """Return True if alternatives of an object declare other properties than the object itself.

    Each of them would be closed, so that they forbid each other's properties, and no value fits.
    """
    if "properties" not in schema:
        return False

    names = get_property_schemas(schema).keys()
    for alternative in get_alternatives(schema):
        whole = expand_or_keep(alternative, root)
        types = get_type_names(whole)
        is_object = "properties" in whole or not types or "object" in types
        is_value = "const" in whole or "enum" in whole
        if is_object and not is_value and get_property_schemas(whole).keys() != names:
            return True

    return False


def _has_unstable_reference(schema: Schema) -> bool:
    """Return True if the rewriter may move the target of the reference."""
    reference = schema.get("$ref")
    return isinstance(reference, str) and not _STABLE_REFERENCE.fullmatch(reference)


def _allow_null(schema: JsonObject) -> JsonObject:
    """Return a schema for null, and for the values of `schema`."""
    type_name = schema.get("type")
    if not isinstance(type_name, str) or type_name in ("object", "array"):
        return {"anyOf": [schema, {"type": "null"}]}
    nullable: JsonObject = {**schema, "type": [type_name, "null"]}

    choices = schema.get("enum")
    if isinstance(choices, list) and None not in choices:
        nullable["enum"] = [*choices, None]
    return nullable
