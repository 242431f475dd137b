"""Schemas of structured answers for OpenAI, within the limits of its strict mode.

In strict mode, the API enforces the schema. A schema that it cannot enforce is sent without
`strict`, as a suggestion for the model.

Source: https://platform.openai.com/docs/guides/structured-outputs#supported-schemas, as of February
2026.
"""

from __future__ import annotations

from typing import Final

from jp_nb.json_schema import Schema, walk_schemas
from jp_nb.json_values import JsonObject
from jp_nb.providers.schemas.answer_schemas import AnswerSchema, wrap_in_object
from jp_nb.providers.schemas.schema_rewriter import SchemaRewriter

_MAX_STRICT_PROPERTIES: Final = 5000
_MAX_STRICT_OBJECTS: Final = 10
"""Maximum depth of nested objects."""
_MAX_STRICT_CHOICES: Final = 1000


def adapt_for_openai(schema: Schema) -> AnswerSchema:
    """Adapt `schema` for OpenAI's strict mode. The result is not strict if that is impossible."""
    root, wrapped = wrap_in_object(schema)
    rewriter = SchemaRewriter("openai", root)
    strict = rewriter.rewrite(root)
    if not rewriter.is_enforceable or _exceeds_strict_limits(strict):
        return AnswerSchema(schema, root, strict=False, wrapped=wrapped)
    return AnswerSchema(schema, strict, wrapped=wrapped, nullable=rewriter.has_nullable)


def _exceeds_strict_limits(strict: JsonObject) -> bool:
    """Return True if the API refuses the schema as too large."""
    properties = 0
    choices = 0
    deepest = 0

    # The path of a part, such as `("properties", "a", "items")`, has one `properties` for each
    # object around it.
    for path, part in walk_schemas(strict).items():
        names = part.get("properties")
        values = part.get("enum")
        properties += len(names) if isinstance(names, dict) else 0
        choices += len(values) if isinstance(values, list) else 0
        if names is not None:
            deepest = max(deepest, 1 + path.count("properties"))

    return (
        properties > _MAX_STRICT_PROPERTIES
        or choices > _MAX_STRICT_CHOICES
        or deepest > _MAX_STRICT_OBJECTS
    )
