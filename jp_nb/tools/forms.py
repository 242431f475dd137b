"""Typed forms from JSON Schemas, dataclasses and Pydantic models.

A part of a schema that no field of a form supports is an error with its path. For a Python type,
the type itself checks what the form cannot.

Source: https://modelcontextprotocol.io/specification/2025-06-18/client/elicitation,
https://json-schema.org/draft/2020-12/json-schema-validation,
https://docs.pydantic.dev/latest/concepts/json_schema/.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NoReturn, get_args

from pydantic import AliasPath, JsonValue, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from jp_nb.errors import UsageError
from jp_nb.json_schema import ONLY_ITSELF, SchemaPath, format_place, resolve_reference
from jp_nb.tools.answer_types import (
    MAX_FIELDS,
    AnswerType,
    BooleanAnswer,
    IntegerAnswer,
    NumberAnswer,
    Option,
    SecretAnswer,
    SelectAnswer,
    TextAnswer,
)
from jp_nb.tools.parameters import TextFormat

Node = Mapping[str, JsonValue]
LONG_TEXT = 200
"""Characters: a text that may be longer gets a box of several lines."""
ENUM_NAMES = "enumNames"
"""Keyword for the labels of `enum`, in the same order."""
_MAX_STEPS = 100
"""Of references that lead to references."""
_ANNOTATIONS: Final = frozenset(
    {"$comment", "$defs", "$id", "$schema", "default", "definitions", "deprecated", "description",
     "examples", "readOnly", "title", "writeOnly"}
)  # fmt: skip
_BOUNDS: Final = {
    "minimum": "minimum",
    "maximum": "maximum",
    "exclusiveMinimum": "above",
    "exclusiveMaximum": "below",
}
_LEVELS: Final = (
    "a form has one level; a field is a text, a number, a boolean, or one or several "
    "options of a list"
)


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of a form, as a schema describes it.

    Attributes:
        id: Its key in the object.
        default: What stands in it at first; None: nothing.
        required: False if it may stay open.
        nullable: Whether null is a value of it.
    """

    id: str
    title: str
    answer_type: AnswerType
    description: str | None
    default: JsonValue
    required: bool
    nullable: bool


@dataclass(frozen=True, slots=True)
class ObjectSchema:
    """The JSON schema of an object, read for a form.

    Attributes:
        schema: The whole of it, in which references are looked up.
        name: Of what it describes, for errors.
        typed: Whether a type checks answers: what the fields do not say is no error then.
    """

    schema: Node
    name: str = "the schema"
    typed: bool = False

    def refuse(self, path: SchemaPath, why: str) -> NoReturn:
        """Raise the error that `why` no form can be made, with the place."""
        raise UsageError(f"no form can be made of {self.name}: {format_place(path)}: {why}")

    def fields(self) -> Iterator[FormField]:
        """Yield the fields in order.

        Raises:
            UsageError: If one is more than a form can ask for; names its place.
        """
        path, root = self.resolved((), self.schema)
        properties = root.get("properties")
        if root.get("type") != "object" or not isinstance(properties, dict) or not properties:
            self.refuse(path, "expected an object with `properties`")
        if len(properties) > MAX_FIELDS:
            self.refuse((*path, "properties"), f"expected at most {MAX_FIELDS} fields")
        required = root.get("required", [])
        names = required if isinstance(required, list) else [None]
        if not all(isinstance(name, str) and name in properties for name in names):
            self.refuse((*path, "required"), "expected a list of names from `properties`")
        allowed = {"type", "properties", "required", "additionalProperties", *_ANNOTATIONS}
        self.only(path, root, allowed)
        for name, node in properties.items():
            yield self._field(name, (*path, "properties", name), node, name in names)

    def _field(self, name: str, at: SchemaPath, stated: JsonValue, required: bool) -> FormField:
        title = self.text(at, stated, "title") if isinstance(stated, dict) else None
        path, node = self.resolved(at, stated)
        path, node, nullable = self._without_null(path, node)
        title = title or (as_words(name) if self.typed else self.text(path, node, "title"))
        kind = _kind(self, path, node)
        default = None if kind.secret else _as_answer(kind, node.get("default"))
        if default is not None and kind.misfit(default):
            if not self.typed:
                self.refuse((*path, "default"), f"expected {kind.expects}")
            default = None
        # What is empty on the screen is not to be a default that is not, without a word.
        shown = self.typed and not nullable and default not in (None, "", [])
        return FormField(
            id=name,
            title=title or name,
            answer_type=kind,
            description=self.text(path, node, "description"),
            default=default,
            required=(required or shown) and not nullable,
            nullable=nullable,
        )

    # --- parts of a schema -------------------------------------------------------------------

    def resolved(self, path: SchemaPath, node: object) -> tuple[SchemaPath, dict[str, JsonValue]]:
        """Return the schema at `path`, with what it refers to filled in."""
        for _ in range(_MAX_STEPS):
            if not isinstance(node, Mapping):
                self.refuse(path, "expected a schema, which is an object")
            node = dict(node)
            whole = node.get("allOf")
            if isinstance(whole, list) and len(whole) == 1 and isinstance(whole[0], dict):
                node = {**whole[0], **{key: x for key, x in node.items() if key != "allOf"}}
            reference = node.get("$ref")
            if reference is None:
                return path, node
            try:
                where, found = resolve_reference(self.schema, str(reference))
            except LookupError as exc:
                self.refuse((*path, "$ref"), f"{str(reference)!r:.100} {exc.args[0]}")
            if not isinstance(found, dict):
                self.refuse(where, "expected a schema, which is an object")
            node = {**found, **{key: x for key, x in node.items() if key != "$ref"}}
        self.refuse(path, ONLY_ITSELF)

    def _without_null(
        self, path: SchemaPath, node: dict[str, JsonValue]
    ) -> tuple[SchemaPath, dict[str, JsonValue], bool]:
        """Return what else than null the value at `path` may be, and if it may be null."""
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

    def only(self, path: SchemaPath, node: Node, known: set[str]) -> None:
        """Refuse what `node` says beyond `known`, unless a type checks it."""
        for keyword in node:
            if keyword not in known and keyword not in _ANNOTATIONS and not self.typed:
                self.refuse((*path, keyword), "a form cannot check this condition: remove it")

    def text(self, path: SchemaPath, node: Node, keyword: str) -> str | None:
        """Return the text of `keyword`; None if there is none."""
        found = node.get(keyword)
        if found is not None and not isinstance(found, str):
            self.refuse((*path, keyword), "expected a text")
        return found or None


