"""Typed forms from JSON Schemas, dataclasses and Pydantic models.

A part of a schema that no field can show, such as a nested object, is an error with its path.
Conditions that a field does not know are checked for the whole answer: by the Python type, or by a
validator of JSON Schema.

Source: https://modelcontextprotocol.io/specification/2025-06-18/client/elicitation,
https://json-schema.org/draft/2020-12/json-schema-validation,
https://docs.pydantic.dev/latest/concepts/json_schema/.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from typing import Any, Final, NoReturn, get_args

from pydantic import AliasPath, JsonValue, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from jp_nb.errors import UsageError
from jp_nb.json_schema import ONLY_ITSELF, SchemaPath, format_schema_path, resolve_reference
from jp_nb.json_values import compact_json
from jp_nb.text import one_line
from jp_nb.toolkit.answer_types import (
    MAX_FIELDS,
    AnswerType,
    BooleanAnswer,
    SecretAnswer,
    TextAnswer,
)
from jp_nb.toolkit.json_types import declared_types
from jp_nb.toolkit.linear_patterns import is_linear_pattern
from jp_nb.toolkit.misfits import find_property_problems, find_schema_problem
from jp_nb.toolkit.number_answer import BOUNDS, IntegerAnswer, NumberAnswer
from jp_nb.toolkit.select_answer import Option, SelectAnswer
from jp_nb.toolkit.text_formats import TextFormat

Node = Mapping[str, JsonValue]
LONG_TEXT = 200  # a text with a larger maximum length gets a box with several lines
ENUM_NAMES = "enumNames"
"""Keyword for the labels of `enum`, in the same order."""
_MAX_REFERENCES = 100  # limit for a chain of references
_ANNOTATIONS: Final = frozenset(
    {"$comment", "$defs", "$id", "$schema", "default", "definitions", "deprecated", "description",
     "examples", "readOnly", "title", "writeOnly"}
)  # fmt: skip
_LEVELS: Final = (
    "a form has one level; a field is a text, a number, a boolean, or one or several "
    "options of a list"
)


@dataclass(frozen=True, slots=True)
class FormParts:
    """The parts of a form for a type or a JSON schema.

    Attributes:
        fields: The arguments of `Question` for each field.
        check: A function that checks the whole answer; None if the fields check everything.
        keeps_cleared: Attribute of `FormAnswer`.
    """

    fields: list[dict[str, Any]]
    check: _TypedForm | SchemaCheck | None
    title: str | None
    description: str | None
    keeps_cleared: bool


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """Check of the whole answer by a JSON schema, which is stored as text."""

    schema: str

    def __call__(self, answer: Mapping[str, JsonValue]) -> Mapping[str, str]:
        """Return the problems of `answer` by field id. "" is the id of the whole form."""
        return find_property_problems(answer, json.loads(self.schema))


@dataclass(frozen=True, slots=True)
class _ObjectSchema:
    """JSON schema of an object, as the source of a form.

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

    def fields(self) -> Iterator[tuple[dict[str, Any], bool]]:
        """Yield the arguments of `Question` for each field, and True if null is a valid value."""
        path, root = self.resolved((), self.schema)
        properties = root.get("properties")
        if root.get("type") != "object" or not isinstance(properties, dict):
            self.fail(path, "expected an object with `properties`")
        if len(properties) > MAX_FIELDS:
            self.fail((*path, "properties"), f"expected at most {MAX_FIELDS} fields")

        required = root.get("required", [])
        names = required if isinstance(required, list) else [None]
        if not all(isinstance(name, str) and name in properties for name in names):
            self.fail((*path, "required"), "expected a list of names from `properties`")

        allowed = {"type", "properties", "required", "additionalProperties", *_ANNOTATIONS}
        self.check_keywords(path, root, allowed)

        for name, node in properties.items():
            yield self._field(name, (*path, "properties", name), node, name in names)

    def _field(
        self, name: str, at: SchemaPath, stated: JsonValue, required: bool
    ) -> tuple[dict[str, Any], bool]:
        title = self.text(at, stated, "title") if isinstance(stated, dict) else None
        path, node = self.resolved(at, stated)
        path, node, nullable = self._without_null(path, node)
        if title is None:
            title = _name_to_title(name) if self.typed else self.text(path, node, "title")
        kind = _answer_type(self, path, node)
        default = None if kind.secret else node.get("default")
        if isinstance(default, str) and isinstance(kind, NumberAnswer):  # of a Decimal
            with suppress(ValueError):
                default = kind.from_text(default)

        if default is not None and kind.misfit(default):
            if not (self.typed or self.of_server):
                self.fail((*path, "default"), f"expected {kind.expects}")
            default = None

        # If the user empties the field, the type would silently use its default: require a value.
        has_default = self.typed and not nullable and default not in (None, "", [])

        field = {
            "id": name,
            "text": title or name,
            "answer_type": kind,
            "context": self._describe(path, node, kind),
            "default": default,
            "required": (required or has_default) and not nullable,
        }

        return field, nullable

    def resolved(self, path: SchemaPath, node: object) -> tuple[SchemaPath, dict[str, JsonValue]]:
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

    def _without_null(
        self, path: SchemaPath, node: dict[str, JsonValue]
    ) -> tuple[SchemaPath, dict[str, JsonValue], bool]:
        # Returns the schema without the alternative null, and True if there was one.
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
                path, only = self.resolved((*path, keyword, index), only)
                return path, {**only, **above}, len(members) == 2
            if len(rest) < len(members):
                return path, {**above, keyword: [x for _, x in rest]}, True

        return path, node, False

    def _describe(self, path: SchemaPath, node: Node, kind: AnswerType) -> str | None:
        lines = [self.text(path, node, "description")]
        if not self.typed and isinstance(kind, TextAnswer):
            lines.append(_describe_free_text(node))
        return "\n\n".join(filter(None, lines)) or None

    def check_keywords(self, path: SchemaPath, node: Node, known: set[str]) -> None:
        for keyword in node:
            if keyword not in known and keyword not in _ANNOTATIONS:
                self.checked_as_whole.append((*path, keyword))

    def text(self, path: SchemaPath, node: Node, keyword: str) -> str | None:
        found = node.get(keyword)
        if found is None or isinstance(found, str):
            return found or None
        if not self.of_server:
            self.fail((*path, keyword), "expected a text")
        return None


