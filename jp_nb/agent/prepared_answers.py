"""Prepared answers and decisions: their port, and decisions that stayed open.

Source: `docs/answers.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol

from pydantic import JsonValue

from jp_nb.toolkit.question import Question

DecisionKind = Literal["question", "permission", "result", "change"]
ANSWERS_CHANNEL: Final = "answers"
"""Channel of prepared answers and decisions."""


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """A valid prepared answer, at `place` in the file. `value` is None for a consent."""

    value: JsonValue
    place: str


@dataclass(frozen=True, slots=True)
class DeclinedByFile:
    """A prepared refusal, at `place` in the file."""

    place: str


@dataclass(frozen=True, slots=True)
class InvalidAnswer:
    """A prepared answer that is not valid. `why` names the place."""

    why: str


PreparedDecision = GivenAnswer | DeclinedByFile | InvalidAnswer


@dataclass(frozen=True, slots=True)
class OpenDecision:
    """A decision that needed the user, and why there was none.

    `detail` is other content than a question, such as the change.
    """

    kind: DecisionKind
    tool: str
    why: str
    question: Question | None = None
    detail: tuple[str, ...] = ()


class PreparedAnswers(Protocol):
    """Prepared answers and decisions. Called on the agent's thread and the cell's thread."""

    def answer(self, tool: str, question: Question) -> PreparedDecision | None:
        """Return the prepared answer to `question` of `tool`, if any."""

    def answers_questions_of(self, tool: str) -> bool:
        """Return True if answers to questions of `tool` are prepared."""

    def decision(self, kind: DecisionKind, tool: str) -> PreparedDecision | None:
        """Return the prepared decision about `tool`, if any."""

    def note_open(self, decision: OpenDecision) -> None:
        """Note a decision that was not prepared."""
