"""The schema of a structured answer as it is sent, and the way back to the user's schema.

The user asks for an answer that fits a JSON schema. Many APIs accept only some schemas, so a
provider sends another one, and `AnswerSchema.restore` converts the answer:

- An API whose answers are objects gets `{"value": …}` around any other value: `wrap_in_object`.
- OpenAI's strict mode has nulls instead of absent properties: `added_nulls.py`.

The module also has the adaptations for servers that accept any schema. Those for OpenAI, Anthropic,
and Google are in `openai_schemas.py`, `anthropic_schemas.py`, and `google_schemas.py`.
The session validates the answer, not this module. Source: `docs/providers.md`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from jp_nb.json_schema import DEFINITIONS, Schema
from jp_nb.json_values import JsonObject
from jp_nb.providers.schemas.added_nulls import remove_added_nulls
from jp_nb.providers.schemas.schema_expansion import expand_or_keep
from jp_nb.providers.schemas.schema_parts import get_type_names

WRAPPER_KEY: Final = "value"
"""Property of the answer that is sent, if the user's schema describes no object."""
_ANY_JSON: Final = '{["-0123456789tfn'
"""First characters of all JSON values."""


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """A schema as it is sent, with the conversion of answers back to the user's schema.

    Attributes:
        original: The schema of the user.
        schema: The schema that is sent.
        strict: True if the API enforces `schema`, or says itself that it cannot. Only the OpenAI
            protocols send it.
        wrapped: True if the answer is `{"value": …}`, because the user wants no object.
        nullable: True if optional properties of the answer are null instead of absent.
    """

    original: Schema
    schema: JsonObject
    strict: bool = True
    wrapped: bool = False
    nullable: bool = False

    @property
    def is_unchanged(self) -> bool:
        """True if an answer fits `original` without `restore`."""
        return not (self.wrapped or self.nullable)

    @property
    def first_chars(self) -> str:
        """Characters that begin a JSON answer but no prose.

        An answer may also be a list where an object is wanted. It is then reported as wrong data,
        and not shown as a message.
        """
        is_object = self.schema.get("type") == "object" and not self.wrapped
        return "{[" if is_object else _ANY_JSON

    def restore(self, text: str) -> str:
        """Convert the answer `text` to the original schema. Incomplete JSON stays unchanged."""
        try:
            value: JsonValue = json.loads(text)
            if self.wrapped and isinstance(value, dict) and set(value) == {WRAPPER_KEY}:
                value = value[WRAPPER_KEY]
            if self.nullable:
                value = remove_added_nulls(value, self.original, self.original)
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


def wrap_in_object(schema: Schema) -> tuple[JsonObject, bool]:
    """Return a schema of an object, and True if `schema` became a property of that object."""
    whole = expand_or_keep(schema, schema)  # a `$ref` or `allOf` at the root may hide the type
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
    """Return a part of a schema whose references point to the place of the wrapped schema."""
    if isinstance(value, list):
        return [_move_references(item) for item in value]
    if not isinstance(value, dict):
        return value
    moved = {key: _move_references(item) for key, item in value.items()}

    reference = value.get("$ref")
    to_definitions = tuple(f"#/{key}/" for key in DEFINITIONS)  # which stay at the root
    if isinstance(reference, str) and not reference.startswith(to_definitions):
        moved["$ref"] = f"#/properties/{WRAPPER_KEY}{reference.removeprefix('#')}"
    return moved