def _name_to_title(name: str) -> str:
    # `group_size` is `Group size`.
    words = name.replace("_", " ").strip()
    return f"{words[:1].upper()}{words[1:]}"


def _answer_type(source: _ObjectSchema, path: SchemaPath, node: Node) -> AnswerType:
    try:
        options = _options(source, path, node)
        if options is not None:
            source.check_keywords(
                path, node, {"type", "enum", ENUM_NAMES, "const", "anyOf", "oneOf"}
            )
            return SelectAnswer(options=options)

        name = node.get("type")
        if name is None and source.typed and isinstance(members := node.get("anyOf"), list):
            types = {x.get("type") for x in members if isinstance(x, dict)}
            if "number" in types and types <= {"number", "integer", "string"}:
                name = "number"  # a Decimal is a number or its digits

        if not source.typed and not isinstance(name, str) and _accepts_text(node):
            return _read_any_text(source, path)

        if not isinstance(name, str) or name not in _READERS:
            source.fail(path, f"this is {_describe_node(node)}: {_LEVELS}")
        return _READERS[name](source, path, node)
    except ValidationError as exc:  # contradictory bounds, or invalid options
        [first, *_] = exc.errors(include_url=False, include_input=False)
        source.fail(path, first["msg"].removeprefix("Value error, "))


def _accepts_text(node: Node) -> bool:
    # The type is a list with `string`, one of several members is a string, or any type is valid.
    types = _member_types(node)
    if types:
        return "string" in types
    return not node.keys() & {"type", "anyOf", "oneOf", "allOf", "properties", "items"}


def _member_types(node: Node) -> set[str]:
    members = node.get("oneOf")
    return declared_types(node) or declared_types({"anyOf": members})


def _read_any_text(source: _ObjectSchema, path: SchemaPath) -> AnswerType:
    source.checked_as_whole.append(path)
    return TextAnswer(lines=False)


def _describe_free_text(node: Node) -> str:
    if node.get("type") != "string":
        types = sorted(_member_types(node) - {"null"})
        return f"Type: {' or '.join(types)}" if types else ""
    wanted = node.get("format")
    if isinstance(wanted, str) and wanted not in get_args(TextFormat):
        return f"Format: {one_line(wanted, limit=60)}"
    return ""


def _describe_node(node: Node) -> str:
    if node.get("type") == "object":
        return "an object"
    if "anyOf" in node or "oneOf" in node or isinstance(node.get("type"), list):
        return "one of several types"
    return "a value of any type" if "type" not in node else "a list of something other than options"


