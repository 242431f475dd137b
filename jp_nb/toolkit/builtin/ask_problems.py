"""Find every problem in the arguments of a call of `ask`.

Models often send arguments that are wrong in several places. All problems are collected, each with
its path, so that one further call can repair them:

    `questions[0].options[2].label` (question "database"): is missing: expected a text.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pydantic import JsonValue

from jp_nb.exact_form import has_right_to_left, make_lookalike_key, spell_invisible
from jp_nb.toolkit.arguments.json_types import has_type
from jp_nb.toolkit.builtin.ask_schema import (
    ASK_SCHEMA,
    CHOICE_DEFAULTS,
    MAX_ASK_CHARS,
    MAX_FIELD_CHARS,
    MAX_LIST_ITEMS,
    QUESTION_SCHEMA,
)
from jp_nb.toolkit.question_types.select_answer import OTHER_LABEL

_CALL_SCHEMA: Final[dict[str, JsonValue]] = {
    **ASK_SCHEMA,
    "properties": {"questions": {"type": "array", "minItems": 1}},
}
"""Schema of a whole call. The questions are checked one by one, by their mode."""
_OBJECTS: Final = {"": "the call", "questions": "a question", "options": "an option"}
"""The objects of a call in words, by the list that contains them; "" for the call itself."""
_EXPECTED: Final = {
    "questions": "a list of at least one question",
    "options": "a list of options",
    "integer": "the index of an option, from 0",
    "boolean": "true or false",
    "string": "a text",
}
"""Expected values in words, by the name of the field, or by its JSON type."""
RESERVED_LABELS: Final = frozenset(
    {OTHER_LABEL.casefold(), "other", "other…", "other...", "type your own",
     "done", "done selecting", "submit"}
)  # fmt: skip
"""Labels of the form itself, as `_make_label_key` returns them. An option must not imitate them."""


class CallProblem(NamedTuple):
    """A problem in the arguments of a call.

    Attributes:
        path: The place, such as `questions[0].options[2].label`.
        question_id: The given id of the question, for the model; "" without one.
        text: The problem, and how to repair it.
    """

    path: str
    question_id: str
    text: str

    def __str__(self) -> str:
        question = f" (question {_format_text(self.question_id)})" if self.question_id else ""
        return f"`{self.path}`{question}: {self.text}"


def find_call_problems(arguments: Mapping[str, JsonValue]) -> list[CallProblem]:
    """Return all problems of a call; none if its questions can be shown."""
    misfits = _find_misfits(arguments, _CALL_SCHEMA, "")
    problems = [CallProblem(path, "", text) for path, text in misfits]

    # `problems` already says that the list is missing, wrong, or too long.
    questions = arguments.get("questions")
    if not isinstance(questions, list) or len(questions) > MAX_LIST_ITEMS["questions"]:
        return problems

    char_count = sum(map(len, _iter_texts(questions)))
    if char_count > MAX_ASK_CHARS:
        text = (
            f"the texts have {char_count} characters, at most {MAX_ASK_CHARS} are allowed: "
            "shorten them."
        )
        return [*problems, CallProblem("questions", "", text)]

    return [*problems, *_find_question_problems(questions)]


def _find_question_problems(questions: Sequence[JsonValue]) -> Iterator[CallProblem]:
    """Yield the problems of each question, also an id that an earlier question has."""
    first_by_id: dict[str, int] = {}
    for index, item in enumerate(questions):
        path = f"questions[{index}]"
        fields = read_fields(item)
        given_id = fields.get("id")
        question_id = given_id if isinstance(given_id, str) else ""

        for field_path, text in _find_field_problems(item, fields, path):
            yield CallProblem(field_path, question_id, text)

        first = first_by_id.setdefault(question_id, index)
        if first != index and question_id.strip():
            text = f"questions[{first}] has the same id: give each question a different id."
            yield CallProblem(f"{path}.id", question_id, text)


def _find_field_problems(
    item: JsonValue, fields: Mapping[str, Any], path: str
) -> Iterator[tuple[str, str]]:
    """Yield path and text of each problem in the fields of the question `item`.

    `fields` are those of `item` without nulls.
    """
    if fields.get("mode", "choice") == "choice":
        yield from _find_misfits(item, QUESTION_SCHEMA, path, "questions")
        yield from _find_option_conflicts(fields, path)
        return

    # The fields of a choice have no effect on a free text, so their values do not matter.
    used = {name: value for name, value in fields.items() if name not in CHOICE_DEFAULTS}
    yield from _find_misfits(used, QUESTION_SCHEMA, path, "questions")


def _iter_texts(value: JsonValue) -> Iterator[str]:
    """Yield all texts in `value`, keys included. A stack serves for any depth."""
    todo = [value]
    while todo:
        match todo.pop():
            case str() as text:
                yield text
            case dict() as fields:
                todo += [*fields, *fields.values()]
            case list() as items:
                todo += items


def _find_misfits(
    value: Any, schema: Mapping[str, Any], path: str, name: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield path and text of each part of `value` that does not fit `schema`, or is too long.

    `name` selects the words of messages and the limits: it is the name of the field that has the
    value, or `questions` and `options` also for an item of these lists. "" is the call itself.
    """
    json_type = schema["type"]
    if not has_type(value, {json_type}) or value not in schema.get("enum", [value]):
        expected = _describe_expected(value, schema, name)
        yield path, f"expected {expected}, found {_format_found(value)}."
        return

    match json_type:
        case "string":
            problem = _find_text_problem(value, name) if name in MAX_FIELD_CHARS else None
            if problem is not None:
                yield path, problem
        case "array":
            yield from _find_list_misfits(value, schema, path, name)
        case "object":
            prefix = f"{path}." if path else ""
            yield from _find_field_misfits(value, schema, prefix, name)


