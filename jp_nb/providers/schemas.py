"""Rewrite JSON Schemas for each API, and read structured answers.

A constraint that an API rejects moves into the description of its node, where the model still
reads it. Answers are validated against the user's own schema.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.agent.provider import ProviderEvent, TextPart
from jp_nb.errors import UsageError
from jp_nb.json_schema import (
    DEFINITIONS,
    ONLY_ITSELF,
    SchemaPath,
    all_schemas,
    child_schemas,
    find_loop,
    format_place,
    resolve_reference,
)

Schema = dict[str, JsonValue]
DROPPED: Final = frozenset({"default", "title", "examples", "$schema", "$id", "$comment"})
MAX_WRITTEN_OUT: Final = 64
"""References within one another."""
_NESTED: Final = frozenset({"object", "array"})
_SPEAKS_OF: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(
        ("properties", "required", "additionalProperties", "minProperties", "maxProperties",
         "patternProperties", "propertyNames", "dependentRequired", "dependentSchemas",
         "dependencies", "unevaluatedProperties"),
        frozenset({"object"}),
    ),
    **dict.fromkeys(
        ("items", "minItems", "maxItems", "uniqueItems", "prefixItems", "additionalItems",
         "contains", "minContains", "maxContains", "unevaluatedItems"),
        frozenset({"array"}),
    ),
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format"), frozenset({"string"})),
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        frozenset({"number", "integer"}),
    ),
}  # fmt: skip
"""The types of which a keyword says something, where it does not of all."""


def is_composed(schema: Mapping[str, JsonValue]) -> bool:
    """Return True if `schema` says what it says in several places."""
    beside = schema.keys() - DROPPED - set(DEFINITIONS) - {"$ref"}
    return "allOf" in schema or ("$ref" in schema and bool(beside))


def expanded(
    schema: Mapping[str, JsonValue],
    root: Mapping[str, JsonValue],
    within: tuple[str, ...] = (),
    known: dict[str, Mapping[str, JsonValue] | None] | None = None,
) -> Mapping[str, JsonValue] | None:
    """`schema` with what its `$ref` and `allOf` say written out; None if that is not simple.

    It is simple where one says what others say nothing of, and recursion does not come in.

    Args:
        schema: What to write out.
        root: Where references lead.
        within: The references that led here.
        known: What references are when written out; added to.
    """
    known = {} if known is None else known
    own = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
    members: list[Mapping[str, JsonValue]] = [own]
    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference in within or len(within) >= MAX_WRITTEN_OUT:
            return None
        if reference not in known:
            # What leads back to `within` leads back to itself: it is None wherever it stands.
            try:
                found = resolve_reference(root, reference)[1]
            except LookupError:
                return None
            known[reference] = (
                expanded(found, root, (*within, reference), known)
                if isinstance(found, dict)
                else None
            )
        if (written := known[reference]) is None:
            return None
        members.append(written)
    for member in all_of(schema):
        written = expanded(member, root, within, known)
        if written is None:
            return None
        members.append(written)
    return _combined(members) if len(members) > 1 else own


def resolved(
    schema: Mapping[str, JsonValue], root: Mapping[str, JsonValue]
) -> Mapping[str, JsonValue]:
    """`schema` written out, within `root`; as it stands where that is not simple."""
    return expanded(schema, root) or schema


def all_of(schema: Mapping[str, JsonValue]) -> list[Schema]:
    """Return the schemas of its `allOf`."""
    members = schema.get("allOf")
    return [each for each in members if isinstance(each, dict)] if isinstance(members, list) else []


def _combined(members: Iterable[Mapping[str, JsonValue]]) -> Schema | None:
    """Return what all `members` demand as one schema; None if two of them speak of the same."""
    result: Schema = {}
    for member in members:
        for key, value in member.items():
            before = result.get(key)
            if key not in result or before == value:
                result[key] = value
            elif key in DROPPED or key == "description" or key in DEFINITIONS:
                continue  # the first one's, which is nearest
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


def type_names(schema: Mapping[str, JsonValue]) -> set[JsonValue]:
    """The types that `schema` names."""
    given = schema.get("type", [])
    return set(given) if isinstance(given, list) else {given}


def one_type(schema: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """`schema` with `anyOf` in place of a list of types with objects or arrays among them.

    Unchanged where it has no such list, or says what is not one type's already in another way.
    """
    kinds = schema.get("type")
    if not isinstance(kinds, list) or not is_mixed(schema):
        return schema
    if len(kinds) == 1:
        return {**schema, "type": kinds[0]}
    if schema.keys() & {"anyOf", "oneOf", "allOf", "$ref", "enum", "const"}:
        return schema
    around = {key: value for key, value in schema.items() if key not in ("type", *_SPEAKS_OF)}
    members: list[JsonValue] = [
        {"type": kind}
        | {key: value for key, value in schema.items() if kind in _SPEAKS_OF.get(key, ())}
        for kind in kinds
    ]
    return {**around, "anyOf": members}


def undeclared(schema: Mapping[str, JsonValue]) -> list[JsonValue]:
    """The names under `required` that are not among the properties."""
    properties = schema.get("properties")
    declared = properties if isinstance(properties, dict) else {}
    return [name for name in required_names(schema) if name not in declared]


def is_mixed(schema: Mapping[str, JsonValue]) -> bool:
    """Return True if `schema` has a list of types with objects or arrays among them."""
    return isinstance(schema.get("type"), list) and bool(_NESTED & type_names(schema))


def required_names(schema: Mapping[str, JsonValue]) -> list[JsonValue]:
    """Return the names under its `required`."""
    given = schema.get("required")
    return given if isinstance(given, list) else []


def alternatives(schema: Mapping[str, JsonValue]) -> list[Schema]:
    """Return the schemas of its `anyOf` or `oneOf`."""
    listed = schema.get("anyOf") or schema.get("oneOf")
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


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


Kind = Literal["message", "reasoning"]


class AnswerText:
    """The answer's text: a message, or data that fits a schema.

    Where data is asked for, a text that does not even begin as data does stays a message: what a
    model says before it calls a tool, or instead of an answer. Data that has to be restored to
    the user's schema is held back until it is complete.
    """

    def __init__(self, schema: AnswerSchema | None) -> None:
        self._schema = schema
        self._kind: Literal["message", "structured"] | None = None
        self._held: list[str] = []
        self.held = 0
        """Characters that were taken and not given yet."""

    def part(self, index: int, text: str) -> list[ProviderEvent]:
        """The event for a piece of text; none while it is held back."""
        if self._schema is None:
            return [TextPart(index, "message", text)]
        if self._kind is None:
            text = "".join([*self._held, text])
            self._held, self.held = [], 0
            leading = text.lstrip()
            if leading:
                is_data = leading[0] in self._schema.begins
                self._kind = "structured" if is_data else "message"
        if self._kind is None or (self._kind == "structured" and not self._schema.as_is):
            self._held.append(text)
            self.held += len(text)
            return []
        return [TextPart(index, self._kind, text)]

    def complete(self, index: int) -> list[ProviderEvent]:
        """The event for what was held back; what comes next is another text."""
        kind, self._kind = self._kind, None
        text, self._held, self.held = "".join(self._held), [], 0
        if not text or kind is None or self._schema is None:
            return []
        return [TextPart(index, kind, self._schema.restore(text))]


def is_json_object(text: str) -> bool:
    """Return True if `text` is a complete JSON object, such as the arguments of a call."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


