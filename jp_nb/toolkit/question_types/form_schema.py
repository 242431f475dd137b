"""The JSON schema of a form while its fields are read: its source, its parts, and its errors.

A schema comes from a Python type (`typed`), an MCP server (`of_server`), or a user who wrote it.
A user can repair a mistake, and a server cannot: a default or a title that does not fit is an
error in the schema of a user, and is ignored in that of a server.

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
from jp_nb.json_schema import SchemaPath, format_schema_path, resolve_reference
from jp_nb.schema_loops import ONLY_ITSELF

Node = Mapping[str, JsonValue]
ENUM_NAMES: Final = "enumNames"
"""Keyword for the labels of `enum`, in the same order."""
_MAX_REFERENCES = 100  # limit for a chain of references
# Keywords that describe a schema and set no condition.
ANNOTATIONS: Final = frozenset(
    {"$comment", "$defs", "$id", "$schema", "default", "definitions", "deprecated", "description",
     "examples", "readOnly", "title", "writeOnly"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FormSource:
    """The JSON schema of an object for which a form is made.

    Attributes:
        schema: The schema of the object.
        name: The name of the type in errors.
        typed: True if pydantic made the schema of a Python type. The type also checks the answer.
        of_server: True for the schema of a server, whose author cannot repair it: defaults and
            titles that do not fit are ignored.
        checked_as_whole: Paths of the conditions that no field checks, collected by the readers.
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

    def resolve(self, path: SchemaPath, node: object) -> tuple[SchemaPath, dict[str, JsonValue]]:
        """Return `path`, and the keywords of `node`, the part of the schema that is there.

        A `$ref` is replaced by the keywords of the schema that it refers to.
        """
        for _ in range(_MAX_REFERENCES):
            if not isinstance(node, Mapping):
                self.fail(path, "expected a schema, which is an object")
            merged = _merge_single_all_of(node)

            reference = merged.get("$ref")
            if reference is None:
                return path, merged
            del merged["$ref"]

            try:
                target_path, target = resolve_reference(self.schema, str(reference))
            except LookupError as exc:
                self.fail((*path, "$ref"), f"{str(reference)!r:.100} {exc.args[0]}")
            if not isinstance(target, dict):
                self.fail(target_path, "expected a schema, which is an object")
            node = {**target, **merged}

        self.fail(path, ONLY_ITSELF)  # a chain of references that comes back to itself

    def note_unknown_keywords(self, path: SchemaPath, node: Node, known: set[str]) -> None:
        """Let the whole answer be checked for the keywords of `node` that are not `known`."""
        for keyword in node:
            if keyword not in known and keyword not in ANNOTATIONS:
                self.checked_as_whole.append((*path, keyword))

    def read_keyword_text(self, path: SchemaPath, node: Node, keyword: str) -> str | None:
        """Return the text at `keyword`, such as the title; None if it is empty or missing."""
        text = node.get(keyword)
        if text is None or isinstance(text, str):
            return text or None
        if not self.of_server:
            self.fail((*path, keyword), "expected a text")
        return None


def _merge_single_all_of(node: Node) -> dict[str, JsonValue]:
    """Return `node` with the keywords of its part in `allOf` if that is the only one."""
    parts = node.get("allOf")
    if not isinstance(parts, list) or len(parts) != 1 or not isinstance(parts[0], dict):
        return dict(node)

    own_keywords = {key: value for key, value in node.items() if key != "allOf"}
    return {**parts[0], **own_keywords}
