"""Forms of MCP clients: the JSON Schema for a question, and the answer in the form's content.

MCP calls a form an *elicitation*. Its schema is flat: each question of a form is one property, and
two if the user may type an own text (`size` and `size_other`). The options of a property are texts,
so values of other types are options by their JSON text. `[2, "2"]` has the options `2 (number)` and
`2`, so that each option comes back as its own value.

Source: `docs/mcp.md` (our tools for others).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from jp_nb.json_values import JsonObject
from jp_nb.json_writing import compact_json
from jp_nb.text import one_line
from jp_nb.toolkit.question import FormAnswer, Question
from jp_nb.toolkit.question_types.answer_types import AnswerType, BooleanAnswer, UrlAnswer
from jp_nb.toolkit.question_types.number_answer import IntegerAnswer, NumberAnswer
from jp_nb.toolkit.question_types.select_answer import SelectAnswer
from jp_nb.toolkit.question_types.select_options import Option
from jp_nb.toolkit.question_types.text_answer import TextAnswer

OTHER_FIELD_SUFFIX: Final = "_other"
"""End of the name of the field for the user's own text."""
CLIENT_FORMATS: Final = ("email", "uri", "date", "date-time")
"""Formats that clients know."""
MAX_OPTION_CHARS: Final = 200
"""Maximum length of the title of an option."""
FIRST_WITHOUT_FRACTIONS: Final = 2**53
"""From here on, floating-point numbers have no fractions."""


class UnsupportedQuestionError(Exception):
    """A client must not ask the question: it is for a secret, or only this program can show it."""


def make_form_schema(question: Question) -> JsonObject:
    """Return the flat JSON schema of the form for `question`.

    Raises:
        UnsupportedQuestionError: No client may show it.
    """
    fields = _list_fields(question)
    names = _name_other_fields(fields)
    properties: JsonObject = {}
    for field in fields:
        properties.update(_make_properties(field, names))

    required: list[JsonValue] = [field.id for field in fields if _is_required(field)]
    return {"type": "object", "properties": properties, "required": required}


def format_form_message(question: Question) -> str:
    """Return the text of `question`, with its context."""
    return "\n\n".join(filter(None, (question.context, question.text)))


def _list_fields(question: Question) -> Sequence[Question]:
    """Return the fields of a form, or the question itself as its only field."""
    kind = question.answer_type
    return kind.fields if isinstance(kind, FormAnswer) else (question,)


def _name_other_fields(fields: Sequence[Question]) -> dict[str, str]:
    """Return the names of the fields for the user's own text, by the id of the question."""
    taken = {field.id for field in fields}
    names: dict[str, str] = {}
    for field in fields:
        if not _allows_other(field):
            continue
        name = f"{field.id}{OTHER_FIELD_SUFFIX}"
        while name in taken:  # `size` and `size_other` can be questions of the same form
            name += "_"
        taken.add(name)
        names[field.id] = name
    return names


def _allows_other(field: Question) -> bool:
    kind = field.answer_type
    return isinstance(kind, SelectAnswer) and kind.other


def _is_required(field: Question) -> bool:
    # The user may type an own text instead.
    return field.required and not _allows_other(field)


def _make_properties(
    field: Question, other_names: Mapping[str, str]
) -> Iterator[tuple[str, JsonValue]]:
    """Yield name and schema of each property for `field`.

    It is one, or two if the user may type an own text. Without options, it is only the text.
    """
    kind = field.answer_type
    details: JsonObject = {"title": field.text}
    if field.context:
        details["description"] = field.context
    default = _find_default(field)
    if default is not None:
        details["default"] = default

    has_options = not isinstance(kind, SelectAnswer) or bool(kind.options)
    if has_options:
        yield field.id, {**_make_field_schema(kind), **details}
    if field.id in other_names:
        yield other_names[field.id], {"type": "string", "title": f"{field.text} (other)"}


def _find_default(field: Question) -> JsonValue:
    """Return the default as a value of the form; None if the form cannot have one."""
    if field.default is None or field.misfit(field.default) is not None:
        return None

    kind = field.answer_type
    if not isinstance(kind, SelectAnswer):
        return field.default
    if isinstance(field.default, dict):
        return None

    picks = kind.read_picks(field.default)
    assert picks is not None  # the default fits the question
    names = _name_options(kind)
    # A question with one choice has a default with one pick.
    picked: list[JsonValue] = [names[index] for index in picks.indices]
    return picked if kind.multi else picked[0]


def _make_field_schema(kind: AnswerType) -> JsonObject:
    """Return the schema of one field, without title and default.

    Raises:
        UnsupportedQuestionError: No client may show it.
    """
    if kind.has_secret or isinstance(kind, UrlAnswer):
        raise UnsupportedQuestionError
    match kind:
        case BooleanAnswer():
            return {"type": "boolean"}
        case SelectAnswer():
            return _make_select_schema(kind)
        case TextAnswer():
            schema: JsonObject = {"type": "string"}
            limits: JsonObject = {
                "format": kind.format if kind.format in CLIENT_FORMATS else None,
                "minLength": kind.min_length or None,
                "maxLength": kind.max_length,
            }
            return schema | {key: value for key, value in limits.items() if value is not None}
        case NumberAnswer():
            return _make_number_schema(kind)
        case _:
            raise UnsupportedQuestionError


