"""Rewrite JSON Schemas for each API, and convert answers back to the user's schema.

A limit that an API rejects, such as `minimum`, moves into the description of its node, for the
model to read. This module does not validate answers.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.json_schema import (
    DEFINITIONS,
    ONLY_ITSELF,
    Schema,
    SchemaPath,
    find_loop,
    format_schema_path,
    resolve_reference,
    walk_child_schemas,
    walk_schemas,
)
from jp_nb.json_values import JsonObject, compact_json
from jp_nb.record.request_head import ToolDefinition

DROPPED: Final = frozenset({"default", "title", "examples", "$schema", "$id", "$comment"})
MAX_EXPANSIONS: Final = 64
"""Maximum depth of references that are expanded inside each other."""
_NESTED: Final = frozenset({"object", "array"})
_NUMBERS: Final[Mapping[JsonValue, str]] = {"integer": "number"}
_KEYWORDS: Final[Mapping[str, tuple[str, str, str]]] = {
    "": ("", "", "not if then else"),
    "object": (
        "properties required additionalProperties",
        "minProperties maxProperties",
        "patternProperties propertyNames dependentRequired dependentSchemas dependencies "
        "unevaluatedProperties",
    ),
    "array": (
        "items minContains maxContains",
        "minItems maxItems uniqueItems",
        "prefixItems additionalItems contains unevaluatedItems",
    ),
    "string": ("format", "minLength maxLength pattern", ""),
    "number": ("", "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf", ""),
}
"""Keywords by type, which are sent, moved into the description, or not enforceable.

