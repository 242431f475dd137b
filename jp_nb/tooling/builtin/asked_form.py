"""Reads what a call of `ask` asks: strictly, and with all that is wrong said at once.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, cast

from pydantic import JsonValue

from jp_nb.config.secret_names import speaks_of_secret
from jp_nb.safe_text import lookalike_key, reads_right_to_left, spell_unseen
from jp_nb.tooling.outcome import MAX_QUESTIONS
from jp_nb.tooling.question import Question
from jp_nb.tooling.question_kinds import AnswerType, TextAnswer
from jp_nb.tooling.select_kind import OTHER, Option, SelectAnswer

Mode = Literal["choice", "freetext"]
MODES: Final[tuple[Mode, ...]] = ("choice", "freetext")

MAX_CHARS: Final[Mapping[str, int]] = {
    "id": 64,
    "question": 500,
    "header": 60,
    "context": 10_000,
    "label": 200,
    "value": 1000,
    "description": 1000,
}
"""Characters of each text: what a form shows whole."""
MAX_OPTIONS: Final = 200
MAX_CALL_CHARS: Final = 100_000
"""Of all texts of a call together."""
MAX_PROBLEMS: Final = 30
"""So many are listed; of the others the number is said."""

QUESTION_FIELDS: Final = (
    *("id", "question", "header", "context", "mode", "options"),
    *("multi", "recommended", "allow_other", "required"),
)
OPTION_FIELDS: Final = ("label", "value", "description", "recommended")
_CHOICE_DEFAULTS: Final[Mapping[str, JsonValue]] = {
    "options": [],
    "multi": False,
    "recommended": None,
    "allow_other": True,
}
"""What a question for a text has no use for, each with the value that says nothing."""
RESERVED_LABELS: Final = frozenset(
    {
        *(OTHER.casefold(), "other", "other…", "other...", "type your own"),
        *("done", "done selecting", "submit"),
    }
)
"""What the form itself says, by `label_key`: an option of that name would pass for it."""

NO_SECRETS: Final = (
    "⚠ Do not type a password or a key. The answer is sent to the model and stored in the notebook."
)


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """One question of a call.

    Attributes:
        question: What is put to the person.
        ignored: Fields that were given and mean nothing in this mode.
    """

    question: Question
    mode: Mode
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CallProblem:
    """Something that is wrong with a call.

    Attributes:
        path: The place: `questions[0].options[2].label`.
        about: The id of the question; "" if it has none.
        text: What is wrong, and what to do.
    """

    path: str
    about: str
    text: str

    def __str__(self) -> str:
        about = f" (question {_shown(self.about)})" if self.about else ""
        return f"`{self.path}`{about}: {self.text}"


def read_form(
    arguments: Mapping[str, JsonValue],
) -> tuple[list[AskedQuestion], list[CallProblem]]:
    """Return the questions of a call, and what is wrong with it: then nothing is to be shown."""
    problems: list[CallProblem] = []
    call = _Fields(arguments, "", problems)
    call.refuse_unknown(("questions",), "the call")
    given = call.given.get("questions")
    if not isinstance(given, list):
        found = "is missing" if given is None else _found(given)
        call.wrong("questions", f"{found}: expected a list of at least one question.")
        return [], problems
    if not given:
        call.wrong("questions", "the list is empty: ask at least one question.")
    if len(given) > MAX_QUESTIONS:
        call.wrong(
            "questions", f"a form holds at most {MAX_QUESTIONS} questions, found {len(given)}."
        )
        return [], problems
    if (total := _chars(given)) > MAX_CALL_CHARS:
        text = (
            f"the texts have {total} characters, at most {MAX_CALL_CHARS} are allowed: "
            "shorten them."
        )
        call.wrong("questions", text)
        return [], problems
    asked = [_question(item, f"questions[{index}]", problems) for index, item in enumerate(given)]
    _refuse_same_ids(given, problems)
    return [each for each in asked if each is not None], problems


def label_key(label: str) -> str:
    """Return what two labels have in common if a person may take one for the other."""
    bare = " ".join(label.split())
    # The letters of right-to-left text in any order are the same for `lookalike_key`; on a form,
    # where each label stands alone, "12" and "21" in such a text differ.
    key = bare if reads_right_to_left(bare) else lookalike_key(bare)
    return "".join(char for char in key if char.isprintable()).casefold()


def _refuse_same_ids(given: list[JsonValue], problems: list[CallProblem]) -> None:
    seen: dict[str, int] = {}
    for index, item in enumerate(given):
        key = item.get("id") if isinstance(item, dict) else None
        if isinstance(key, str) and key in seen:
            text = f"questions[{seen[key]}] has the same id: give each question a different id."
            problems.append(CallProblem(f"questions[{index}].id", key, text))
        elif isinstance(key, str) and key.strip():
            seen[key] = index


def _question(given: JsonValue, path: str, problems: list[CallProblem]) -> AskedQuestion | None:
    """Return the question at `path`; None if something is wrong with it."""
    before = len(problems)
    if not isinstance(given, dict):
        text = f'expected an object such as {{"id": "size", "question": "…"}}, {_found(given)}.'
        problems.append(CallProblem(path, "", text))
        return None
    about = given.get("id")
    fields = _Fields(given, path, problems, about if isinstance(about, str) else "")
    fields.refuse_unknown(QUESTION_FIELDS, "a question")
    texts = {
        name: fields.text(name, required=name in ("id", "question"), lines=name == "context")
        for name in ("id", "question", "header", "context")
    }
    mode = fields.mode()
    required = fields.flag("required", default=True)
    kind = _choice(fields) if mode == "choice" else TextAnswer()
    if len(problems) > before or kind is None or mode is None:
        return None
    question = Question(
        id=cast(str, texts["id"]),
        text=cast(str, texts["question"]),
        header=texts["header"],
        context=texts["context"],
        answer_type=kind,
        required=required,
        exclusive=required,
        persistence="none",
    )
    return AskedQuestion(_warning(question), mode, () if mode == "choice" else _ignored(fields))


def _ignored(fields: _Fields) -> tuple[str, ...]:
    """Return the fields that a question for a text has in vain."""
    return tuple(
        name
        for name, default in _CHOICE_DEFAULTS.items()
        if fields.given.get(name, default) != default
    )


def _warning(question: Question) -> Question:
    """Return `question`, with a warning where somebody may be about to type a secret."""
    kind = question.answer_type
    typed = kind.other if isinstance(kind, SelectAnswer) else True
    texts = (question.id, question.text, question.header or "")
    if not typed or not any(map(speaks_of_secret, texts)):
        return question
    lines = (question.context, NO_SECRETS)
    return question.with_context("\n\n".join(line for line in lines if line))


def _choice(fields: _Fields) -> AnswerType | None:
    """Return the kind of a question with options; None if something is wrong with them."""
    given = fields.given.get("options", [])
    other = fields.flag("allow_other", default=True)
    multi = fields.flag("multi", default=False)
    before = len(fields.problems)
    if not isinstance(given, list):
        fields.wrong("options", f"expected a list of options, {_found(given)}.")
        return None
    if len(given) > MAX_OPTIONS:
        fields.wrong("options", f"at most {MAX_OPTIONS} options are allowed, found {len(given)}.")
        return None
    if not given and not other:
        text = "the question cannot be answered: give at least one option, or remove `allow_other`."
        fields.wrong("options", text)
    below = [fields.below(item, f"options[{index}]") for index, item in enumerate(given)]
    options = [_option(each) for each in below]
    _refuse_twins(below)
    recommended = _recommended(fields, below)
    if len(fields.problems) > before:
        return None
    found = tuple(option for option in options if option is not None)
    return SelectAnswer(options=found, multi=multi, other=other, recommended=recommended)


def _option(fields: _Fields | None) -> Option | None:
    """Return one option; None if something is wrong with it."""
    if fields is None:
        return None
    fields.refuse_unknown(OPTION_FIELDS, "an option")
    label = fields.text("label", required=True)
    value = fields.text("value")
    description = fields.text("description", lines=True)
    if label is None:
        return None
    if label_key(label) in RESERVED_LABELS:
        text = f"the form uses {_shown(label)} itself: remove the option or rename it. "
        fields.wrong(
            "label", f"{text}The form offers a custom answer unless `allow_other` is false."
        )
    return Option(value=label if value is None else value, label=label, description=description)


def _refuse_twins(options: list[_Fields | None]) -> None:
    """Note labels that a person could not tell apart, and values that a program could not."""
    labels: dict[str, str] = {}
    values: dict[str, str] = {}
    for fields in options:
        label = fields.given.get("label") if fields is not None else None
        if fields is None or not isinstance(label, str):
            continue
        key, value = label_key(label), fields.given.get("value", label)
        if key in labels:
            fields.wrong("label", _twins(label, labels[key]))
        elif isinstance(value, str) and value in values:
            text = f"the option {_shown(values[value])} has the same value: use a different one."
            fields.wrong("value", text)
        else:
            labels[key] = label
            if isinstance(value, str):
                values[value] = label


def _twins(label: str, earlier: str) -> str:
    if label == earlier:
        return f"another option has the label {_shown(label)}: rename one of them."
    return (
        f"{_shown(label)} differs from {_shown(earlier)} only in case, white space, "
        "or letters that look alike: rename one of them."
    )


def _recommended(fields: _Fields, options: list[_Fields | None]) -> int | None:
    """Return the index of the option that is recommended, by number or by its own mark."""
    index = fields.given.get("recommended")
    if index is not None and (not isinstance(index, int) or isinstance(index, bool)):
        fields.wrong("recommended", f"expected the index of an option, from 0, {_found(index)}.")
        return None
    marked = [
        number
        for number, option in enumerate(options)
        if option is not None and option.flag("recommended", default=False)
    ]
    named = [index] if isinstance(index, int) and 0 <= index < len(options) else []
    if len(found := sorted({*marked, *named})) > 1:
        text = f"options {', '.join(map(str, found))} are recommended: recommend at most one."
        fields.wrong("recommended", text)
    return found[0] if found else None


@dataclass(slots=True)
class _Fields:
    """The fields of one object of a call. What is null is not given.

    Attributes:
        path: The place of the object; "" for the call itself.
        problems: Takes what is wrong.
        about: The id of the question.
    """

    whole: Mapping[str, JsonValue]
    path: str
    problems: list[CallProblem]
    about: str = ""
    given: Mapping[str, JsonValue] = field(init=False)

    def __post_init__(self) -> None:
        self.given = {key: value for key, value in self.whole.items() if value is not None}

    def wrong(self, name: str, text: str) -> None:
        """Note that the field `name` is wrong."""
        path = f"{self.path}.{name}" if self.path else name
        self.problems.append(CallProblem(path, self.about, text))

    def below(self, value: JsonValue, name: str) -> _Fields | None:
        """Return the fields of an option; None if it is not an object."""
        if isinstance(value, dict):
            return _Fields(value, f"{self.path}.{name}", self.problems, self.about)
        example = json.dumps({"label": value if isinstance(value, str) else "…"})
        self.wrong(name, f"expected an object such as {example[:100]}, {_found(value)}.")
        return None

    def refuse_unknown(self, known: tuple[str, ...], what: str) -> None:
        """Note each field that is not among `known`."""
        for name in self.given:
            if name not in known:
                text = f"is not a field of {what}. Known fields: {', '.join(known)}."
                self.wrong(spell_unseen(name)[:80], text)

    def mode(self) -> Mode | None:
        """Return how the question is answered; None if it does not say so."""
        given = self.given.get("mode", "choice")
        if (found := next((mode for mode in MODES if mode == given), None)) is None:
            self.wrong("mode", f'expected "choice" or "freetext", {_found(given)}.')
        return found

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a field that is true or false."""
        value = self.given.get(name, default)
        if not isinstance(value, bool):
            self.wrong(name, f"expected true or false, {_found(value)}.")
            return default
        return value

    def text(self, name: str, *, required: bool = False, lines: bool = False) -> str | None:
        """Return a text, whole as it is given; None if it is absent, blank or wrong."""
        value = self.given.get(name)
        if value is None and not required:
            return None
        if value is None:
            self.wrong(name, "is missing.")
        elif not isinstance(value, str):
            self.wrong(name, f"expected a text, {_found(value)}.")
        elif not value.strip() and name in ("id", "question", "label", "value"):
            self.wrong(name, "is blank.")
        elif len(value) > MAX_CHARS[name]:
            text = f"has {len(value)} characters, at most {MAX_CHARS[name]} are allowed."
            self.wrong(name, text)
        elif not lines and len(value.splitlines()) > 1:
            more = " Move further lines into `context`." if name == "question" else ""
            self.wrong(name, f"has several lines: write a single line.{more}")
        elif name == "id" and spell_unseen(value) != value:
            self.wrong(name, "starts or ends with a space, or contains invisible characters.")
        else:
            return value if value.strip() else None
        return None


def _chars(value: JsonValue) -> int:
    """Return how many characters the texts in `value` have."""
    return sum(map(len, _texts(value)))


def _texts(value: JsonValue) -> Iterator[str]:
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case dict() as fields:
                yield from fields
                waiting.extend(fields.values())
            case list() as items:
                waiting.extend(items)


def _shown(text: str) -> str:
    return json.dumps(spell_unseen(text[:80]), ensure_ascii=False)


def _found(value: JsonValue) -> str:
    """Return `found …`, short."""
    shown = json.dumps(value, ensure_ascii=False)
    return f"found {spell_unseen(shown[:60])}{'…' if len(shown) > 60 else ''}"
