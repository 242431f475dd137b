"""Show a recorded question and its answer as a *card*: the answer in words, and lines below it.

The input is recorded JSON. Parts that are missing, damaged or unknown are omitted. An *own text* is
a text that the user typed in place of an option, or as the answer to a text question.

    Which stores? → Redis, Postgres, "a file"
        ☑ Postgres
        ☑ Redis
        ☐ SQLite
        ✎ a file

Source: `docs/prompts.md`, `docs/record.md`, `docs/guide.md`.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from pydantic import JsonValue

from jp_nb.json_reading import MAX_SHOWN_LEVELS, is_deeper
from jp_nb.json_values import as_object, sorted_json
from jp_nb.object_text import BAR
from jp_nb.record.entries.outcomes import END_WORDS
from jp_nb.record.reading.recorded_answers import (
    CONFIRMED_ANSWER,
    DONE_ANSWER,
    EMPTY,
    NONE_OF_THESE,
)
from jp_nb.rendering.markdown import escape_markup, make_code_block, quote_markdown
from jp_nb.rendering.report import (
    MAX_CELL_CHARS,
    MAX_LINE_CHARS,
    limit_text,
)
from jp_nb.text import MAX_LISTED_LINES, make_lookalike_key, one_line, pluralize, spell_invisible

NOT_ANSWERED: Final = END_WORDS["declined"].user
UNREADABLE: Final = "(nested too deeply to be shown)"
MAX_ALTERNATIVES: Final = 8
"""With more options, the card of an answer lists none, but has their number."""
OWN_SIGN: Final = "✎ "
_SIGNS: Final = {(False, False): "○ ", (False, True): "◉ ", (True, False): "☐ ", (True, True): "☑ "}
"""Signs of options. Keys: several options may be chosen; this one was chosen."""
_PICKS: Final = {"selected", "custom"}


class CardOption(NamedTuple):
    """One option: its label in one line, and whether it was chosen."""

    label: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class QuestionCard:
    """The display of a question and its answer.

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
    has_several_lines = isinstance(answer, str) and len(_split_own_text(answer)) > 1
    if isinstance(answer, str) and has_several_lines:
        return QuestionCard(_cut_first_line(answer), own_text=answer, answered=True)

    if isinstance(answer, bool):
        yes = DONE_ANSWER if kind.get("type") == "url" else "Yes"
        words = yes if answer else "No"
        return QuestionCard(words, answered=True)

    words = one_line(_format_value(answer), limit=MAX_LINE_CHARS) or EMPTY
    return QuestionCard(words, answered=True)


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

    # A record may have an answer that was not offered.
    listed = options[:MAX_LISTED_LINES]
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
    if isinstance(answer, dict) and answer and answer.keys() <= _PICKS:
        values = answer.get("selected", [])
        custom = answer.get("custom")
        own_text = custom if isinstance(custom, str) else None

    return _Picks(values if isinstance(values, list) else [values], own_text)


def _format_picks(
    labels: dict[str, str], chosen: dict[str, JsonValue], own_text: str | None
) -> str:
    """Return the picks in one line; `labels` and `chosen` have the values as JSON as keys."""
    words = [labels.get(key) or _format_label(value) for key, value in chosen.items()]
    if own_text is not None:
        is_long = len(_split_own_text(own_text)) > 1
        text = _cut_first_line(own_text) if is_long else spell_invisible(own_text)
        words.append(f'"{text}"')

    if not words:
        return NONE_OF_THESE
    return one_line(", ".join(words), limit=MAX_LINE_CHARS)


def _cut_first_line(text: str) -> str:
    """Return the first line of an own text, with a sign that more follows."""
    return f"{one_line(_split_own_text(text)[0], limit=MAX_CELL_CHARS)} …"


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


def format_card_lines(card: QuestionCard) -> list[str]:
    """Return the lines below a question as text, without indentation.

    These are the options, the own text, and the fields of a form with their own lines.
    """
    lines = _list_options(card)

    if card.own_text is not None:
        own_lines = _split_own_text(card.own_text)
        if len(own_lines) == 1:
            lines.append(f"{OWN_SIGN}{own_lines[0]}")
        else:
            lines += [f"{BAR}{line}" for line in own_lines]

    for name, inner in card.fields:
        field = f"{name}: {inner.field_text}" if card.answered else name
        lines.append(field)
        lines += [f"    {line}" for line in format_card_lines(_shorten_field_card(inner))]

    return lines


def render_card(card: QuestionCard) -> str:
    """Return the lines below a question as Markdown; "" if there are none."""
    blocks = ["\n".join(f"- {escape_markup(line)}" for line in _list_options(card))]

    if card.own_text is not None:
        own_lines = _split_own_text(card.own_text)
        if len(own_lines) == 1:
            shown = escape_markup(f"{OWN_SIGN}{own_lines[0]}")
        else:
            shown = make_code_block("\n".join(own_lines))
        blocks.append(quote_markdown(shown))

    lines = []
    for name, inner in card.fields:
        answer = f": **{escape_markup(inner.field_text)}**" if card.answered else ""
        lines.append(f"- {escape_markup(name)}{answer}")
        if below := render_card(_shorten_field_card(inner)):
            lines.append("")
            for line in below.split("\n"):
                indented = f"  {line}" if line else ""
                lines.append(indented)

    blocks.append("\n".join(lines))
    return "\n\n".join(filter(None, blocks))


def _shorten_field_card(card: QuestionCard) -> QuestionCard:
    """Return the card below the line of a field.

    The line of an answered field has its answer, so only a long text is below it.
    """
    return replace(card, options=(), omitted_options=0) if card.answered else card


def _list_options(card: QuestionCard) -> list[str]:
    """Return a line for each listed option, such as `☑ Redis`, and one for the omitted ones."""
    lines = []
    for option in card.options:
        lines.append(f"{_SIGNS[card.allows_several, option.chosen]}{option.label}")

    if card.omitted_options:
        noun = pluralize("option", card.omitted_options)
        lines.append(f"… {card.omitted_options} more {noun}")
    return lines


def _split_own_text(text: str) -> list[str]:
    """Return the lines of an own text, at most 50, and a line with the number of the others."""
    return limit_text(text, lines=50).split("\n") if text.strip() else [EMPTY]


def spell_option_labels(options: tuple[str, ...]) -> list[str]:
    """Return a distinct label for each of `options`.

    Options that look alike get their JSON escapes, and equal labels a number.
    """
    labels: dict[str, None] = {}  # an ordered set
    equal_counts = Counter[str]()  # how many labels had the same text before
    lookalikes = Counter(map(make_lookalike_key, dict.fromkeys(options)))

    for option in options:
        text = spell_invisible(option) or EMPTY
        if lookalikes[make_lookalike_key(option)] > 1 and not option.isascii():
            text = f"{text} ({json.dumps(option)})"

        label = text
        while label in labels:  # widgets find an option by its label
            equal_counts[text] += 1
            label = f"{text} ({equal_counts[text] + 1})"
        labels[label] = None

    return list(labels)