def as_words(name: str) -> str:
    """Return the name of a field for the person: `group_size` is `Group size`."""
    words = name.replace("_", " ").strip()
    return f"{words[:1].upper()}{words[1:]}"


def _kind(of: ObjectSchema, path: SchemaPath, node: Node) -> AnswerType:
    """Return the kind of question that asks for the value at `path`."""
    try:
        options = _options(of, path, node)
        if options is not None:
            of.only(path, node, {"type", "enum", ENUM_NAMES, "const", "anyOf", "oneOf"})
            return SelectAnswer(options=options)
        name = node.get("type")
        if name is None and of.typed:
            name = _number_among(node.get("anyOf"))
        if not isinstance(name, str) or name not in _KINDS:
            of.refuse(path, f"this is {_what(node)}: {_LEVELS}")
        return _KINDS[name](of, path, node)
    except ValidationError as exc:  # bounds that leave nothing, values that are no options
        [first, *_] = exc.errors(include_url=False, include_input=False)
        of.refuse(path, first["msg"].removeprefix("Value error, "))


def _what(node: Node) -> str:
    if node.get("type") == "object":
        return "an object"
    if "anyOf" in node or "oneOf" in node or isinstance(node.get("type"), list):
        return "one of several types"
    return "a value of any type" if "type" not in node else "a list of something other than options"


def _number_among(members: JsonValue) -> str | None:
    """Return `number` if one of `members` is one, the others being numbers or their digits."""
    each = members if isinstance(members, list) else []
    types = {x.get("type") for x in each if isinstance(x, dict)}
    return "number" if "number" in types and types <= {"number", "integer", "string"} else None


def _options(of: ObjectSchema, path: SchemaPath, node: Node) -> tuple[Option, ...] | None:
    """Return the options that the value at `path` has; None if it is no choice."""
    if "const" in node:
        return (_option(of, path, {"const": node["const"]}),)
    if isinstance(values := node.get("enum"), list):
        labels = node.get(ENUM_NAMES, values)
        if not isinstance(labels, list) or len(labels) != len(values):
            of.refuse((*path, ENUM_NAMES), "expected a list with one text for each value of `enum`")
        pairs = zip(values, labels, strict=True)
        options = [_option(of, path, {"const": x, "title": str(label)}) for x, label in pairs]
        return tuple(options if not of.typed else _distinct(options))
    for keyword in ("oneOf", "anyOf"):
        members = node.get(keyword)
        if isinstance(members, list) and members:
            each = [_members(of, (*path, keyword, i), x) for i, x in enumerate(members)]
            if all(found is not None for found in each):
                return tuple(option for found in each for option in found or ())
    return None


