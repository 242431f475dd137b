"""Read a recorded question and its answer into a *card*, which `card_text.py` shows.

A card has the answer in words, and what is listed below it: options, an own text, and the fields of
a form. The input is recorded JSON. Parts that are missing, damaged or unknown are omitted. An *own
text* is a text that the user typed in place of an option, or as the answer to a text question.

Source: `docs/prompts.md`, `docs/record.md`, `docs/guide.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from pydantic import JsonValue

from jp_nb.exact_form import spell_invisible
from jp_nb.json_limits import MAX_SHOWN_LEVELS, is_deeper
from jp_nb.json_values import as_object
from jp_nb.json_writing import sorted_json
from jp_nb.record.reading.outcome_words import END_WORDS
from jp_nb.record.reading.recorded_answers import (
    CONFIRMED_ANSWER,
    DONE_ANSWER,
    EMPTY,
    NONE_OF_THESE,
)
from jp_nb.rendering.prompt_texts.option_labels import spell_option_labels
from jp_nb.rendering.report import MAX_CELL_CHARS, MAX_LINE_CHARS, limit_text
from jp_nb.text import MAX_LISTED_LINES, one_line, pluralize

NOT_ANSWERED: Final = END_WORDS["declined"].user
UNREADABLE: Final = "(nested too deeply to be shown)"
MAX_ALTERNATIVES: Final = 8
"""With more options, the card of an answer lists none, but has their number."""
_PICK_KEYS: Final = {"selected", "custom"}
"""Keys of a recorded answer with an own text."""


class CardOption(NamedTuple):
    """One option: its label in one line; `chosen` is True if it is in the answer."""

    label: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class QuestionCard:
    """The displayed parts of a question and its answer.

    Three properties have the answer as text: `words` is the whole answer, `headline` is beside the
    question, and `field_text` beside the name of a field, if the question is a field of a form.

    Attributes:
        words: The answer in one line, "" without one. For a select question, the chosen labels in
            the order of the picks, and the user's own text.
        options: The listed options in their order, then answers that were not offered.
        omitted_options: Number of options that are not listed.
        allows_several: True if several options could be chosen.
        own_text: The user's own text; None without one.
        fields: For each field of a form, its name and its card.
        answered: True if there is an answer.
    """

    words: str = ""
    options: tuple[CardOption, ...] = ()
    omitted_options: int = 0
    allows_several: bool = False
    own_text: str | None = None
    fields: tuple[tuple[str, QuestionCard], ...] = ()
    answered: bool = False

    @property
    def headline(self) -> str:
        """The answer in the line of the question. The fields of a form have their own lines."""
        if not self.fields or not self.answered:
            return self.words

        filled = sum(card.answered for _, card in self.fields)
        total = len(self.fields)
        fields = f"{total} {pluralize('field', total)}"
        return f"{filled} of {fields}" if filled < total else fields

    @property
    def field_text(self) -> str:
        """The answer to a field of a form, or a note that it has none."""
        return self.words if self.answered else NOT_ANSWERED


def make_question_card(
    answer_type: JsonValue, answer: JsonValue = None, *, answered: bool
) -> QuestionCard:
    """Return the card of a question whose recorded kind is `answer_type`.

    It never raises: for an unknown kind, the card has only the text of the answer.
    """
    kind = as_object(answer_type)
    if is_deeper(answer, MAX_SHOWN_LEVELS):
        words = UNREADABLE if answered else ""
        return QuestionCard(words, answered=answered)

    fields = kind.get("fields")
    if kind.get("type") == "form" and isinstance(fields, list):
        return _make_form_card(fields, answer, answered=answered)
    if kind.get("type") == "select" or isinstance(kind.get("options"), list):
        return _make_select_card(kind, answer, answered=answered)

    if not answered:
        return QuestionCard()
    return _make_plain_card(kind, answer)


def _make_plain_card(kind: dict[str, JsonValue], answer: JsonValue) -> QuestionCard:
    """Return the card of an answered question that is no choice and no form.

    A text of several lines has its first line in the words, and all lines below.
    """
    if isinstance(answer, str) and _has_several_lines(answer):
        return QuestionCard(_cut_first_line(answer), own_text=answer, answered=True)

    if isinstance(answer, bool):
        yes = DONE_ANSWER if kind.get("type") == "url" else "Yes"
        words = yes if answer else "No"
        return QuestionCard(words, answered=True)

    words = one_line(_format_value(answer), limit=MAX_LINE_CHARS) or EMPTY
    return QuestionCard(words, answered=True)


def _has_several_lines(own_text: str) -> bool:
    return len(split_own_text(own_text)) > 1


def _format_value(value: JsonValue) -> str:
    return value if isinstance(value, str) else sorted_json(value)


def _make_select_card(
    kind: dict[str, JsonValue], answer: JsonValue, *, answered: bool
) -> QuestionCard:
    """Return the card of a choice: the words of the answer, and the options with their signs.

    The card of an answer with more than `MAX_ALTERNATIVES` options lists none. Its words have the
    number of the options instead, such as `Postgres, one of 12`.
    """
    labels = _read_option_labels(kind.get("options"))
    picks = _read_picks(answer) if answered else _Picks([])
    allows_several = kind.get("multi") is True or isinstance(answer, list)

    # By JSON, because 1 == True in Python.
    chosen = {sorted_json(value): value for value in picks.values}
    options = [CardOption(label, key in chosen) for key, label in labels.items()]
    words = _format_picks(labels, chosen, picks.own_text) if answered else ""

    if answered and len(options) > MAX_ALTERNATIVES:
        count = sum(option.chosen for option in options)
        number = "one" if count == 1 and not allows_several else str(count)
        if count:
            words = f"{words}, {number} of {len(options)}"

        return QuestionCard(
            words, allows_several=allows_several, own_text=picks.own_text, answered=True
        )

    # Only an open question can have more options than are listed, as `MAX_ALTERNATIVES` is smaller.
    listed = options[:MAX_LISTED_LINES]

    # A record may have an answer that was not offered.
    not_offered = [
        CardOption(_format_label(value), chosen=True)
        for key, value in chosen.items()
        if key not in labels
    ]
    return QuestionCard(
        words,
        (*listed, *not_offered),
        omitted_options=len(options) - len(listed),
        allows_several=allows_several,
        own_text=picks.own_text,
        answered=answered,
    )


class _Picks(NamedTuple):
    """The chosen values in the order of the picks, and the user's own text."""

    values: list[JsonValue]
    own_text: str | None = None


