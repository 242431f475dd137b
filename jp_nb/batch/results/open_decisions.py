"""Group the open decisions of all runs of a batch, so that a user answers each one once.

A run that needed the user and had none notes an *open decision*: a question, or the permission for
a call, the delivery of its result, or a change that it proposes. `OUT/runs.jsonl` has those of each
run, with the places where they were asked. Here they become `DecisionGroup`s: 37 runs of one
notebook that asked the same question are one group with 37 runs.

A group is about one notebook, kind, tool, and question with its options. A permission is also about
the exact arguments of the call, because an answer covers only what the user saw. The inbox
(`inbox.py`) shows groups, and `inbox_answers.py` writes the answers.

The log may come from someone else. A damaged entry is counted and omitted.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from jp_nb.agent.prepared_answers import DecisionKind
from jp_nb.batch.results.run_log import RunState
from jp_nb.batch.results.run_log_lines import EndedLine
from jp_nb.headless.reported_decisions import DECISION_DESCRIPTIONS, DECISION_SECTIONS
from jp_nb.json_values import compact_json, sorted_json
from jp_nb.record.entries.turn_numbers import to_shown_turn
from jp_nb.storage.configuration.answers_content import (
    RUNS_TABLE,
    AnswerKey,
)
from jp_nb.text import one_line
from jp_nb.toolkit.question import FormAnswer, Question
from jp_nb.toolkit.question_types.select_answer import SelectAnswer

MAX_SHOWN_CONTEXTS: Final = 5
"""Number of differing contexts that a group shows."""
_GROUPING_KEYS: Final = ("id", "text", "answer_type", "exclusive", "required", "header")
"""Keys by which two questions differ. Context and default do not count: they may differ by run."""


class _LoggedValue(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class Asking(_LoggedValue):
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


class _OpenEntry(_LoggedValue):
    """An entry of `open_decisions` in the log, as `ReportedDecision.to_json` makes it.

    Attributes:
        kind: Kind of the decision, such as `question` or `permission`.
        tool: Name of the tool, or of the cell that a tool edits.
        why: The reason that it is open, such as an answer that did not fit.
        question: The question as JSON; None for other kinds.
        asked: The times that the run needed it.
    """

    kind: DecisionKind
    tool: str
    why: str = ""
    question: dict[str, Any] | None = None
    asked: list[Asking] = []


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


@dataclass(slots=True)
class OpenDecisions:
    """The open decisions of a batch.

    Attributes:
        groups: In the order in which they were first asked.
        waiting: Number of runs with an open decision.
        unreadable: Number of entries that are damaged.
    """

    groups: list[DecisionGroup] = field(default_factory=list)
    waiting: int = 0
    unreadable: int = 0


def group_open_decisions(runs: Iterable[RunState]) -> OpenDecisions:
    """Group the open decisions of `runs`. It takes linear time."""
    decisions = OpenDecisions()
    groups: dict[tuple[str, ...], DecisionGroup] = {}

    for run in runs:
        if not run.open_decisions:
            continue

        decisions.waiting += 1
        for stored in run.open_decisions:
            try:
                _add_entry(groups, run, _OpenEntry.model_validate(stored))
            except (ValidationError, ValueError, TypeError):
                decisions.unreadable += 1

    decisions.groups = list(groups.values())
    return decisions


def list_misfits(line: EndedLine) -> Iterator[str]:
    """Yield each answer that the run used and that does not fit, with the reason."""
    # Of the state of a run, the grouping reads only its decisions and answers.
    state = RunState(
        run=line.run,
        notebook="",
        parameters={},
        overrides={},
        digest="",
        open_decisions=line.open_decisions,
        used_answers=line.used_answers,
    )
    for group in group_open_decisions([state]).groups:
        if line.run in group.misfits:
            yield group.misfits[line.run] or f"{group.description}: the answer does not fit"


def _add_entry(
    groups: dict[tuple[str, ...], DecisionGroup], run: RunState, entry: _OpenEntry
) -> None:
    """Add an open decision of `run` to its group, for each time that the run asked.

    An entry about permissions may be about several calls, each of which is in another group.
    """
    context = ""
    asked_question = ""
    if entry.question is not None:
        asked_question = compact_json({key: entry.question.get(key) for key in _GROUPING_KEYS})
        context = str(entry.question.get("context") or "")

    for asking in entry.asked or [NOWHERE]:
        arguments = asking.arguments if entry.kind == "permission" else None
        call_arguments = "" if arguments is None else sorted_json(arguments)
        key = (run.notebook, entry.kind, entry.tool, asked_question, call_arguments)

        group = groups.get(key)
        if group is None:
            question = _make_question(entry.question)
            group = DecisionGroup(
                run.notebook, entry.kind, entry.tool, question=question, arguments=arguments
            )
            groups[key] = group

        group.askings.setdefault(run.run, []).append(AskedTime(asking, context))
        if run.used_answers and _has_used_answer(run, group.identity):
            group.misfits[run.run] = entry.why


def _has_used_answer(run: RunState, identity: AnswerKey) -> bool:
    """Return True if the run used this answer. It did not fit, as the decision is still open.

    It was an entry for all runs, or one in the run's own table.
    """
    return identity in run.used_answers or (RUNS_TABLE, run.run, *identity) in run.used_answers


def _make_question(stored: Mapping[str, JsonValue] | None) -> Question | None:
    """Return the question without its context, its default, and a preselected option."""
    if stored is None:
        return None

    question = Question.model_validate({**stored, "default": None, "context": None})
    kind = question.answer_type
    if isinstance(kind, FormAnswer):
        fields = tuple(map(_drop_suggestion, kind.fields))
        kind = kind.model_copy(update={"fields": fields})
        question = question.model_copy(update={"answer_type": kind})
    return _drop_suggestion(question)


def _drop_suggestion(question: Question) -> Question:
    """Return the question without a default and a recommended option."""
    kind = question.answer_type
    if isinstance(kind, SelectAnswer):
        kind = kind.model_copy(update={"recommended": None})
    return question.model_copy(update={"answer_type": kind, "default": None})


def filter_groups(groups: Iterable[DecisionGroup], text: str) -> Iterator[DecisionGroup]:
    """Yield the groups whose description, notebook, or kind contains all words of `text`."""
    words = text.casefold().split()
    for group in groups:
        content = f"{group.description} {group.notebook} {group.kind}".casefold()
        if all(word in content for word in words):
            yield group
