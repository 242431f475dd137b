"""Show a recorded question and its answer as a *card*: the answer in words, and lines below it.

The input is recorded JSON. Parts that are missing, damaged or unknown are omitted.

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

from jp_nb.json_values import MAX_SHOWN_LEVELS, as_object, is_deeper, sorted_json
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
from jp_nb.text import (
    BAR,
    MAX_LISTED_LINES,
    make_lookalike_key,
    one_line,
    pluralize,
    spell_invisible,
)

NOT_ANSWERED: Final = END_WORDS["declined"].user
UNREADABLE: Final = "(nested too deeply to be shown)"
MAX_ALTERNATIVES: Final = 8
"""With more options, the card of an answer lists none, but has their number."""
OWN_SIGN: Final = "✎ "
_SIGNS: Final = {(False, False): "○ ", (False, True): "◉ ", (True, False): "☐ ", (True, True): "☑ "}
"""Keys: whether several options may be chosen, and whether this one was."""
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
        left: Number of options that are not listed.
        several: Whether several options could be chosen.
        own: The user's own text; None without one.
        fields: For each field of a form, its name and its card.
    """

    words: str = ""
    options: tuple[CardOption, ...] = ()
    left: int = 0
    several: bool = False
    own: str | None = None
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

    if isinstance(answer, str) and len(_split_own_text(answer)) > 1:
        return QuestionCard(_cut_first_line(answer), own=answer, answered=True)

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
    labels = _read_option_labels(kind.get("options"))
    # The values in the order of the picks, and the user's own text.
    picks = answer if answered else []
    own = None

    if isinstance(answer, dict) and answered and answer and answer.keys() <= _PICKS:
        picks = answer.get("selected", [])
        custom = answer.get("custom")
        own = custom if isinstance(custom, str) else None

    if not isinstance(picks, list):
        picks = [picks]
    chosen = {sorted_json(pick): pick for pick in picks}
    options = [CardOption(label, key in chosen) for key, label in labels.items()]
    unlisted = [value for key, value in chosen.items() if key not in labels]
    foreign = [CardOption(_format_label(value), chosen=True) for value in unlisted]

    words = [labels.get(key) or _format_label(value) for key, value in chosen.items()]
    if own is not None:
        is_long = len(_split_own_text(own)) > 1
        text = _cut_first_line(own) if is_long else spell_invisible(own)
        words.append(f'"{text}"')

    said = NONE_OF_THESE
    if words:
        said = one_line(", ".join(words), limit=MAX_LINE_CHARS)

    several = kind.get("multi") is True or isinstance(answer, list)
    if answered and len(options) > MAX_ALTERNATIVES:
        # The picks are in the line, and a long list of the others says little.
        count = sum(option.chosen for option in options)
        number = "one" if count == 1 and not several else str(count)
        if count:
            said = f"{said}, {number} of {len(options)}"

        return QuestionCard(said, several=several, own=own, answered=True)

    listed = options[:MAX_LISTED_LINES]
    words_of_answer = said if answered else ""
    return QuestionCard(
        words_of_answer,
        (*listed, *foreign),
        left=len(options) - len(listed),
        several=several,
        own=own,
        answered=answered,
    )


def _cut_first_line(text: str) -> str:
    return f"{one_line(_split_own_text(text)[0], limit=MAX_CELL_CHARS)} …"


def _read_option_labels(options: JsonValue) -> dict[str, str]:
    # The keys are JSON, because 1 == True in Python.
    found: dict[str, str] = {}
    for option in options if isinstance(options, list) else ():
        shape = as_object(option)
        value = shape.get("value") if "value" in shape else option
        if not is_deeper(value, MAX_SHOWN_LEVELS):
            label = shape.get("label")
            if not isinstance(label, str):
                label = _format_value(value)
            found.setdefault(sorted_json(value), label)

    spelled = spell_option_labels(tuple(found.values()))
    labels = [one_line(label, limit=MAX_CELL_CHARS) for label in spelled]
    return dict(zip(found, labels, strict=True))


def _format_label(value: JsonValue) -> str:

    return one_line(spell_invisible(_format_value(value)), limit=MAX_CELL_CHARS) or EMPTY


def _make_form_card(fields: list[JsonValue], answer: JsonValue, *, answered: bool) -> QuestionCard:
    given = as_object(answer)
    cards = []
    for field in map(as_object, fields):
        key = field.get("id")
        text = field.get("text")
        kind = field.get("answer_type")
        if not isinstance(key, str):
            continue

        if as_object(kind).get("type") == "form":  # forms are not nested
            kind = {}
        card = make_question_card(kind, given.get(key), answered=answered and key in given)
        name = text if isinstance(text, str) and text.strip() else key
        cards.append((_format_label(name), card))

    words = ""
    if answered:
        empty = EMPTY if fields else CONFIRMED_ANSWER
        filled = "; ".join(f"{name}: {card.words}" for name, card in cards if card.words)
        words = one_line(filled, limit=MAX_LINE_CHARS) or empty

    return QuestionCard(words, fields=tuple(cards), answered=answered)


def format_card_lines(card: QuestionCard) -> list[str]:
    """Return the lines below a question as text, without indentation."""
    lines = _list_options(card)

    if card.own is not None:
        own = _split_own_text(card.own)
        if len(own) == 1:
            lines.append(f"{OWN_SIGN}{own[0]}")
        else:
            lines += [f"{BAR}{line}" for line in own]

    for name, inner in card.fields:
        field = f"{name}: {inner.field_text}" if card.answered else name
        lines.append(field)
        lines += [f"    {line}" for line in format_card_lines(_shorten_field_card(inner))]

    return lines


def render_card(card: QuestionCard) -> str:
    """Return the lines below a question as Markdown; "" if there are none."""
    blocks = ["\n".join(f"- {escape_markup(line)}" for line in _list_options(card))]

    if card.own is not None:
        own = _split_own_text(card.own)
        if len(own) == 1:
            shown = escape_markup(f"{OWN_SIGN}{own[0]}")
        else:
            shown = make_code_block("\n".join(own))
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
    # The line of an answered field has its answer, so only a long text is below it.
    return replace(card, options=(), left=0) if card.answered else card


def _list_options(card: QuestionCard) -> list[str]:
    lines = [f"{_SIGNS[card.several, option.chosen]}{option.label}" for option in card.options]
    if card.left:
        lines.append(f"… {card.left} more {pluralize('option', card.left)}")
    return lines


def _split_own_text(text: str) -> list[str]:
    return limit_text(text, lines=50).split("\n") if text.strip() else [EMPTY]


def spell_option_labels(options: tuple[str, ...]) -> list[str]:
    """Return a distinct label for each of `options`.

    Options that look alike get their JSON escapes, and equal labels a number.
    """
    labels: dict[str, None] = {}  # an ordered set
    twins = Counter[str]()
    alike = Counter(map(make_lookalike_key, dict.fromkeys(options)))
    for option in options:
        label = text = spell_invisible(option) or EMPTY
        if alike[make_lookalike_key(option)] > 1 and not option.isascii():
            label = text = f"{label} ({json.dumps(option)})"
        while label in labels:  # widgets find an option by its label
            twins[text] += 1

            label = f"{text} ({twins[text] + 1})"
        labels[label] = None

    return list(labels)
