"""Walk through the JSON schema of a tool's parameters, with references resolved.

A node is one schema: of all arguments, of a parameter, of a property, or of the items of a list.
Pydantic puts each model and enumeration into `$defs`, and refers to it with `$ref`:

    {"properties": {"size": {"$ref": "#/$defs/Size"}}, "$defs": {"Size": {"enum": ["S", "M"]}}}
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pydantic import JsonValue

from jp_nb.json_schema import Schema


@dataclass(frozen=True, slots=True)
class ParameterNode:
    """A part of the schema `root`: its keys, and those of the definition to which it refers.

    Attributes:
        open: The references on the way from `root` to this part.
        is_recursive: True if the part's own reference is among them. Its properties are omitted.
    """

    keys: Schema
    root: Schema
    open: frozenset[str] = frozenset()
    is_recursive: bool = False

    def resolve(self, schema: JsonValue) -> ParameterNode:
        """Return the node of `schema`, which is a part of this node."""
        if not isinstance(schema, dict):
            return replace(self, keys={}, is_recursive=False)

        members = schema.get("allOf")
        reference = members[0] if isinstance(members, list) and len(members) == 1 else schema
        name = reference.get("$ref") if isinstance(reference, dict) else None

        definitions = self.root.get("$defs")
        found = None
        if isinstance(name, str) and isinstance(definitions, dict):
            found = definitions.get(name.removeprefix("#/$defs/"))

        if not isinstance(name, str) or not isinstance(found, dict):
            return replace(self, keys=schema, is_recursive=False)

        if name in self.open:
            parts = ("properties", "items", "anyOf", "oneOf")
            found = {key: value for key, value in found.items() if key not in parts}
            return replace(self, keys={**found, **schema}, is_recursive=True)
        return ParameterNode({**found, **schema}, self.root, self.open | {name})


def list_alternatives(node: ParameterNode) -> list[ParameterNode]:
    """Return the nodes in `anyOf` and `oneOf`, such as those of an optional object and null."""
    found: list[ParameterNode] = []
    for key in ("anyOf", "oneOf"):
        members = node.keys.get(key)
        if isinstance(members, list):
            found += [node.resolve(member) for member in members]
    return found
