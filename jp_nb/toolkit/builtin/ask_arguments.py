"""Read the arguments of a call of `ask`: return its questions, or every problem in them.

Models often send arguments that are wrong in several places. All problems are collected, each with
its path, so that one further call can repair them:

    `questions[0].options[2].label` (question "database"): is missing: expected a text.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pydantic import JsonValue

from jp_nb.config.secrets import mentions_secret
from jp_nb.text import has_right_to_left, make_lookalike_key, spell_invisible
from jp_nb.toolkit.arguments.json_types import has_type
from jp_nb.toolkit.builtin.ask_schema import (
    ASK_SCHEMA,
    MAX_ASK_CHARS,
    MAX_FIELD_CHARS,
    MAX_LIST_ITEMS,
    QUESTION_SCHEMA,
)
from jp_nb.toolkit.question import Question
from jp_nb.toolkit.question_types.answer_types import TextAnswer
from jp_nb.toolkit.question_types.select_answer import OTHER_LABEL, Option, SelectAnswer

_CALL: Final[dict[str, JsonValue]] = {
    **ASK_SCHEMA,
    "properties": {"questions": {"type": "array", "minItems": 1}},
}
_OBJECTS: Final = {"": "the call", "questions": "a question", "options": "an option"}
_EXPECTED: Final = {
    "questions": "a list of at least one question",
    "options": "a list of options",
    "integer": "the index of an option, from 0",
    "boolean": "true or false",
    "string": "a text",
}
_CHOICE_DEFAULTS: Final[Mapping[str, JsonValue]] = {
    "options": [],
    "multi": False,
    "recommended": None,
    "allow_other": True,
}
"""Defaults of the fields that have no effect in the mode `freetext`."""
RESERVED_LABELS: Final = frozenset(
    {OTHER_LABEL.casefold(), "other", "other…", "other...", "type your own",
     "done", "done selecting", "submit"}
)  # fmt: skip
"""Labels of the form itself, as `_label_key` returns them. An option must not imitate them."""
NO_SECRETS: Final = (
    "⚠ Do not type a password or a key. The answer is sent to the model and stored in the notebook."
)


@dataclass(frozen=True, slots=True)
class CheckedQuestion:
    """One question of a call, and given fields that have no effect in its mode."""

    question: Question
    ignored: tuple[str, ...] = ()

    @property
    def choice(self) -> SelectAnswer | None:
        """Its options; None for a free text."""
        kind = self.question.answer_type
        return kind if isinstance(kind, SelectAnswer) else None


class CallProblem(NamedTuple):
    """A problem in the arguments of a call, at a path such as `questions[0].options[2].label`."""

    path: str
    question_id: str
    text: str

    def __str__(self) -> str:
        question = f" (question {_format_text(self.question_id)})" if self.question_id else ""
        return f"`{self.path}`{question}: {self.text}"


def read_asked_questions(
    arguments: Mapping[str, JsonValue],
) -> tuple[list[CheckedQuestion], list[CallProblem]]:
    """Return the questions of a call, and all problems. Show no questions if there are problems."""
    questions = arguments.get("questions")
    problems = [CallProblem(path, "", text) for path, text in _find_misfits(arguments, _CALL, "")]
    if not isinstance(questions, list) or len(questions) > MAX_LIST_ITEMS["questions"]:
        return [], problems

    total = sum(map(len, _find_texts(questions)))
    if total > MAX_ASK_CHARS:
        text = (
            f"the texts have {total} characters, at most {MAX_ASK_CHARS} are allowed: shorten them."
        )
        return [], [*problems, CallProblem("questions", "", text)]

    given = [_read_fields(item) for item in questions]
    first_by_id: dict[str, int] = {}
    for index, fields in enumerate(given):
        path = f"questions[{index}]"
        found = [*_find_question_problems(questions[index], fields, path)]

        key = fields.get("id")
        question_id = key if isinstance(key, str) else ""
        first = first_by_id.setdefault(question_id, index)
        if first != index and question_id.strip():
            text = f"questions[{first}] has the same id: give each question a different id."
            found.append((f"{path}.id", text))
        problems += [CallProblem(place, question_id, text) for place, text in found]

    if problems:
        return [], problems
    return [_make_question(fields) for fields in given], []


def _find_question_problems(
    item: JsonValue, fields: Mapping[str, Any], path: str
) -> Iterator[tuple[str, str]]:
    """Yield path and text of each problem of the question `item`. `fields` are without nulls."""
    if fields.get("mode", "choice") == "choice":
        yield from _find_misfits(item, QUESTION_SCHEMA, path, "questions")
        yield from _find_option_conflicts(fields, path)
        return

    # The fields of a choice have no effect on a free text, so their values do not matter.
    used = {name: value for name, value in fields.items() if name not in _CHOICE_DEFAULTS}
    yield from _find_misfits(used, QUESTION_SCHEMA, path, "questions")


def _find_texts(value: JsonValue) -> Iterator[str]:
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

    `name` is the name of the field, or of the list that contains the value.
    """
    kind = schema["type"]
    if not has_type(value, {kind}) or value not in schema.get("enum", [value]):
        shown = json.dumps(value, ensure_ascii=False)
        found = spell_invisible(shown[:60])
        if len(shown) > 60:
            found += "…"
        yield path, f"expected {_describe_expected(value, schema, name)}, found {found}."
    elif name in MAX_FIELD_CHARS and (problem := _find_text_problem(value, name)):
        yield path, problem
    elif kind == "array" and not schema.get("minItems", 0) <= len(value) <= MAX_LIST_ITEMS[name]:
        text = "the list is empty: ask at least one question."
        if value:
            text = f"at most {MAX_LIST_ITEMS[name]} {name} are allowed, found {len(value)}."
        yield path, text
    elif kind == "array" and "items" in schema:
        for index, item in enumerate(value):
            yield from _find_misfits(item, schema["items"], f"{path}[{index}]", name)
    elif kind == "object":
        prefix = f"{path}." if path else ""
        yield from _find_field_misfits(value, schema, prefix, name)


