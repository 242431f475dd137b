"""Rewrite the schema of a structured answer for Gemini.

The API accepts any type of value as the answer, enforces some keywords, and knows no references.
References are expanded, and other keywords move into the description, for the model to read.

Source: `docs/providers.md`, https://ai.google.dev/gemini-api/docs/structured-output.
"""

from __future__ import annotations

import json
from typing import Final

from pydantic import JsonValue

from jp_nb.json_schema import DEFINITIONS, Schema
from jp_nb.json_values import JsonObject
from jp_nb.providers.schemas.answer_schemas import AnswerSchema
from jp_nb.providers.schemas.schema_expansion import MAX_EXPANSIONS, expand_or_keep
from jp_nb.providers.schemas.schema_keywords import ANNOTATION_KEYWORDS
from jp_nb.providers.schemas.schema_parts import get_all_of

_ENFORCED: Final = frozenset(
    {
        "type",
        "format",
        "title",
        "description",
        "enum",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "anyOf",
        "properties",
        "additionalProperties",
        "required",
        "propertyOrdering",
    }
)
"""Keywords that the API enforces, or that tell the model about a value."""
_IGNORED: Final = ANNOTATION_KEYWORDS | {*DEFINITIONS, "$ref"}
"""Keywords that are neither sent nor described."""
_MAX_NODES: Final = 20_000
_RECURSIVE: Final = "The same object as the one that contains it, and so on."


def adapt_for_google(schema: Schema) -> AnswerSchema:
    """Adapt `schema` for Gemini. A recursive reference becomes an object of any content."""
    return AnswerSchema(schema, _GoogleRewriter(schema).rewrite(schema))


class _GoogleRewriter:
    """Rewrites the nodes of one schema, whose definitions are in `root`."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._expanding: list[str] = []  # references around the current node
        self._node_count = 0  # of the rewritten nodes

    def rewrite(self, schema: Schema) -> JsonObject:
        """Return the node to send for `schema`.

        A schema within itself becomes an object of any content. So does a schema with very many
        nodes or levels, which nearly always contains itself in many ways.
        """
        self._node_count += 1
        named = (part.get("$ref") for part in (schema, *get_all_of(schema)))
        references = [reference for reference in named if isinstance(reference, str)]

        is_recursive = any(reference in self._expanding for reference in references)
        is_too_large = self._node_count > _MAX_NODES or len(self._expanding) > MAX_EXPANSIONS
        if is_recursive or is_too_large:
            return {"type": "object", "description": _RECURSIVE}

        self._expanding += references
        node = self._rewrite_simple(expand_or_keep(schema, self._root))
        del self._expanding[len(self._expanding) - len(references) :]
        return node

    def _rewrite_simple(self, schema: Schema) -> JsonObject:
        """Return the node for a schema without references.

        Each keyword is sent, or ignored, or moves into the description, which then ends for example
        in `{minLength: 3, pattern: "a+"}`.
        """
        node: JsonObject = {}
        described: list[str] = []

        for key, value in schema.items():
            # `const` and `oneOf` are sent as the nearest keywords that the API knows.
            if key == "const":
                key = "enum"
                value = [value]
            elif key == "oneOf" and "anyOf" not in schema:
                key = "anyOf"

            is_refused_enum = key == "enum" and not _is_accepted_enum(value)
            if key in _ENFORCED and not is_refused_enum:
                node[key] = self._rewrite_keyword(key, value)
            elif key not in _IGNORED:
                described.append(f"{key}: {json.dumps(value, ensure_ascii=False)}")

        properties = node.get("properties")
        if isinstance(properties, dict) and properties:
            node.setdefault("type", "object")
            node.setdefault("propertyOrdering", [*properties])

        if described:
            description = str(node.get("description", ""))
            node["description"] = f"{description} {{{', '.join(described)}}}".strip()
        return node

    def _rewrite_keyword(self, key: str, value: JsonValue) -> JsonValue:
        match key, value:
            case "properties", dict():
                return {name: self._rewrite_child(child) for name, child in value.items()}
            case (("items" | "additionalProperties"), dict()):
                return self.rewrite(value)
            case (("anyOf" | "prefixItems"), list()):
                return [self.rewrite(part) for part in value if isinstance(part, dict)]
        return value

    def _rewrite_child(self, child: JsonValue) -> JsonObject:
        return self.rewrite(child) if isinstance(child, dict) else {}


def _is_accepted_enum(value: JsonValue) -> bool:
    """Return True for a list of texts and numbers. The API refuses other values in an `enum`."""
    return isinstance(value, list) and all(
        isinstance(choice, str | int | float) and not isinstance(choice, bool) for choice in value
    )