Integers have the keywords of numbers.
"""
_TO_DESCRIPTION: Final = set(" ".join(words for _, words, _ in _KEYWORDS.values()).split())
UNENFORCEABLE: Final = " ".join(words for *_, words in _KEYWORDS.values()).split()


def _list_keyword_types() -> dict[str, str]:
    found: dict[str, str] = {}
    for kind, groups in _KEYWORDS.items():
        if kind:
            found |= dict.fromkeys(" ".join(groups).split(), kind)
    return found


_KEYWORD_TYPES: Final = _list_keyword_types()


def is_composed(schema: Schema) -> bool:
    """Return True if `allOf`, or keywords next to `$ref`, add to the constraints of `schema`."""
    beside = schema.keys() - DROPPED - set(DEFINITIONS) - {"$ref"}
    return "allOf" in schema or ("$ref" in schema and bool(beside))


def expand(
    schema: Schema,
    root: Schema,
    within: tuple[str, ...] = (),
    known: dict[str, Schema | None] | None = None,
) -> Schema | None:
    """Return `schema` with `$ref` and `allOf` replaced by the keywords of their schemas.

    None: two schemas disagree about a keyword, or a reference is unknown, recursive, or nested too
    deeply. `within` are the references that are being expanded, `known` the expanded ones.
    """
    known = {} if known is None else known
    own = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
    members: list[Schema | None] = [own]

    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference in within or len(within) >= MAX_EXPANSIONS:
            return None
        if reference not in known:
            # A reference back to `within` is recursive in every place, so caching None is right.
            try:
                found = resolve_reference(root, reference)[1]
            except LookupError:
                return None
            known[reference] = None
            if isinstance(found, dict):
                known[reference] = expand(found, root, (*within, reference), known)
        members.append(known[reference])

    members += [expand(member, root, within, known) for member in get_all_of(schema)]
    return _merge_schemas(members) if len(members) > 1 else own


def expand_or_keep(schema: Schema, root: Schema) -> Schema:
    """Return the expanded `schema`, or `schema` if it cannot be expanded."""
    return expand(schema, root) or schema


def get_all_of(schema: Schema) -> list[JsonObject]:
    """Return the schemas under `allOf`."""
    return _select_objects(schema.get("allOf"))


def _merge_schemas(members: Iterable[Schema | None]) -> JsonObject | None:
    result: JsonObject = {}
    for member in members:
        if member is None:
            return None
        for key, value in member.items():
            before = result.get(key)
            if key not in result or before == value:
                result[key] = value
            elif key in DROPPED or key == "description" or key in DEFINITIONS:
                continue  # keep the nearest one
            elif key == "required" and isinstance(before, list) and isinstance(value, list):
                result[key] = [*before, *(name for name in value if name not in before)]
            elif (
                key == "properties"
                and isinstance(before, dict)
                and isinstance(value, dict)
                and before.keys().isdisjoint(value)
            ):
                result[key] = {**before, **value}
            else:
                return None

    return result


def get_type_names(schema: Schema) -> set[JsonValue]:
    """Return the names under `type`."""
    given = schema.get("type", [])
    return set(given) if isinstance(given, list) else {given}


def split_types(schema: Schema) -> Schema:
    """Return `schema` with an `anyOf` instead of a list of types that contains object or array.

    Returns `schema` unchanged if it has no such list, or other alternatives.
    """
    kinds = schema.get("type")
    if not isinstance(kinds, list) or not has_mixed_types(schema):
        return schema

    if len(kinds) == 1:
        return {**schema, "type": kinds[0]}

    if schema.keys() & {"anyOf", "oneOf", "allOf", "$ref", "enum", "const"}:
        return schema

    around = {key: value for key, value in schema.items() if key not in ("type", *_KEYWORD_TYPES)}
    members: list[JsonValue] = [_select_type(schema, kind) for kind in kinds]

    return {**around, "anyOf": members}


def find_undeclared(schema: Schema) -> list[JsonValue]:
    """Return the names under `required` that are missing under `properties`."""
    properties = schema.get("properties")
    declared = properties if isinstance(properties, dict) else {}
    return [name for name in get_required(schema) if name not in declared]


def has_mixed_types(schema: Schema) -> bool:
    """Return True if `type` is a list with object or array."""
    return isinstance(schema.get("type"), list) and bool(_NESTED & get_type_names(schema))


def get_required(schema: Schema) -> list[JsonValue]:
    """Return the names under `required`."""
    given = schema.get("required")
    return given if isinstance(given, list) else []


def get_alternatives(schema: Schema) -> list[JsonObject]:
    """Return the schemas under `anyOf` or `oneOf`."""
    return _select_objects(schema.get("anyOf") or schema.get("oneOf"))


def _select_objects(listed: JsonValue) -> list[JsonObject]:
    if not isinstance(listed, list):
        return []
    return [each for each in listed if isinstance(each, dict)]


WRAPPER_KEY: Final = "value"
CONSTRAINING: Final = frozenset(
    {"type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf", "properties", "items"}
)
"""Keywords that constrain a value in strict mode. A schema needs at least one of them."""
_KEPT_REFERENCE: Final = re.compile(rf"#(/properties/{WRAPPER_KEY}|/(\$defs|definitions)/[^/]+)?")
"""References whose targets do not move in a strict schema."""
_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
_MAX_NODES: Final = 20_000
"""Maximum size of a schema with expanded references."""


def _select_type(schema: Schema, kind: JsonValue) -> JsonObject:
    wanted = _NUMBERS.get(kind, kind)
    own = {key: value for key, value in schema.items() if _KEYWORD_TYPES.get(key) == wanted}
    return {"type": kind, **own}


def wrap_in_object(schema: Schema) -> tuple[JsonObject, bool]:
    """Return a schema of an object, and True if `schema` became a property of that object."""
    whole = expand_or_keep(schema, schema)
    definitions = {key: schema[key] for key in DEFINITIONS if key in schema}

    if get_type_names(whole) == {"object"} or ("properties" in whole and "type" not in whole):
        return {**definitions, **whole}, False

    inner = {key: value for key, value in schema.items() if key not in definitions}
    root: JsonObject = {
        "type": "object",
        "properties": {WRAPPER_KEY: _move_references(inner)},
        "required": [WRAPPER_KEY],
        **{key: _move_references(value) for key, value in definitions.items()},
    }
    return root, True


def _move_references(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_move_references(item) for item in value]
    if not isinstance(value, dict):
        return value
    moved = {key: _move_references(item) for key, item in value.items()}

    reference = value.get("$ref")
    kept = tuple(f"#/{key}/" for key in DEFINITIONS)
    if isinstance(reference, str) and not reference.startswith(kept):
        moved["$ref"] = f"#/properties/{WRAPPER_KEY}{reference.removeprefix('#')}"
    return moved


def _moves_reference(schema: Schema) -> bool:
    reference = schema.get("$ref")
    return isinstance(reference, str) and not _KEPT_REFERENCE.fullmatch(reference)


class SchemaRewriter:
    """Rewrites a schema, node by node, for one dialect."""

    def __init__(
        self,
        dialect: Literal["anthropic", "openai"],
        root: Schema,
        *,
        dropped: Collection[str] = DROPPED,
    ) -> None:
        self.strict = dialect == "openai"
        self._dropped = dropped
        self.is_enforceable = True  # the structure, by the API; limits in descriptions do not count
        self.has_nullable = False  # an optional property was made nullable
        self.is_too_large = False  # with expanded references
        self._nodes = 0
        self._root = root
        self._expanding: list[JsonValue] = []

    def rewrite(self, schema: Schema) -> JsonObject:
        """Return the node to send for `schema`."""
        self._nodes += 1
        if self._nodes > _MAX_NODES or len(self._expanding) > MAX_EXPANSIONS:
            self.is_too_large = True
            self.is_enforceable = False
            return {}

        is_moved = not self.strict and _moves_reference(schema)
        if not (is_composed(schema) or is_moved):
            return self._rewrite_simple(schema)

        # Neither dialect accepts keywords next to `$ref`.
        references = [each["$ref"] for each in (schema, *get_all_of(schema)) if "$ref" in each]

        if any(reference in self._expanding for reference in references):
            if "allOf" in schema:
                self.is_enforceable = False
            return {"$ref": references[0]}  # recursive: drop the keywords next to it

        self._expanding += references
        expanded = expand(schema, self._root)
        if expanded is None:
            self.is_enforceable = False
            expanded = schema

        node = self._rewrite_simple(expanded)
        del self._expanding[len(self._expanding) - len(references) :]
        return node

    def _rewrite_simple(self, schema: Schema) -> JsonObject:
        schema = split_types(schema)
        is_open = not CONSTRAINING & schema.keys() or any(key in schema for key in UNENFORCEABLE)
        is_wrong = has_mixed_types(schema) or find_undeclared(schema) or _moves_reference(schema)
        if is_open or is_wrong:
            self.is_enforceable = False

        result: JsonObject = {}
        notes: list[str] = []

        for key, value in schema.items():
            if key in self._dropped:
                continue
            if self._belongs_in_description(key, value):
                notes.append(f"{key}: {json.dumps(value, ensure_ascii=False)}")
            else:
                key, value = self._rewrite_keyword(key, value)
                result[key] = value

        if "properties" in result:
            result.setdefault("type", "object")

        if result.get("type") == "object":
            self._close_object(schema, result)
        if result.get("type") == "array" and "items" not in result:
            self.is_enforceable = False

        if notes:
            described = str(result.get("description", ""))
            result["description"] = f"{described} {{{', '.join(notes)}}}".strip()
        return result

    def _belongs_in_description(self, key: str, value: JsonValue) -> bool:
        if key == "minItems" and not self.strict:
            return value not in (0, 1)
        return key in _TO_DESCRIPTION or (key == "format" and value not in _FORMATS)

    def _rewrite_keyword(self, key: str, value: JsonValue) -> tuple[str, JsonValue]:
        match key, value:
            case (("properties" | "$defs" | "definitions"), dict()):
                return key, {name: self._rewrite_child(child) for name, child in value.items()}
            case "items", _:
                return key, self._rewrite_child(value)
            case (("anyOf" | "oneOf"), list()):
                return "anyOf", [self._rewrite_child(child) for child in value]
            case "allOf", list():
                return key, [self._rewrite_child(child) for child in value]
            case "const", _ if self.strict:
                return "enum", [value]
        return key, value

    def _rewrite_child(self, value: JsonValue) -> JsonValue:
        if isinstance(value, dict):
            return self.rewrite(value)
        self.is_enforceable = False  # `true`, or a list of schemas for the items
        return value

    def _close_object(self, schema: Schema, result: JsonObject) -> None:
        result["additionalProperties"] = False
        properties = result.get("properties")

        if not isinstance(properties, dict) or isinstance(schema.get("additionalProperties"), dict):
            self.is_enforceable = False  # a mapping with arbitrary keys
            return
        if not self.strict:
            return

        required = get_required(schema)
        for name, child in properties.items():
            if name not in required and isinstance(child, dict):
                self.has_nullable = True
                properties[name] = _allow_null(child)
        result["required"] = list(properties)


def _allow_null(schema: JsonObject) -> JsonObject:
    kind = schema.get("type")
    if not isinstance(kind, str) or kind in ("object", "array"):
        return {"anyOf": [schema, {"type": "null"}]}
    nullable: JsonObject = {**schema, "type": [kind, "null"]}

    choices = schema.get("enum")
    if isinstance(choices, list) and None not in choices:
        nullable["enum"] = [*choices, None]
    return nullable


_ANY_JSON: Final = '{["-0123456789tfn'
# https://platform.openai.com/docs/guides/structured-outputs#supported-schemas, as of February 2026
_MAX_STRICT_PROPERTIES: Final = 5000
_MAX_STRICT_OBJECTS: Final = 10
"""Maximum depth of nested objects."""
_MAX_STRICT_CHOICES: Final = 1000
# https://platform.claude.com/docs/en/build-with-claude/structured-outputs, as of November 2026
MAX_STRICT_TOOLS: Final = 20
_MAX_STRICT_OPTIONAL: Final = 24
_MAX_STRICT_UNIONS: Final = 16


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """A schema as it is sent, with the conversion of answers back to the user's schema."""

    original: Schema
    schema: JsonObject
    strict: bool = True  # in the OpenAI protocols: the API can enforce `schema`
    wrapped: bool = False  # the answer is `{"value": …}`, because it is not an object
    nullable: bool = False  # optional properties are null instead of absent

    @property
    def is_unchanged(self) -> bool:
        """True if an answer fits `original` without `restore`."""
        return not (self.wrapped or self.nullable)

    @property
    def first_chars(self) -> str:
        """Characters that begin a JSON answer but no prose."""
        is_object = self.schema.get("type") == "object" and not self.wrapped
        return "{[" if is_object else _ANY_JSON

    def restore(self, text: str) -> str:
        """Convert the answer `text` to the original schema. Incomplete JSON stays unchanged."""
        try:
            value: JsonValue = json.loads(text)
            if self.wrapped and isinstance(value, dict) and set(value) == {WRAPPER_KEY}:
                value = value[WRAPPER_KEY]
            if self.nullable:
                value = _drop_nulls(value, self.original, self.original)
            return json.dumps(value, ensure_ascii=False)
        except (ValueError, RecursionError):
            return text