def _format_found(value: JsonValue) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    beginning = spell_invisible(shown[:60])
    return f"{beginning}…" if len(shown) > 60 else beginning


def _find_list_misfits(
    value: list[Any], schema: Mapping[str, Any], path: str, name: str
) -> Iterator[tuple[str, str]]:
    """Yield the problems of a list: its length, or those of its items."""
    max_items = MAX_LIST_ITEMS[name]
    if len(value) < schema.get("minItems", 0):
        yield path, "the list is empty: ask at least one question."
    elif len(value) > max_items:
        yield path, f"at most {max_items} {name} are allowed, found {len(value)}."
    elif "items" in schema:
        for index, item in enumerate(value):
            yield from _find_misfits(item, schema["items"], f"{path}[{index}]", name)


def _find_field_misfits(
    value: Any, schema: Mapping[str, Any], prefix: str, name: str
) -> Iterator[tuple[str, str]]:
    """Yield the problems of an object: unknown fields, missing ones, and those in its fields."""
    fields = read_fields(value)
    known = schema["properties"]
    for key in fields:
        if key not in known:
            text = f"is not a field of {_OBJECTS[name]}. Known fields: {', '.join(known)}."
            yield f"{prefix}{spell_invisible(key)[:80]}", text

    for key, field_schema in known.items():
        if key in fields:
            yield from _find_misfits(fields[key], field_schema, f"{prefix}{key}", key)
        elif key in schema["required"]:
            expected = _describe_expected(None, field_schema, key)
            yield f"{prefix}{key}", f"is missing: expected {expected}."


def _describe_expected(value: JsonValue, schema: Mapping[str, Any], name: str) -> str:
    """Return the expected value in words: the choices, the kind of value, or an example."""
    if schema["type"] != "object":
        choices = " or ".join(map(json.dumps, schema.get("enum", [])))
        return choices or _EXPECTED.get(name) or _EXPECTED[schema["type"]]

    if name == "questions":
        return 'an object such as {"id": "size", "question": "…"}'

    # A model that gave only a text as an option reads it in the right form.
    label = value if isinstance(value, str) else "…"
    example = json.dumps({"label": label})[:100]
    return f"an object such as {example}"


