"""Make the results of the built-in tool `ask`, each of which also has JSON for programs.

`ask_result_text.py` has the text that the model reads. The JSON of a call with one question:

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

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from jp_nb.record.entries.outcomes import ANSWER_MARKS
from jp_nb.toolkit.builtin.ask_arguments import CheckedQuestion
from jp_nb.toolkit.builtin.ask_ends import EndedQuestion
from jp_nb.toolkit.builtin.ask_problems import CallProblem
from jp_nb.toolkit.builtin.ask_result_text import format_lines
from jp_nb.toolkit.outcome import Outcome, Success, ToolFailure
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
    answers = [EndedQuestion.read(checked, context) for checked in asked]
    text = "\n".join(format_lines(answers, context.reply))

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


def _make_fields(answer: EndedQuestion) -> dict[str, JsonValue]:
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
