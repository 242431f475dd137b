"""Built-in tool `ask`: read its arguments, ask the questions, return the answers.

Result for one question; for several it is `{"schema", "version", "results": […]}`, and each result
has its `id`:

    {"schema": "jp_nb.ask", "version": 1, "question": "Which database?", "mode": "choice",
     "options": ["PostgreSQL", "SQLite"], "multi": false, "outcome": "answered", "channel": "form",
     "selectedOptions": ["SQLite"], "selected": [{"index": 1, "label": "SQLite", "value": "lite"}]}

`customInput` is a text of the user's own, if there is one. A question without an answer has no
`selectedOptions`. `auto`, `timed_out` and `empty` are present if true, and so are `reply` of the
whole result and `ignored` of a question.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, cast

from pydantic import JsonValue

from jp_nb.config.secrets import mentions_secret
from jp_nb.record.events import InquirySource
from jp_nb.text import has_right_to_left, lookalike_key, spell_invisible
from jp_nb.tools.answer_types import (
    NONE_OF_THESE,
    OTHER,
    AnswerType,
    Option,
    Picks,
    SelectAnswer,
    TextAnswer,
)
from jp_nb.tools.base import (
    NOT_IN_TIME,
    CellThread,
    QuestionEnd,
    QuestionEndKind,
    ToolContext,
    ToolDefaults,
)
from jp_nb.tools.outcome import MAX_QUESTIONS, Failure, NeedsInput, Outcome, Success
from jp_nb.tools.question import Question

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
    key = bare if has_right_to_left(bare) else lookalike_key(bare)
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
    if not typed or not any(map(mentions_secret, texts)):
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
                self.wrong(spell_invisible(name)[:80], text)

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
        elif name == "id" and spell_invisible(value) != value:
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
    return json.dumps(spell_invisible(text[:80]), ensure_ascii=False)


def _found(value: JsonValue) -> str:
    """Return `found …`, short."""
    shown = json.dumps(value, ensure_ascii=False)
    return f"found {spell_invisible(shown[:60])}{'…' if len(shown) > 60 else ''}"


SCHEMA_NAME: Final = "jp_nb.ask"
VERSION: Final = 1
"""Of the object's shape."""

_NOT_SHOWN: Final = (
    "Nothing was shown to the user because this call is not valid. Correct all of "
    "these problems, then call the tool again:"
)
_OPEN: Final[dict[QuestionEndKind, tuple[str, str]]] = {
    "declined": ("not answered", "the user left it open on purpose"),
    "cancelled": ("cancelled", "the user did not answer it"),
    "timed_out": ("timed out", NOT_IN_TIME),
    "interrupted": ("not answered", "an interrupt closed the form"),
    "unavailable": ("not answered", "no user was available"),
}
"""What a question is that stays open, and why."""
_REPLIED: Final = ("cancelled", "the user replied instead")
_ORIGINS: Final = {
    "configured": "configured by the user in advance",
    "answers": "answered by the user in advance",
    "remembered": "answered by the user earlier in this turn",
    "model": "answered by another model, not by the user",
}
"""Where an answer is from that nobody gave now, by channel."""
_AUTO: Final = "chosen automatically, because {}"
_UNSENT: Final = "selected before the time ran out, but not submitted"
_BLANK: Final = "(left blank on purpose: treat this point as undecided, or ask differently)"


@dataclass(frozen=True, slots=True)
class _Answer:
    """A question of the call, and how it ended; `picks` is None without an answer."""

    asked: AskedQuestion
    end: QuestionEnd
    picks: Picks | None

    @property
    def question(self) -> Question:
        return self.asked.question

    @property
    def choice(self) -> SelectAnswer | None:
        kind = self.question.answer_type
        return kind if isinstance(kind, SelectAnswer) else None


def refused_call(problems: Sequence[CallProblem]) -> Failure:
    """Return the result of a call that is wrong: one line for each of its `problems`."""
    lines = [f"- {problem}" for problem in problems[:MAX_PROBLEMS]]
    if left := len(problems) - len(lines):
        lines.append(f"- … and {left} more.")
    errors: list[JsonValue] = [
        {"path": problem.path, "question": problem.about, "message": problem.text}
        for problem in problems[:MAX_PROBLEMS]
    ]
    whole: dict[str, JsonValue] = {**_head(), "outcome": "invalid", "errors": errors}
    return Failure("\n".join([_NOT_SHOWN, *lines]), structured=whole)


def form_result(asked: Sequence[AskedQuestion], context: ToolContext) -> Outcome:
    """Return what the questions came to, each of which has its end in `context`.

    A failure where nobody answered anything, and nobody left it open on purpose either.
    """
    answers = [_answer(each, context) for each in asked]
    text = "\n".join(_lines(answers, context.reply))
    whole = _structured(answers, context.reply)
    ends = {each.end.end for each in answers}
    if context.reply is not None or "answered" in ends or ends == {"declined"}:
        return Success(text, structured=whole)
    return Failure(text, structured=whole)