def _find_field_misfits(
    value: Any, schema: Mapping[str, Any], prefix: str, name: str
) -> Iterator[tuple[str, str]]:
    given = _read_fields(value)
    known = schema["properties"]
    for key in given:
        if key not in known:
            text = f"is not a field of {_OBJECTS[name]}. Known fields: {', '.join(known)}."
            yield f"{prefix}{spell_invisible(key)[:80]}", text

    for key, part in known.items():
        if key in given:
            yield from _find_misfits(given[key], part, f"{prefix}{key}", key)
        elif key in schema["required"]:
            yield f"{prefix}{key}", f"is missing: expected {_describe_expected(None, part, key)}."


def _describe_expected(value: JsonValue, schema: Mapping[str, Any], name: str) -> str:
    if schema["type"] != "object":
        choices = " or ".join(map(json.dumps, schema.get("enum", [])))
        return choices or _EXPECTED.get(name) or _EXPECTED[schema["type"]]

    label = value if isinstance(value, str) else "…"
    example = json.dumps({"label": label})[:100]
    if name == "questions":
        example = '{"id": "size", "question": "…"}'
    return f"an object such as {example}"


def _find_text_problem(text: str, name: str) -> str | None:
    if not text.strip():
        return "is blank." if name in ("id", "question", "label", "value") else None
    if len(text) > MAX_FIELD_CHARS[name]:
        return f"has {len(text)} characters, at most {MAX_FIELD_CHARS[name]} are allowed."
    if name not in ("context", "description") and len(text.splitlines()) > 1:
        more = " Move further lines into `context`." if name == "question" else ""
        return f"has several lines: write a single line.{more}"
    if name == "id" and spell_invisible(text) != text:
        return "starts or ends with a space, or contains invisible characters."
    return None


