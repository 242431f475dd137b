"""A form made of a type of Python: its fields, what does not validate, and the instance.

Source: https://docs.pydantic.dev/latest/concepts/json_schema/
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
from jp_nb.tooling.form_fields import ENUM_NAMES, FormField, ObjectSchema, as_words

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
