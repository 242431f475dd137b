"""The recorded answers of questions as text.

The record has an answer as JSON: text, a boolean, the value of an option or a list of them, or an
object with the answers of a form's fields. The recorded type of the question has the labels. Both
may be from someone else, so any JSON is accepted.

Source: `docs/record.md`.
"""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from jp_nb.json_limits import is_deeper
from jp_nb.json_values import JsonObject, as_object
from jp_nb.json_writing import sorted_json

NONE_OF_THESE: Final = "none of these"
"""The answer to a selection of which the user picked no option."""
EMPTY: Final = "(empty)"
"""An answer without text, or the answer to a form whose fields were all omitted."""
DONE_ANSWER: Final = "done"
"""The answer to a question with a URL, for the user."""
CONFIRMED_ANSWER: Final = "confirmed"
"""The answer to a form without fields, for the user."""
MAX_ANSWER_LEVELS: Final = 8
"""Maximum nesting of an answer, such as of forms in forms. A deeper one is shown as JSON."""


def format_recorded_answer(answer_type: JsonValue, answer: JsonValue) -> str:
    """Return `answer` as text. `answer_type` is the recorded kind of the question.

    >>> sizes = {"type": "select", "options": [{"value": 1, "label": "small"}, {"value": 2}]}
    >>> format_recorded_answer(sizes, [2, 1])
    '2, small'
    >>> format_recorded_answer(sizes, {"selected": 1, "custom": "or less"})
    'small, "or less"'
    >>> format_recorded_answer({"type": "boolean"}, True), format_recorded_answer(sizes, [])
    ('Yes', 'none of these')
    """
    if is_deeper(answer, MAX_ANSWER_LEVELS):
        return sorted_json(answer)
    return _Formatter(answer_type).format(answer)


class _Formatter:
    """Formats answers to one kind of question. A form has a formatter for each of its fields."""

    def __init__(self, answer_type: JsonValue) -> None:
        kind = as_object(answer_type)
        self._labels: dict[str, str] = {}
        for option in _list_objects(kind.get("options")):
            label = option.get("label")
            if isinstance(label, str) and label.strip() and "value" in option:
                # As JSON: `true` and 1 are different values.
                self._labels[sorted_json(option["value"])] = label

        self._fields = {str(field.get("id")): field for field in _list_objects(kind.get("fields"))}
        self._is_form = kind.get("type") == "form" or isinstance(kind.get("fields"), list)
        self._yes = DONE_ANSWER if kind.get("type") == "url" else "Yes"
        self._no_answer = CONFIRMED_ANSWER if self._is_form and kind.get("fields") == [] else EMPTY

    def format(self, answer: JsonValue) -> str:
        """Return `answer` as text, and a value of no known form as JSON."""
        key = sorted_json(answer)

        if key in self._labels:
            return self._labels[key]

        match answer:
            case bool():
                return self._yes if answer else "No"
            case str():
                return answer if answer.strip() else EMPTY
            case None:
                return EMPTY
            case list():
                return ", ".join(self.format(item) for item in answer) or NONE_OF_THESE
            # A selection to which the user may add text: `{"selected": 1, "custom": "or less"}`.
            case {"selected": picked, **rest} if not self._is_form and set(rest) <= {"custom"}:
                texts = [self.format(picked)] if picked not in (None, []) else []
                texts += [f'"{custom}"' for custom in rest.values() if isinstance(custom, str)]
                return ", ".join(texts) or NONE_OF_THESE
            case dict():  # the answers of a form, by the ids of its fields
                texts = [self._format_field(name, value) for name, value in answer.items()]
                return "; ".join(texts) or self._no_answer
        return key

    def _format_field(self, name: str, answer: JsonValue) -> str:
        field = self._fields.get(name, {})
        text = field.get("text")
        title = text if isinstance(text, str) and text.strip() else name
        return f"{title}: {_Formatter(field.get('answer_type')).format(answer)}"


def _list_objects(value: JsonValue) -> list[JsonObject]:
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]
