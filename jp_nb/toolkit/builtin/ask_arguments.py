"""Read the arguments of a call of `ask`: return its questions, or every problem in them.

`ask_problems.py` finds the problems.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.config.secrets.secret_names import mentions_secret
from jp_nb.toolkit.builtin.ask_problems import (
    CallProblem,
    find_call_problems,
    find_recommended,
    read_fields,
)
from jp_nb.toolkit.builtin.ask_schema import CHOICE_DEFAULTS
from jp_nb.toolkit.question import Question
from jp_nb.toolkit.question_types.select_answer import SelectAnswer
from jp_nb.toolkit.question_types.select_options import Option
from jp_nb.toolkit.question_types.text_answer import TextAnswer

NO_SECRETS: Final = (
    "⚠ Do not type a password or a key. The answer is sent to the model and stored in the notebook."
)


@dataclass(frozen=True, slots=True)
class CheckedQuestion:
    """One question of a call whose arguments have no problems.

    Attributes:
        question: The question as the form shows it.
        ignored: The given fields that have no effect, such as `options` in the mode `freetext`.
    """

    question: Question
    ignored: tuple[str, ...] = ()

    @property
    def choice(self) -> SelectAnswer | None:
        """Its options; None for a free text."""
        answer_type = self.question.answer_type
        return answer_type if isinstance(answer_type, SelectAnswer) else None


def read_asked_questions(
    arguments: Mapping[str, JsonValue],
) -> tuple[list[CheckedQuestion], list[CallProblem]]:
    """Return the questions of a call, or all problems. Show no questions if there are problems."""
    problems = find_call_problems(arguments)
    if problems:
        return [], problems

    questions = arguments["questions"]
    assert isinstance(questions, list)  # another value is a problem
    return [_make_question(read_fields(item)) for item in questions], []


def _make_question(fields: Mapping[str, Any]) -> CheckedQuestion:
    """Return the question with these fields, which have no problems."""
    is_choice = fields.get("mode", "choice") == "choice"
    header = _read_text(fields, "header")
    context = _read_text(fields, "context")

    may_type = not is_choice or fields.get("allow_other", True)
    if may_type and any(map(mentions_secret, (fields["id"], fields["question"], header or ""))):
        context = "\n\n".join(filter(None, (context, NO_SECRETS)))

    # No model may answer a required question (`exclusive`). An answer of an earlier call is not
    # offered again (`persistence`).
    required = fields.get("required", True)
    answer_type = _make_choice(fields) if is_choice else TextAnswer()
    question = Question(
        id=fields["id"],
        text=fields["question"],
        header=header,
        context=context,
        answer_type=answer_type,
        required=required,
        exclusive=required,
        persistence="none",
    )
    if is_choice:
        return CheckedQuestion(question)

    ignored: list[str] = []
    for name, default in CHOICE_DEFAULTS.items():
        if fields.get(name, default) != default:
            ignored.append(name)
    return CheckedQuestion(question, tuple(ignored))


def _make_choice(fields: Mapping[str, Any]) -> SelectAnswer:
    """Return the options of a question. An option without a value has its label as value."""
    items = [read_fields(item) for item in fields.get("options", [])]
    options: list[Option] = []
    for item in items:
        label = item["label"]
        description = _read_text(item, "description")
        option = Option(value=item.get("value", label), label=label, description=description)
        options.append(option)

    recommended = find_recommended(fields, items)
    return SelectAnswer(
        options=tuple(options),
        multi=fields.get("multi", False),
        other=fields.get("allow_other", True),
        recommended=recommended[0] if recommended else None,
    )


def _read_text(fields: Mapping[str, Any], name: str) -> str | None:
    text = fields.get(name)
    return text if text and text.strip() else None
