"""Select the answer type of a form's field by its JSON schema.

    {"type": "string", "format": "date"}                    a text with a format
    {"enum": ["S", "M"]}                                    a selection of one option
    {"type": "array", "items": {"enum": ["S", "M"]}}        a selection of several options
    {"oneOf": [{"const": 1, "title": "One"}, …]}            a selection with labels

Any other schema, such as that of a nested object, is an error with its path.

The `source` is the whole schema of the form (`form_schema.py`). It is `typed` if pydantic made it
of a Python type, and `of_server` if an MCP server sent it. Otherwise the user wrote it, and gets an
error for each mistake in it. Its method `fail` raises that error. `checked_as_whole` collects the
conditions that no field checks: later they are checked for the whole answer of the form.
`note_unknown_keywords` collects each keyword that is not known here.

Source: https://json-schema.org/draft/2020-12/json-schema-validation,
https://modelcontextprotocol.io/specification/2025-06-18/client/elicitation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, get_args

from pydantic import JsonValue, ValidationError

from jp_nb.json_schema import SchemaPath
from jp_nb.text import one_line
from jp_nb.toolkit.arguments.json_types import list_declared_types
from jp_nb.toolkit.question_types.answer_types import AnswerType, BooleanAnswer, SecretAnswer
from jp_nb.toolkit.question_types.form_schema import ENUM_NAMES, FormSource, Node
from jp_nb.toolkit.question_types.linear_patterns import is_linear_pattern
from jp_nb.toolkit.question_types.number_answer import BOUNDS, IntegerAnswer, NumberAnswer
from jp_nb.toolkit.question_types.select_answer import SelectAnswer
from jp_nb.toolkit.question_types.select_options import Option
from jp_nb.toolkit.question_types.text_answer import TextAnswer
from jp_nb.toolkit.question_types.text_formats import TextFormat

LONG_TEXT = 200  # a text with a larger maximum length gets a box with several lines
_LINES: Final = "lines"
"""Keyword of jp_nb, not of JSON Schema: True for a box with several lines."""

_Reader = Callable[[FormSource, SchemaPath, Node], AnswerType]
"""Returns the answer type for a schema with a certain `type`.

