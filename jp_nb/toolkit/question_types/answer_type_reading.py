"""Read the answer type of a question from the JSON of a tool, and describe its first problem.

A tool writes a name, or an object with the properties of the type:

    "boolean"
    {"type": "select", "options": ["S", "M"]}

Older tools write these forms:

    "Boolean"
    {"Select": {"options": ["S", "M"]}}

Source: `docs/turns.md`, `docs/tools.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from jp_nb.toolkit.question_types.answer_types import AnswerType

_PROBLEMS: Final = {"missing": "required key is missing", "extra_forbidden": "unknown key"}
"""Texts of problems by pydantic's type of error; others keep pydantic's text."""


def read_answer_type(value: Any, kinds: Mapping[str, type[AnswerType]]) -> AnswerType:
    """Return the answer type for the JSON of a tool, or for an `AnswerType` of one of `kinds`.

    Raises:
        ValueError: The type is unknown, or its fields are invalid.
    """
    if isinstance(value, AnswerType):
        if kinds.get(value.type) is not type(value):
            raise _make_unknown_type_error(value.type, kinds)
        return value

    fields = _normalize(value)
    kind = fields.get("type") if isinstance(fields, dict) else None
    if not isinstance(kind, str):
        raise ValueError("expected a question type, or an object with a `type`")
    if kind not in kinds:
        raise _make_unknown_type_error(kind, kinds)

    try:
        return kinds[kind].model_validate(fields)
    except ValidationError as exc:
        # The outer error has no path inside of the answer type: `find_first_problem` adds it.
        path, reason = find_first_problem(exc)
        context = {"reason": reason, "path": path}
        raise PydanticCustomError("answer_type", "{reason}", context) from exc


def _normalize(value: Any) -> Any:
    """Return the object with a `type` for each of these forms; other values unchanged."""
    if isinstance(value, str):
        return {"type": value.lower()}

    if isinstance(value, dict) and len(value) == 1:
        [(name, properties)] = value.items()
        if isinstance(properties, dict):
            return {"type": str(name).lower(), **properties}
    return value


def _make_unknown_type_error(kind: str, kinds: Mapping[str, type[AnswerType]]) -> ValueError:
    known = ", ".join(f"`{name}`" for name in kinds)
    return ValueError(f"unknown question type {kind!r:.80}, expected one of: {known}")


def find_first_problem(exc: ValidationError) -> tuple[str, str]:
    """Return path and text of the first problem. A path is e.g. `answer_type.options.0`."""
    [first, *_] = exc.errors(include_url=False, include_input=False)
    steps = [str(step) for step in first["loc"]]
    if first["type"] == "answer_type" and first["ctx"].get("path"):
        steps.append(first["ctx"]["path"])

    message = first["msg"].removeprefix("Value error, ")
    return ".".join(steps), _PROBLEMS.get(first["type"], message)
