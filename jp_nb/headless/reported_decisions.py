"""The decisions that a headless run left open, as text for the user and as JSON for a batch.

`run_events_reading.py` reads them from the events of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from jp_nb.headless.terminal_text import format_one_line
from jp_nb.json_values import JsonObject
from jp_nb.storage.configuration.answers_content import AnswerKey, AnswersSection
from jp_nb.text import one_line
from jp_nb.toolkit.question import Question

DECISION_SECTIONS: Final[Mapping[str, AnswersSection]] = {
    "question": "questions",
    "permission": "permissions",
    "result": "results",
    "change": "changes",
    "edit": "edits",
    "plan": "plan",
}
"""Sections of an answers file by kind of decision, in the order of a file."""
DECISION_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "permission": "permission to run {}",
    "result": "approval of the result of {}",
    "change": "approval of a configuration change proposed by {}",
    "edit": "approval of an edit of the cell {}",
    "plan": "approval of the plan of a turn ({})",
}
"""Descriptions of decisions by kind; `{}` is their `tool`. Questions have their own text."""


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """Place and subject of a decision.

    Attributes:
        cell: Index of the cell, from 0; None if it is unknown.
        cell_id: Id of the cell; "" if it is unknown.
        turn: Number of the turn, from 0; None outside of a turn.
        words: The last text of the model in the turn.
        arguments: Arguments of the call; None without a call, or if they are too long.
        result: The result of the call, if the decision is about its delivery.
        detail: Other content, such as the lines of a configuration change.
    """

    cell: int | None = None
    cell_id: str = ""
    turn: int | None = None
    words: str = ""
    arguments: Mapping[str, JsonValue] | None = None
    result: str | None = None
    detail: tuple[str, ...] = ()

    def to_json(self) -> JsonObject:
        """Return the context as JSON, without what is unknown."""
        values: JsonObject = {
            "cell": self.cell,
            "cell_id": self.cell_id,
            "turn": self.turn,
            "words": self.words,
            "result": self.result,
            "detail": [*self.detail],
        }
        known: JsonObject = {
            name: value for name, value in values.items() if value not in (None, "", [])
        }

        if self.arguments is not None:  # an empty object is also known
            known["arguments"] = dict(self.arguments)
        return known


@dataclass(frozen=True, slots=True)
class ReportedDecision:
    """A decision that needed the user and was not prepared.

    Attributes:
        key: Its key in an answers file: section, tool, and the id of a question.
        kind: Kind of the decision, a key of `DECISION_SECTIONS`.
        why: The reason that it is open, such as an answer that did not fit.
        contexts: Its different contexts, of which a permission has one for each exact call.
        question: The question; None for other kinds.
        times: How often the run needed it.
    """

    key: AnswerKey
    kind: str
    why: str
    contexts: tuple[DecisionContext, ...] = ()
    question: Question | None = None
    times: int = 1

    @property
    def section(self) -> AnswersSection:
        """The section of an answers file that prepares it."""
        return DECISION_SECTIONS[self.kind]

    @property
    def detail(self) -> tuple[str, ...]:
        """Other content of the first context, such as the lines of a change."""
        first = next(iter(self.contexts), DecisionContext())
        return first.detail

    @property
    def tool(self) -> str:
        """The name of the tool, or of the cell that a tool edits."""
        return self.key[1]

    def to_json(self) -> JsonObject:
        """Return the decision as JSON, for the log of a batch."""
        question: JsonValue = None
        if self.question is not None:
            question = self.question.model_dump(mode="json")

        return {
            "kind": self.kind,
            "tool": self.tool,
            "why": self.why,
            "times": self.times,
            "question": question,
            "asked": [context.to_json() for context in self.contexts],
        }

    @property
    def description(self) -> str:
        """Description in one line."""
        tool = one_line(self.tool, limit=80)
        if self.question is None:
            return DECISION_DESCRIPTIONS[self.kind].format(tool)

        name = one_line(self.question.id, limit=80)
        return f"question {name} of {tool}: {format_one_line(self.question.text)}"
