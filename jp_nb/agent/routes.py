"""Who answers a tool's question.

Source: `docs/turns.md`, `docs/answers.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from pydantic import JsonValue

from jp_nb.agent.prepared_answers import ANSWERS, Beforehand, Declined, Given, Unfit
from jp_nb.config.tree.tool_config import QuestionConfig
from jp_nb.record.events import CancelReason
from jp_nb.tooling.question import Question
from jp_nb.tooling.question_kinds import Misfit


@dataclass(frozen=True, slots=True)
class UseAnswer:
    """The answer is known, and nobody is asked.

    `channel` says from where; None for the automatic answer of an optional question: nobody is
    there to decide.
    """

    answer: JsonValue
    channel: str | None


@dataclass(frozen=True, slots=True)
class LeaveOpen:
    """Nobody is there to answer, and nobody has to."""


@dataclass(frozen=True, slots=True)
class Decline:
    """Nobody is asked: it was said beforehand that there is no answer."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Nobody may answer; the call ends with the error `text`.

    `open` says why nobody decided: nobody is there, or what was prepared is no answer; None if it
    is refused whoever is there.
    """

    text: str
    reason: CancelReason
    open: str | None = None


@dataclass(frozen=True, slots=True)
class AskPerson:
    """A person is asked."""


@dataclass(frozen=True, slots=True)
class AskModel:
    """A model is asked."""


Route = UseAnswer | LeaveOpen | Decline | Refuse | AskPerson | AskModel


def route(
    tool: str,
    question: Question,
    config: QuestionConfig | None,
    *,
    remembered: JsonValue,
    nobody: str | None,
    prepared: Beforehand | None = None,
) -> Route:
    """Return who answers `question` of `tool`, by the order of precedence in `docs/turns.md`.

    Args:
        tool: Name of the tool, for messages alone.
        question: What it asks.
        config: What the user configured for that question.
        remembered: A fitting answer of this turn, or None.
        nobody: Why nobody can be prompted; None if somebody can.
        prepared: What was said beforehand in the place of a person.
    """
    config = config or QuestionConfig()
    if config.answer is not None:
        return _configured(tool, question, config.answer)
    if prepared is not None:
        return _beforehand(tool, prepared)
    if remembered is not None:
        return UseAnswer(remembered, "remembered")
    if config.asks_assistant:
        if question.human_only:
            return Refuse(
                f"{tool} requires a human answer and cannot be routed to the assistant. Do not "
                "retry this tool call in this turn.",
                "assistant_routing_denied",
            )
        return AskModel()
    return AskPerson() if nobody is None else _without_person(tool, question, nobody)


def _beforehand(tool: str, prepared: Beforehand) -> Route:
    match prepared:
        case Given(value=value):
            return UseAnswer(value, ANSWERS)
        case Declined():
            return Decline()
        case Unfit(why=why):
            return Refuse(f"{tool}: {why}. Do not retry.", "invalid_static_answer", why)
        case _:
            assert_never(prepared)


def _without_person(tool: str, question: Question, nobody: str) -> Route:
    if question.may_stay_open:
        automatic = question.automatic
        return LeaveOpen() if automatic is None else UseAnswer(automatic, None)
    if question.human_only:
        return Refuse(without_user(tool), "no_prompt_backend", nobody)
    return AskModel()


def without_user(tool: str) -> str:
    """Return the error that the model reads if `tool` needs a user and none is available.

    Source: RFD 083, which fixes the words.
    """
    return (
        f"{tool} cannot run because no interactive terminal is available. Do not retry this tool "
        "call in this turn; continue without user input or explain what information is missing."
    )


def _configured(tool: str, question: Question, configured: JsonValue) -> Route:
    answer = question.answer_type.settled(configured)
    misfit = question.misfit(answer)
    if misfit is None:
        return UseAnswer(answer, "configured")
    why = question.answer_type.complaint(answer)
    return Refuse(_bad_static(tool, question.id, misfit, why), "invalid_static_answer")


def _bad_static(tool: str, question_id: str, misfit: Misfit, why: str) -> str:
    what = {
        "type": "does not match the question's answer_type",
        "option": "is not one of the question's options",
        "value": f"does not fit: {why}",
    }[misfit]
    return (
        f"{tool}: the configured conversation.tools.{tool}.questions.{question_id}.answer value "
        f"{what}. Update the configuration; do not retry."
    )
