"""The JSON schema of a form while its fields are read: its source, its parts, and its errors.

A part is found by its path, such as `properties.size.anyOf.0`, which errors name. Conditions that
no field of a form can check are collected: later they are checked for the whole answer.

Source: https://json-schema.org/draft/2020-12/json-schema-core (references).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.json_schema import ONLY_ITSELF, SchemaPath, format_schema_path, resolve_reference

Node = Mapping[str, JsonValue]
ENUM_NAMES: Final = "enumNames"
"""Keyword for the labels of `enum`, in the same order."""
_MAX_REFERENCES = 100  # limit for a chain of references
ANNOTATIONS: Final = frozenset(
    {"$comment", "$defs", "$id", "$schema", "default", "definitions", "deprecated", "description",
     "examples", "readOnly", "title", "writeOnly"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FormSource:
    """The JSON schema of an object for which a form is made.

    Attributes:
        typed: True if a Python type checks the answers.
        of_server: True for the schema of a server, whose author cannot repair it: defaults and
            titles that do not fit are ignored.
        checked_as_whole: Paths of the conditions that no field checks.
    """

    schema: Node
    name: str = "the schema"
    typed: bool = False
    of_server: bool = False
    checked_as_whole: list[SchemaPath] = field(default_factory=list)

    def fail(self, path: SchemaPath, reason: str) -> NoReturn:
        """Raise a `UsageError` with the path and the reason."""
        raise UsageError(
            f"no form can be made of {self.name}: {format_schema_path(path)}: {reason}"
        )

    def resolved(self, path: SchemaPath, node: object) -> tuple[SchemaPath, dict[str, JsonValue]]:
        """Return path and keywords of the part `node`, with those of the schema it refers to."""
        for _ in range(_MAX_REFERENCES):
            if not isinstance(node, Mapping):
                self.fail(path, "expected a schema, which is an object")
            node = dict(node)

            whole = node.get("allOf")
            if isinstance(whole, list) and len(whole) == 1 and isinstance(whole[0], dict):
                node = {**whole[0], **{key: x for key, x in node.items() if key != "allOf"}}

            reference = node.get("$ref")
            if reference is None:
                return path, node

            try:
                target, found = resolve_reference(self.schema, str(reference))
            except LookupError as exc:
                self.fail((*path, "$ref"), f"{str(reference)!r:.100} {exc.args[0]}")
            if not isinstance(found, dict):
                self.fail(target, "expected a schema, which is an object")
            node = {**found, **{key: x for key, x in node.items() if key != "$ref"}}

        self.fail(path, ONLY_ITSELF)

    def note_unknown_keywords(self, path: SchemaPath, node: Node, known: set[str]) -> None:
        """Let the whole answer be checked for the keywords of `node` that are not `known`."""
        for keyword in node:
            if keyword not in known and keyword not in ANNOTATIONS:
                self.checked_as_whole.append((*path, keyword))

    def text(self, path: SchemaPath, node: Node, keyword: str) -> str | None:
        """Return the text at `keyword`, such as the title; None if it is empty or missing."""
        found = node.get(keyword)
        if found is None or isinstance(found, str):
            return found or None
        if not self.of_server:
            self.fail((*path, keyword), "expected a text")
        return None