def _options(source: _ObjectSchema, path: SchemaPath, node: Node) -> tuple[Option, ...] | None:
    if "const" in node:
        return (_option(source, path, {"const": node["const"]}),)

    if isinstance(values := node.get("enum"), list):
        labels = node.get(ENUM_NAMES, values)
        if not isinstance(labels, list) or len(labels) != len(values):
            if not source.of_server:
                source.fail(
                    (*path, ENUM_NAMES), "expected a list with one text for each value of `enum`"
                )
            labels = values

        pairs = zip(values, labels, strict=True)
        options = [_option(source, path, {"const": x, "title": str(label)}) for x, label in pairs]
        if source.typed or source.of_server:  # without the aliases of an Enum
            first: dict[tuple[type, JsonValue], Option] = {}
            for option in options:
                first.setdefault((type(option.value), option.value), option)  # True == 1
            options = [*first.values()]
        return tuple(options)

    for keyword in ("oneOf", "anyOf"):
        members = node.get(keyword)
        if isinstance(members, list) and members:
            each = [_member_options(source, (*path, keyword, i), x) for i, x in enumerate(members)]
            known = [found for found in each if found is not None]
            if len(known) == len(each):
                return tuple(chain.from_iterable(known))

    return None


def _member_options(
    source: _ObjectSchema, at: SchemaPath, member: JsonValue
) -> tuple[Option, ...] | None:
    path, node = source.resolved(at, member)
    if "const" in node:
        source.check_keywords(path, node, {"type", "const"})
        return (_option(source, path, node),)
    return _options(source, path, node) if "enum" in node else None


def _option(source: _ObjectSchema, path: SchemaPath, node: Node) -> Option:
    value = node["const"]
    if not isinstance(value, str | int | float):
        source.fail(path, f"expected a text, a number, or a boolean as an option: {_LEVELS}")

    title = source.text(path, node, "title")
    description = source.text(path, node, "description")
    label = None if title == str(value) else title
    return Option(value=value, label=label, description=description)


def _read_text(source: _ObjectSchema, path: SchemaPath, node: Node) -> AnswerType:
    wanted = node.get("format")
    source.check_keywords(path, node, {"type", "format", "minLength", "maxLength", "pattern"})
    if wanted == "password":
        if "default" in node and not (source.typed or source.of_server):
            source.fail((*path, "default"), "a secret cannot have a default")
        conditions = {"minLength", "maxLength", "pattern"} & node.keys()
        source.checked_as_whole.extend((*path, keyword) for keyword in conditions)
        return SecretAnswer()

    known: tuple[TextFormat, ...] = get_args(TextFormat)
    formats = [name for name in known if name == wanted]
    if wanted is not None and not formats:
        source.checked_as_whole.append((*path, "format"))

    pattern = node.get("pattern")
    is_checked_by_author = source.typed or source.of_server
    if isinstance(pattern, str) and is_checked_by_author and not is_linear_pattern(pattern):
        pattern = None

    least = node.get("minLength", 0)
    most = node.get("maxLength")
    default = node.get("default")
    has_lines = isinstance(default, str) and "\n" in default
    is_long = isinstance(most, int) and most > LONG_TEXT
    text_format = formats[0] if formats else None

    return TextAnswer.model_validate(
        {
            "format": text_format,
            "min_length": least,
            "max_length": most,
            "pattern": pattern,
            "lines": not formats and (has_lines or is_long or node.get("lines") is True),
        }
    )


def _read_number(source: _ObjectSchema, path: SchemaPath, node: Node) -> AnswerType:
    source.check_keywords(path, node, {"type", *BOUNDS})
    members = node.get("anyOf")
    is_integer = node.get("type") == "integer"
    if isinstance(members, list):  # a Decimal, or several numbers whose bounds the type checks
        numbers = [x for x in members if isinstance(x, dict) and x.get("type") != "string"]
        node = numbers[0] if len(numbers) == 1 else {}

    bounds = {field: node[keyword] for keyword, field in BOUNDS.items() if keyword in node}
    if is_integer:
        return IntegerAnswer.model_validate(bounds)
    return NumberAnswer.model_validate(bounds)


def _read_boolean(source: _ObjectSchema, path: SchemaPath, node: Node) -> AnswerType:
    source.check_keywords(path, node, {"type"})
    return BooleanAnswer()


def _read_list(source: _ObjectSchema, path: SchemaPath, node: Node) -> AnswerType:
    source.check_keywords(path, node, {"type", "items", "minItems", "maxItems", "uniqueItems"})
    below: SchemaPath = (*path, "items")
    options = None
    if isinstance(node.get("items"), dict):
        below, item = source.resolved(below, node["items"])
        options = _options(source, below, item)

    if options is None:
        source.fail(path, f"this is {_describe_node(node)}: {_LEVELS}")

    picks = {"min_picks": node.get("minItems", 0), "max_picks": node.get("maxItems")}
    return SelectAnswer.model_validate({"options": options, "multi": True, **picks})


_READERS: Final[Mapping[str, Callable[[_ObjectSchema, SchemaPath, Node], AnswerType]]] = {
    "string": _read_text,
    "number": _read_number,
    "integer": _read_number,
    "boolean": _read_boolean,
    "array": _read_list,
}


