"""The keywords of JSON Schema: the values that they constrain, and those that APIs enforce.

The APIs are those of `schema_rewriter.py`: Anthropic's, and OpenAI's in strict mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

ANNOTATION_KEYWORDS: Final = frozenset(
    {"default", "title", "examples", "$schema", "$id", "$comment"}
)
"""Keywords that constrain nothing, and that no API needs."""
CONSTRAINING: Final = frozenset(
    {"type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf", "properties", "items"}
)
"""Keywords that constrain a value for an API that enforces schemas. It requires one of them."""


@dataclass(frozen=True, slots=True)
class _Keywords:
    """The keywords for values of one type, by their treatment in an API that enforces schemas.

    Attributes:
        enforced: The API enforces them. Here, they only tell the type of the value.
        ignored: The API does not. The model reads them in the description instead.
        unsupported: The API cannot enforce a schema that has one of them.
    """

    enforced: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()


_ANY_TYPE: Final = _Keywords(unsupported=("not", "if", "then", "else"))
_BY_TYPE: Final[Mapping[str, _Keywords]] = {
    "object": _Keywords(
        enforced=("properties", "required", "additionalProperties"),
        ignored=("minProperties", "maxProperties"),
        unsupported=(
            "patternProperties",
            "propertyNames",
            "dependentRequired",
            "dependentSchemas",
            "dependencies",
            "unevaluatedProperties",
        ),
    ),
    "array": _Keywords(
        enforced=("items", "minContains", "maxContains"),
        ignored=("minItems", "maxItems", "uniqueItems"),
        unsupported=("prefixItems", "additionalItems", "contains", "unevaluatedItems"),
    ),
    "string": _Keywords(
        enforced=("format",),
        ignored=("minLength", "maxLength", "pattern"),
    ),
    # Integers have the keywords of numbers.
    "number": _Keywords(
        ignored=("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    ),
}


def _list_ignored() -> frozenset[str]:
    ignored: set[str] = set()
    for keywords in _BY_TYPE.values():
        ignored.update(keywords.ignored)
    return frozenset(ignored)


def _list_unsupported() -> tuple[str, ...]:
    unsupported = [*_ANY_TYPE.unsupported]
    for keywords in _BY_TYPE.values():
        unsupported += keywords.unsupported
    return tuple(unsupported)


def _map_to_types() -> dict[str, str]:
    types: dict[str, str] = {}
    for type_name, keywords in _BY_TYPE.items():
        for keyword in (*keywords.enforced, *keywords.ignored, *keywords.unsupported):
            types[keyword] = type_name
    return types


IGNORED: Final = _list_ignored()
"""Keywords that APIs do not enforce. They move into the description, for the model to read."""
UNSUPPORTED: Final = _list_unsupported()
"""Keywords with which APIs cannot enforce a schema."""
TYPE_OF_KEYWORD: Final[Mapping[str, str]] = _map_to_types()
"""The type of the values that a keyword constrains. Keywords for all types are absent."""