def pass_schema(schema: Schema) -> AnswerSchema:
    """Return `schema` unchanged, for servers that accept any schema (llama.cpp, Ollama)."""
    return AnswerSchema(schema, dict(schema))


def suggest_schema(schema: Schema) -> AnswerSchema:
    """Return `schema` unchanged, for servers that enforce it only with some models (Groq)."""
    return AnswerSchema(schema, dict(schema), strict=False)


def adapt_for_json_mode(schema: Schema) -> AnswerSchema:
    """Adapt `schema` for JSON mode (DeepSeek), in which every answer is an object."""
    root, wrapped = wrap_in_object(schema)
    return AnswerSchema(schema, root, wrapped=wrapped)


def adapt_for_anthropic(schema: Schema) -> AnswerSchema:
    """Adapt `schema` for Anthropic's `output_config.format`.

    Raises:
        UsageError: The schema is too large.
    """
    root, wrapped = wrap_in_object(schema)
    rewriter = SchemaRewriter("anthropic", root)
    sent = rewriter.rewrite(root)
    if rewriter.is_too_large:
        raise _make_error((), "the schema with all of its references expanded is too large")
    return AnswerSchema(schema, sent, wrapped=wrapped)


def select_strict_tools(parameters: Sequence[Schema]) -> dict[int, JsonObject]:
    """Select the tools whose arguments Anthropic can enforce, within its limits for a request.

    `parameters` are the schemas of all tools of a request. Returns the schemas as they are sent, by
    index. Tools at the end of the list do not change the selection among those before them.

    Source: https://platform.claude.com/docs/en/build-with-claude/structured-outputs
    """
    selected: dict[int, JsonObject] = {}
    optional = 0
    unions = 0

    for index, schema in enumerate(parameters):
        found = _adapt_strict_tool(compact_json(schema))
        if found is None or len(selected) == MAX_STRICT_TOOLS:
            continue

        fits_optional = optional + found.optional <= _MAX_STRICT_OPTIONAL
        if fits_optional and unions + found.unions <= _MAX_STRICT_UNIONS:
            selected[index] = found.schema
            optional = optional + found.optional
            unions = unions + found.unions

    return selected


