"""Read the fields of a form from the properties of a JSON schema.

Source: https://modelcontextprotocol.io/specification/2025-06-18/client/elicitation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from jp_nb.json_schema import SchemaPath
from jp_nb.toolkit.question_types.answer_types import MAX_FIELDS, AnswerType, TextAnswer
from jp_nb.toolkit.question_types.field_types import describe_free_text, select_answer_type
from jp_nb.toolkit.question_types.form_schema import ANNOTATIONS, ENUM_NAMES, FormSource, Node
from jp_nb.toolkit.question_types.number_answer import NumberAnswer


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
    path, root = source.resolved((), source.schema)
    properties = root.get("properties")
    if root.get("type") != "object" or not isinstance(properties, dict):
        source.fail(path, "expected an object with `properties`")
    if len(properties) > MAX_FIELDS:
        source.fail((*path, "properties"), f"expected at most {MAX_FIELDS} fields")

    required = root.get("required", [])
    names = required if isinstance(required, list) else [None]
    if not all(isinstance(name, str) and name in properties for name in names):
        source.fail((*path, "required"), "expected a list of names from `properties`")

    allowed = {"type", "properties", "required", "additionalProperties", *ANNOTATIONS}
    source.note_unknown_keywords(path, root, allowed)

    for name, node in properties.items():
        yield _read_field(source, name, (*path, "properties", name), node, name in names)


def _read_field(
    source: FormSource, name: str, stated_path: SchemaPath, stated: JsonValue, required: bool
) -> FieldParts:
    """Return the field for the property `name`, whose schema is `stated`, perhaps by reference."""
    title = source.text(stated_path, stated, "title") if isinstance(stated, dict) else None
    path, node = source.resolved(stated_path, stated)
    path, node, allows_null = _without_null(source, path, node)
    if title is None:
        title = name_to_title(name) if source.typed else source.text(path, node, "title")
    kind = select_answer_type(source, path, node)
    default = _read_default(source, path, node, kind)

    # If the user empties the field, the type would silently use its default: require a value.
    has_default = source.typed and default not in (None, "", [])
    question = {
        "id": name,
        "text": title or name,
        "answer_type": kind,
        "context": _describe(source, path, node, kind),
        "default": default,
        "required": (required or has_default) and not allows_null,
    }
    return FieldParts(question, allows_null)


def _without_null(
    source: FormSource, path: SchemaPath, node: dict[str, JsonValue]
) -> tuple[SchemaPath, dict[str, JsonValue], bool]:
    """Return path and schema without the alternative null, and True if there was one.

    Optional fields of Python types are `{"anyOf": [{"type": "string"}, {"type": "null"}]}`.
    """
    types = node.get("type")
    if isinstance(types, list) and len(types) == 2 and "null" in types:
        node["type"] = next((name for name in types if name != "null"), "null")
        return path, node, True

    if isinstance(values := node.get("enum"), list) and None in values:
        keep = [index for index, value in enumerate(values) if value is not None]
        for keyword in {"enum", ENUM_NAMES} & node.keys():
            each = node[keyword]
            if isinstance(each, list) and len(each) == len(values):
                node[keyword] = [each[index] for index in keep]
        return path, node, True

    for keyword in ("anyOf", "oneOf"):
        members = node.get(keyword)
        if not isinstance(members, list):
            continue
        rest = [(i, x) for i, x in enumerate(members) if x != {"type": "null"}]
        above = {key: x for key, x in node.items() if key != keyword}
        if len(rest) == 1:
            [(index, only)] = rest
            path, only = source.resolved((*path, keyword, index), only)
            return path, {**only, **above}, len(members) == 2
        if len(rest) < len(members):
            return path, {**above, keyword: [x for _, x in rest]}, True

    return path, node, False


def _read_default(source: FormSource, path: SchemaPath, node: Node, kind: AnswerType) -> JsonValue:
    """Return the default if it is a valid answer; None without one."""
    default = None if kind.secret else node.get("default")
    if isinstance(default, str) and isinstance(kind, NumberAnswer):  # of a Decimal
        with suppress(ValueError):
            default = kind.from_text(default)

    if default is None or not kind.misfit(default):
        return default
    if not (source.typed or source.of_server):
        source.fail((*path, "default"), f"expected {kind.expects}")
    return None


def _describe(source: FormSource, path: SchemaPath, node: Node, kind: AnswerType) -> str | None:
    lines = [source.text(path, node, "description")]
    if not source.typed and isinstance(kind, TextAnswer):
        lines.append(describe_free_text(node))
    return "\n\n".join(filter(None, lines)) or None


def name_to_title(name: str) -> str:
    """Return the title for the name of a field: `group_size` is `Group size`."""
    words = name.replace("_", " ").strip()
    return f"{words[:1].upper()}{words[1:]}"
