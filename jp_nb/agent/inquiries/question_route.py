"""Select who answers a question of a tool.

The first of these that applies: the configured answer, the answers file, an answer that the user
gave for the rest of the turn, a model if the configuration routes the question there, the user. If
no user is available, an optional question gets its default or stays open, and a model answers the
others, except for those that only the user may answer (`Question.human_only`: exclusive, secret, or
with an address to open).

Source: `docs/turns.md`, `docs/answers.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from jp_nb.agent.prepared_answers import (
    ANSWERS_CHANNEL,
    DeclinedByFile,
    GivenAnswer,
    InvalidAnswer,
    PreparedQuestionAnswer,
)
from jp_nb.config.tree.tool_settings import QuestionConfig
from jp_nb.record.entries.outcomes import QuestionEnd
from jp_nb.toolkit.question import Question
from jp_nb.toolkit.question_types.answer_types import Misfit

HUMAN_ONLY_TEXT = (
    "{} requires a human answer and cannot be routed to the assistant. Do not retry this tool call "
    "in this turn."
)


@dataclass(frozen=True, slots=True)
class UseAnswer:
    """Use a known answer. `channel` is None for the automatic one of an optional question."""

    answer: JsonValue
    channel: str | None


@dataclass(frozen=True, slots=True)
class Refuse:
    """End the call with the error `text`.

    Attributes:
        end: The outcome of the question.
        open_reason: Why the question stays open, if a user could have answered it; else None.
    """

    text: str
    end: QuestionEnd
    open_reason: str | None = None


Route = UseAnswer | Refuse | Literal["leave_open", "decline", "user", "model"]
"""Source of the outcome of a question.

`user` and `model` are asked. `decline` is a refusal in the answers file. With `leave_open`, an
optional question gets no answer.
"""


def select_route(
    tool: str,
    question: Question,
    config: QuestionConfig | None,
    *,
    remembered: JsonValue,
    unavailable_reason: str | None,
    prepared: PreparedQuestionAnswer | None = None,
) -> Route:
    """Select who answers a question, by the precedence at the top of this module.

    Args:
        tool: Name of the tool that asks.
        question: The question.
        config: The settings of the question; None without any.
        remembered: A valid answer from this turn, or None.
        unavailable_reason: Why no user is available; None if one may be.
        prepared: The decision in the answers file, or None.
    """
    config = config or QuestionConfig()

    if config.answer is not None:
        return _route_configured_answer(tool, question, config.answer)

    match prepared:
        case GivenAnswer(value=value):
            return UseAnswer(value, ANSWERS_CHANNEL)
        case DeclinedByFile():
            return "decline"
        case InvalidAnswer(why=why):
            return Refuse(f"{tool}: {why}. Do not retry.", "invalid", why)

    if remembered is not None:
        return UseAnswer(remembered, "remembered")
    if config.is_answered_by_model:
        return Refuse(HUMAN_ONLY_TEXT.format(tool), "denied") if question.human_only else "model"
    if unavailable_reason is None:
        return "user"

    if question.may_stay_open:
        automatic = question.automatic
        return "leave_open" if automatic is None else UseAnswer(automatic, None)
    if question.human_only:
        return Refuse(format_no_user_error(tool), "unavailable", unavailable_reason)
    return "model"


def format_no_user_error(tool: str) -> str:
    """Return the error for the model if `tool` needs a user and none is available.

    Source: RFD 083, which fixes the words.
    """
    return (
        f"{tool} cannot run because no interactive terminal is available. Do not retry this tool "
        "call in this turn; continue without user input or explain what information is missing."
    )


def _route_configured_answer(tool: str, question: Question, configured: JsonValue) -> Route:
    """Use the answer in the configuration. One that does not fit ends the call."""
    answer = question.answer_type.normalized(configured)
    misfit = question.misfit(answer)
    if misfit is None:
        return UseAnswer(answer, "configured")

    problems: dict[Misfit, str] = {
        "type": "does not match the question's answer_type",
        "option": "is not one of the question's options",
        "value": f"does not fit: {question.answer_type.format_problem(answer)}",
    }
    problem = problems[misfit]
    path = f"conversation.tools.{tool}.questions.{question.id}.answer"
    text = f"{tool}: the configured {path} value {problem}. Update the configuration; do not retry."
    return Refuse(text, "invalid")