def _answer(asked: AskedQuestion, context: ToolContext) -> _Answer:
    question = asked.question
    end = context.ends[question.id]
    if end.end != "answered":
        return _Answer(asked, end, None)
    value, kind = context.answers.get(question.id), question.answer_type
    picks = kind.picks(value) if isinstance(kind, SelectAnswer) else Picks(custom=str(value))
    return _Answer(asked, end, picks)


# --- words -----------------------------------------------------------------------------------


def _lines(answers: Sequence[_Answer], reply: str | None) -> Iterator[str]:
    replied = reply is not None
    if reply is not None:
        said = reply if reply.strip() else "(nothing more)"
        yield _block("The user did not send the form, but replied to you", said)
    if len(answers) == 1:
        yield from _alone(answers[0], replied=replied)
    else:
        by_user = any(each.picks and _origin(each.end) is None for each in answers)
        yield f"{'User answers' if by_user else 'Answers'}{' so far' if replied else ''}:"
        yield from (_in_form(each, replied=replied) for each in answers)
    for each in answers:
        if each.asked.ignored:
            names = ", ".join(f"`{name}`" for name in each.asked.ignored)
            yield f"({names} had no effect on {each.question.id!r}: its mode is freetext.)"


def _alone(answer: _Answer, *, replied: bool) -> Iterator[str]:
    """Yield the lines of the one question of a call."""
    if answer.picks is None:
        word, why = _open(answer.end, replied=replied)
        yield f"{word.capitalize()}: {why}."
        return
    origin, unsent = _origin(answer.end), _unsent(answer.end)
    said = None if origin is None else origin[0].upper() + origin[1:]
    if (selected := _selected(answer)) is not None:
        yield f"{said or 'User selected'}{unsent}: {selected}"
    if (custom := _custom(answer)) is not None:
        own = "User provided custom input" if said is None else f"{said}, as custom input"
        yield _block(f"{own}{unsent}", custom)


def _in_form(answer: _Answer, *, replied: bool) -> str:
    """Return the line of one of several questions; more lines if its own text has several."""
    name = answer.question.id
    if answer.picks is None:
        return "{}: {} ({})".format(name, *_open(answer.end, replied=replied))
    origin = _origin(answer.end)
    label = f"{name}{'' if origin is None else f' ({origin})'}{_unsent(answer.end)}"
    selected, custom = _selected(answer), _custom(answer)
    if custom is None:
        return f"{label}: {selected}"
    picked = "" if selected is None else f"{selected}; "
    return _block(f"{label}: {picked}custom input", custom)


def _open(end: QuestionEnd, *, replied: bool) -> tuple[str, str]:
    return (
        _REPLIED if replied and end.end == "cancelled" else _OPEN.get(end.end, _OPEN["cancelled"])
    )


def _origin(end: QuestionEnd) -> str | None:
    """Return where an answer is from; None if the person gave it just now."""
    if end.auto:
        return _AUTO.format(_OPEN["timed_out" if end.timed_out else "unavailable"][1])
    return _ORIGINS.get(end.channel or "")


def _unsent(end: QuestionEnd) -> str:
    return f" ({_UNSENT})" if end.timed_out and not end.auto else ""


def _selected(answer: _Answer) -> str | None:
    """Return the labels that were picked, in order; None where only a text was given."""
    picks, choice = answer.picks, answer.choice
    if picks is None or choice is None or (picks.custom is not None and not picks.indices):
        return None
    labels = [_label(choice.options[index]) for index in picks.indices]
    if not choice.multi:
        return labels[0]
    return f"[{', '.join(labels)}]{'' if labels else f' ({NONE_OF_THESE})'}"


def _label(option: Option) -> str:
    label, value = option.shown, str(option.value)
    return label if value == label else f"{label} (value: {value})"


def _custom(answer: _Answer) -> str | None:
    if answer.picks is None or answer.picks.custom is None:
        return None
    return answer.picks.custom if answer.picks.custom.strip() else _BLANK


def _block(label: str, text: str) -> str:
    """Return `label: text`; a text of several lines stands below it, indented."""
    return f"{label}: {text}" if "\n" not in text else "\n  ".join([f"{label}:", *text.split("\n")])


# --- the object ------------------------------------------------------------------------------


def _head() -> dict[str, JsonValue]:
    return {"schema": SCHEMA_NAME, "version": VERSION}


def _structured(answers: Sequence[_Answer], reply: str | None) -> JsonValue:
    whole = _head()
    if len(answers) == 1:
        whole |= _fields(answers[0])
    else:
        whole["results"] = [{"id": each.question.id, **_fields(each)} for each in answers]
    return whole if reply is None else {**whole, "reply": reply}