def _make_number_schema(kind: NumberAnswer) -> JsonObject:
    """Return the schema of a number with inclusive bounds."""
    json_type = "number"
    has_fractions = True
    if isinstance(kind, IntegerAnswer):
        json_type = "integer"
        has_fractions = False

    # The protocol has no exclusive bounds, so the nearest number inside is the inclusive one.
    lower_bounds = [] if kind.minimum is None else [kind.minimum]
    if kind.above is not None:
        lower_bounds.append(_find_next_number(kind.above, has_fractions))

    upper_bounds = [] if kind.maximum is None else [kind.maximum]
    if kind.below is not None:
        upper_bounds.append(-_find_next_number(-kind.below, has_fractions))

    schema: JsonObject = {"type": json_type}
    if lower_bounds:
        schema["minimum"] = max(lower_bounds)
    if upper_bounds:
        schema["maximum"] = min(upper_bounds)
    return schema


def _find_next_number(bound: float, has_fractions: bool) -> float:
    """Return the smallest number above `bound`."""
    if has_fractions and abs(bound) < FIRST_WITHOUT_FRACTIONS:
        return math.nextafter(bound, math.inf)
    return math.floor(bound) + 1


def _make_select_schema(kind: SelectAnswer) -> JsonObject:
    """Return the schema of a choice among the names of the options."""
    names = _name_options(kind)
    titles = [_make_title(option, name) for option, name in zip(kind.options, names, strict=True)]
    options: list[JsonValue] = [
        {"const": name, "title": title} for name, title in zip(names, titles, strict=True)
    ]

    # Clients of 2025-06-18 know only `enum`, which has no titles.
    plain: JsonObject = {"type": "string", "enum": [*names]}
    if not kind.multi:
        return plain if names == titles else {"type": "string", "oneOf": options}

    min_items = kind.min_picks - 1 if kind.other else kind.min_picks  # an own text is a pick
    bounds: JsonObject = {"minItems": max(min_items, 0) or None, "maxItems": kind.max_picks}
    items: JsonObject = plain if names == titles else {"anyOf": options}
    schema: JsonObject = {"type": "array", "items": items}
    return schema | {key: value for key, value in bounds.items() if value is not None}


def _make_title(option: Option, name: str) -> str:
    """Return the displayed text of an option, whose value the form calls `name`."""
    is_renamed = not isinstance(option.value, str) and name != compact_json(option.value)
    text = name if is_renamed and option.label is None else option.shown
    return one_line(text, limit=MAX_OPTION_CHARS)


def _name_options(kind: SelectAnswer) -> list[str]:
    """Return a text for each option, all different. A text is its own name."""
    texts = {option.value for option in kind.options if isinstance(option.value, str)}
    taken = set(texts)
    names: list[str] = []

    for option in kind.options:
        value = option.value
        if isinstance(value, str):
            names.append(value)
            continue

        name = compact_json(value)
        noun = "boolean" if isinstance(value, bool) else "number"
        while name in taken:
            name = f"{name} ({noun})"
        taken.add(name)
        names.append(name)

    return names


def read_form_answer(question: Question, content: Mapping[str, JsonValue]) -> JsonValue:
    """Return the answer in the content of a form; None if the user left the question open."""
    fields = _list_fields(question)
    names = _name_other_fields(fields)
    answers = {field.id: _read_field(field, content, names) for field in fields}
    if not isinstance(question.answer_type, FormAnswer):
        return answers[question.id]
    return {name: answer for name, answer in answers.items() if answer is not None}


def _read_field(
    field: Question, content: Mapping[str, JsonValue], other_names: Mapping[str, str]
) -> JsonValue:
    """Return the answer to one field; None if it is open. The caller checks if the answer fits."""
    kind = field.answer_type
    value = content.get(field.id)
    if isinstance(kind, SelectAnswer):
        own = content.get(other_names[field.id]) if kind.other else None
        return _read_choice(kind, value, own)
    if value == "" and not field.required:
        return None
    if isinstance(kind, IntegerAnswer) and isinstance(value, float) and math.isfinite(value):
        return int(value) if value.is_integer() else value
    return kind.normalized(value)


def _read_choice(kind: SelectAnswer, value: JsonValue, own: JsonValue) -> JsonValue:
    """Return the answer for the picked names in `value`, and the user's own text `own`."""
    values: dict[str, JsonValue] = dict(zip(_name_options(kind), kind.values, strict=True))
    picked = value if isinstance(value, list) else [value]
    chosen: list[JsonValue] = [values.get(str(name), name) for name in picked if name is not None]
    if kind.other and isinstance(own, str) and own.strip():
        selected = chosen if kind.multi else []
        return {"selected": selected, "custom": own}
    if kind.multi:
        return chosen if value is not None else None
    return chosen[0] if chosen else None
