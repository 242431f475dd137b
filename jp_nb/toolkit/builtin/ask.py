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
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pydantic import JsonValue

from jp_nb.config.secrets import mentions_secret
from jp_nb.record.outcomes import (
    ANSWER_MARKS,
    CHANNEL_WORDS,
    END_WORDS,
    QuestionEnd,
    QuestionOutcome,
)
from jp_nb.text import has_right_to_left, make_lookalike_key, spell_invisible
from jp_nb.toolkit.answer_types import (
    NONE_OF_THESE,
    OTHER_LABEL,
    Option,
    Picks,
    SelectAnswer,
    TextAnswer,
)
from jp_nb.toolkit.base import CellThread, Tool, ToolContext
from jp_nb.toolkit.outcome import MAX_QUESTIONS, NeedsInput, Outcome, Success, ToolFailure
from jp_nb.toolkit.parameters import argument, has_type
from jp_nb.toolkit.question import Question

ASK_DESCRIPTION: Final = """\
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
        "label": argument("string", "A few words that name the option."),
        "value": argument("string", "Value that you get back with the label. Default: the label."),
        "description": argument("string", "What choosing this option means."),
        "recommended": argument("boolean", "Marks the option that you recommend."),
    },
    "required": ["label"],
    "additionalProperties": False,
}
_QUESTION: Final[dict[str, JsonValue]] = {
    "type": "object",
    "properties": {
        "id": argument("string", 'Unique name of the answer in the result, such as "database".'),
        "question": argument("string", "The question, on a single line."),
        "header": argument("string", "Topic of the question, in one or two words."),
        "context": argument(
            "string", "Background shown above the question. Can have several lines."
        ),
        "mode": argument(
            "string",
            'Kind of answer: one of `options`, or a text. Default: "choice".',
            enum=["choice", "freetext"],
        ),
        "options": argument("array", 'The options of a "choice", without "Other".', items=_OPTION),
        "multi": argument("boolean", "The user can pick several options. Default: false."),
        "recommended": argument("integer", "Index of the option that you recommend, from 0."),
        "allow_other": argument(
            "boolean", "The user can type an answer of their own. Default: true."
        ),
        "required": argument(
            "boolean",
            "If true, no option is chosen for the user, who can still leave the "
            "question open. If false, the recommended or first option is used "
            "when no user answers in time. Default: true.",
        ),
    },
    "required": ["id", "question"],
    "additionalProperties": False,
}
ASK_SCHEMA: Final[dict[str, JsonValue]] = {
    "type": "object",
    "properties": {
        "questions": argument(
            "array", "The pages of the form, in order.", items=_QUESTION, minItems=1
        )
    },
    "required": ["questions"],
    "additionalProperties": False,
}

MAX_FIELD_CHARS: Final[Mapping[str, int]] = {
    "id": 64,
    "question": 500,
    "header": 60,
    "context": 10_000,
    "label": 200,
    "value": 1000,
    "description": 1000,
}
"""Limits for the texts that a form shows without truncation."""
MAX_LIST_ITEMS: Final = {"questions": MAX_QUESTIONS, "options": 200}
MAX_ASK_CHARS: Final = 100_000  # limit for all texts of a call together
MAX_PROBLEMS: Final = 30
"""Limit for the listed problems. Further ones are only counted."""

_CALL: Final[dict[str, JsonValue]] = {
    **ASK_SCHEMA,
    "properties": {"questions": {"type": "array", "minItems": 1}},
}
_OBJECTS: Final = {"": "the call", "questions": "a question", "options": "an option"}
_EXPECTED: Final = {
    "questions": "a list of at least one question",
    "options": "a list of options",
    "integer": "the index of an option, from 0",
    "boolean": "true or false",
    "string": "a text",
}
_CHOICE_DEFAULTS: Final[Mapping[str, JsonValue]] = {
    "options": [],
    "multi": False,
    "recommended": None,
    "allow_other": True,
}
"""Defaults of the fields that have no effect in the mode `freetext`."""
RESERVED_LABELS: Final = frozenset(
    {OTHER_LABEL.casefold(), "other", "other…", "other...", "type your own",
     "done", "done selecting", "submit"}
)  # fmt: skip
"""Labels of the form itself, as `_label_key` returns them. An option must not imitate them."""

NO_SECRETS: Final = (
    "⚠ Do not type a password or a key. The answer is sent to the model and stored in the notebook."
)


@dataclass(frozen=True, slots=True)
class _AskedQuestion:
    """One question of a call, and given fields that have no effect in its mode."""

    question: Question
    ignored: tuple[str, ...] = ()

    @property
    def choice(self) -> SelectAnswer | None:
        kind = self.question.answer_type
        return kind if isinstance(kind, SelectAnswer) else None


class _CallProblem(NamedTuple):
    """A problem in the arguments of a call, at a path such as `questions[0].options[2].label`."""

    path: str
    question_id: str
    text: str

    def __str__(self) -> str:
        question = f" (question {_format_text(self.question_id)})" if self.question_id else ""
        return f"`{self.path}`{question}: {self.text}"


def read_asked_questions(
    arguments: Mapping[str, JsonValue],
) -> tuple[list[_AskedQuestion], list[_CallProblem]]:
    """Return the questions of a call, and all problems. Show no questions if there are problems."""
    questions = arguments.get("questions")
    problems = [_CallProblem(path, "", text) for path, text in _find_misfits(arguments, _CALL, "")]
    if not isinstance(questions, list) or len(questions) > MAX_LIST_ITEMS["questions"]:
        return [], problems

    total = sum(map(len, _find_texts(questions)))
    if total > MAX_ASK_CHARS:
        text = (
            f"the texts have {total} characters, at most {MAX_ASK_CHARS} are allowed: shorten them."
        )
        return [], [*problems, _CallProblem("questions", "", text)]

    given = [_read_fields(item) for item in questions]
    ids: dict[JsonValue, int] = {}
    for index, fields in enumerate(given):
        path = f"questions[{index}]"
        key = fields.get("id")
        is_choice = fields.get("mode", "choice") == "choice"
        used = {name: x for name, x in fields.items() if name not in _CHOICE_DEFAULTS}
        checked = questions[index] if is_choice else used
        found = [*_find_misfits(checked, _QUESTION, path, "questions")]
        if is_choice:
            found += _find_option_conflicts(fields, path)
        if isinstance(key, str) and ids.setdefault(key, index) != index and key.strip():
            text = f"questions[{ids[key]}] has the same id: give each question a different id."
            found.append((f"{path}.id", text))

        question_id = key if isinstance(key, str) else ""
        problems += [_CallProblem(place, question_id, text) for place, text in found]

    if problems:
        return [], problems
    return [_make_question(fields) for fields in given], []


def _label_key(label: str) -> str:
    # Equal for labels that look alike.
    plain_label = " ".join(label.split())
    # `make_lookalike_key` ignores the order of letters in right-to-left text, so "12" and "21"
    # would be equal. In a form, each label has its own line, so their order is visible.
    key = plain_label if has_right_to_left(plain_label) else make_lookalike_key(plain_label)
    return "".join(char for char in key if char.isprintable()).casefold()


def _find_misfits(
    value: Any, schema: Mapping[str, Any], path: str, name: str = ""
) -> Iterator[tuple[str, str]]:
    # Of `value`, and of its parts. `name` is that of the field, or of the list that has the value.
    kind = schema["type"]
    if not has_type(value, {kind}) or value not in schema.get("enum", [value]):
        shown = json.dumps(value, ensure_ascii=False)
        found = spell_invisible(shown[:60])
        if len(shown) > 60:
            found += "…"
        yield path, f"expected {_describe_expected(value, schema, name)}, found {found}."
    elif name in MAX_FIELD_CHARS and (problem := _find_text_problem(value, name)):
        yield path, problem
    elif kind == "array" and not schema.get("minItems", 0) <= len(value) <= MAX_LIST_ITEMS[name]:
        text = "the list is empty: ask at least one question."
        if value:
            text = f"at most {MAX_LIST_ITEMS[name]} {name} are allowed, found {len(value)}."
        yield path, text
    elif kind == "array" and "items" in schema:
        for index, item in enumerate(value):
            yield from _find_misfits(item, schema["items"], f"{path}[{index}]", name)
    elif kind == "object":
        prefix = f"{path}." if path else ""
        yield from _find_field_misfits(value, schema, prefix, name)


def _find_field_misfits(
    value: Any, schema: Mapping[str, Any], prefix: str, name: str
) -> Iterator[tuple[str, str]]:
    given = _read_fields(value)
    known = schema["properties"]
    for key in given:
        if key not in known:
            text = f"is not a field of {_OBJECTS[name]}. Known fields: {', '.join(known)}."
            yield f"{prefix}{spell_invisible(key)[:80]}", text

    for key, part in known.items():
        if key in given:
            yield from _find_misfits(given[key], part, f"{prefix}{key}", key)
        elif key in schema["required"]:
            yield f"{prefix}{key}", f"is missing: expected {_describe_expected(None, part, key)}."


def _describe_expected(value: JsonValue, schema: Mapping[str, Any], name: str) -> str:
    if schema["type"] != "object":
        choices = " or ".join(map(json.dumps, schema.get("enum", [])))
        return choices or _EXPECTED.get(name) or _EXPECTED[schema["type"]]

    label = value if isinstance(value, str) else "…"
    example = json.dumps({"label": label})[:100]
    if name == "questions":
        example = '{"id": "size", "question": "…"}'
    return f"an object such as {example}"


def _find_text_problem(text: str, name: str) -> str | None:
    if not text.strip():
        return "is blank." if name in ("id", "question", "label", "value") else None
    if len(text) > MAX_FIELD_CHARS[name]:
        return f"has {len(text)} characters, at most {MAX_FIELD_CHARS[name]} are allowed."
    if name not in ("context", "description") and len(text.splitlines()) > 1:
        more = " Move further lines into `context`." if name == "question" else ""
        return f"has several lines: write a single line.{more}"
    if name == "id" and spell_invisible(text) != text:
        return "starts or ends with a space, or contains invisible characters."
    return None


def _find_option_conflicts(fields: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    given = fields.get("options", [])
    if not isinstance(given, list) or len(given) > MAX_LIST_ITEMS["options"]:
        return

    if not given and fields.get("allow_other") is False:
        text = "the question cannot be answered: give at least one option, or remove `allow_other`."
        yield f"{path}.options", text

    options = [_read_fields(option) for option in given]
    labels: dict[str, int] = {}
    values: dict[str, int] = {}
    for index, option in enumerate(options):
        at = f"{path}.options[{index}]"

        label = option.get("label")
        if not isinstance(label, str):
            continue

        key = _label_key(label)
        value = option.get("value", label)
        if key in RESERVED_LABELS:
            text = f"the form uses {_format_text(label)} itself: remove the option or rename it. "
            more = "The form offers a custom answer unless `allow_other` is false."
            yield f"{at}.label", f"{text}{more}"

        if (same := labels.setdefault(key, index)) != index:
            shown = _format_text(label)
            earlier = options[same]["label"]
            text = f"another option has the label {shown}: rename one of them."
            if label != earlier:
                text = (
                    f"{shown} differs from {_format_text(earlier)} only in case, white space, "
                    "or letters that look alike: rename one of them."
                )
            yield f"{at}.label", text
        elif isinstance(value, str) and (same := values.setdefault(value, index)) != index:
            other = _format_text(options[same]["label"])
            text = f"the option {other} has the same value: use a different one."
            yield f"{at}.value", text

    found = _find_recommended(fields, options)
    if len(found) > 1:
        text = f"options {', '.join(map(str, found))} are recommended: recommend at most one."
        yield f"{path}.recommended", text


def _find_recommended(fields: Mapping[str, Any], options: Sequence[Mapping[str, Any]]) -> list[int]:
    # The question can have an index, or one of its options the mark `recommended`.
    index = fields.get("recommended")
    named = [at for at in range(len(options)) if at == index and type(index) is int]
    marked = [at for at, option in enumerate(options) if option.get("recommended") is True]
    return sorted({*marked, *named})


def _make_question(fields: Mapping[str, Any]) -> _AskedQuestion:
    is_choice = fields.get("mode", "choice") == "choice"
    header = _read_text(fields, "header")
    context = _read_text(fields, "context")
    is_typed = not is_choice or fields.get("allow_other", True)
    if is_typed and any(map(mentions_secret, (fields["id"], fields["question"], header or ""))):
        context = "\n\n".join(filter(None, (context, NO_SECRETS)))

    required = fields.get("required", True)
    kind = _make_choice(fields) if is_choice else TextAnswer()
    question = Question(
        id=fields["id"],
        text=fields["question"],
        header=header,
        context=context,
        answer_type=kind,
        required=required,
        exclusive=required,
        persistence="none",
    )

    if is_choice:
        return _AskedQuestion(question)
    ignored = [name for name, x in _CHOICE_DEFAULTS.items() if fields.get(name, x) != x]
    return _AskedQuestion(question, tuple(ignored))


def _make_choice(fields: Mapping[str, Any]) -> SelectAnswer:
    given = [_read_fields(option) for option in fields.get("options", [])]
    options = []
    for option in given:
        label = option["label"]
        about = _read_text(option, "description")
        options.append(Option(value=option.get("value", label), label=label, description=about))

    return SelectAnswer(
        options=tuple(options),
        multi=fields.get("multi", False),
        other=fields.get("allow_other", True),
        recommended=next(iter(_find_recommended(fields, given)), None),
    )


def _read_text(fields: Mapping[str, Any], name: str) -> str | None:
    text = fields.get(name)
    return text if text and text.strip() else None


def _read_fields(value: Any) -> dict[str, Any]:
    # Models send null for a missing field.
    given = value if isinstance(value, Mapping) else {}
    return {key: item for key, item in given.items() if item is not None}


def _find_texts(value: JsonValue) -> Iterator[str]:
    todo = [value]
    while todo:
        match todo.pop():
            case str() as text:
                yield text
            case dict() as fields:
                todo += [*fields, *fields.values()]
            case list() as items:
                todo += items


def _format_text(text: str) -> str:
    return json.dumps(spell_invisible(text[:80]), ensure_ascii=False)


SCHEMA_NAME: Final = "jp_nb.ask"
RESULT_VERSION: Final = 1

_NOT_SHOWN: Final = (
    "Nothing was shown to the user because this call is not valid. Correct all of "
    "these problems, then call the tool again:"
)
_REPLIED: Final = ("cancelled", "the user replied instead")
_AUTO: Final = "chosen automatically, because {}"
_UNSENT: Final = "selected before the time ran out, but not submitted"
_BLANK: Final = "(left blank on purpose: treat this point as undecided, or ask differently)"


@dataclass(frozen=True, slots=True)
class _Answer:
    asked: _AskedQuestion
    end: QuestionOutcome
    picks: Picks | None

    @classmethod
    def read(cls, asked: _AskedQuestion, context: ToolContext) -> _Answer:
        name = asked.question.id
        choice = asked.choice
        end = context.ends[name]
        value = context.answers.get(name)

        if not end.is_answered:
            return cls(asked, end, None)
        picks = choice.picks(value) if choice else Picks(custom=str(value))
        return cls(asked, end, picks)


def _refuse_call(problems: Sequence[_CallProblem]) -> ToolFailure:
    listed = problems[:MAX_PROBLEMS]
    left = len(problems[MAX_PROBLEMS:])
    lines = [_NOT_SHOWN, *(f"- {problem}" for problem in listed)]
    if left:
        lines.append(f"- … and {left} more.")

    errors: list[JsonValue] = [
        {"path": path, "question": name, "message": text} for path, name, text in listed
    ]
    structured: dict[str, JsonValue] = {**_HEADER, "outcome": "invalid", "errors": errors}
    return ToolFailure("\n".join(lines), structured=structured)


def _make_result(asked: Sequence[_AskedQuestion], context: ToolContext) -> Outcome:
    """Return the result of a call after each of its questions ended in `context`.

    It is a failure if no question was answered, unless the user replied or declined all of them.
    """
    answers = [_Answer.read(each, context) for each in asked]
    text = "\n".join(_format_lines(answers, context.reply))

    structured = {**_HEADER}
    if len(answers) == 1:
        structured |= _make_fields(answers[0])
    else:
        structured["results"] = [{"id": x.asked.question.id, **_make_fields(x)} for x in answers]

    if context.reply is not None:
        structured["reply"] = context.reply

    ends = {each.end.end for each in answers}
    if context.reply is not None or "answered" in ends or ends == {"declined"}:
        return Success(text, structured=structured)
    return ToolFailure(text, structured=structured)


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
        heading = "User answers" if by_user else "Answers"
        so_far = " so far" if replied else ""
        yield f"{heading}{so_far}:"
        yield from (_format_answer(each, replied=replied) for each in answers)

    for each in answers:
        if each.asked.ignored:
            names = ", ".join(f"`{name}`" for name in each.asked.ignored)
            yield f"({names} had no effect on {each.asked.question.id!r}: its mode is freetext.)"


def _format_only_answer(answer: _Answer, *, replied: bool) -> Iterator[str]:
    if answer.picks is None:
        status, reason = _describe_open(answer.end, replied=replied)
        yield f"{status.capitalize()}: {reason}."
        return

    source = _format_source(answer.end)
    unsent = _format_unsent(answer.end)
    heading = None if source is None else source[0].upper() + source[1:]

    selected = _format_selected(answer)
    if selected is not None:
        yield f"{heading or 'User selected'}{unsent}: {selected}"
    custom = _format_custom(answer)
    if custom is not None:
        own = f"{heading}, as custom input" if heading else "User provided custom input"
        yield _format_block(f"{own}{unsent}", custom)


def _format_answer(answer: _Answer, *, replied: bool) -> str:
    name = answer.asked.question.id
    if answer.picks is None:
        status, reason = _describe_open(answer.end, replied=replied)
        return f"{name}: {status} ({reason})"

    source = _format_source(answer.end)
    label = name if source is None else f"{name} ({source})"
    label += _format_unsent(answer.end)
    selected = _format_selected(answer)
    custom = _format_custom(answer)

    if custom is None:
        return f"{label}: {selected}"
    picked = "" if selected is None else f"{selected}; "
    return _format_block(f"{label}: {picked}custom input", custom)


def _describe_open(end: QuestionOutcome, *, replied: bool) -> tuple[str, str]:
    if replied and end.end == "cancelled":
        return _REPLIED
    words = END_WORDS[end.end]
    return words.status, words.cause


def _format_source(end: QuestionOutcome) -> str | None:
    # None if the user answered in the form.
    if "auto" in end.marks:
        why: QuestionEnd = "timed_out" if "timed_out" in end.marks else "unavailable"
        return _AUTO.format(END_WORDS[why].cause)

    words = CHANNEL_WORDS.get(end.channel or "")
    return None if words is None else words.source


def _format_unsent(end: QuestionOutcome) -> str:
    return f" ({_UNSENT})" if "timed_out" in end.marks and "auto" not in end.marks else ""


def _format_selected(answer: _Answer) -> str | None:
    picks = answer.picks
    choice = answer.asked.choice
    if picks is None or choice is None or (picks.custom is not None and not picks.indices):
        return None

    labels = []
    for index in picks.indices:
        option = choice.options[index]
        label = option.shown
        if str(option.value) != label:
            label += f" (value: {option.value})"
        labels.append(label)

    if not choice.multi:
        return labels[0]
    if not labels:
        return f"[] ({NONE_OF_THESE})"
    return f"[{', '.join(labels)}]"


def _format_custom(answer: _Answer) -> str | None:
    if answer.picks is None or answer.picks.custom is None:
        return None
    return answer.picks.custom if answer.picks.custom.strip() else _BLANK


def _format_block(label: str, text: str) -> str:
    if "\n" not in text:
        return f"{label}: {text}"
    return "\n  ".join([f"{label}:", *text.split("\n")])


# --- JSON for programs -----------------------------------------------------------------------


_HEADER: Final[Mapping[str, JsonValue]] = {"schema": SCHEMA_NAME, "version": RESULT_VERSION}


def _make_fields(answer: _Answer) -> dict[str, JsonValue]:
    asked = answer.asked
    end = answer.end
    choice = asked.choice
    mode = "freetext" if choice is None else "choice"
    options: list[JsonValue] = [] if choice is None else [*choice.labels]
    fields: dict[str, JsonValue] = {
        "question": asked.question.text,
        "mode": mode,
        "options": options,
        "multi": choice is not None and choice.multi,
        "outcome": end.end,
    }

    if end.channel is not None:
        fields["channel"] = end.channel
    fields |= {mark: True for mark in ANSWER_MARKS if mark in end.marks}
    if asked.ignored:
        fields["ignored"] = [*asked.ignored]

    picks = answer.picks
    if picks is None:
        return fields

    selected = [] if choice is None else [(at, choice.options[at]) for at in picks.indices]
    fields["selectedOptions"] = [x.shown for _, x in selected]
    fields["selected"] = [{"index": at, "label": x.shown, "value": x.value} for at, x in selected]
    if picks.custom is not None:
        fields["customInput"] = picks.custom
    return fields


class Ask(Tool):
    """Tool that asks the user questions in one form, and returns the answers to the model."""

    registration: Mapping[str, JsonValue] = {
        "source": "builtin",
        "enable": True,
        "run": "unattended",
        "result": "unattended",
        "style": {"hidden": True},
        "description": ASK_DESCRIPTION,
    }
    schema = ASK_SCHEMA
    needs_user = True
    asks_as_assistant = True

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Return the questions in the first run, and the answers in the second run."""
        asked, problems = read_asked_questions(arguments)
        if problems:
            return _refuse_call(problems)
        if any(each.question.id not in context.ends for each in asked):
            return NeedsInput(*(each.question for each in asked), partial=True, menu=True)
        return _make_result(asked, context)
