"""Read the fields of a form from the properties of a JSON schema.

The `source` is the whole schema of the form, and a `Node` is a part of it (`form_schema.py`). The
source is `typed` if pydantic made it of a Python type, and `of_server` if an MCP server sent it.
Otherwise the user wrote it, and gets an error for each mistake in it.

Source: https://modelcontextprotocol.io/specification/2025-06-18/client/elicitation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pydantic import JsonValue

from jp_nb.json_schema import SchemaPath
from jp_nb.toolkit.question_types.answer_types import MAX_FIELDS, AnswerType
from jp_nb.toolkit.question_types.field_types import describe_free_text, select_answer_type
from jp_nb.toolkit.question_types.form_schema import ANNOTATIONS, ENUM_NAMES, FormSource, Node
from jp_nb.toolkit.question_types.number_answer import NumberAnswer
from jp_nb.toolkit.question_types.text_answer import TextAnswer

_NULL_SCHEMA: Final = {"type": "null"}


@dataclass(frozen=True, slots=True)
class FieldParts:
    """One field of a form.

    Attributes:
        question: The arguments of `Question`.
        allows_null: True if null is a valid value of the property.
    """

    question: dict[str, Any]
    allows_null: bool


def list_fields(source: FormSource) -> Iterator[FieldParts]:
    """Yield the fields of the form for `source`, in its order."""
    path, root = source.resolve((), source.schema)
    properties = root.get("properties")
    if root.get("type") != "object" or not isinstance(properties, dict):
        source.fail(path, "expected an object with `properties`")
    if len(properties) > MAX_FIELDS:
        source.fail((*path, "properties"), f"expected at most {MAX_FIELDS} fields")

    required = root.get("required", [])
    are_names = isinstance(required, list) and all(
        isinstance(name, str) and name in properties for name in required
    )
    if not isinstance(required, list) or not are_names:
        source.fail((*path, "required"), "expected a list of names from `properties`")

    allowed = {"type", "properties", "required", "additionalProperties", *ANNOTATIONS}
    source.note_unknown_keywords(path, root, allowed)

    for name, node in properties.items():
        node_path = (*path, "properties", name)
        yield _read_field(source, name, node_path, node, required=name in required)


def _read_field(
    source: FormSource, name: str, stated_path: SchemaPath, stated: JsonValue, *, required: bool
) -> FieldParts:
    """Return the field for the property `name`.

    `stated` is its schema as it stands among the properties, at `stated_path`. It may refer to
    another one, which `node` is then; a title beside the reference counts.
    """
    stated_title = None
    if isinstance(stated, dict):
        stated_title = source.read_keyword_text(stated_path, stated, "title")
    path, node = source.resolve(stated_path, stated)
    schema = _remove_null(source, path, node)

    title = stated_title or _make_title(source, schema, name)
    answer_type = select_answer_type(source, schema.path, schema.node)
    default = _read_default(source, schema, answer_type)

    # A field is optional if null is valid, or if it is not required. But a Python type would
    # silently use the default of a field that the user empties, so such a field needs a value.
    has_default = source.typed and default not in (None, "", [])
    question = {
        "id": name,
        "text": title,
        "answer_type": answer_type,
        "context": _describe(source, schema, answer_type),
        "default": default,
        "required": (required or has_default) and not schema.allows_null,
    }
    return FieldParts(question, schema.allows_null)


class _FieldSchema(NamedTuple):
    """The schema of a field without the alternative null.

    Attributes:
        path: The path of the schema, for errors.
        node: The schema.
        allows_null: True if null is a valid value, so that the field may stay open.
    """

    path: SchemaPath
    node: Node
    allows_null: bool


def _remove_null(source: FormSource, path: SchemaPath, node: dict[str, JsonValue]) -> _FieldSchema:
    """Return the schema `node` without the alternative null.

    There are three forms of an optional field. Pydantic writes the third:

        {"type": ["string", "null"]}
        {"enum": ["S", "M", null]}
        {"anyOf": [{"type": "string"}, {"type": "null"}]}
    """
    types = node.get("type")
    if isinstance(types, list) and len(types) == 2 and "null" in types:
        other = next((name for name in types if name != "null"), "null")
        return _FieldSchema(path, {**node, "type": other}, allows_null=True)

    values = node.get("enum")
    if isinstance(values, list) and None in values:
        return _FieldSchema(path, _remove_null_value(node, values), allows_null=True)

    for keyword in ("anyOf", "oneOf"):
        members = node.get(keyword)
        if isinstance(members, list):
            schema = _remove_null_member(source, path, node, keyword, members)
            if schema is not None:
                return schema

    return _FieldSchema(path, node, allows_null=False)


def _remove_null_value(node: Node, values: list[JsonValue]) -> Node:
    """Return `node` without null in `enum`, and without its label."""
    kept_indexes = [index for index, value in enumerate(values) if value is not None]
    changed = dict(node)
    for keyword in ("enum", ENUM_NAMES):
        items = node.get(keyword)
        if isinstance(items, list) and len(items) == len(values):
            changed[keyword] = [items[index] for index in kept_indexes]
    return changed


def _remove_null_member(
    source: FormSource, path: SchemaPath, node: Node, keyword: str, members: list[JsonValue]
) -> _FieldSchema | None:
    """Return `node` without null among the alternatives `members`; None if nothing changes.

    A single alternative takes the place of the list.
    """
    others = [(index, member) for index, member in enumerate(members) if member != _NULL_SCHEMA]
    outer = {key: value for key, value in node.items() if key != keyword}

    if len(others) == 1:
        [(index, member)] = others
        member_path, resolved = source.resolve((*path, keyword, index), member)
        # Null was the second member. Otherwise the list had only this alternative.
        return _FieldSchema(member_path, {**resolved, **outer}, allows_null=len(members) == 2)

    if len(others) < len(members):
        remaining = [member for _, member in others]
        return _FieldSchema(path, {**outer, keyword: remaining}, allows_null=True)
    return None


def _read_default(source: FormSource, schema: _FieldSchema, answer_type: AnswerType) -> JsonValue:
    """Return the default if it is a valid answer; None without one."""
    if answer_type.is_secret:
        return None

    default = schema.node.get("default")
    if isinstance(default, str) and isinstance(answer_type, NumberAnswer):  # of a Decimal
        with suppress(ValueError):
            default = answer_type.from_text(default)

    if default is None or not answer_type.misfit(default):
        return default
    if not (source.typed or source.of_server):
        source.fail((*schema.path, "default"), f"expected {answer_type.expects}")
    return None


def _describe(source: FormSource, schema: _FieldSchema, answer_type: AnswerType) -> str | None:
    """Return the text above a field: its description, and the type that a free text must have."""
    paragraphs = [source.read_keyword_text(schema.path, schema.node, "description")]
    if not source.typed and isinstance(answer_type, TextAnswer):
        paragraphs.append(describe_free_text(schema.node))
    return "\n\n".join(filter(None, paragraphs)) or None


def _make_title(source: FormSource, schema: _FieldSchema, name: str) -> str:
    """Return the label of a field without its own title."""
    if source.typed:
        return name_to_title(name) or name
    return source.read_keyword_text(schema.path, schema.node, "title") or name


def name_to_title(name: str) -> str:
    """Return the title for the name of a field: `group_size` is `Group size`."""
    words = name.replace("_", " ").strip()
    return f"{words[:1].upper()}{words[1:]}"
