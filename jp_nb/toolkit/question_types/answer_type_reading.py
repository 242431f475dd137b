"""Read the answer type of a question from the JSON of a tool, and describe its first problem.

A tool writes a name, or an object with the properties of the type. Older tools write the third:

    "boolean"
    {"type": "select", "options": ["S", "M"]}
    {"Select": {"options": ["S", "M"]}}

Source: `docs/turns.md`, `docs/tools.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from jp_nb.toolkit.question_types.answer_types import AnswerType


def read_answer_type(value: Any, kinds: Mapping[str, type[AnswerType]]) -> AnswerType:
    """Return the answer type for the JSON of a tool, or for an `AnswerType` of one of `kinds`.

    Older tools write `"Boolean"`, `"Text"`, and `{"Select": {"options": […]}}`.

    Raises:
        ValueError: The type is unknown, or its fields are invalid.
    """
    if isinstance(value, AnswerType) and kinds.get(value.type) is type(value):
        return value
    if isinstance(value, str):
        value = {"type": value.lower()}
    elif isinstance(value, dict) and len(value) == 1:
        [(older, fields)] = value.items()
        if isinstance(fields, dict):
            value = {"type": str(older).lower(), **fields}

    fields = vars(value) if isinstance(value, AnswerType) else value
    kind = fields.get("type") if isinstance(fields, dict) else None
    if not isinstance(kind, str):
        raise ValueError("expected a question type, or an object with a `type`")

    if kind not in kinds or isinstance(value, AnswerType):
        known = ", ".join(f"`{name}`" for name in kinds)
        raise ValueError(f"unknown question type {kind!r:.80}, expected one of: {known}")

    try:
        return kinds[kind].model_validate(value)
    except ValidationError as exc:
        # The outer error has no path inside of the answer type: `first_problem` adds it.
        path, reason = first_problem(exc)
        context = {"reason": reason, "path": path}
        raise PydanticCustomError("answer_type", "{reason}", context) from exc


def first_problem(exc: ValidationError) -> tuple[str, str]:
    """Return path and text of the first problem. A path is e.g. `answer_type.options.0`."""
    [first, *_] = exc.errors(include_url=False, include_input=False)
    steps = [str(step) for step in first["loc"]]
    if first["type"] == "answer_type" and first["ctx"].get("path"):
        steps.append(first["ctx"]["path"])

    message = first["msg"].removeprefix("Value error, ")
    return ".".join(steps), _PROBLEMS.get(first["type"], message)


_PROBLEMS: Final = {"missing": "required key is missing", "extra_forbidden": "unknown key"}
