"""The schema of a tool's arguments as it is sent: one object, without alternatives at its root.

Several APIs refuse a whole request for `anyOf`, `oneOf`, `allOf`, or `not` there. So the request
has the properties of all alternatives, and their JSON in the description:

    {"oneOf": [{"properties": {"id": …}}, {"properties": {"name": …}}]}
    -> {"type": "object", "properties": {"id": …, "name": …}, "description": "{oneOf: […]}"}

The arguments are checked with the schema of the tool, elsewhere. Source: `docs/providers.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.json_limits import MAX_SCHEMA_LEVELS, is_deeper
from jp_nb.json_schema import Schema, walk_schemas
from jp_nb.json_values import JsonObject
from jp_nb.json_writing import compact_json
from jp_nb.providers.schemas.schema_expansion import expand_or_keep
from jp_nb.providers.schemas.schema_parts import (
    get_alternatives,
    get_property_schemas,
    get_required,
)
from jp_nb.record.request_context.request_head import ToolDefinition

_ROOT_KEYWORDS: Final = frozenset(
    {"$ref", "allOf", "anyOf", "const", "else", "enum", "if", "not", "oneOf", "then"}
)
"""Keywords that several APIs refuse at the root."""
MAX_ALTERNATIVES_CHARS: Final = 2_000
"""Maximum length of the description of alternatives."""


def get_parameter_schema(tool: ToolDefinition) -> dict[str, JsonValue]:
    """Return the parameters of `tool` as a schema of type object, without `_ROOT_KEYWORDS`.

    Raises:
        UsageError: The schema is nested too deeply.
    """
    if is_deeper(dict(tool.parameters), MAX_SCHEMA_LEVELS):
        raise UsageError(
            f"the tool {tool.name!r} cannot be sent to the model: more than {MAX_SCHEMA_LEVELS} "
            "objects and lists are nested in the schema of its parameters. Simplify the types of "
            "the parameters, or take a JSON text."
        )

    schema: dict[str, JsonValue] = {"type": "object", "properties": {}, **tool.parameters}
    return _flatten_root(schema) if _ROOT_KEYWORDS & schema.keys() else schema


def _flatten_root(schema: Schema) -> JsonObject:
    """Return `schema` with the properties of all alternatives, which its description explains.

    Arguments that fit `schema`, and have only properties of the alternative that they fit, also fit
    the result.
    """
    whole = expand_or_keep(schema, schema)  # with the keywords of its `$ref` and `allOf`
    result = {key: value for key, value in whole.items() if key not in _ROOT_KEYWORDS}

    # The keywords for the description. A `$ref` that cannot be expanded would tell the model
    # nothing.
    described_keywords = _ROOT_KEYWORDS - {"$ref"}
    moved = {key: value for key, value in whole.items() if key in described_keywords}

    # Arguments fit each of `parts`, and one schema of each list in `choices`.
    parts = _expand_members(moved.get("allOf"), schema)
    choices = [_expand_members(moved.get(key), schema) for key in ("anyOf", "oneOf")]
    for part in parts:
        choices.append([*get_alternatives(part)])  # a member of `allOf` may have alternatives
    members = [*parts, *chain.from_iterable(choices)]

    result["type"] = "object"
    result["properties"] = _join_properties([result, *members])
    if members:
        result.pop("additionalProperties", None)  # each alternative has different properties

    required = _list_always_required([result, *parts], choices)
    declared = get_property_schemas(result)
    known: list[JsonValue] = [name for name in required if name in declared]
    result.pop("required", None)
    if known:
        result["required"] = known

    if moved:
        described = str(result.get("description", ""))
        result["description"] = f"{described} {{{_format_alternatives(moved)}}}".strip()
    return _keep_references(result)


def _expand_members(members: JsonValue, root: Schema) -> list[Schema]:
    """Return the schemas in the list `members`, with their references expanded."""
    listed = members if isinstance(members, list) else []
    return [expand_or_keep(member, root) for member in listed if isinstance(member, dict)]


def _join_properties(schemas: Sequence[Schema]) -> JsonObject:
    """Return the properties of all `schemas`. One that several declare accepts each of its forms.

    For example, `value` is a text in one schema, and a number in another.
    """
    joined: JsonObject = {}
    for schema in schemas:
        for name, part in get_property_schemas(schema).items():
            joined[name] = _join_alternatives(joined.get(name), part)

    return joined


def _join_alternatives(earlier: JsonValue, part: JsonValue) -> JsonValue:
    """Return a schema for the values of both schemas of a property."""
    if earlier is None or earlier == part:
        return part

    known: list[JsonValue] = [earlier]
    if isinstance(earlier, dict) and earlier.keys() == {"anyOf"}:
        joined = earlier["anyOf"]
        known = joined if isinstance(joined, list) else known
    if part not in known:
        known = [*known, part]
    return {"anyOf": known}


def _list_always_required(
    schemas: Sequence[Schema], choices: Sequence[Sequence[Schema]]
) -> list[JsonValue]:
    """Return the names that one of `schemas` requires, or each alternative of a choice.

    Arguments fit all `schemas`, and one alternative of each of the `choices`.
    """
    required = [*chain.from_iterable(map(get_required, schemas))]
    for alternatives in choices:
        required += _find_common_names(alternatives)
    return list(dict.fromkeys(required))


def _find_common_names(alternatives: Sequence[Schema]) -> list[JsonValue]:
    """Return the names that each of the `alternatives` requires."""
    if not alternatives:
        return []

    first, *others = map(get_required, alternatives)
    common = list(first)
    for names in others:
        common = [name for name in common if name in names]
    return common


def _format_alternatives(keywords: JsonObject) -> str:
    """Return keywords of the root as text for the model, up to `MAX_ALTERNATIVES_CHARS`."""
    text = ", ".join(f"{key}: {compact_json(value)}" for key, value in keywords.items())
    if len(text) > MAX_ALTERNATIVES_CHARS:
        text = f"{text[:MAX_ALTERNATIVES_CHARS]}…"
    return text


def _keep_references(result: JsonObject) -> JsonObject:
    """Return `result` if all of its references have targets, else only an object."""
    try:
        walk_schemas(result)
    except UsageError:
        description = result.get("description", "")
        return {"type": "object", "properties": {}, "description": description}
    return result
