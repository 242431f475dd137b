"""Ask the questions of our tools through an MCP client: schemas, answers, and their ends.

A question becomes the flat JSON schema of a form, and the user's content becomes its answer. The
client knows only texts as options, so values of other types are options by their JSON text.

Source: `docs/mcp.md` (our tools for others).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.agent.call import CallEnded
from jp_nb.agent.question_route import Refuse, UseAnswer, format_no_user_error, select_route
from jp_nb.config.tree.tool_settings import QuestionConfig
from jp_nb.errors import ToolError
from jp_nb.json_values import JsonObject, as_object, compact_json
from jp_nb.record.outcomes import END_WORDS, QuestionEnd
from jp_nb.text import one_line
from jp_nb.toolkit.answer_types import (
    AnswerType,
    BooleanAnswer,
    IntegerAnswer,
    NumberAnswer,
    SelectAnswer,
    TextAnswer,
    UrlAnswer,
)
from jp_nb.toolkit.question import FormAnswer, Question

ClientAction = Literal["accept", "decline", "cancel"]

OTHER_FIELD_SUFFIX: Final = "_other"
"""End of the name of the field for the user's own text."""
CLIENT_FORMATS: Final = ("email", "uri", "date", "date-time")
"""Formats that clients know."""
MAX_OPTION_CHARS: Final = 200
"""Maximum length of the title of an option."""
FIRST_WITHOUT_FRACTIONS: Final = 2**53
"""From here on, floating-point numbers have no fractions."""
NO_CLIENT_FORMS: Final = "the client cannot show questions"
CLIENT_MISFIT: Final = (
    "{}: the answer of the client to the question `{}` does not fit: {}. Call it again."
)


class UnsupportedQuestionError(Exception):
    """A client must not ask the question: it is for a secret, or only this program can show it."""