@dataclass(frozen=True, slots=True)
class _StrictTool:
    schema: JsonObject
    optional: int  # number of properties that are not required
    unions: int  # number of schemas with several types


@lru_cache(maxsize=256)
def _adapt_strict_tool(parameters: str) -> _StrictTool | None:
    schema = json.loads(parameters)
    rewriter = SchemaRewriter("anthropic", schema, dropped=DROPPED - {"default"})
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
        properties = part.get("properties")
        optional += len(properties) if isinstance(properties, dict) else 0
        optional -= len(get_required(part))
        unions += "anyOf" in part or isinstance(part.get("type"), list)

    return _StrictTool(sent, optional, unions)


def adapt_for_openai(schema: Schema) -> AnswerSchema:
    """Adapt `schema` for OpenAI's strict mode. The result is not strict if that is impossible."""
    root, wrapped = wrap_in_object(schema)
    rewriter = SchemaRewriter("openai", root)
    strict = rewriter.rewrite(root)
    if not rewriter.is_enforceable or _exceeds_strict_limits(strict):
        return AnswerSchema(schema, root, strict=False, wrapped=wrapped)
    return AnswerSchema(schema, strict, wrapped=wrapped, nullable=rewriter.has_nullable)


def check_references(schema: Schema) -> None:
    """Check the references in `schema`.

    Raises:
        UsageError: A reference refers only to itself.
    """
    if (path := find_loop(schema, same_value=True)) is not None:
        raise UsageError(f"{format_schema_path(path)}: {ONLY_ITSELF}")


