"""Interface for answers and decisions that were prepared in a file, for unattended runs.

`jp_nb/storage/configuration/answers_file.py` reads the file. Decisions that it does not have, and
that needed the user, are noted as *open*: the user can add them for the next run.

Source: `docs/answers.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from pydantic import JsonValue

from jp_nb.toolkit.question import Question

DecisionKind = Literal["question", "permission", "result", "change", "edit", "plan"]
"""A decision of the user: an answer to a question, the permission of a call, the delivery of its
result to the model, a change of the configuration, an edit of a cell, or the approval of a plan."""
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


PreparedConsent = GivenAnswer | DeclinedByFile
"""A prepared consent to an action, or its refusal."""
PreparedQuestionAnswer = PreparedConsent | InvalidAnswer
"""A prepared answer to a question, or the refusal to answer it."""


@dataclass(frozen=True, slots=True)
class OpenDecision:
    """A decision that needed the user, and why there was none.

    Attributes:
        kind: Kind of decision, such as `permission` of a call.
        tool: Name of the tool; for an edit, that of the cell in the answers file.
        why: The reason why no user could decide.
        question: The question, if the decision is an answer to one.
        detail: Other content than a question, such as the change.
        arguments: Arguments of the call; None if no call of a tool needs the decision.
        result: The result of the call, if the decision is about its delivery.
        turn: Number of the turn, from 0; None outside of a turn.
        words: The last text of the model in this turn.
    """

    kind: DecisionKind
    tool: str
    why: str
    question: Question | None = None
    detail: tuple[str, ...] = ()
    arguments: Mapping[str, JsonValue] | None = None
    result: str | None = None
    turn: int | None = None
    words: str = ""


class PreparedAnswers(Protocol):
    """Prepared answers and decisions. Called on the agent's thread and the cell's thread."""

    def find_answer(self, tool: str, question: Question) -> PreparedQuestionAnswer | None:
        """Return the prepared answer to `question` of `tool`, if any."""

    def answers_questions_of(self, tool: str) -> bool:
        """Return True if answers to questions of `tool` are prepared."""

    def find_decision(
        self, kind: DecisionKind, tool: str, arguments: Mapping[str, JsonValue] | None = None
    ) -> PreparedConsent | None:
        """Return the prepared decision about `tool`, or about its call with `arguments`, if any."""

    def find_edit_decision(self, names: Sequence[str]) -> PreparedConsent | None:
        """Return the prepared decision about an edit of a cell, if any.

        The file may name the cell by any of these `names`: its id and its tags, or a place such as
        `start` for a new cell.
        """

    def note_open(self, decision: OpenDecision) -> None:
        """Note a decision that was not prepared."""
