"""Walk through the JSON schema of a tool's parameters, with references resolved.

A node is one schema: of all arguments, of a parameter, of a property, or of the items of a list.
Pydantic puts each model and enumeration into `$defs`, and refers to it with `$ref`:

    {"properties": {"size": {"$ref": "#/$defs/Size"}}, "$defs": {"Size": {"enum": ["S", "M"]}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from pydantic import JsonValue

from jp_nb.json_schema import Schema


@dataclass(frozen=True, slots=True)
class ParameterNode:
    """A part of the schema `root`.

    Attributes:
        schema: The keywords of the part, and those of the definition to which it refers.
        root: The schema of all arguments, which has the definitions.
        followed: The references on the way from `root` to this part.
        is_recursive: True if the part's own reference is among them. Its properties are omitted.
    """

    schema: Schema
    root: Schema
    followed: frozenset[str] = frozenset()
    is_recursive: bool = False

    def resolve(self, schema: JsonValue) -> ParameterNode:
        """Return the node of `schema`, which is a part of this node.

        Keywords beside a reference, such as a description, replace those of the definition.
        """
        if not isinstance(schema, dict):  # `true` allows any value
            return replace(self, schema={}, is_recursive=False)

        reference = _find_reference(schema)
        definition = self._find_definition(reference)
        if reference is None or definition is None:
            return replace(self, schema=schema, is_recursive=False)

        if reference in self.followed:
            outline = {key: value for key, value in definition.items() if key not in _INNER_PARTS}
            return replace(self, schema={**outline, **schema}, is_recursive=True)
        return ParameterNode({**definition, **schema}, self.root, self.followed | {reference})

    def _find_definition(self, reference: str | None) -> Schema | None:
        """Return the definition in `$defs` to which `reference` leads; None for another one."""
        definitions = self.root.get("$defs")
        if reference is None or not isinstance(definitions, dict):
            return None

        definition = definitions.get(reference.removeprefix("#/$defs/"))
        return definition if isinstance(definition, dict) else None


_INNER_PARTS: Final = ("properties", "items", "anyOf", "oneOf")
"""Keywords of a definition that are omitted where it contains itself."""


def _find_reference(schema: Schema) -> str | None:
    """Return the reference of a schema, such as `#/$defs/Size`; None without one."""
    # Beside a default or a description, Pydantic writes {"allOf": [{"$ref": …}], "default": …}.
    members = schema.get("allOf")
    holder = members[0] if isinstance(members, list) and len(members) == 1 else schema

    reference = holder.get("$ref") if isinstance(holder, Mapping) else None
    return reference if isinstance(reference, str) else None


def list_alternatives(node: ParameterNode) -> list[ParameterNode]:
    """Return the nodes in `anyOf` and `oneOf`, such as those of an optional object and null."""
    alternatives: list[ParameterNode] = []
    for key in ("anyOf", "oneOf"):
        members = node.schema.get(key)
        if isinstance(members, list):
            alternatives += [node.resolve(member) for member in members]
    return alternatives