def _members(of: ObjectSchema, at: SchemaPath, member: JsonValue) -> tuple[Option, ...] | None:
    path, node = of.resolved(at, member)
    if "const" in node:
        of.only(path, node, {"type", "const"})
        return (_option(of, path, node),)
    return _options(of, path, node) if "enum" in node else None


def _option(of: ObjectSchema, path: SchemaPath, node: Node) -> Option:
    value = node["const"]
    if not isinstance(value, str | int | float):
        of.refuse(path, f"expected a text, a number or a boolean as an option: {_LEVELS}")
    title, description = of.text(path, node, "title"), of.text(path, node, "description")
    label = None if title == str(value) else title
    return Option(value=value, label=label, description=description)


def _distinct(options: list[Option]) -> list[Option]:
    """Return `options` without those whose value another one has: aliases of an `Enum`."""
    found: dict[tuple[type, JsonValue], Option] = {}
    for option in options:
        found.setdefault((type(option.value), option.value), option)
    return [*found.values()]


def _as_answer(kind: AnswerType, default: JsonValue) -> JsonValue:
    """Return `default` as an answer: a number may be given by its digits."""
    if isinstance(default, str) and isinstance(kind, NumberAnswer):
        try:
            return kind.from_text(default)
        except ValueError:
            return default
    return default


# --- kinds by the name of a JSON type --------------------------------------------------------


def _text_kind(of: ObjectSchema, path: SchemaPath, node: Node) -> AnswerType:
    wanted = node.get("format")
    of.only(path, node, {"type", "format", "minLength", "maxLength"})
    if wanted == "password":
        if "default" in node and not of.typed:
            of.refuse((*path, "default"), "a secret cannot have a default")
        return SecretAnswer()
    known: tuple[TextFormat, ...] = get_args(TextFormat)
    formats = [name for name in known if name == wanted]
    if wanted is not None and not formats and not of.typed:
        of.refuse((*path, "format"), f"expected one of {', '.join(known)}, or no `format`")
    least, most, default = node.get("minLength", 0), node.get("maxLength"), node.get("default")
    has_lines = isinstance(default, str) and "\n" in default
    is_long = isinstance(most, int) and most > LONG_TEXT
    return TextAnswer.model_validate(
        {
            "format": formats[0] if formats else None,
            "min_length": least,
            "max_length": most,
            "lines": not formats and (has_lines or is_long or node.get("lines") is True),
        }
    )


def _bounds_of(of: ObjectSchema, path: SchemaPath, node: Node) -> dict[str, JsonValue]:
    of.only(path, node, {"type", *_BOUNDS})
    members = node.get("anyOf")
    if isinstance(members, list):  # a Decimal; of several numbers the type knows the bounds
        numbers = [x for x in members if isinstance(x, dict) and x.get("type") != "string"]
        node = numbers[0] if len(numbers) == 1 else {}
    return {field: node[keyword] for keyword, field in _BOUNDS.items() if keyword in node}


def _number_kind(of: ObjectSchema, path: SchemaPath, node: Node) -> AnswerType:
    return NumberAnswer.model_validate(_bounds_of(of, path, node))


def _integer_kind(of: ObjectSchema, path: SchemaPath, node: Node) -> AnswerType:
    return IntegerAnswer.model_validate(_bounds_of(of, path, node))


def _boolean_kind(of: ObjectSchema, path: SchemaPath, node: Node) -> AnswerType:
    of.only(path, node, {"type"})
    return BooleanAnswer()


def _list_kind(of: ObjectSchema, path: SchemaPath, node: Node) -> AnswerType:
    of.only(path, node, {"type", "items", "minItems", "maxItems", "uniqueItems"})
    below: SchemaPath = (*path, "items")
    options = None
    if isinstance(node.get("items"), dict):
        below, item = of.resolved(below, node["items"])
        options = _options(of, below, item)
    if options is None:
        of.refuse(path, f"this is {_what(node)}: {_LEVELS}")
    picks = {"min_picks": node.get("minItems", 0), "max_picks": node.get("maxItems")}
    return SelectAnswer.model_validate({"options": options, "multi": True, **picks})


_KINDS: Final[Mapping[str, Callable[[ObjectSchema, SchemaPath, Node], AnswerType]]] = {
    "string": _text_kind,
    "number": _number_kind,
    "integer": _integer_kind,
    "boolean": _boolean_kind,
    "array": _list_kind,
}


Object = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class FormShape:
    """What a form is made of.

    Attributes:
        title: Of the whole; None if it has none.
        check: The type that answers have to validate against; None: a schema, all of which its
            fields say.
    """

    fields: tuple[FormField, ...]
    title: str | None = None
    description: str | None = None
    check: TypedForm | None = None