def _fields(answer: _Answer) -> dict[str, JsonValue]:
    choice, end = answer.choice, answer.end
    fields: dict[str, JsonValue] = {
        "question": answer.question.text,
        "mode": answer.asked.mode,
        "options": [] if choice is None else [*choice.labels],
        "multi": choice is not None and choice.multi,
        "outcome": end.end,
    }
    if end.channel is not None:
        fields["channel"] = end.channel
    marks = {"auto": end.auto, "timed_out": end.timed_out, "empty": end.empty}
    fields |= {name: True for name, is_so in marks.items() if is_so}
    if answer.asked.ignored:
        fields["ignored"] = [*answer.asked.ignored]
    return fields if answer.picks is None else fields | _answered_fields(answer.picks, choice)


def _answered_fields(picks: Picks, choice: SelectAnswer | None) -> dict[str, JsonValue]:
    options = [] if choice is None else [(index, choice.options[index]) for index in picks.indices]
    fields: dict[str, JsonValue] = {
        "selectedOptions": [option.shown for _, option in options],
        "selected": [
            {"index": index, "label": option.shown, "value": option.value}
            for index, option in options
        ],
    }
    return fields if picks.custom is None else {**fields, "customInput": picks.custom}


DESCRIPTION: Final = """\
Ask the user one or several questions in one form, and get the answers back.

Use it for a choice between options that need an explanation, for a choice of several options, or \
for several answers that you need before you continue. Put all of these questions into one call. \
For a single short question use `ask_user` instead, if it is available. Ask rather than assume a \
default that matters. Do not ask for information that you can derive from the conversation, and do \
not ask the user to confirm an obvious next step.

Give a choice 2 to 5 options with short labels. Explain each option in its `description`, and \
recommend at most one. The form adds "Other" for a custom answer, so do not list it. The user can \
leave questions open, or reply to you instead. The result then states this.

Never use it to collect secrets such as passwords, API keys or passphrases: answers are sent back \
to you and are stored in the conversation."""

_OPTION: Final[dict[str, JsonValue]] = {
    "type": "object",
    "properties": {
        "label": {"type": "string", "description": "A few words that name the option."},
        "value": {
            "type": "string",
            "description": "Value that you get back with the label. Default: the label.",
        },
        "description": {"type": "string", "description": "What choosing this option means."},
        "recommended": {"type": "boolean", "description": "Marks the option that you recommend."},
    },
    "required": ["label"],
    "additionalProperties": False,
}
_QUESTION: Final[dict[str, JsonValue]] = {
    "type": "object",
    "properties": {
        "id": {
            "type": "string",
            "description": 'Unique name of the answer in the result, such as "database".',
        },
        "question": {"type": "string", "description": "The question, on a single line."},
        "header": {"type": "string", "description": "Topic of the question, in one or two words."},
        "context": {
            "type": "string",
            "description": "Background shown above the question. Can have several lines.",
        },
        "mode": {
            "type": "string",
            "enum": [*MODES],
            "description": 'Kind of answer: one of `options`, or a text. Default: "choice".',
        },
        "options": {
            "type": "array",
            "items": _OPTION,
            "description": 'The options of a "choice", without "Other".',
        },
        "multi": {
            "type": "boolean",
            "description": "The user can pick several options. Default: false.",
        },
        "recommended": {
            "type": "integer",
            "description": "Index of the option that you recommend, from 0.",
        },
        "allow_other": {
            "type": "boolean",
            "description": "The user can type an answer of their own. Default: true.",
        },
        "required": {
            "type": "boolean",
            "description": (
                "If true, no option is chosen for the user, who can still leave the "
                "question open. If false, the recommended or first option is used "
                "when no user answers in time. Default: true."
            ),
        },
    },
    "required": ["id", "question"],
    "additionalProperties": False,
}
SCHEMA: Final[dict[str, JsonValue]] = {
    "type": "object",
    "properties": {
        "questions": {
            "type": "array",
            "items": _QUESTION,
            "minItems": 1,
            "description": "The pages of the form, in order.",
        }
    },
    "required": ["questions"],
    "additionalProperties": False,
}


class Ask(ToolDefaults):
    """Validates the questions, has them asked as one form, hands what came of it to the model."""

    registration: Mapping[str, JsonValue] = {
        "source": "builtin",
        "enable": True,
        "run": "unattended",
        "result": "unattended",
        "style": {"hidden": True},
        "description": DESCRIPTION,
    }
    schema = SCHEMA
    needs_user = True

    def inquiry_source(self, name: str) -> InquirySource:
        """Return the assistant, who asks through this tool."""
        return InquirySource(source="assistant")

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Return the questions on the first run, and what came of them on the second."""
        asked, problems = read_form(arguments)
        if problems:
            return refused_call(problems)
        if any(each.question.id not in context.ends for each in asked):
            return NeedsInput(*(each.question for each in asked), partial=True, menu=True)
        return form_result(asked, context)