def _read_picks(answer: JsonValue) -> _Picks:
    """Read the answer to a select question: a value, a list, or `{"selected", "custom"}`."""
    own_text = None
    values = answer
    if isinstance(answer, dict) and answer and answer.keys() <= _PICK_KEYS:
        values = answer.get("selected", [])
        custom = answer.get("custom")
        own_text = custom if isinstance(custom, str) else None

    if not isinstance(values, list):
        values = [values]
    return _Picks(values, own_text)


def _format_picks(
    labels: dict[str, str], chosen: dict[str, JsonValue], own_text: str | None
) -> str:
    """Return the picks in one line; `labels` and `chosen` have the values as JSON as keys."""
    words = [labels.get(key) or _format_label(value) for key, value in chosen.items()]
    if own_text is not None:
        text = spell_invisible(own_text)
        if _has_several_lines(own_text):
            text = _cut_first_line(own_text)
        words.append(f'"{text}"')

    if not words:
        return NONE_OF_THESE
    return one_line(", ".join(words), limit=MAX_LINE_CHARS)


def _cut_first_line(text: str) -> str:
    """Return the first line of an own text, with a sign that more follows."""
    return f"{one_line(split_own_text(text)[0], limit=MAX_CELL_CHARS)} …"


def _read_option_labels(options: JsonValue) -> dict[str, str]:
    """Return the labels of the options, by their values as JSON: 1 == True in Python."""
    raw_labels: dict[str, str] = {}
    for option in options if isinstance(options, list) else ():
        shape = as_object(option)
        value = shape.get("value") if "value" in shape else option
        if is_deeper(value, MAX_SHOWN_LEVELS):
            continue

        label = shape.get("label")
        if not isinstance(label, str):
            label = _format_value(value)
        raw_labels.setdefault(sorted_json(value), label)

    spelled = spell_option_labels(tuple(raw_labels.values()))
    labels = [one_line(label, limit=MAX_CELL_CHARS) for label in spelled]
    return dict(zip(raw_labels, labels, strict=True))


def _format_label(value: JsonValue) -> str:
    return one_line(spell_invisible(_format_value(value)), limit=MAX_CELL_CHARS) or EMPTY


def _make_form_card(fields: list[JsonValue], answer: JsonValue, *, answered: bool) -> QuestionCard:
    """Return the card of a form, with a card for each field."""
    answers = as_object(answer)
    cards = []
    for field in map(as_object, fields):
        key = field.get("id")
        text = field.get("text")
        kind = field.get("answer_type")
        if not isinstance(key, str):
            continue

        if as_object(kind).get("type") == "form":  # forms are not nested
            kind = {}
        is_filled = answered and key in answers
        card = make_question_card(kind, answers.get(key), answered=is_filled)
        name = text if isinstance(text, str) and text.strip() else key
        cards.append((_format_label(name), card))

    words = ""
    if answered:
        empty = EMPTY if fields else CONFIRMED_ANSWER
        filled = "; ".join(f"{name}: {card.words}" for name, card in cards if card.words)
        words = one_line(filled, limit=MAX_LINE_CHARS) or empty

    return QuestionCard(words, fields=tuple(cards), answered=answered)


def split_own_text(text: str) -> list[str]:
    """Return the lines of an own text, at most 50, and a line with the number of the others."""
    return limit_text(text, lines=50).split("\n") if text.strip() else [EMPTY]