Conditions that the answer type does not check are added to `checked_as_whole` of the source.
"""
_LEVELS: Final = (
    "a form has one level; a field is a text, a number, a boolean, or one or several "
    "options of a list"
)


def select_answer_type(source: FormSource, path: SchemaPath, node: Node) -> AnswerType:
    """Return the answer type for the schema `node` at `path`.

    Raises:
        UsageError: No field can show it.
    """
    try:
        options = _read_options(source, path, node)
        if options is not None:
            known = {"type", "enum", ENUM_NAMES, "const", "anyOf", "oneOf"}
            source.note_unknown_keywords(path, node, known)
            return SelectAnswer(options=options)

        declared = node.get("type")
        if source.typed and _is_decimal(node):
            declared = "number"
        # Several types, or none: the user types a text, and the whole answer is checked. For a
        # Python type, that is an error: it would keep a text where the user means a number.
        if not source.typed and not isinstance(declared, str) and _accepts_text(node):
            return _read_any_text(source, path)

        if not isinstance(declared, str) or declared not in _READERS:
            source.fail(path, f"this is {_describe_node(node)}: {_LEVELS}")
        return _READERS[declared](source, path, node)
    except ValidationError as exc:  # contradictory bounds, or invalid options
        [first, *_] = exc.errors(include_url=False, include_input=False)
        source.fail(path, first["msg"].removeprefix("Value error, "))


def _is_decimal(node: Node) -> bool:
    """Return True for the schema that pydantic makes of a `Decimal`."""
    # A Decimal is a number or its digits: `{"anyOf": [{"type": "number"}, {"type": "string"}]}`.
    members = node.get("anyOf")
    if "type" in node or not isinstance(members, list):
        return False
    types = {member.get("type") for member in members if isinstance(member, dict)}
    return "number" in types and types <= {"number", "integer", "string"}


def _accepts_text(node: Node) -> bool:
    """Return True if a string is one of several valid types, or if any type is valid."""
    types = _list_member_types(node)
    if types:
        return "string" in types
    return not node.keys() & {"type", "anyOf", "oneOf", "allOf", "properties", "items"}


def _list_member_types(node: Node) -> set[str]:
    """Return the types that the schema or its alternatives declare; empty if not known."""
    members = node.get("oneOf")
    return list_declared_types(node) or list_declared_types({"anyOf": members})


def _read_any_text(source: FormSource, path: SchemaPath) -> AnswerType:
    """Return a text in one line, for a schema that accepts a text among others."""
    source.checked_as_whole.append(path)
    return TextAnswer(lines=False)


def describe_free_text(node: Node) -> str:
    """Return the type or format that a text must have, for the user; "" for any text.

    It is displayed above a field, because the field itself does not check it.
    """
    if node.get("type") != "string":
        types = sorted(_list_member_types(node) - {"null"})
        return f"Type: {' or '.join(types)}" if types else ""
    wanted = node.get("format")
    if isinstance(wanted, str) and wanted not in get_args(TextFormat):
        return f"Format: {one_line(wanted, limit=60)}"
    return ""


def _describe_node(node: Node) -> str:
    """Return in words what a schema is that no field can show."""
    if node.get("type") == "object":
        return "an object"
    if "anyOf" in node or "oneOf" in node or isinstance(node.get("type"), list):
        return "one of several types"
    return "a value of any type" if "type" not in node else "a list of something other than options"


def _read_options(source: FormSource, path: SchemaPath, node: Node) -> tuple[Option, ...] | None:
    """Return the options if the schema lists the valid values; None for any other schema."""
    if "const" in node:
        return (_make_option(source, path, {"const": node["const"]}),)

    values = node.get("enum")
    if isinstance(values, list):
        return _read_enum(source, path, node, values)

    for keyword in ("oneOf", "anyOf"):
        members = node.get(keyword)
        if isinstance(members, list) and members:
            options = _read_alternatives(source, (*path, keyword), members)
            if options is not None:
                return options

    return None


def _read_alternatives(
    source: FormSource, path: SchemaPath, members: list[JsonValue]
) -> tuple[Option, ...] | None:
    """Return the options of all alternatives; None if one of them is something else.

    All are read in any case, so that a mistake in a later one is an error too.
    """
    options: list[Option] = []
    is_complete = True

    for index, member in enumerate(members):
        member_options = _read_member_options(source, (*path, index), member)
        if member_options is None:
            is_complete = False
        else:
            options += member_options

    return tuple(options) if is_complete else None


def _read_enum(
    source: FormSource, path: SchemaPath, node: Node, values: list[JsonValue]
) -> tuple[Option, ...]:
    """Return an option for each of the `values` of `enum`, labeled by `enumNames` if it fits."""
    labels = node.get(ENUM_NAMES, values)
    if not isinstance(labels, list) or len(labels) != len(values):
        if not source.of_server:
            message = "expected a list with one text for each value of `enum`"
            source.fail((*path, ENUM_NAMES), message)
        labels = values

    options: list[Option] = []
    for value, label in zip(values, labels, strict=True):
        options.append(_make_option(source, path, {"const": value, "title": str(label)}))
    if not source.typed and not source.of_server:
        return tuple(options)  # `SelectAnswer` refuses equal options

    # Without the aliases of an Enum. The type is part of the key, because True == 1.
    unique: dict[tuple[type, JsonValue], Option] = {}
    for option in options:
        unique.setdefault((type(option.value), option.value), option)
    return tuple(unique.values())


def _read_member_options(
    source: FormSource, member_path: SchemaPath, member: JsonValue
) -> tuple[Option, ...] | None:
    """Return the options of one alternative; None if it lists no values."""
    path, node = source.resolve(member_path, member)
    if "const" in node:
        source.note_unknown_keywords(path, node, {"type", "const"})
        return (_make_option(source, path, node),)
    return _read_options(source, path, node) if "enum" in node else None


def _make_option(source: FormSource, path: SchemaPath, node: Node) -> Option:
    """Return the option for a schema with `const`, labeled by its title."""
    value = node["const"]
    if not isinstance(value, str | int | float):
        source.fail(path, f"expected a text, a number, or a boolean as an option: {_LEVELS}")

    title = source.read_keyword_text(path, node, "title")
    description = source.read_keyword_text(path, node, "description")
    label = None if title == str(value) else title
    return Option(value=value, label=label, description=description)


def _read_text(source: FormSource, path: SchemaPath, node: Node) -> AnswerType:
    """Return a text with the conditions that a field checks, or a secret."""
    source.note_unknown_keywords(
        path, node, {"type", "format", "minLength", "maxLength", "pattern"}
    )
    if node.get("format") == "password":
        return _read_secret(source, path, node)

    text_format = _read_format(source, path, node)
    return TextAnswer.model_validate(
        {
            "format": text_format,
            "min_length": node.get("minLength", 0),
            "max_length": node.get("maxLength"),
            "pattern": _read_pattern(source, node),
            "lines": text_format is None and _has_several_lines(node),
        }
    )


def _read_secret(source: FormSource, path: SchemaPath, node: Node) -> AnswerType:
    """Return a secret, whose conditions no field checks."""
    if "default" in node and not (source.typed or source.of_server):
        source.fail((*path, "default"), "a secret cannot have a default")

    conditions = {"minLength", "maxLength", "pattern"} & node.keys()
    source.checked_as_whole.extend((*path, keyword) for keyword in conditions)
    return SecretAnswer()


def _read_format(source: FormSource, path: SchemaPath, node: Node) -> TextFormat | None:
    """Return the format of a text if a field checks it; None for another one, or without one."""
    wanted = node.get("format")
    known: tuple[TextFormat, ...] = get_args(TextFormat)
    for text_format in known:
        if text_format == wanted:
            return text_format

    if wanted is not None:
        source.checked_as_whole.append((*path, "format"))
    return None


def _read_pattern(source: FormSource, node: Node) -> JsonValue:
    """Return the pattern that the field checks; None without one.

    A field checks only patterns that take linear time. For another pattern, a Python type or a
    server checks the answer itself. In a schema of the user, `TextAnswer` refuses it.
    """
    pattern = node.get("pattern")
    origin_checks = source.typed or source.of_server
    if isinstance(pattern, str) and origin_checks and not is_linear_pattern(pattern):
        return None
    return pattern


def _has_several_lines(node: Node) -> bool:
    default = node.get("default")
    max_length = node.get("maxLength")
    has_line_break = isinstance(default, str) and "\n" in default
    is_long = isinstance(max_length, int) and max_length > LONG_TEXT
    return has_line_break or is_long or node.get(_LINES) is True


def _read_number(source: FormSource, path: SchemaPath, node: Node) -> AnswerType:
    """Return a number with its bounds."""
    source.note_unknown_keywords(path, node, {"type", *BOUNDS})
    bounded = _find_bounded_schema(node)
    bounds = {field: bounded[keyword] for keyword, field in BOUNDS.items() if keyword in bounded}

    if node.get("type") == "integer":
        return IntegerAnswer.model_validate(bounds)
    return NumberAnswer.model_validate(bounds)


def _find_bounded_schema(node: Node) -> Node:
    """Return the schema that has the bounds of a number: of a `Decimal`, the member for numbers.

    If there are several such members, it is empty: the Python type checks their bounds.
    """
    members = node.get("anyOf")
    if not isinstance(members, list):
        return node

    objects = [member for member in members if isinstance(member, dict)]
    numbers = [member for member in objects if member.get("type") != "string"]
    return numbers[0] if len(numbers) == 1 else {}


def _read_boolean(source: FormSource, path: SchemaPath, node: Node) -> AnswerType:
    source.note_unknown_keywords(path, node, {"type"})
    return BooleanAnswer()


def _read_list(source: FormSource, path: SchemaPath, node: Node) -> AnswerType:
    """Return a selection of several options: a list is a field only if its items are options."""
    source.note_unknown_keywords(
        path, node, {"type", "items", "minItems", "maxItems", "uniqueItems"}
    )
    options = None
    if isinstance(node.get("items"), dict):
        item_path, item = source.resolve((*path, "items"), node["items"])
        options = _read_options(source, item_path, item)

    if options is None:
        source.fail(path, f"this is {_describe_node(node)}: {_LEVELS}")

    picks = {"min_picks": node.get("minItems", 0), "max_picks": node.get("maxItems")}
    return SelectAnswer.model_validate({"options": options, "multi": True, **picks})


_READERS: Final[Mapping[str, _Reader]] = {
    "string": _read_text,
    "number": _read_number,
    "integer": _read_number,
    "boolean": _read_boolean,
    "array": _read_list,
}