_OPEN: Final = "<think>"
_CLOSE: Final = "</think>"


class ThinkSplitter:
    """Finds reasoning that a chat template left in the text as a leading `<think>…</think>`.

    Up to eight characters are held back, so that a tag cut by a chunk's end is found.
    """

    def __init__(self) -> None:
        self._state: Literal["start", "thinking", "answer start", "answer"] = "start"
        self._held = ""

    def feed(self, text: str) -> list[tuple[Kind, str]]:
        """The pieces of `text` with what each is."""
        if self._state == "answer":
            return [("message", text)]
        text = self._held + text
        self._held = ""
        pieces: list[tuple[Kind, str]] = []
        if self._state == "start":
            leading = text.lstrip()
            if _OPEN.startswith(leading):  # whole too: the line break after it may come later
                self._held = text
                return []
            if not leading.startswith(_OPEN):
                self._state = "answer"
                return [("message", text)]
            self._state = "thinking"
            text = leading[len(_OPEN) :].removeprefix("\n")
        if self._state == "thinking":
            thought, tag, text = text.partition(_CLOSE)
            if not tag:
                cut = _partial_tag(thought)
                thought, self._held = thought[:cut], thought[cut:]
            if thought:
                pieces.append(("reasoning", thought))
            if not tag:
                return pieces
            self._state = "answer start"
        if text := text.lstrip("\n"):
            self._state = "answer"
            pieces.append(("message", text))
        return pieces

    def finish(self) -> list[tuple[Kind, str]]:
        """Return what was held back, when the text is over."""
        text, self._held = self._held, ""
        if not text:
            return []
        return [("reasoning" if self._state == "thinking" else "message", text)]


def _partial_tag(text: str) -> int:
    """Return where `text` ends in the beginning of the closing tag; its length if it does not."""
    for size in range(min(len(_CLOSE) - 1, len(text)), 0, -1):
        if _CLOSE.startswith(text[-size:]):
            return len(text) - size
    return len(text)