def check_anthropic(schema: Schema) -> None:
    """Check that Anthropic's `output_config.format` can enforce `schema`.

    Raises:
        UsageError: It cannot.

    Source: `docs/providers.md`;
    https://platform.claude.com/docs/en/build-with-claude/structured-outputs
    """
    check_references(schema)

    if (path := find_loop(schema)) is not None:
        raise _make_error(path, "the schema is recursive: write out as many levels as you need")

    for path, part in walk_schemas(schema).items():
        if why := _find_anthropic_problem(part, schema):
            raise _make_error(path, why)

        for step, child in walk_child_schemas(part):
            if isinstance(child, bool) and step[0] != "additionalProperties":
                word = json.dumps(child)
                problem = f"`{word}` is used as a schema: write out a schema"
                raise _make_error((*path, *step), problem)

        # The members of `allOf` are checked together, at their parent.
        if path[-2:-1] != ("allOf",) and (unknown := find_undeclared(expand_or_keep(part, schema))):
            raise _make_error(
                path, f"`required` names {unknown[0]!r}, which is missing under `properties`"
            )

    adapt_for_anthropic(schema)


def _make_error(path: SchemaPath, why: str) -> UsageError:
    return UsageError(f"anthropic does not support this schema: {format_schema_path(path)}: {why}")


