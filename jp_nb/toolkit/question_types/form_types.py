"""Convert Python types for a form: to a JSON schema, and answers to instances of the type.

Pydantic does both. `forms.py` makes the form from the schema. An answer is checked as a whole by
the type, because its own validators can have conditions that no schema expresses.

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
from jp_nb.toolkit.question_types.form_fields import name_to_title
from jp_nb.toolkit.question_types.form_schema import ENUM_NAMES, FormSource


def read_form_type(what: Any) -> tuple[FormSource, TypeAdapter[Any]]:
    """Return the JSON schema of a Python type, and pydantic's validator of it.

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
        # Pydantic warns about defaults that are not JSON. Their fields have no initial value.
        with warnings.catch_warnings():
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
class TypedCheck:
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