def _find_option_conflicts(fields: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    given = fields.get("options", [])
    if not isinstance(given, list) or len(given) > MAX_LIST_ITEMS["options"]:
        return

    if not given and fields.get("allow_other") is False:
        text = "the question cannot be answered: give at least one option, or remove `allow_other`."
        yield f"{path}.options", text

    options = [_read_fields(option) for option in given]
    labels: dict[str, int] = {}
    values: dict[str, int] = {}
    for index, option in enumerate(options):
        at = f"{path}.options[{index}]"

        label = option.get("label")
        if not isinstance(label, str):
            continue

        key = _label_key(label)
        value = option.get("value", label)
        if key in RESERVED_LABELS:
            text = f"the form uses {_format_text(label)} itself: remove the option or rename it. "
            more = "The form offers a custom answer unless `allow_other` is false."
            yield f"{at}.label", f"{text}{more}"

        if (same := labels.setdefault(key, index)) != index:
            shown = _format_text(label)
            earlier = options[same]["label"]
            text = f"another option has the label {shown}: rename one of them."
            if label != earlier:
                text = (
                    f"{shown} differs from {_format_text(earlier)} only in case, white space, "
                    "or letters that look alike: rename one of them."
                )
            yield f"{at}.label", text
        elif isinstance(value, str) and (same := values.setdefault(value, index)) != index:
            other = _format_text(options[same]["label"])
            text = f"the option {other} has the same value: use a different one."
            yield f"{at}.value", text

    found = _find_recommended(fields, options)
    if len(found) > 1:
        text = f"options {', '.join(map(str, found))} are recommended: recommend at most one."
        yield f"{path}.recommended", text


def _label_key(label: str) -> str:
    # Equal for labels that look alike.
    plain_label = " ".join(label.split())
    # `make_lookalike_key` ignores the order of letters in right-to-left text, so "12" and "21"
    # would be equal. In a form, each label has its own line, so their order is visible.
    key = plain_label if has_right_to_left(plain_label) else make_lookalike_key(plain_label)
    return "".join(char for char in key if char.isprintable()).casefold()


def _find_recommended(fields: Mapping[str, Any], options: Sequence[Mapping[str, Any]]) -> list[int]:
    # The question can have an index, or one of its options the mark `recommended`.
    index = fields.get("recommended")
    named = [at for at in range(len(options)) if at == index and type(index) is int]
    marked = [at for at, option in enumerate(options) if option.get("recommended") is True]
    return sorted({*marked, *named})


def _make_question(fields: Mapping[str, Any]) -> CheckedQuestion:
    is_choice = fields.get("mode", "choice") == "choice"
    header = _read_text(fields, "header")
    context = _read_text(fields, "context")
    is_typed = not is_choice or fields.get("allow_other", True)
    if is_typed and any(map(mentions_secret, (fields["id"], fields["question"], header or ""))):
        context = "\n\n".join(filter(None, (context, NO_SECRETS)))

    required = fields.get("required", True)
    kind = _make_choice(fields) if is_choice else TextAnswer()
    question = Question(
        id=fields["id"],
        text=fields["question"],
        header=header,
        context=context,
        answer_type=kind,
        required=required,
        exclusive=required,
        persistence="none",
    )

    if is_choice:
        return CheckedQuestion(question)
    ignored = [name for name, x in _CHOICE_DEFAULTS.items() if fields.get(name, x) != x]
    return CheckedQuestion(question, tuple(ignored))


def _make_choice(fields: Mapping[str, Any]) -> SelectAnswer:
    given = [_read_fields(option) for option in fields.get("options", [])]
    options = []
    for option in given:
        label = option["label"]
        about = _read_text(option, "description")
        options.append(Option(value=option.get("value", label), label=label, description=about))

    return SelectAnswer(
        options=tuple(options),
        multi=fields.get("multi", False),
        other=fields.get("allow_other", True),
        recommended=next(iter(_find_recommended(fields, given)), None),
    )


def _read_text(fields: Mapping[str, Any], name: str) -> str | None:
    text = fields.get(name)
    return text if text and text.strip() else None


def _read_fields(value: Any) -> dict[str, Any]:
    # Models send null for a missing field.
    given = value if isinstance(value, Mapping) else {}
    return {key: item for key, item in given.items() if item is not None}


def _format_text(text: str) -> str:
    return json.dumps(spell_invisible(text[:80]), ensure_ascii=False)
