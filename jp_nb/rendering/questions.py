"""Text of recorded questions: a card for one, a table for many.

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
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pydantic import JsonValue

from jp_nb.json_values import MAX_SHOWN_LEVELS, as_object, is_deeper, sorted_json
from jp_nb.record.question_log import EMPTY, NONE_OF_THESE, NOT_ANSWERED, LoggedAnswer
from jp_nb.rendering import prompts as prompt_text
from jp_nb.rendering.markdown import code_block
from jp_nb.rendering.report import Report, in_one_line, joined, table
from jp_nb.rendering.tool_calls import bounded, no_markup
from jp_nb.text import BAR, escape_markdown, one_line, plain, spell_invisible

MAX_UNCHOSEN: Final = 20
"""Options that are listed although nobody chose them; beyond it they are counted."""
MAX_OWN_LINES: Final = 50
MAX_LABEL_CHARS: Final = 200
MAX_ANSWER_CHARS: Final = 2000
UNREADABLE: Final = "(nested too deeply to be shown)"
OWN_SIGN: Final = "✎ "
_SIGNS: Final = {(False, False): "○ ", (False, True): "◉ ", (True, False): "☐ ", (True, True): "☑ "}
"""By whether several may be chosen, and whether this one was."""
_PICKS: Final = {"selected", "custom"}


class CardOption(NamedTuple):
    """One option: its label in one line, and whether it was chosen."""

    label: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class QuestionCard:
    """What is shown of a question and its answer.

    Attributes:
        words: The answer in one line: labels in the order of the picks, and the own text. "" if
            there is none.
        options: What was offered and is listed, in its order; then what was chosen without having
            been offered.
        left: How many options are not listed; none of them was chosen.
        several: Whether several could be chosen.
        own: The person's own text; None if there is none.
        fields: For each field of a form, its name and its card.
        answered: Whether there is an answer.
    """

    words: str = ""
    options: tuple[CardOption, ...] = ()
    left: int = 0
    several: bool = False
    own: str | None = None
    fields: tuple[tuple[str, QuestionCard], ...] = ()
    answered: bool = False

    @property
    def of_field(self) -> str:
        """The words of a field of a form that was answered."""
        return self.words if self.answered else NOT_ANSWERED


class _Picked(NamedTuple):
    """A recorded answer taken apart: values in the order of the picks, and an own text."""

    values: Sequence[JsonValue]
    own: str | None


def question_card(
    answer_type: JsonValue, answer: JsonValue = None, *, answered: bool
) -> QuestionCard:
    """Return the card of a question whose kind a record has as `answer_type`.

    Never raises: what is no kind of question has the words of its answer alone.
    """
    kind = as_object(answer_type)
    if is_deeper(answer, MAX_SHOWN_LEVELS):
        return QuestionCard(UNREADABLE if answered else "", answered=answered)
    if kind.get("type") == "form" and isinstance(kind.get("fields"), list):
        return _form_card(kind["fields"], answer, answered=answered)
    if kind.get("type") == "select" or isinstance(kind.get("options"), list):
        return _select_card(kind, answer, answered=answered)
    if not answered:
        return QuestionCard()
    if isinstance(answer, str) and len(_own_lines(answer)) > 1:
        return QuestionCard(_beginning(answer), own=answer, answered=True)
    return QuestionCard(value_in_words(answer), answered=True)


def value_in_words(value: JsonValue) -> str:
    """Return the answer to a question that offers no options, in one line."""
    if isinstance(value, bool):
        return "Yes" if value else "No"
    if is_deeper(value, MAX_SHOWN_LEVELS):
        return UNREADABLE
    return one_line(_text(value), limit=MAX_ANSWER_CHARS) or EMPTY


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else sorted_json(value)


def _select_card(kind: dict[str, JsonValue], answer: JsonValue, *, answered: bool) -> QuestionCard:
    labels = _labels(kind.get("options"))
    picked = _picked(answer) if answered else _Picked((), None)
    chosen = {sorted_json(value): value for value in picked.values}
    options = [CardOption(label, key in chosen) for key, label in labels.items()]
    foreign = [CardOption(_label(x), chosen=True) for key, x in chosen.items() if key not in labels]
    listed = list(_listed(options))
    words = [labels.get(key) or _label(value) for key, value in chosen.items()]
    if picked.own is not None:
        several = len(_own_lines(picked.own)) > 1
        words.append(f'"{_beginning(picked.own) if several else spell_invisible(picked.own)}"')
    said = one_line(", ".join(words), limit=MAX_ANSWER_CHARS) if words else NONE_OF_THESE
    return QuestionCard(
        said if answered else "",
        (*listed, *foreign),
        left=len(options) - len(listed),
        several=kind.get("multi") is True or isinstance(answer, list),
        own=picked.own,
        answered=answered,
    )


def _beginning(text: str) -> str:
    """Return the first line of an own text, all of which is shown below."""
    return f"{one_line(_own_lines(text)[0], limit=MAX_LABEL_CHARS)} …"


def _listed(options: Sequence[CardOption]) -> Iterator[CardOption]:
    room = MAX_UNCHOSEN
    for option in options:
        room -= not option.chosen
        if option.chosen or room >= 0:
            yield option


def _labels(options: JsonValue) -> dict[str, str]:
    """Return what a person reads of each option, by its value as JSON: there `true` is not 1."""
    found: dict[str, str] = {}
    for option in options if isinstance(options, list) else ():
        shape = as_object(option)
        value = shape.get("value") if "value" in shape else option
        if not is_deeper(value, MAX_SHOWN_LEVELS):
            label = shape.get("label")
            found.setdefault(sorted_json(value), label if isinstance(label, str) else _text(value))
    labels = prompt_text.option_labels(tuple(found.values()))
    return {
        key: one_line(label, limit=MAX_LABEL_CHARS)
        for key, label in zip(found, labels, strict=True)
    }


def _label(value: JsonValue) -> str:
    return one_line(spell_invisible(_text(value)), limit=MAX_LABEL_CHARS) or EMPTY


def _picked(answer: JsonValue) -> _Picked:
    if isinstance(answer, dict) and answer.keys() <= _PICKS and answer:
        selected, own = answer.get("selected", []), answer.get("custom")
        values = selected if isinstance(selected, list) else [selected]
        return _Picked(values, own if isinstance(own, str) else None)
    return _Picked(answer if isinstance(answer, list) else [answer], None)


def _form_card(fields: JsonValue, answer: JsonValue, *, answered: bool) -> QuestionCard:
    given = as_object(answer)
    cards = []
    for field in map(as_object, fields if isinstance(fields, list) else ()):
        key = field.get("id")
        if isinstance(key, str):
            has_one = answered and key in given
            kind = _flat(field.get("answer_type"))
            card = question_card(kind, given.get(key), answered=has_one)
            cards.append((_name(field, key), card))
    filled = "; ".join(f"{name}: {card.words}" for name, card in cards if card.words)
    words = one_line(filled, limit=MAX_ANSWER_CHARS) or EMPTY
    return QuestionCard(words if answered else "", fields=tuple(cards), answered=answered)


def _flat(answer_type: JsonValue) -> JsonValue:
    """Return the kind of a field; none for a form, which is in no other one."""
    return {} if as_object(answer_type).get("type") == "form" else answer_type


def _name(field: dict[str, JsonValue], key: str) -> str:
    text = field.get("text")
    return _label(text if isinstance(text, str) and text.strip() else key)


def answer_as_json(answer_type: JsonValue, answer: JsonValue) -> str:
    """Return `answer` as JSON in one line, with labels instead of values and an own text named.

    Where nothing has a label it is the JSON of the answer.
    """
    kind = as_object(answer_type)
    if kind.get("type") == "select" and not is_deeper(answer, MAX_SHOWN_LEVELS):
        return _picks_as_json(_picked(answer), kind, several=isinstance(answer, list))
    fields = kind.get("fields")
    if (
        kind.get("type") == "form"
        and isinstance(fields, list)
        and answer
        and isinstance(answer, dict)
    ):
        found = {str(field.get("id")): field for field in map(as_object, fields)}
        return ", ".join(
            f"{_name(found.get(key, {}), key)}: "
            f"{answer_as_json(_flat(found.get(key, {}).get('answer_type')), value)}"
            for key, value in answer.items()
        )
    return _json(answer)


def _picks_as_json(picked: _Picked, kind: dict[str, JsonValue], *, several: bool) -> str:
    labels = _own_labels(kind.get("options"))
    named = [labels.get(sorted_json(value), value) for value in picked.values]
    if picked.own is None:
        if not named:
            return NONE_OF_THESE
        return _json([*named] if several or named[1:] else named[0])
    own = f"own text {_json(picked.own)}"
    return f"{_json([*named])}, {own}" if named else own


def _own_labels(options: JsonValue) -> dict[str, JsonValue]:
    """Return the labels of the options that have one, by their values as JSON."""
    shapes = map(as_object, options if isinstance(options, list) else ())
    return {
        sorted_json(shape["value"]): shape["label"]
        for shape in shapes
        if "value" in shape
        and isinstance(shape.get("label"), str)
        and not is_deeper(shape["value"], 1)
    }


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


# --- marks and ends ----------------------------------------------------------------------------


def marks_in_words(marks: Collection[str]) -> str:
    """Return ` (chosen automatically)` and its like: what is remarkable about an answer."""
    timed_out = "timed_out" in marks
    said = []
    if "auto" in marks:
        said.append(f"chosen automatically{' when time ran out' if timed_out else ''}")
    elif timed_out:
        said.append("the input when time ran out")
    if "empty" in marks:
        said.append("left blank on purpose")
    return f" ({'; '.join(said)})" if said else ""


# --- below the line that says it ---------------------------------------------------------------


def card_text(card: QuestionCard) -> list[str]:
    """Return the lines that stand below a question's own, as text; indented by nobody yet."""
    lines = _option_lines(card)
    if card.own is not None:
        own = _own_lines(card.own)
        lines += [f"{OWN_SIGN}{own[0]}"] if len(own) == 1 else [BAR + line for line in own]
    for name, inner in card.fields:
        lines.append(f"{name}: {inner.of_field}" if card.answered else name)
        lines += [f"    {line}" for line in card_text(inner)]
    return lines