@dataclass(slots=True)
class QuestionState:
    """The answers and ends of the questions of one call, by question id."""

    answers: JsonObject = field(default_factory=dict)
    ends: dict[str, QuestionEnd] = field(default_factory=dict)
    rounds: int = 0

    def to_json(self) -> JsonObject:
        """Return the state for `requestState`."""
        return {"answers": self.answers, "ends": dict(self.ends), "rounds": self.rounds}

    @classmethod
    def from_json(cls, state: Mapping[str, JsonValue]) -> QuestionState:
        """Return the state that `to_json` returned. Only this program can have written it."""
        ends: dict[str, QuestionEnd] = dict(as_object(state["ends"]))  # type: ignore[arg-type]
        rounds = state["rounds"]
        assert isinstance(rounds, int)
        return cls(dict(as_object(state["answers"])), ends, rounds)


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions of one run of a tool. `configured` has answers by question id."""

    tool: str
    questions: Sequence[Question]
    partial: bool
    configured: Mapping[str, JsonValue]

    def select_open(self, state: QuestionState, *, can_ask: bool) -> list[Question]:
        """Settle questions without the user in `state`, and return those that the user answers.

        Raises:
            ToolError: A question needs a user or a model, and there is none. It has the words of a
                headless run.
        """
        unavailable_reason = None if can_ask else NO_CLIENT_FORMS
        shown: list[Question] = []
        for question in self.questions:
            chosen = select_route(
                self.tool,
                question,
                QuestionConfig(answer=self.configured.get(question.id)),
                remembered=None,
                unavailable_reason=unavailable_reason,
            )
            match chosen:
                case UseAnswer(answer=answer):
                    self._settle(state, question, "answered", answer)
                case Refuse(text=text):
                    raise ToolError(text)
                case "leave_open" | "decline":
                    self._settle(state, question, "unavailable", None)
                case "user" if question.exclusive:
                    raise ToolError(format_no_user_error(self.tool))
                case "user":
                    shown.append(question)
                case "model":
                    raise ToolError(format_no_user_error(self.tool))
        return shown

    def take(
        self, state: QuestionState, question: Question, action: ClientAction, content: JsonValue
    ) -> None:
        """Put the client's response to `question` into `state`.

        Raises:
            CallEnded: The user gave no answer, so the call ends.
            ToolError: The answer does not fit.
        """
        if action == "accept":
            answer = _read_answer(question, as_object(content))
            if answer is not None and question.misfit(answer) is None:
                self._settle(state, question, "answered", answer)
                return
            if answer is not None or question.required:
                why = question.answer_type.format_problem(answer)
                raise ToolError(
                    CLIENT_MISFIT.format(self.tool, question.id, one_line(why, limit=500))
                )
            action = "decline"

        end: QuestionEnd = "declined" if action == "decline" else "cancelled"
        if not self.partial and (question.required or end == "cancelled"):
            raise CallEnded(END_WORDS[end].response, skipped=True)

        self._settle(state, question, end, None)

    def _settle(
        self, state: QuestionState, question: Question, end: QuestionEnd, answer: JsonValue
    ) -> None:
        if end == "answered" or not self.partial:
            state.answers[question.id] = answer
        state.ends[question.id] = end


# --- schemas -----------------------------------------------------------------------------------


def form_schema(question: Question) -> JsonObject:
    """Return the flat JSON schema of the form for `question`.

    Raises:
        UnsupportedQuestionError: No client may show it.
    """
    fields = _fields(question)
    names = _name_other_fields(fields)
    properties: JsonObject = {}
    for each in fields:
        properties.update(_properties(each, names))

    required: list[JsonValue] = [each.id for each in fields if _is_required(each)]
    return {"type": "object", "properties": properties, "required": required}


def form_message(question: Question) -> str:
    """Return the text of `question`, with its context."""
    return "\n\n".join(filter(None, (question.context, question.text)))


def _fields(question: Question) -> Sequence[Question]:
    kind = question.answer_type
    return kind.fields if isinstance(kind, FormAnswer) else (question,)


def _name_other_fields(fields: Sequence[Question]) -> dict[str, str]:
    """Return the names of the fields for the user's own text, by the id of the question."""
    taken = {each.id for each in fields}
    names: dict[str, str] = {}
    for each in fields:
        if not _allows_other(each):
            continue
        name = f"{each.id}{OTHER_FIELD_SUFFIX}"
        while name in taken:  # `size` and `size_other` can be questions of the same form
            name += "_"
        taken.add(name)
        names[each.id] = name
    return names


def _allows_other(each: Question) -> bool:
    kind = each.answer_type
    return isinstance(kind, SelectAnswer) and kind.other


def _is_required(each: Question) -> bool:
    # The user may type an own text instead.
    return each.required and not _allows_other(each)


def _properties(each: Question, other_names: Mapping[str, str]) -> Iterator[tuple[str, JsonValue]]:
    kind = each.answer_type
    about: JsonObject = {"title": each.text}
    if each.context:
        about["description"] = each.context
    default = _find_default(each)
    if default is not None:
        about["default"] = default

    yield each.id, {**_kind_schema(kind), **about}
    if each.id in other_names:
        yield other_names[each.id], {"type": "string", "title": f"{each.text} (other)"}


def _find_default(each: Question) -> JsonValue:
    if each.default is None or each.misfit(each.default) is not None:
        return None

    kind = each.answer_type
    if not isinstance(kind, SelectAnswer):
        return each.default
    if isinstance(each.default, dict):
        return None

    picked = each.default if isinstance(each.default, list) else [each.default]
    names: list[JsonValue] = [_option_name(value) for value in picked]
    return names if kind.multi else names[0]


