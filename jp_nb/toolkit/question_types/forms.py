"""Make a form from a dataclass, a Pydantic model, a TypedDict, or a JSON schema.

`Question.form` calls `make_form`. A Python type is first converted to a JSON schema
(`form_types.py`). A schema is a `FormSource`, whose errors name the path in it (`form_schema.py`).
Each property of the schema becomes a field (`form_fields.py`); a property that no field can show,
such as a nested object, is an error with its path. Conditions that a field does not know are
checked for the whole answer: by the Python type, or by a validator of JSON Schema.

Source: `docs/tools.md`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from jp_nb.json_writing import compact_json
from jp_nb.toolkit.question_types.form_fields import list_fields
from jp_nb.toolkit.question_types.form_schema import FormSource, Node
from jp_nb.toolkit.question_types.form_types import TypedCheck, read_form_type
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
    check: TypedCheck | SchemaCheck | None
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
    source, adapter = read_form_type(python_type)
    fields = [*list_fields(source)]
    questions = [parts.question for parts in fields]
    nullable = {parts.question["id"]: parts.allows_null for parts in fields}
    check = TypedCheck(python_type, adapter, nullable)

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