def card_markdown(card: QuestionCard) -> str:
    """Return the same as Markdown; "" if there is nothing to say."""
    blocks = ["\n".join(f"- {no_markup(line)}" for line in _option_lines(card))]
    if card.own is not None:
        own = _own_lines(card.own)
        shown = no_markup(f"{OWN_SIGN}{own[0]}") if len(own) == 1 else code_block("\n".join(own))
        blocks.append(quoted(shown))
    blocks.append("\n".join(_field_markdown(card, name, inner) for name, inner in card.fields))
    return "\n\n".join(filter(None, blocks))


def _field_markdown(form: QuestionCard, name: str, field: QuestionCard) -> str:
    said = f": **{no_markup(field.of_field)}**" if form.answered else ""
    head = f"- {no_markup(name)}{said}"
    below = card_markdown(field)
    return "\n".join([head, *([""] if below else []), *_indented(below)])


def _indented(text: str) -> list[str]:
    return [f"  {line}" if line else "" for line in text.split("\n")] if text else []


def quoted(markdown: str) -> str:
    """Return Markdown as a quotation."""
    return "\n".join(f"> {line}" if line else ">" for line in markdown.split("\n"))


def _option_lines(card: QuestionCard) -> list[str]:
    lines = [f"{_SIGNS[card.several, option.chosen]}{option.label}" for option in card.options]
    if card.left:
        lines.append(f"… {card.left} more option{'' if card.left == 1 else 's'}, not chosen")
    return lines


