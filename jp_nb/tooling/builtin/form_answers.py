"""The result of `ask`: in words for the model, and as an object for programs.

Shape of the object, for one question; of several it is `{"schema", "version", "results": […]}`,
and each result has its `id`:
    {"schema": "jp_nb.ask", "version": 1, "question": "Which database?", "mode": "choice",
     "options": ["PostgreSQL", "SQLite"], "multi": false, "outcome": "answered", "channel": "form",
     "selectedOptions": ["SQLite"], "selected": [{"index": 1, "label": "SQLite", "value": "lite"}]}

`customInput` is the person's own text, and absent without one. What was not answered has no
`selectedOptions`. `auto`, `timed_out` and `empty` are there where they are true; so are `reply` of
the whole, and `ignored` of a question.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from jp_nb.tooling.builtin.asked_form import MAX_PROBLEMS, AskedQuestion, CallProblem
from jp_nb.tooling.context import NOT_IN_TIME, EndOfQuestion, QuestionEnd, ToolContext
from jp_nb.tooling.outcome import Failure, Outcome, Success
from jp_nb.tooling.question import Question
from jp_nb.tooling.select_kind import NONE_OF_THESE, Option, Picks, SelectAnswer

SCHEMA_NAME: Final = "jp_nb.ask"
VERSION: Final = 1
"""Of the object's shape."""

_NOT_SHOWN: Final = (
    "Nothing was shown to the user because this call is not valid. Correct all of "
    "these problems, then call the tool again:"
)
_OPEN: Final[dict[EndOfQuestion, tuple[str, str]]] = {
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