def _kind_schema(kind: AnswerType) -> JsonObject:
    if kind.has_secret or isinstance(kind, UrlAnswer):
        raise UnsupportedQuestionError
    match kind:
        case BooleanAnswer():
            return {"type": "boolean"}
        case SelectAnswer():
            return _select_schema(kind)
        case TextAnswer():
            schema: JsonObject = {"type": "string"}
            known = kind.format if kind.format in CLIENT_FORMATS else None
            limits = {"minLength": kind.min_length or None, "maxLength": kind.max_length}
            found: JsonObject = {"format": known, **limits}
            return schema | {key: value for key, value in found.items() if value is not None}
        case NumberAnswer():
            return _number_schema(kind)
        case _:
            raise UnsupportedQuestionError


def _number_schema(kind: NumberAnswer) -> JsonObject:
    name = "number"
    has_fractions = True
    if isinstance(kind, IntegerAnswer):
        name = "integer"
        has_fractions = False

    # The protocol has no exclusive bounds, so the nearest number inside is the inclusive one.
    least = [] if kind.minimum is None else [kind.minimum]
    if kind.above is not None:
        least.append(_next_number(kind.above, has_fractions))

    most = [] if kind.maximum is None else [kind.maximum]
    if kind.below is not None:
        most.append(-_next_number(-kind.below, has_fractions))

    schema: JsonObject = {"type": name}
    if least:
        schema["minimum"] = max(least)
    if most:
        schema["maximum"] = min(most)
    return schema


def _next_number(bound: float, has_fractions: bool) -> float:
    """Return the smallest number above `bound`."""
    if has_fractions and abs(bound) < FIRST_WITHOUT_FRACTIONS:
        return math.nextafter(bound, math.inf)
    return math.floor(bound) + 1


def _select_schema(kind: SelectAnswer) -> JsonObject:
    names = [_option_name(option.value) for option in kind.options]
    titles = [one_line(option.shown, limit=MAX_OPTION_CHARS) for option in kind.options]
    options: list[JsonValue] = [
        {"const": name, "title": title} for name, title in zip(names, titles, strict=True)
    ]

    # Clients of 2025-06-18 know only `enum`, which has no titles.
    plain: JsonObject = {"type": "string", "enum": [*names]}
    if not kind.multi:
        return plain if names == titles else {"type": "string", "oneOf": options}
    bounds: JsonObject = {"minItems": kind.min_picks or None, "maxItems": kind.max_picks}
    items: JsonObject = plain if names == titles else {"anyOf": options}
    schema: JsonObject = {"type": "array", "items": items}
    return schema | {key: value for key, value in bounds.items() if value is not None}


def _option_name(value: JsonValue) -> str:
    return value if isinstance(value, str) else compact_json(value)


# --- answers -----------------------------------------------------------------------------------


def _read_answer(question: Question, content: Mapping[str, JsonValue]) -> JsonValue:
    """Return the answer in the content of a form; None if the user left the question open."""
    fields = _fields(question)
    names = _name_other_fields(fields)
    answers = {each.id: _read_field(each, content, names) for each in fields}
    if not isinstance(question.answer_type, FormAnswer):
        return answers[question.id]
    return {name: answer for name, answer in answers.items() if answer is not None}


def _read_field(
    each: Question, content: Mapping[str, JsonValue], other_names: Mapping[str, str]
) -> JsonValue:
    kind = each.answer_type
    value = content.get(each.id)
    if isinstance(kind, SelectAnswer):
        own = content.get(other_names[each.id]) if kind.other else None
        return _read_choice(kind, value, own)
    if value == "" and not each.required:
        return None
    if isinstance(kind, IntegerAnswer) and isinstance(value, float) and math.isfinite(value):
        return int(value) if value.is_integer() else value
    return kind.normalized(value)


def _read_choice(kind: SelectAnswer, value: JsonValue, own: JsonValue) -> JsonValue:
    values = {_option_name(option.value): option.value for option in kind.options}
    picked = value if isinstance(value, list) else [value]
    found: list[JsonValue] = [values.get(str(name), name) for name in picked if name is not None]
    if kind.other and isinstance(own, str) and own.strip():
        selected = found if kind.multi else []
        return {"selected": selected, "custom": own}
    if kind.multi:
        return found if value is not None else None
    return found[0] if found else None
