"""What somebody decided beforehand, in a person's place.

Source: `docs/answers.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol

from pydantic import JsonValue

from jp_nb.tooling.question import Question

DecisionKind = Literal["question", "permission", "result", "change"]
ANSWERS: Final = "answers"
"""The channel of what was decided so."""


@dataclass(frozen=True, slots=True)
class Given:
    """The answer, or that a call runs, its result is delivered or its change applied.

    Attributes:
        value: Fits the question; None for the other kinds.
        place: Where that is written, as a person reads it.
    """

    value: JsonValue
    place: str


@dataclass(frozen=True, slots=True)
class Declined:
    """It is not to be answered, run, delivered or applied; `place` as with `Given`."""

    place: str


@dataclass(frozen=True, slots=True)
class Unfit:
    """What is written there is no answer; `why` names the place."""

    why: str


Beforehand = Given | Declined | Unfit


@dataclass(frozen=True, slots=True)
class OpenDecision:
    """Something that nobody decided.

    Attributes:
        tool: Name of the tool.
        question: What it asked, if that is the decision.
        detail: What else it is about, as a person reads it, such as the change.
        why: Why nobody did.
    """

    kind: DecisionKind
    tool: str
    why: str
    question: Question | None = None
    detail: tuple[str, ...] = ()


class PreparedAnswers(Protocol):
    """Knows what was decided beforehand. All of it from the agent's thread or the cell's."""

    def answer(self, tool: str, question: Question) -> Beforehand | None:
        """Return the answer to `question` of `tool`; None if there is none."""
        ...

    def decision(self, kind: DecisionKind, tool: str) -> Beforehand | None:
        """Return what was decided about `tool`, but for its questions; None if nothing was."""
        ...

    def left_open(self, decision: OpenDecision) -> None:
        """Note what nobody decided."""
        ...


class NothingPrepared:
    """Nobody decided anything beforehand."""

    def answer(self, tool: str, question: Question) -> None:
        """Return None."""

    def decision(self, kind: DecisionKind, tool: str) -> None:
        """Return None."""

    def left_open(self, decision: OpenDecision) -> None:
        """Forget it."""


NOTHING_PREPARED: Final = NothingPrepared()
