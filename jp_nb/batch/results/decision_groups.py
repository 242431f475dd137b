"""An open decision of a batch, as the user answers it once for all runs that wait for it.

A `DecisionGroup` is about one notebook, kind, tool, and question with its options. A permission is
also about the exact arguments of the call, because an answer covers only what the user saw.
`open_decisions.py` makes the groups of the log.

An `Asking` is an entry of the log: one time that a run needed the decision. An `AskedContext` is
the content that the user sees beside the decision, once for all runs with the same content.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, JsonValue

from jp_nb.agent.prepared_answers import DecisionKind
from jp_nb.headless.reported_decisions import DECISION_DESCRIPTIONS, DECISION_SECTIONS
from jp_nb.json_writing import compact_json, sorted_json
from jp_nb.record.entries.turn_numbers import to_shown_turn
from jp_nb.storage.configuration.answers_content import AnswerKey
from jp_nb.text import one_line
from jp_nb.toolkit.question import Question

MAX_SHOWN_CONTEXTS: Final = 5
"""Number of differing contexts that a group shows."""


class Asking(BaseModel):
    """One time that a run needed the decision: its place, and the text for the user.

    An item of `asked` in the log, as `DecisionContext.to_json` makes it.

    Attributes:
        cell: Index of the cell, from 0; None if it is unknown.
        turn: Number of the turn, from 0; None outside of a turn.
        words: The last text of the model before.
        arguments: Arguments of the call; None without a call, or if they were too long to keep.
        result: The result of the call, if the decision is about its delivery.
        detail: Lines of a proposed change.
    """

    # Later versions may log more fields.
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    cell: int | None = None
    turn: int | None = None
    words: str = ""
    arguments: dict[str, Any] | None = None  # JSON, which the reader of the log has checked
    result: str | None = None
    detail: list[str] = []

    @property
    def place(self) -> str:
        """The place in words, such as `cell 3, turn 1`."""
        parts = []
        if self.cell is not None:
            parts.append(f"cell {self.cell + 1}")
        if self.turn is not None:
            parts.append(f"turn {to_shown_turn(self.turn)}")
        return ", ".join(parts)


NOWHERE: Final = Asking()
"""The place of a decision whose entry in the log names none."""


class AskedTime(NamedTuple):
    """One time that a run asked, with the context that the tool gave with the question; or ""."""

    asking: Asking
    question_context: str


@dataclass(frozen=True, slots=True)
class AskedContext:
    """Content beside a decision, the same in all of its `runs`.

    Attributes:
        asking: The first time that a run asked with this content.
        question_context: The context that the tool gave with the question; "" without one.
        runs: The ids of these runs.
    """

    asking: Asking
    question_context: str
    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class DecisionGroup:
    """One decision that is open in one or several runs of a notebook.

    Attributes:
        notebook: Name of the notebook, relative to the common folder of the batch.
        kind: Kind of the decision, such as `question` or `permission`.
        tool: Name of the tool, or of the cell that a tool edits.
        question: The question, without a default: nothing is decided by itself.
        arguments: The exact arguments that a permission is about; None for other kinds, and if they
            were too long to keep, so that the user cannot agree to them here.
        askings: The times that each run asked, by the id of the run.
        misfits: Why the answer that a run used does not fit, by the id of the run.
    """

    notebook: str
    kind: DecisionKind
    tool: str
    question: Question | None = None
    arguments: Mapping[str, JsonValue] | None = None
    askings: dict[str, list[AskedTime]] = field(default_factory=dict)
    misfits: dict[str, str] = field(default_factory=dict)

    @property
    def runs(self) -> tuple[str, ...]:
        """Ids of the runs that wait for it, in starting order."""
        return tuple(self.askings)

    @property
    def answer_key(self) -> AnswerKey:
        """Key of its entry in an answers file: section, tool, and the id of a question."""
        key: AnswerKey = (DECISION_SECTIONS[self.kind], self.tool)
        return key if self.question is None else (*key, self.question.id)

    @property
    def identity(self) -> AnswerKey:
        """Identity of its entry in an answers file: the key, and the arguments of a permission.

        Groups of several notebooks may have the same one.
        """
        key = self.answer_key
        if self.arguments is None:
            return key
        return (*key, sorted_json(dict(self.arguments)))

    @property
    def is_answerable(self) -> bool:
        """False for a permission whose arguments are unknown: it could cover another call."""
        return self.kind != "permission" or self.arguments is not None

    @property
    def description(self) -> str:
        """Description in one line."""
        tool = one_line(self.tool, limit=80)
        if self.question is not None:
            return f"{one_line(self.question.id, limit=80)} of {tool}: {self.question_text}"

        if self.arguments is None:
            return self.subject
        return f"{self.subject} with {one_line(compact_json(dict(self.arguments)), limit=120)}"

    @property
    def subject(self) -> str:
        """Text of the question, or the decision about the tool, in one line."""
        if self.question is not None:
            return self.question_text
        return DECISION_DESCRIPTIONS[self.kind].format(one_line(self.tool, limit=80))

    @property
    def question_text(self) -> str:
        """Text of the question in one line; "" for other decisions."""
        return "" if self.question is None else one_line(self.question.text, limit=300)

    def list_contexts(self) -> list[AskedContext]:
        """Return the differing contents beside the decision, in starting order of the runs.

        Runs that asked at other places with the same content share one entry.
        """
        runs_by_content: dict[str, list[str]] = {}
        first_by_content: dict[str, AskedTime] = {}
        for run, askings in self.askings.items():
            for asked in askings:
                asking = asked.asking
                parts = [asking.words, asking.result, asking.detail, asked.question_context]
                content = compact_json(parts)
                first_by_content.setdefault(content, asked)
                runs = runs_by_content.setdefault(content, [])
                if not runs or runs[-1] != run:  # a run may ask twice
                    runs.append(run)

        return [
            AskedContext(asked.asking, asked.question_context, tuple(runs_by_content[content]))
            for content, asked in first_by_content.items()
        ]


def filter_groups(groups: Iterable[DecisionGroup], text: str) -> Iterator[DecisionGroup]:
    """Yield the groups whose description, notebook, or kind contains all words of `text`."""
    words = text.casefold().split()
    for group in groups:
        content = f"{group.description} {group.notebook} {group.kind}".casefold()
        if all(word in content for word in words):
            yield group
