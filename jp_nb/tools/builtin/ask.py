"""Built-in tool `ask`: read its arguments, ask the questions, return the answers.

The result of a call with one question, as JSON for programs:

    {"schema": "jp_nb.ask", "version": 1, "question": "Which database?", "mode": "choice",
     "options": ["PostgreSQL", "SQLite"], "multi": false, "outcome": "answered", "channel": "form",
     "selectedOptions": ["SQLite"], "selected": [{"index": 1, "label": "SQLite", "value": "lite"}]}

With several questions it is `{"schema", "version", "results": […]}`, and each result has the `id`
of its question. `customInput` is the user's own text, if there is one. A question without an answer
has no `selectedOptions` and no `selected`. `auto`, `timed_out`, `empty`, and `ignored` of a
question are optional, and so is `reply` of the whole result.

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
"""Limits for the texts that a form shows without truncation."""
MAX_OPTIONS: Final = 200
MAX_CALL_CHARS: Final = 100_000
"""Limit for all texts of a call together."""
MAX_PROBLEMS: Final = 30
"""Limit for the listed problems. Further ones are only counted."""

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
"""Defaults of the fields that have no effect in the mode `freetext`."""
RESERVED_LABELS: Final = frozenset(
    {
        *(OTHER.casefold(), "other", "other…", "other...", "type your own"),
        *("done", "done selecting", "submit"),
    }
)
"""Labels of the form itself, as `label_key` returns them. An option must not imitate them."""

NO_SECRETS: Final = (
    "⚠ Do not type a password or a key. The answer is sent to the model and stored in the notebook."
)


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """One question of a call.

    Attributes:
        ignored: Given fields that have no effect in this mode.
    """

    question: Question
    mode: Mode
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CallProblem:
    """A problem in the arguments of a call.

    Attributes:
        path: For example `questions[0].options[2].label`.
        question_id: Id of the question; "" without one.
        text: The problem and its solution.
    """

    path: str
    question_id: str
    text: str

    def __str__(self) -> str:
        question = f" (question {_format_text(self.question_id)})" if self.question_id else ""
        return f"`{self.path}`{question}: {self.text}"


def read_form(
    arguments: Mapping[str, JsonValue],
) -> tuple[list[AskedQuestion], list[CallProblem]]:
    """Return the questions of a call, and all problems. Show no questions if there are problems."""
    problems: list[CallProblem] = []
    call = _Fields(arguments, "", problems)
    call.refuse_unknown(("questions",), "the call")
    given = call.given.get("questions")
    if not isinstance(given, list):
        found = "is missing" if given is None else _format_found(given)
        call.add_problem("questions", f"{found}: expected a list of at least one question.")
        return [], problems
    if not given:
        call.add_problem("questions", "the list is empty: ask at least one question.")
    if len(given) > MAX_QUESTIONS:
        call.add_problem(
            "questions", f"a form holds at most {MAX_QUESTIONS} questions, found {len(given)}."
        )
        return [], problems
    if (total := sum(map(len, _find_texts(given)))) > MAX_CALL_CHARS:
        text = (
            f"the texts have {total} characters, at most {MAX_CALL_CHARS} are allowed: "
            "shorten them."
        )
        call.add_problem("questions", text)
        return [], problems
    asked = [
        _read_question(item, f"questions[{index}]", problems) for index, item in enumerate(given)
    ]
    _check_unique_ids(given, problems)
    return [each for each in asked if each is not None], problems


def label_key(label: str) -> str:
    """Return a key that is equal for labels that look alike."""
    plain_label = " ".join(label.split())
    # `lookalike_key` ignores the order of letters in right-to-left text, so "12" and "21" would be
    # equal. In a form, each label has its own line, so their order is visible.
    key = plain_label if has_right_to_left(plain_label) else lookalike_key(plain_label)
    return "".join(char for char in key if char.isprintable()).casefold()


def _check_unique_ids(given: list[JsonValue], problems: list[CallProblem]) -> None:
    seen: dict[str, int] = {}
    for index, item in enumerate(given):
        key = item.get("id") if isinstance(item, dict) else None
        if isinstance(key, str) and key in seen:
            text = f"questions[{seen[key]}] has the same id: give each question a different id."
            problems.append(CallProblem(f"questions[{index}].id", key, text))
        elif isinstance(key, str) and key.strip():
            seen[key] = index


def _read_question(
    given: JsonValue, path: str, problems: list[CallProblem]
) -> AskedQuestion | None:
    before = len(problems)
    if not isinstance(given, dict):
        text = (
            f'expected an object such as {{"id": "size", "question": "…"}}, {_format_found(given)}.'
        )
        problems.append(CallProblem(path, "", text))
        return None
    question_id = given.get("id")
    fields = _Fields(given, path, problems, question_id if isinstance(question_id, str) else "")
    fields.refuse_unknown(QUESTION_FIELDS, "a question")
    texts = {
        name: fields.text(name, required=name in ("id", "question"), lines=name == "context")
        for name in ("id", "question", "header", "context")
    }
    mode = fields.mode()
    required = fields.flag("required", default=True)
    kind = _read_choice(fields) if mode == "choice" else TextAnswer()
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
    ignored = (
        name
        for name, default in _CHOICE_DEFAULTS.items()
        if mode == "freetext" and fields.given.get(name, default) != default
    )
    return AskedQuestion(_add_secret_warning(question), mode, tuple(ignored))


def _add_secret_warning(question: Question) -> Question:
    kind = question.answer_type
    typed = kind.other if isinstance(kind, SelectAnswer) else True
    texts = (question.id, question.text, question.header or "")
    if not typed or not any(map(mentions_secret, texts)):
        return question
    lines = (question.context, NO_SECRETS)
    return question.with_context("\n\n".join(line for line in lines if line))


def _read_choice(fields: _Fields) -> AnswerType | None:
    given = fields.given.get("options", [])
    other = fields.flag("allow_other", default=True)
    multi = fields.flag("multi", default=False)
    before = len(fields.problems)
    if not isinstance(given, list):
        fields.add_problem("options", f"expected a list of options, {_format_found(given)}.")
        return None
    if len(given) > MAX_OPTIONS:
        text = f"at most {MAX_OPTIONS} options are allowed, found {len(given)}."
        fields.add_problem("options", text)
        return None
    if not given and not other:
        text = "the question cannot be answered: give at least one option, or remove `allow_other`."
        fields.add_problem("options", text)
    option_fields = [fields.child(item, f"options[{index}]") for index, item in enumerate(given)]
    options = [None if each is None else _read_option(each) for each in option_fields]
    _check_distinct_options(option_fields)
    recommended = _read_recommended(fields, option_fields)
    if len(fields.problems) > before:
        return None
    found = tuple(option for option in options if option is not None)
    return SelectAnswer(options=found, multi=multi, other=other, recommended=recommended)


def _read_option(fields: _Fields) -> Option | None:
    fields.refuse_unknown(OPTION_FIELDS, "an option")
    label = fields.text("label", required=True)
    value = fields.text("value")
    description = fields.text("description", lines=True)
    if label is None:
        return None
    if label_key(label) in RESERVED_LABELS:
        text = f"the form uses {_format_text(label)} itself: remove the option or rename it. "
        fields.add_problem(
            "label", f"{text}The form offers a custom answer unless `allow_other` is false."
        )
    return Option(value=label if value is None else value, label=label, description=description)


def _check_distinct_options(options: list[_Fields | None]) -> None:
    labels: dict[str, str] = {}
    values: dict[str, str] = {}
    for fields in options:
        label = fields.given.get("label") if fields is not None else None
        if fields is None or not isinstance(label, str):
            continue
        key, value = label_key(label), fields.given.get("value", label)
        if key in labels:
            fields.add_problem("label", _format_lookalikes(label, labels[key]))
        elif isinstance(value, str) and value in values:
            option = _format_text(values[value])
            text = f"the option {option} has the same value: use a different one."
            fields.add_problem("value", text)
        else:
            labels[key] = label
            if isinstance(value, str):
                values[value] = label


def _format_lookalikes(label: str, earlier: str) -> str:
    if label == earlier:
        return f"another option has the label {_format_text(label)}: rename one of them."
    return (
        f"{_format_text(label)} differs from {_format_text(earlier)} only in case, white space, "
        "or letters that look alike: rename one of them."
    )


def _read_recommended(fields: _Fields, options: list[_Fields | None]) -> int | None:
    # The question can have an index, or one of its options the mark `recommended`.
    index = fields.given.get("recommended")
    if index is not None and (not isinstance(index, int) or isinstance(index, bool)):
        text = f"expected the index of an option, from 0, {_format_found(index)}."
        fields.add_problem("recommended", text)
        return None
    marked = [
        number
        for number, option in enumerate(options)
        if option is not None and option.flag("recommended", default=False)
    ]
    named = [index] if isinstance(index, int) and 0 <= index < len(options) else []
    if len(found := sorted({*marked, *named})) > 1:
        text = f"options {', '.join(map(str, found))} are recommended: recommend at most one."
        fields.add_problem("recommended", text)
    return found[0] if found else None


@dataclass(slots=True)
class _Fields:
    """Reader for the fields of one object in the arguments. It treats null as missing.

    Attributes:
        path: Path of the object; "" for the arguments as a whole.
        problems: List to which the methods append problems.
        question_id: Id of the question, for problems.
    """

    source: Mapping[str, JsonValue]
    path: str
    problems: list[CallProblem]
    question_id: str = ""
    given: Mapping[str, JsonValue] = field(init=False)

    def __post_init__(self) -> None:
        self.given = {key: value for key, value in self.source.items() if value is not None}

    def add_problem(self, name: str, text: str) -> None:
        path = f"{self.path}.{name}" if self.path else name
        self.problems.append(CallProblem(path, self.question_id, text))

    def child(self, value: JsonValue, name: str) -> _Fields | None:
        if isinstance(value, dict):
            return _Fields(value, f"{self.path}.{name}", self.problems, self.question_id)
        example = json.dumps({"label": value if isinstance(value, str) else "…"})
        text = f"expected an object such as {example[:100]}, {_format_found(value)}."
        self.add_problem(name, text)
        return None

    def refuse_unknown(self, known: tuple[str, ...], what: str) -> None:
        for name in self.given:
            if name not in known:
                text = f"is not a field of {what}. Known fields: {', '.join(known)}."
                self.add_problem(spell_invisible(name)[:80], text)

    def mode(self) -> Mode | None:
        given = self.given.get("mode", "choice")
        if (found := next((mode for mode in MODES if mode == given), None)) is None:
            self.add_problem("mode", f'expected "choice" or "freetext", {_format_found(given)}.')
        return found

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.given.get(name, default)
        if not isinstance(value, bool):
            self.add_problem(name, f"expected true or false, {_format_found(value)}.")
            return default
        return value

    def text(self, name: str, *, required: bool = False, lines: bool = False) -> str | None:
        # None if the text is missing, blank, or invalid.
        value = self.given.get(name)
        if value is None and not required:
            return None
        if value is None:
            problem = "is missing."
        elif not isinstance(value, str):
            problem = f"expected a text, {_format_found(value)}."
        elif not value.strip() and name in ("id", "question", "label", "value"):
            problem = "is blank."
        elif len(value) > MAX_CHARS[name]:
            problem = f"has {len(value)} characters, at most {MAX_CHARS[name]} are allowed."
        elif not lines and len(value.splitlines()) > 1:
            more = " Move further lines into `context`." if name == "question" else ""
            problem = f"has several lines: write a single line.{more}"
        elif name == "id" and spell_invisible(value) != value:
            problem = "starts or ends with a space, or contains invisible characters."
        else:
            return value if value.strip() else None
        self.add_problem(name, problem)
        return None


def _find_texts(value: JsonValue) -> Iterator[str]:
    todo = [value]
    while todo:
        match todo.pop():
            case str() as text:
                yield text
            case dict() as fields:
                yield from fields
                todo.extend(fields.values())
            case list() as items:
                todo.extend(items)


def _format_text(text: str) -> str:
    return json.dumps(spell_invisible(text[:80]), ensure_ascii=False)


def _format_found(value: JsonValue) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    return f"found {spell_invisible(shown[:60])}{'…' if len(shown) > 60 else ''}"


SCHEMA_NAME: Final = "jp_nb.ask"
VERSION: Final = 1

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
"""Status and reason of a question without an answer."""
_REPLIED: Final = ("cancelled", "the user replied instead")
_SOURCES: Final = {
    "configured": "configured by the user in advance",
    "answers": "answered by the user in advance",
    "remembered": "answered by the user earlier in this turn",
    "model": "answered by another model, not by the user",
}
"""Sources of answers by channel, except for answers in the form."""
_AUTO: Final = "chosen automatically, because {}"
_UNSENT: Final = "selected before the time ran out, but not submitted"
_BLANK: Final = "(left blank on purpose: treat this point as undecided, or ask differently)"


@dataclass(frozen=True, slots=True)
class _Answer:
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
    """Return the result of an invalid call, with a line for each problem."""
    lines = [f"- {problem}" for problem in problems[:MAX_PROBLEMS]]
    if left := len(problems) - len(lines):
        lines.append(f"- … and {left} more.")
    errors: list[JsonValue] = [
        {"path": problem.path, "question": problem.question_id, "message": problem.text}
        for problem in problems[:MAX_PROBLEMS]
    ]
    structured: dict[str, JsonValue] = {**_HEADER, "outcome": "invalid", "errors": errors}
    return Failure("\n".join([_NOT_SHOWN, *lines]), structured=structured)


def form_result(asked: Sequence[AskedQuestion], context: ToolContext) -> Outcome:
    """Return the result of a call after each of its questions ended in `context`.

    It is a failure if no question was answered, unless the user replied or declined all of them.
    """
    answers = [_read_answer(each, context) for each in asked]
    text = "\n".join(_format_lines(answers, context.reply))
    structured = _make_structured(answers, context.reply)
    ends = {each.end.end for each in answers}
    if context.reply is not None or "answered" in ends or ends == {"declined"}:
        return Success(text, structured=structured)
    return Failure(text, structured=structured)


def _read_answer(asked: AskedQuestion, context: ToolContext) -> _Answer:
    question = asked.question
    end = context.ends[question.id]
    if end.end != "answered":
        return _Answer(asked, end, None)
    value, kind = context.answers.get(question.id), question.answer_type
    picks = kind.picks(value) if isinstance(kind, SelectAnswer) else Picks(custom=str(value))
    return _Answer(asked, end, picks)


# --- text for the model ----------------------------------------------------------------------


def _format_lines(answers: Sequence[_Answer], reply: str | None) -> Iterator[str]:
    replied = reply is not None
    if reply is not None:
        text = reply if reply.strip() else "(nothing more)"
        yield _format_block("The user did not send the form, but replied to you", text)
    if len(answers) == 1:
        yield from _format_only_answer(answers[0], replied=replied)
    else:
        by_user = any(each.picks and _format_source(each.end) is None for each in answers)
        yield f"{'User answers' if by_user else 'Answers'}{' so far' if replied else ''}:"
        yield from (_format_answer(each, replied=replied) for each in answers)
    for each in answers:
        if each.asked.ignored:
            names = ", ".join(f"`{name}`" for name in each.asked.ignored)
            yield f"({names} had no effect on {each.question.id!r}: its mode is freetext.)"


def _format_only_answer(answer: _Answer, *, replied: bool) -> Iterator[str]:
    if answer.picks is None:
        status, reason = _describe_open(answer.end, replied=replied)
        yield f"{status.capitalize()}: {reason}."
        return
    source, unsent = _format_source(answer.end), _format_unsent(answer.end)
    heading = None if source is None else source[0].upper() + source[1:]
    if (selected := _format_selected(answer)) is not None:
        yield f"{heading or 'User selected'}{unsent}: {selected}"
    if (custom := _format_custom(answer)) is not None:
        own = "User provided custom input" if heading is None else f"{heading}, as custom input"
        yield _format_block(f"{own}{unsent}", custom)


def _format_answer(answer: _Answer, *, replied: bool) -> str:
    name = answer.question.id
    if answer.picks is None:
        return "{}: {} ({})".format(name, *_describe_open(answer.end, replied=replied))
    source = _format_source(answer.end)
    label = f"{name}{'' if source is None else f' ({source})'}{_format_unsent(answer.end)}"
    selected, custom = _format_selected(answer), _format_custom(answer)
    if custom is None:
        return f"{label}: {selected}"
    picked = "" if selected is None else f"{selected}; "
    return _format_block(f"{label}: {picked}custom input", custom)


def _describe_open(end: QuestionEnd, *, replied: bool) -> tuple[str, str]:
    if replied and end.end == "cancelled":
        return _REPLIED
    return _OPEN.get(end.end, _OPEN["cancelled"])


def _format_source(end: QuestionEnd) -> str | None:
    # None if the user answered in the form.
    if end.auto:
        return _AUTO.format(_OPEN["timed_out" if end.timed_out else "unavailable"][1])
    return _SOURCES.get(end.channel or "")


def _format_unsent(end: QuestionEnd) -> str:
    return f" ({_UNSENT})" if end.timed_out and not end.auto else ""


def _format_selected(answer: _Answer) -> str | None:
    picks, choice = answer.picks, answer.choice
    if picks is None or choice is None or (picks.custom is not None and not picks.indices):
        return None
    labels = [_format_option(choice.options[index]) for index in picks.indices]
    if not choice.multi:
        return labels[0]
    return f"[{', '.join(labels)}]{'' if labels else f' ({NONE_OF_THESE})'}"


def _format_option(option: Option) -> str:
    label, value = option.shown, str(option.value)
    return label if value == label else f"{label} (value: {value})"


def _format_custom(answer: _Answer) -> str | None:
    if answer.picks is None or answer.picks.custom is None:
        return None
    return answer.picks.custom if answer.picks.custom.strip() else _BLANK


def _format_block(label: str, text: str) -> str:
    return f"{label}: {text}" if "\n" not in text else "\n  ".join([f"{label}:", *text.split("\n")])


# --- JSON for programs -----------------------------------------------------------------------


_HEADER: Final[Mapping[str, JsonValue]] = {"schema": SCHEMA_NAME, "version": VERSION}


def _make_structured(answers: Sequence[_Answer], reply: str | None) -> JsonValue:
    structured = dict(_HEADER)
    if len(answers) == 1:
        structured |= _make_fields(answers[0])
    else:
        structured["results"] = [{"id": each.question.id, **_make_fields(each)} for each in answers]
    return structured if reply is None else {**structured, "reply": reply}


def _make_fields(answer: _Answer) -> dict[str, JsonValue]:
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
    if (picks := answer.picks) is None:
        return fields
    options = [] if choice is None else [(index, choice.options[index]) for index in picks.indices]
    fields["selectedOptions"] = [option.shown for _, option in options]
    fields["selected"] = [
        {"index": index, "label": option.shown, "value": option.value} for index, option in options
    ]
    if picks.custom is not None:
        fields["customInput"] = picks.custom
    return fields


DESCRIPTION: Final = """\
Ask the user one or several questions in one form, and get the answers back.

Use it if options need an explanation, if the user can choose several options, or if you need \
several answers before you continue. Put all of these questions into one call. For a single short \
question use `ask_user` instead, if it is available. Ask rather than assume a default that \
matters. Do not ask for information that you can derive from the conversation, and do not ask the \
user to confirm an obvious next step.

Give a choice 2 to 5 options with short labels. Explain each option in its `description`, and \
recommend at most one. The form adds "Other" for a custom answer, so do not list it. The user can \
leave questions open, or reply to you instead. The result then states this.

Never use it to collect secrets such as passwords, API keys, or passphrases: answers are sent back \
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
    """Tool that asks the user questions in one form, and returns the answers to the model."""

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
        """Return the source of the questions, which is the assistant."""
        return InquirySource(source="assistant")

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Return the questions in the first run, and the answers in the second run.

        Invalid arguments are a failure, and the user sees no question.
        """
        asked, problems = read_form(arguments)
        if problems:
            return refused_call(problems)
        if any(each.question.id not in context.ends for each in asked):
            return NeedsInput(*(each.question for each in asked), partial=True, menu=True)
        return form_result(asked, context)