def _find_anthropic_problem(part: Schema, root: Schema) -> str | None:
    for keyword in UNENFORCEABLE:
        if keyword in part:
            return f"`{keyword}` is not supported; describe the condition in `description`"

    if not CONSTRAINING & part.keys():
        return "the schema allows any value; add a `type`"

    choices = part.get("enum", [])
    if isinstance(choices, list) and any(isinstance(choice, dict | list) for choice in choices):
        return "an `enum` can contain only texts, numbers, booleans, and null"

    if has_mixed_types(split_types(expand_or_keep(part, root))):
        return "objects or arrays among several types; make each type a schema of an `anyOf`"

    if isinstance(part.get("items"), list):
        return "`items` must be one schema for all items, not a list of schemas"

    if isinstance(part.get("additionalProperties"), dict) or _has_open_keys(part):
        return (
            "an object needs fixed keys; list them under `properties`, or use an "
            "array of objects with a key and a value"
        )

    if is_composed(part) and expand(part, root) is None:
        return "the schemas of `allOf` or next to `$ref` cannot be merged; write out one schema"
    return None


def _has_open_keys(part: Schema) -> bool:
    if "object" not in get_type_names(part) or is_composed(part):
        return False
    return "properties" not in part and part.get("additionalProperties") is not False


def _exceeds_strict_limits(strict: JsonObject) -> bool:
    properties = 0
    choices = 0
    deepest = 0

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


def _drop_nulls(value: JsonValue, schema: Schema, root: Schema) -> JsonValue:
    schema = expand_or_keep(schema, root)
    items = schema.get("items")
    properties = schema.get("properties")

    if isinstance(value, list) and isinstance(items, dict):
        return [_drop_nulls(item, items, root) for item in value]

    if isinstance(value, dict) and isinstance(properties, dict):
        required = get_required(schema)
        kept: JsonObject = {}
        for name, item in value.items():
            if item is None and name not in required:
                continue
            child = properties.get(name)
            kept[name] = _drop_nulls(item, child, root) if isinstance(child, dict) else item
        return kept

    for alternative in get_alternatives(schema):
        if _matches(value, alternative, root):
            return _drop_nulls(value, alternative, root)
    return value


def _matches(value: JsonValue, schema: Schema, root: Schema) -> bool:
    schema = expand_or_keep(schema, root)

    if "const" in schema and value != schema["const"]:
        return False
    choices = schema.get("enum")
    types = schema.get("type")
    if isinstance(choices, list) and value not in choices:
        return False
    if types is not None and not get_type_names(schema) & _json_types(value):
        return False

    alternatives = get_alternatives(schema)
    if alternatives and not any(_matches(value, each, root) for each in alternatives):
        return False

    items = schema.get("items")
    properties = schema.get("properties")
    if isinstance(value, list) and isinstance(items, dict):
        return all(_matches(item, items, root) for item in value)

    if isinstance(value, dict) and isinstance(properties, dict):
        return _matches_properties(value, properties, schema, root)
    return True


def _matches_properties(
    value: JsonObject, properties: JsonObject, schema: Schema, root: Schema
) -> bool:
    required = get_required(schema)
    if not all(name in value for name in required):
        return False

    for name, item in value.items():
        child = properties.get(name)
        if not isinstance(child, dict):
            return False
        may_be_null = item is None and name not in required
        if not may_be_null and not _matches(item, child, root):
            return False
    return True


