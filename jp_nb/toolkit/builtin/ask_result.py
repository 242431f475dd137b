"""Results of the built-in tool `ask`: the text that the model reads, and JSON for programs.

The JSON of a call with one question:

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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from jp_nb.record.entries.outcomes import ANSWER_MARKS, QuestionEnd, QuestionOutcome
from jp_nb.record.reading.outcome_words import CHANNEL_WORDS, END_WORDS
from jp_nb.toolkit.builtin.ask_arguments import CheckedQuestion
from jp_nb.toolkit.builtin.ask_problems import CallProblem
from jp_nb.toolkit.outcome import Outcome, Success, ToolFailure
from jp_nb.toolkit.question_types.answer_types import NONE_OF_THESE
from jp_nb.toolkit.question_types.select_answer import Picks, SelectAnswer
from jp_nb.toolkit.tool_context import ToolContext

SCHEMA_NAME: Final = "jp_nb.ask"
RESULT_VERSION: Final = 1
MAX_PROBLEMS: Final = 30
"""Limit for the listed problems. Further ones are only counted."""
_HEADER: Final[Mapping[str, JsonValue]] = {"schema": SCHEMA_NAME, "version": RESULT_VERSION}
_NOT_SHOWN: Final = (
    "Nothing was shown to the user because this call is not valid. Correct all of "
    "these problems, then call the tool again:"
)
_REPLIED: Final = ("cancelled", "the user replied instead")
"""Status and reason of a question that the user left open to send a reply."""
_AUTO: Final = "chosen automatically, because {}"
_UNSENT: Final = "selected before the time ran out, but not submitted"
_BLANK: Final = "(left blank on purpose: treat this point as undecided, or ask differently)"


@dataclass(frozen=True, slots=True)
class _Answer:
    """One question of the call, after it ended.

    Attributes:
        asked: The question, and the fields of the call that had no effect.
        outcome: How it ended, who answered, and marks such as `timed_out`.
        picks: The indexes of the picked options, and the user's own text (`custom`), which is the
            answer to a free text; None without an answer.
    """

    asked: CheckedQuestion
    outcome: QuestionOutcome
    picks: Picks | None

    @classmethod
    def read(cls, asked: CheckedQuestion, context: ToolContext) -> _Answer:
        """Return the question with its outcome and answer in `context`."""
        question_id = asked.question.id
        outcome = context.ends[question_id]
        if not outcome.is_answered:
            return cls(asked, outcome, None)

        choice = asked.choice
        value = context.answers.get(question_id)
        picks = choice.read_picks(value) if choice else Picks(custom=str(value))
        return cls(asked, outcome, picks)


def refuse_call(problems: Sequence[CallProblem]) -> ToolFailure:
    """Return the failure of a call whose arguments have `problems`, up to `MAX_PROBLEMS`."""
    listed = problems[:MAX_PROBLEMS]
    lines = [_NOT_SHOWN, *(f"- {problem}" for problem in listed)]
    omitted_count = len(problems) - len(listed)
    if omitted_count:
        lines.append(f"- … and {omitted_count} more.")

    errors: list[JsonValue] = [
        {"path": problem.path, "question": problem.question_id, "message": problem.text}
        for problem in listed
    ]
    structured: dict[str, JsonValue] = {**_HEADER, "outcome": "invalid", "errors": errors}
    return ToolFailure("\n".join(lines), structured=structured)


def make_result(asked: Sequence[CheckedQuestion], context: ToolContext) -> Outcome:
    """Return the result of a call after each of its questions ended in `context`.

    It is a failure if no question was answered, unless the user replied or declined all of them.
    """
    answers = [_Answer.read(checked, context) for checked in asked]
    text = "\n".join(_format_lines(answers, context.reply))

    structured = {**_HEADER}
    if len(answers) == 1:
        structured |= _make_fields(answers[0])
    else:
        structured["results"] = [
            {"id": answer.asked.question.id, **_make_fields(answer)} for answer in answers
        ]

    if context.reply is not None:
        structured["reply"] = context.reply

    ends = {answer.outcome.end for answer in answers}
    if context.reply is not None or "answered" in ends or ends == {"declined"}:
        return Success(text, structured=structured)
    return ToolFailure(text, structured=structured)


def _make_fields(answer: _Answer) -> dict[str, JsonValue]:
    """Return the fields of one question for programs."""
    asked = answer.asked
    choice = asked.choice
    fields: dict[str, JsonValue] = {
        "question": asked.question.text,
        "mode": "freetext" if choice is None else "choice",
        "options": [] if choice is None else [*choice.labels],
        "multi": choice is not None and choice.multi,
        "outcome": answer.outcome.end,
    }

    if answer.outcome.channel is not None:
        fields["channel"] = answer.outcome.channel
    fields |= {mark: True for mark in ANSWER_MARKS if mark in answer.outcome.marks}
    if asked.ignored:
        fields["ignored"] = [*asked.ignored]

    if answer.picks is not None:
        fields |= _make_pick_fields(answer.picks, choice)
    return fields


def _make_pick_fields(picks: Picks, choice: SelectAnswer | None) -> dict[str, JsonValue]:
    """Return the fields about an answer; `choice` is None for a free text."""
    labels: list[JsonValue] = []
    selected: list[JsonValue] = []
    if choice is not None:
        for index in picks.indices:
            option = choice.options[index]
            labels.append(option.shown)
            selected.append({"index": index, "label": option.shown, "value": option.value})

    fields: dict[str, JsonValue] = {"selectedOptions": labels, "selected": selected}
    if picks.custom is not None:
        fields["customInput"] = picks.custom
    return fields


def _format_lines(answers: Sequence[_Answer], reply: str | None) -> Iterator[str]:
    """Yield the lines of the result: the user's reply, the answers, and notes on ignored fields."""
    replied = reply is not None
    if reply is not None:
        text = reply if reply.strip() else "(nothing more)"
        yield _format_block("The user did not send the form, but replied to you", text)

    if len(answers) == 1:
        yield from _format_only_answer(answers[0], replied=replied)
    else:
        heading = "User answers" if any(map(_is_by_user, answers)) else "Answers"
        so_far = " so far" if replied else ""
        yield f"{heading}{so_far}:"
        yield from (_format_answer(answer, replied=replied) for answer in answers)

    for answer in answers:
        if answer.asked.ignored:
            names = ", ".join(f"`{name}`" for name in answer.asked.ignored)
            question_id = answer.asked.question.id
            yield f"({names} had no effect on {question_id!r}: its mode is freetext.)"