def form_of(what: Any) -> FormShape:
    """Return the form that asks for a `what`: a type, or a JSON schema.

    Raises:
        UsageError: If no form can be made of it; names the place in its schema.
    """
    if isinstance(what, Mapping):
        asked = ObjectSchema(what)
        fields = tuple(asked.fields())
        title, description = (asked.text((), what, name) for name in ("title", "description"))
        return FormShape(fields, title, description)
    typed = TypedForm.of(what)
    _, root = typed.asked.resolved((), typed.asked.schema)
    description = typed.asked.text((), root, "description")
    return FormShape(
        typed.fields,
        typed.asked.text((), root, "title"),
        # A dataclass without a docstring has its signature there.
        None if description and description.startswith(f"{typed.asked.name}(") else description,
        typed,
    )


@dataclass(frozen=True, slots=True)
class TypedForm:
    """The form of a type. Equal to another one of the same type.

    Attributes:
        asked: Its schema.
    """

    type: Any
    adapter: TypeAdapter[Any] = field(compare=False, repr=False)
    asked: ObjectSchema = field(compare=False, repr=False)
    fields: tuple[FormField, ...] = field(compare=False, repr=False)

    @classmethod
    def of(cls, what: Any) -> TypedForm:
        """Return the form of `what`.

        Raises:
            UsageError: If it is no type that pydantic can describe, or not one for a form.
        """
        name = getattr(what, "__name__", None) or repr(what)[:100]
        if not isinstance(what, type) and not hasattr(what, "__origin__"):
            raise UsageError(
                f"no form can be made of {name}: expected a question, a list of "
                "questions, a pydantic model, a dataclass, a TypedDict, or a dict "
                "with a JSON schema"
            )
        try:
            with warnings.catch_warnings():  # of defaults that JSON cannot hold: those stay open
                warnings.simplefilter("ignore")
                adapter = TypeAdapter(what)
                schema = adapter.json_schema(schema_generator=_FormSchema)
        except Exception as exc:  # whatever the type's own code raises
            why = str(exc).strip().partition("\n")[0][:200]
            raise UsageError(f"no form can be made of {name}: {why}") from exc
        asked = ObjectSchema(schema, name, typed=True)
        for field_name, info in getattr(what, "model_fields", {}).items():
            if isinstance(info.validation_alias, AliasPath):
                place = ("properties", field_name)
                asked.refuse(place, "its value is inside a list or an object (`AliasPath`)")
        return cls(what, adapter, asked, tuple(asked.fields()))

    def __call__(self, answer: Object) -> Mapping[str, str]:
        """Return what the type says against `answer`, by field id; "" for the whole."""
        try:
            self.value(answer)
        except ValidationError as exc:
            return self._by_field(exc)
        except Exception as exc:  # from a validator: the person is told, nothing typed is lost
            return {"": f"{type(exc).__name__}: {exc}"}
        return {}

    def _by_field(self, exc: ValidationError) -> dict[str, str]:
        known = {each.id for each in self.fields}
        found: dict[str, list[str]] = {}
        for error in exc.errors(include_url=False, include_input=False, include_context=False):
            first = error["loc"][0] if error["loc"] else ""
            words = error["msg"]
            for prefix in ("Value error, ", "Assertion failed, "):
                words = words.removeprefix(prefix)
            at = str(first)
            words = words if at in known or not at else f"{at}: {words}"
            found.setdefault(at if at in known else "", []).append(words)
        return {name: "; ".join(dict.fromkeys(words)) for name, words in found.items()}

    def value(self, answer: Object) -> Any:
        """Return the instance that `answer` is.

        Raises:
            ValidationError: If it does not validate.
        """
        open_ones = {x.id: None for x in self.fields if x.nullable and x.id not in answer}
        return self.adapter.validate_json(json.dumps({**open_ones, **answer}))


class _FormSchema(GenerateJsonSchema):
    """Says besides what a person reads for the members of an `Enum`, and calls factories."""

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        return {**super().enum_schema(schema), ENUM_NAMES: [*map(_label, schema["members"])]}

    def get_title_from_name(self, name: str) -> str:
        return as_words(name)

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        factory = schema.get("default_factory")
        if factory is not None and not schema.get("default_factory_takes_data"):
            schema = {**schema, "default": factory()}  # type: ignore[call-arg]  # it takes nothing
            del schema["default_factory"]
        return super().default_schema(schema)


def _label(member: Enum) -> str:
    """Return the name of `member` as words: `DARK_RED` is `Dark red`, `iPhone` stays."""
    words = member.name.replace("_", " ").strip()
    return words.capitalize() if words.isupper() or words.islower() else words
