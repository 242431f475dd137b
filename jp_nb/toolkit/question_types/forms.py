"""Make a form from a dataclass, a Pydantic model, a TypedDict, or a JSON schema.

`Question.form` calls `make_form`. A Python type is first converted to a JSON schema by pydantic.
Each property of the schema becomes a field (`form_fields.py`); a property that no field can show,
such as a nested object, is an error with its path. Conditions that a field does not know are
checked for the whole answer: by the Python type, or by a validator of JSON Schema.

Source: https://docs.pydantic.dev/latest/concepts/json_schema/, `docs/tools.md`.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pydantic import AliasPath, JsonValue, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from jp_nb.errors import UsageError
from jp_nb.json_writing import compact_json
from jp_nb.toolkit.question_types.form_fields import list_fields, name_to_title
from jp_nb.toolkit.question_types.form_schema import ENUM_NAMES, FormSource, Node
from jp_nb.toolkit.question_types.server_schema_checks import (
    find_property_problems,
    find_schema_problem,
)


@dataclass(frozen=True, slots=True)
class FormParts:
    """The parts of a form for a type or a JSON schema.

    Attributes:
        fields: The arguments of `Question` for each field.
        check: A function that checks the whole answer; None if the fields check everything.
        title: Title of the form; None without one.
        description: Text above the fields; None without one.
        keeps_cleared: True if an optional field whose default the user deleted is an empty text,
            False if it is absent.
    """

    fields: list[dict[str, Any]]
    check: _TypedCheck | SchemaCheck | None
    title: str | None
    description: str | None
    keeps_cleared: bool


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """Check of the whole answer by a JSON schema, stored as text so that the check is hashable."""

    schema: str

    def __call__(self, answer: Mapping[str, JsonValue]) -> Mapping[str, str]:
        """Return the problems of `answer` by field id. "" is the id of the whole form."""
        return find_property_problems(answer, json.loads(self.schema))


def make_form(what: Any, *, of_server: bool = False) -> FormParts:
    """Return the form for a type or JSON schema, or raise a `UsageError` with the path in it.

    A schema `of_server` comes from a program that may be hostile: its size and the steps of its
    check are limited, and titles, defaults, and labels that do not fit are ignored.
    """
    if isinstance(what, Mapping):
        return _make_schema_form(what, of_server=of_server)
    return _make_typed_form(what)


def _make_typed_form(python_type: Any) -> FormParts:
    """Return the form for a Python type, which checks the whole answer."""
    source, adapter = _read_type(python_type)
    fields = [*list_fields(source)]
    questions = [parts.question for parts in fields]
    nullable = {parts.question["id"]: parts.allows_null for parts in fields}
    check = _TypedCheck(python_type, adapter, nullable)

    _, root = source.resolve((), source.schema)
    title = source.read_keyword_text((), root, "title")
    description = source.read_keyword_text((), root, "description")
    if description and description.startswith(f"{source.name}("):
        description = None  # the default docstring of a dataclass is its signature

    return FormParts(questions, check, title, description, keeps_cleared=True)


def _make_schema_form(root: Node, *, of_server: bool) -> FormParts:
    """Return the form for a JSON schema. It checks the conditions that no field checks."""
    source = FormSource(root, of_server=of_server)
    questions = [parts.question for parts in list_fields(source)]
    title = source.read_keyword_text((), root, "title")
    description = source.read_keyword_text((), root, "description")

    check = None
    if source.checked_as_whole:
        problem = find_schema_problem(root)
        if problem:
            source.fail(source.checked_as_whole[0], f"this condition cannot be checked: {problem}")
        check = SchemaCheck(compact_json(dict(root)))

    return FormParts(questions, check, title, description, keeps_cleared=False)


def _read_type(what: Any) -> tuple[FormSource, TypeAdapter[Any]]:
    """Return the JSON schema of a Python type, and its validator.

    Raises:
        UsageError: No form can be made of it.
    """
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

    source = FormSource(json_schema, name, typed=True)
    for field_name, info in getattr(what, "model_fields", {}).items():
        if isinstance(info.validation_alias, AliasPath):
            path = ("properties", field_name)
            source.fail(path, "its value is inside a list or an object (`AliasPath`)")
    return source, adapter


@dataclass(frozen=True, slots=True)
class _TypedCheck:
    """Check of the whole answer by a Python type, which also converts it.

    It implements `ConvertingCheck` of `form_answer.py`.

    Attributes:
        type: The type of the user.
        adapter: Pydantic's validator of the type.
        nullable: The ids of the fields, with True if null is a valid value.
    """

    type: Any
    adapter: TypeAdapter[Any] = field(compare=False, repr=False)
    nullable: Mapping[str, bool] = field(compare=False, repr=False)

    def __call__(self, answer: Mapping[str, JsonValue]) -> Mapping[str, str]:
        """Return the problems of `answer` by field id. "" is the id of the whole form."""
        try:
            self.value(answer)
            return {}
        except ValidationError as exc:
            errors = exc.errors(include_url=False, include_input=False, include_context=False)
        except Exception as exc:  # a validator failed: report it, so that the input is not lost
            return {"": f"{type(exc).__name__}: {exc}"}

        texts_by_field: dict[str, list[str]] = {}
        for error in errors:
            field_id = str(error["loc"][0]) if error["loc"] else ""
            text = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
            if field_id and field_id not in self.nullable:  # no field of the form has the problem
                text = f"{field_id}: {text}"
                field_id = ""
            texts_by_field.setdefault(field_id, []).append(text)

        return {
            field_id: "; ".join(dict.fromkeys(texts)) for field_id, texts in texts_by_field.items()
        }

    def value(self, answer: Mapping[str, JsonValue]) -> Any:
        """Return `answer` as an instance of the type, or raise a `ValidationError`."""
        # An open field is absent. Its type may have no default, so it gets null if possible.
        nulls = {field_id: None for field_id, is_nullable in self.nullable.items() if is_nullable}
        return self.adapter.validate_json(json.dumps({**nulls, **answer}))


class _FormSchema(GenerateJsonSchema):
    """Generator of pydantic's JSON schemas, which calls these methods for parts of a type.

    It adds labels for the members of an `Enum`, and calls default factories.
    """

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        labels = [_make_member_label(member) for member in schema["members"]]
        return {**super().enum_schema(schema), ENUM_NAMES: labels}

    def get_title_from_name(self, name: str) -> str:
        return name_to_title(name)

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        factory = schema.get("default_factory")
        if factory is not None and not schema.get("default_factory_takes_data"):
            schema = {**schema, "default": factory()}  # type: ignore[call-arg]
            del schema["default_factory"]
        return super().default_schema(schema)


def _make_member_label(member: Enum) -> str:
    # `DARK_RED` is `Dark red`, and `iPhone` stays.
    text = member.name.replace("_", " ").strip()
    return text.capitalize() if text.isupper() or text.islower() else text