def form_of(what: Any, *, of_server: bool = False) -> FormParts:
    """Return the form for a type or JSON schema, or raise a `UsageError` with the path in it.

    A schema `of_server` comes from a program that may be hostile: its size and the steps of its
    check are limited, and titles, defaults, and labels that do not fit are ignored.
    """
    if isinstance(what, Mapping):
        return _form_of_schema(what, of_server=of_server)

    schema, adapter = _read_type(what)
    found = [*schema.fields()]
    _, root = schema.resolved((), schema.schema)
    check = _TypedForm(what, adapter, {field["id"]: nullable for field, nullable in found})
    title, description = (schema.text((), root, name) for name in ("title", "description"))

    if description and description.startswith(f"{schema.name}("):
        description = None  # the default docstring of a dataclass is its signature

    return FormParts([field for field, _ in found], check, title, description, keeps_cleared=True)


def _form_of_schema(root: Node, *, of_server: bool) -> FormParts:
    schema = _ObjectSchema(root, of_server=of_server)
    fields = [field for field, _ in schema.fields()]
    title, description = (schema.text((), root, name) for name in ("title", "description"))

    check = None
    if schema.checked_as_whole:
        if problem := find_schema_problem(root):
            schema.fail(schema.checked_as_whole[0], f"this condition cannot be checked: {problem}")
        check = SchemaCheck(compact_json(dict(root)))

    return FormParts(fields, check, title, description, keeps_cleared=False)


def _read_type(what: Any) -> tuple[_ObjectSchema, TypeAdapter[Any]]:
    name = getattr(what, "__name__", None) or repr(what)[:100]
    if not isinstance(what, type) and not hasattr(what, "__origin__"):
        raise UsageError(
            f"no form can be made of {name}: expected a question, a list of "
            "questions, a pydantic model, a dataclass, a TypedDict, or a dict "
            "with a JSON schema"
        )

    try:
        with warnings.catch_warnings():  # about defaults that are not JSON: such fields are open
            warnings.simplefilter("ignore")
            adapter = TypeAdapter(what)
            json_schema = adapter.json_schema(schema_generator=_FormSchema)
    except Exception as exc:  # the code of the type may raise anything
        why = str(exc).strip().partition("\n")[0][:200]
        raise UsageError(f"no form can be made of {name}: {why}") from exc

    schema = _ObjectSchema(json_schema, name, typed=True)
    for field_name, info in getattr(what, "model_fields", {}).items():
        if isinstance(info.validation_alias, AliasPath):
            path = ("properties", field_name)
            schema.fail(path, "its value is inside a list or an object (`AliasPath`)")
    return schema, adapter


@dataclass(frozen=True, slots=True)
class _TypedForm:
    """Form of a Python type. `fields` has the ids of the fields, with True for a nullable one."""

    type: Any
    adapter: TypeAdapter[Any] = field(compare=False, repr=False)
    fields: Mapping[str, bool] = field(compare=False, repr=False)

    def __call__(self, answer: Mapping[str, JsonValue]) -> Mapping[str, str]:
        """Return the problems of `answer` by field id. "" is the id of the whole form."""
        try:
            self.value(answer)
            return {}
        except ValidationError as exc:
            errors = exc.errors(include_url=False, include_input=False, include_context=False)
        except Exception as exc:  # a validator failed: report it, so that the input is not lost
            return {"": f"{type(exc).__name__}: {exc}"}
        found: dict[str, list[str]] = {}

        for error in errors:
            name = str(error["loc"][0]) if error["loc"] else ""
            text = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
            if name in self.fields:
                found.setdefault(name, []).append(text)
            else:
                text = f"{name}: {text}" if name else text
                found.setdefault("", []).append(text)

        return {name: "; ".join(dict.fromkeys(texts)) for name, texts in found.items()}

    def value(self, answer: Mapping[str, JsonValue]) -> Any:
        """Return `answer` as an instance of the type, or raise a `ValidationError`."""
        nulls = {name: None for name, nullable in self.fields.items() if nullable}
        return self.adapter.validate_json(json.dumps({**nulls, **answer}))


class _FormSchema(GenerateJsonSchema):
    """Adds labels for the members of an `Enum`, and calls default factories."""

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        return {**super().enum_schema(schema), ENUM_NAMES: [*map(_member_label, schema["members"])]}

    def get_title_from_name(self, name: str) -> str:
        return _name_to_title(name)

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        factory = schema.get("default_factory")
        if factory is not None and not schema.get("default_factory_takes_data"):
            schema = {**schema, "default": factory()}  # type: ignore[call-arg]
            del schema["default_factory"]
        return super().default_schema(schema)


def _member_label(member: Enum) -> str:
    # `DARK_RED` is `Dark red`, and `iPhone` stays.
    text = member.name.replace("_", " ").strip()
    return text.capitalize() if text.isupper() or text.islower() else text