def _json_types(value: JsonValue) -> set[JsonValue]:
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


def get_parameter_schema(tool: ToolDefinition) -> dict[str, JsonValue]:
    """Return the parameters of `tool` as a schema of type object, without alternatives at its root.

    Several APIs refuse a whole request for `anyOf`, `oneOf`, `allOf`, or `not` there.
    """
    schema: dict[str, JsonValue] = {"type": "object", "properties": {}, **tool.parameters}
    return flatten_root(schema) if _ROOT_KEYWORDS & schema.keys() else schema


_ROOT_KEYWORDS: Final = frozenset(
    {"$ref", "allOf", "anyOf", "const", "else", "enum", "if", "not", "oneOf", "then"}
)
MAX_ALTERNATIVES_CHARS: Final = 2_000
"""Maximum length of the description of alternatives."""


def flatten_root(schema: Schema) -> JsonObject:
    """Return `schema` with the properties of all alternatives, which its description explains.

    Every object that fits `schema` fits the result. The tool checks the arguments with `schema`.
    """
    whole = expand_or_keep(schema, schema)
    result = {key: value for key, value in whole.items() if key not in _ROOT_KEYWORDS}
    moved = {key: value for key, value in whole.items() if key in _ROOT_KEYWORDS - {"$ref"}}
    together = _expand_members(moved.get("allOf"), schema)
    choices = [_expand_members(moved.get(key), schema) for key in ("anyOf", "oneOf")]
    for member in together:
        choices.append([*get_alternatives(member)])

    members = [*together, *chain.from_iterable(choices)]
    properties = _get_properties(result)
    for member in members:
        for name, part in _get_properties(member).items():
            properties[name] = _join_alternatives(properties.get(name), part)
    result["type"] = "object"
    result["properties"] = properties
    if members:
        result.pop("additionalProperties", None)  # each alternative has properties of its own

    required = [*get_required(result), *chain.from_iterable(map(get_required, together))]
    for group in choices:
        required += _find_common_names(group)
    result.pop("required", None)
    names: list[JsonValue] = [name for name in dict.fromkeys(required) if name in properties]
    if names:
        result["required"] = names

    if moved:
        note = ", ".join(f"{key}: {compact_json(value)}" for key, value in moved.items())
        if len(note) > MAX_ALTERNATIVES_CHARS:
            note = f"{note[:MAX_ALTERNATIVES_CHARS]}…"
        result["description"] = f"{result.get('description', '')} {{{note}}}".strip()
    return _keep_references(result)


def _find_common_names(alternatives: Sequence[Schema]) -> list[JsonValue]:
    """Return the names that each of the `alternatives` requires."""
    first, *others = [get_required(each) for each in alternatives] or [[]]
    common = list(first)
    for names in others:
        common = [name for name in common if name in names]
    return common


def _expand_members(members: JsonValue, root: Schema) -> list[Schema]:
    listed = members if isinstance(members, list) else []
    return [expand_or_keep(member, root) for member in listed if isinstance(member, dict)]


def _get_properties(schema: Schema) -> JsonObject:
    found = schema.get("properties")
    return dict(found) if isinstance(found, dict) else {}


def _join_alternatives(before: JsonValue, part: JsonValue) -> JsonValue:
    """Return a schema for the values of both schemas of a property."""
    if before is None or before == part:
        return part

    known: list[JsonValue] = [before]
    if isinstance(before, dict) and before.keys() == {"anyOf"}:
        joined = before["anyOf"]
        known = joined if isinstance(joined, list) else known
    if part not in known:
        known = [*known, part]
    return {"anyOf": known}


def _keep_references(result: JsonObject) -> JsonObject:
    """Return `result` if all of its references have targets, else only an object."""
    try:
        walk_schemas(result)
    except UsageError:
        description = result.get("description", "")
        return {"type": "object", "properties": {}, "description": description}
    return result
