"""Select the tools of a request whose arguments Anthropic enforces (`strict`).

A tool whose schema the API cannot enforce is sent without `strict`. The limits below hold for all
strict tools of a request together.

Source: `docs/providers.md`;
https://platform.claude.com/docs/en/build-with-claude/structured-outputs, as of November 2026.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from jp_nb.errors import UsageError
from jp_nb.json_schema import Schema, walk_schemas
from jp_nb.json_values import JsonObject
from jp_nb.json_writing import compact_json
from jp_nb.providers.anthropic.anthropic_schemas import check_anthropic
from jp_nb.providers.schemas.schema_keywords import ANNOTATION_KEYWORDS
from jp_nb.providers.schemas.schema_parts import get_property_schemas, get_required
from jp_nb.providers.schemas.schema_rewriter import SchemaRewriter

# Limits of the API for all strict tools of a request:
MAX_STRICT_TOOLS: Final = 20
_MAX_STRICT_OPTIONAL: Final = 24
_MAX_STRICT_UNIONS: Final = 16


def select_strict_tools(parameters: Sequence[Schema]) -> dict[int, JsonObject]:
    """Select the tools whose arguments Anthropic can enforce, within its limits for a request.

    `parameters` are the schemas of all tools of a request. Returns the schemas as they are sent, by
    index. Tools at the end of the list do not change the selection among those before them.
    """
    selected: dict[int, JsonObject] = {}
    optional = 0
    unions = 0

    for index, schema in enumerate(parameters):
        tool = _adapt_strict_tool(compact_json(schema))
        if tool is None or len(selected) == MAX_STRICT_TOOLS:
            continue

        fits_optional = optional + tool.optional <= _MAX_STRICT_OPTIONAL
        fits_unions = unions + tool.unions <= _MAX_STRICT_UNIONS
        if fits_optional and fits_unions:
            selected[index] = tool.schema
            optional += tool.optional
            unions += tool.unions

    return selected


@dataclass(frozen=True, slots=True)
class _StrictTool:
    """A strict tool, and how much of the limits of a request it uses up.

    Attributes:
        schema: The schema of its arguments as it is sent.
        optional: The number of properties that are not required.
        unions: The number of schemas with several types.
    """

    schema: JsonObject
    optional: int
    unions: int


@lru_cache(maxsize=256)
def _adapt_strict_tool(parameters: str) -> _StrictTool | None:
    """Return the JSON schema `parameters` as a strict tool has it; None if that is impossible."""
    schema = json.loads(parameters)
    # The default stays: it tells the model which value an optional argument has without it.
    rewriter = SchemaRewriter("anthropic", schema, dropped=ANNOTATION_KEYWORDS - {"default"})
    try:
        check_anthropic(schema)
        sent = rewriter.rewrite(schema)
    except (UsageError, RecursionError):
        return None

    if not rewriter.is_enforceable or sent.get("type") != "object":
        return None

    optional = 0
    unions = 0
    for part in walk_schemas(sent).values():
        optional += len(get_property_schemas(part)) - len(get_required(part))
        unions += "anyOf" in part or isinstance(part.get("type"), list)

    return _StrictTool(sent, optional, unions)