def _find_text_problem(text: str, name: str) -> str | None:
    """Return the problem of the text in the field `name`, such as its length; None without one."""
    if not text.strip():
        return "is blank." if name in ("id", "question", "label", "value") else None
    if len(text) > MAX_FIELD_CHARS[name]:
        return f"has {len(text)} characters, at most {MAX_FIELD_CHARS[name]} are allowed."
    if name not in ("context", "description") and len(text.splitlines()) > 1:
        more = " Move further lines into `context`." if name == "question" else ""
        return f"has several lines: write a single line.{more}"
    # It also spells spaces at the ends.
    if name == "id" and spell_invisible(text) != text:
        return "starts or ends with a space, or contains invisible characters."
    return None


def _find_option_conflicts(fields: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Yield path and text of each conflict among the options of a question, or with the form."""
    items = fields.get("options", [])
    if not isinstance(items, list) or len(items) > MAX_LIST_ITEMS["options"]:
        return

    if not items and fields.get("allow_other") is False:
        text = "the question cannot be answered: give at least one option, or remove `allow_other`."
        yield f"{path}.options", text

    options = [read_fields(item) for item in items]
    yield from _find_name_conflicts(options, f"{path}.options")

    recommended = find_recommended(fields, options)
    if len(recommended) > 1:
        indexes = ", ".join(map(str, recommended))
        text = f"options {indexes} are recommended: recommend at most one."
        yield f"{path}.recommended", text


def _find_name_conflicts(
    options: Sequence[Mapping[str, Any]], path: str
) -> Iterator[tuple[str, str]]:
    """Yield path and text of each label or value in the list at `path` that is taken already."""
    first_by_label: dict[str, str] = {}
    first_by_value: dict[str, str] = {}
    for index, option in enumerate(options):
        label = option.get("label")
        if not isinstance(label, str):
            continue

        option_path = f"{path}[{index}]"
        key = _make_label_key(label)
        if key in RESERVED_LABELS:
            text = f"the form uses {_format_text(label)} itself: remove the option or rename it. "
            more = "The form offers a custom answer unless `allow_other` is false."
            yield f"{option_path}.label", f"{text}{more}"

        if key in first_by_label:
            text = _describe_same_label(label, first_by_label[key])
            yield f"{option_path}.label", text
            continue
        first_by_label[key] = label

        value = option.get("value", label)
        if not isinstance(value, str):
            continue
        if value in first_by_value:
            other = _format_text(first_by_value[value])
            text = f"the option {other} has the same value: use a different one."
            yield f"{option_path}.value", text
        else:
            first_by_value[value] = label


def _describe_same_label(label: str, earlier: str) -> str:
    if label == earlier:
        return f"another option has the label {_format_text(label)}: rename one of them."
    return (
        f"{_format_text(label)} differs from {_format_text(earlier)} only in case, white space, "
        "or letters that look alike: rename one of them."
    )


def _make_label_key(label: str) -> str:
    """Return a text that is equal for labels that look alike."""
    plain_label = " ".join(label.split())
    # `make_lookalike_key` ignores the order of letters in right-to-left text, so "12" and "21"
    # would be equal. In a form, each label has its own line, so their order is visible.
    key = plain_label if has_right_to_left(plain_label) else make_lookalike_key(plain_label)
    return "".join(char for char in key if char.isprintable()).casefold()


def find_recommended(fields: Mapping[str, Any], options: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the indexes of the recommended options, in order.

    A model can give the index in the question, or mark an option as `recommended`.
    """
    marked = {index for index, option in enumerate(options) if option.get("recommended") is True}

    named = fields.get("recommended")
    if type(named) is int and 0 <= named < len(options):  # `True` is not an index
        marked.add(named)
    return sorted(marked)


def read_fields(value: Any) -> dict[str, Any]:
    """Return the fields of an object without nulls, which models send for missing fields."""
    fields = value if isinstance(value, Mapping) else {}
    return {name: item for name, item in fields.items() if item is not None}


def _format_text(text: str) -> str:
    return json.dumps(spell_invisible(text[:80]), ensure_ascii=False)