def _is_by_user(answer: _Answer) -> bool:
    """Return True if the user answered in the form."""
    return answer.picks is not None and _format_source(answer.outcome) is None


def _format_only_answer(answer: _Answer, *, replied: bool) -> Iterator[str]:
    """Yield the lines about the only question of a call, whose id they omit."""
    if answer.picks is None:
        status, reason = _describe_open(answer.outcome, replied=replied)
        yield f"{status.capitalize()}: {reason}."
        return

    selected_heading = "User selected"
    custom_heading = "User provided custom input"
    source = _format_source(answer.outcome)
    if source is not None:
        selected_heading = source[0].upper() + source[1:]
        custom_heading = f"{selected_heading}, as custom input"

    unsent = _format_unsent(answer.outcome)
    selected = _format_selected(answer)
    if selected is not None:
        yield f"{selected_heading}{unsent}: {selected}"

    custom = _format_custom(answer)
    if custom is not None:
        yield _format_block(f"{custom_heading}{unsent}", custom)


def _format_answer(answer: _Answer, *, replied: bool) -> str:
    """Return the text about one of several questions, which begins with its id."""
    question_id = answer.asked.question.id
    if answer.picks is None:
        status, reason = _describe_open(answer.outcome, replied=replied)
        return f"{question_id}: {status} ({reason})"

    source = _format_source(answer.outcome)
    label = question_id if source is None else f"{question_id} ({source})"
    label += _format_unsent(answer.outcome)

    selected = _format_selected(answer)
    custom = _format_custom(answer)

    if custom is None:
        return f"{label}: {selected}"
    picked = "" if selected is None else f"{selected}; "
    return _format_block(f"{label}: {picked}custom input", custom)


def _describe_open(outcome: QuestionOutcome, *, replied: bool) -> tuple[str, str]:
    """Return the status of a question without an answer, and the reason."""
    if replied and outcome.end == "cancelled":
        return _REPLIED
    words = END_WORDS[outcome.end]
    return words.status, words.cause


def _format_source(outcome: QuestionOutcome) -> str | None:
    """Return the source of an answer; None if the user answered in the form."""
    if "auto" in outcome.marks:
        why: QuestionEnd = "timed_out" if "timed_out" in outcome.marks else "unavailable"
        return _AUTO.format(END_WORDS[why].cause)

    # The table has no words for the form, the channel of most answers.
    words = CHANNEL_WORDS.get(outcome.channel or "")
    return None if words is None else words.source


def _format_unsent(outcome: QuestionOutcome) -> str:
    """Return a note if the user had picked the answer, but the time ran out; "" otherwise."""
    # With `auto`, the answer was chosen for the user.
    is_unsent = "timed_out" in outcome.marks and "auto" not in outcome.marks
    return f" ({_UNSENT})" if is_unsent else ""


def _format_selected(answer: _Answer) -> str | None:
    """Return the labels of the picked options; None if the answer is only a text, or none."""
    picks = answer.picks
    choice = answer.asked.choice
    if picks is None or choice is None:
        return None
    if picks.custom is not None and not picks.indices:
        return None

    labels = []
    for index in picks.indices:
        option = choice.options[index]
        label = option.shown
        if str(option.value) != label:
            label += f" (value: {option.value})"
        labels.append(label)

    if not choice.multi:
        return labels[0]  # without a text of their own, users pick exactly one option
    if not labels:
        return f"[] ({NONE_OF_THESE})"
    return f"[{', '.join(labels)}]"


def _format_custom(answer: _Answer) -> str | None:
    """Return the user's own text, or a note if it is blank; None without one."""
    if answer.picks is None or answer.picks.custom is None:
        return None
    return answer.picks.custom if answer.picks.custom.strip() else _BLANK


def _format_block(label: str, text: str) -> str:
    if "\n" not in text:
        return f"{label}: {text}"
    return "\n  ".join([f"{label}:", *text.split("\n")])