def _own_lines(text: str) -> list[str]:
    return bounded(text, lines=MAX_OWN_LINES).split("\n") if text.strip() else [EMPTY]


QUESTION_CHARS: Final = 60
ANSWER_CHARS: Final = 40
NOT_YOURS: Final = "not signed by you"
HEAD: Final = ("id", "question", "answer", "answered by")


def question_table(answers: Sequence[LoggedAnswer]) -> Report:
    """Return `answers` as a table; what is long is cut."""
    rows = [
        (
            str(answer.id),
            _cut(answer.question, QUESTION_CHARS),
            _cut(answer.words, ANSWER_CHARS),
            _answered_by(answer),
        )
        for answer in answers
    ]
    return table(HEAD, rows)


def question_sheets(answers: Sequence[LoggedAnswer]) -> Report:
    """Return each of `answers` whole, with what is known about it."""
    return joined([_sheet(answer) for answer in answers], between="\n\n")


def with_note(shown: Report, note: str) -> Report:
    """Return `shown` with a line below it."""
    return Report(f"{shown.markdown}\n\n{in_one_line(note)}", f"{shown.text}\n{note}")


def _sheet(answer: LoggedAnswer) -> Report:
    about = [f"answer {answer.id}", f"{answer.moment:%Y-%m-%d %H:%M} UTC"]
    about += [f"asked by {_ASKERS.get(answer.asker, answer.asker)}"] if answer.asker else []
    about += [f"in {answer.notebook}"] if answer.notebook else []
    about += (
        [f"answered by {by}" if answer.is_trusted else by] if (by := _answered_by(answer)) else []
    )
    line = one_line(" · ".join(about))
    texts = [plain(answer.question), plain(answer.words)]
    if answer.words != answer.answer:
        texts.append(f"value: {plain(sorted_json(answer.answer))}")
    markdown = [f"*{escape_markdown(line)}*", *map(code_block, texts)]
    return Report("\n\n".join(markdown), "\n".join([line, *texts]))


_ASKERS: Final = {"assistant": "the assistant", "user": "the user"}


def _answered_by(answer: LoggedAnswer) -> str:
    return answer.answered_by if answer.is_trusted else NOT_YOURS


def _cut(text: str, limit: int) -> str:
    line = one_line(text)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
