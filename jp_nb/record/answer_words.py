"""The end of a recorded question in words: the answer, by the labels that the person saw. Pure.

Records of strangers and of later releases are read, too: whatever the JSON is, there are words.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from jp_nb.json_values import as_object, is_deeper, sorted_json

NONE_OF_THESE: Final = "none of these"
EMPTY: Final = "(empty)"
NOT_ANSWERED: Final = "not answered"
"""Says that a question was left open on purpose, by somebody who sent the rest."""
LEFT: Final[Mapping[str, str]] = {
    "declined": NOT_ANSWERED,
    "cancelled": "cancelled",
    "timed_out": "timed out",
    "interrupted": "interrupted",
}
"""What is said of a question that somebody saw and that has no answer, by its end."""
NO_USER: Final = "no user was available"
NO_MODEL: Final = "no model could answer"
USER_ONLY: Final = "only a user may answer"
DOES_NOT_FIT: Final = "the prepared answer does not fit"
MAX_LEVELS: Final = 8
"""Of forms within one another, and of values in an answer: what is deeper is shown as JSON."""
_OWN_WORDS: Final = {"selected", "custom"}
"""The answer to a question that offers options, and takes words beside them."""


def answer_in_words(answer_type: JsonValue, answer: JsonValue) -> str:
    """Return `answer` in words; `answer_type` is how the record has the kind of the question.

    >>> sizes = {"type": "select", "options": [{"value": 1, "label": "small"}, {"value": 2}]}
    >>> answer_in_words(sizes, [2, 1]), answer_in_words(sizes, {"selected": 1, "custom": "or less"})
    ('2, small', 'small, "or less"')
    >>> answer_in_words({"type": "boolean"}, True), answer_in_words(sizes, [])
    ('Yes', 'none of these')
    """
    if is_deeper(answer, MAX_LEVELS):
        return sorted_json(answer)
    return _words(_Kind.of(answer_type), answer, MAX_LEVELS)


@dataclass(frozen=True, slots=True)
class _Kind:
    """The kind of a question: the labels of its options, the fields of a form."""

    labels: Mapping[str, str]
    fields: Mapping[str, Mapping[str, JsonValue]]
    is_form: bool

    @classmethod
    def of(cls, answer_type: JsonValue) -> _Kind:
        kind = as_object(answer_type)
        options, fields = kind.get("options"), kind.get("fields")
        listed = fields if isinstance(fields, list) else []
        return cls(
            dict(_labels(options if isinstance(options, list) else [])),
            {str(each.get("id")): each for each in listed if isinstance(each, dict)},
            kind.get("type") == "form" or isinstance(fields, list),
        )


def _labels(options: list[JsonValue]) -> Iterator[tuple[str, str]]:
    """Yield the label of each option that has one, by its value as JSON: there `true` is not 1."""
    for option in options:
        if isinstance(option, dict) and "value" in option:
            label = option.get("label")
            if isinstance(label, str) and label.strip():
                yield sorted_json(option["value"]), label


def _words(kind: _Kind, answer: JsonValue, levels: int) -> str:
    if levels == 0:
        return sorted_json(answer)
    if label := kind.labels.get(sorted_json(answer)):
        return label
    match answer:
        case bool():
            return "Yes" if answer else "No"
        case str():
            return answer if answer.strip() else EMPTY
        case None:
            return EMPTY
        case list():
            return ", ".join(_words(kind, each, levels - 1) for each in answer) or NONE_OF_THESE
        case dict() if not kind.is_form and "selected" in answer and set(answer) <= _OWN_WORDS:
            return ", ".join(_with_own_words(kind, answer, levels))
        case dict():
            return "; ".join(_named(kind, answer, levels)) or EMPTY
        case _:
            return sorted_json(answer)


def _with_own_words(kind: _Kind, answer: Mapping[str, JsonValue], levels: int) -> Iterator[str]:
    picked, custom = answer["selected"], answer.get("custom")
    if picked not in (None, []):
        yield _words(kind, picked, levels - 1)
    if isinstance(custom, str):
        yield f'"{custom}"'
    elif picked in (None, []):
        yield NONE_OF_THESE


def _named(kind: _Kind, answer: Mapping[str, JsonValue], levels: int) -> Iterator[str]:
    """Yield `text: words` for each field of a form, in the order in which they were answered."""
    for key, value in answer.items():
        field = kind.fields.get(key, {})
        text = field.get("text")
        title = text if isinstance(text, str) and text.strip() else key
        yield f"{title}: {_words(_Kind.of(field.get('answer_type')), value, levels - 1)}"
