"""Group the open decisions of all runs of a batch, so that a user answers each one once.

A run that needed the user and had none notes an *open decision*: a question, or the permission for
a call, the delivery of its result, or a change that it proposes. `OUT/runs.jsonl` has those of each
run, with the places where they were asked. Here they become `DecisionGroup`s
(`decision_groups.py`): 37 runs of one notebook that asked the same question are one group with 37
runs. The inbox (`inbox.py`) shows groups, and `inbox_answers.py` writes the answers.

The log may come from someone else. A damaged entry is counted and omitted.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel, JsonValue

from jp_nb.agent.prepared_answers import DecisionKind
from jp_nb.batch.results.decision_groups import (
    NOWHERE,
    AskedTime,
    Asking,
    DecisionGroup,
)
from jp_nb.batch.results.run_log import RunState
from jp_nb.batch.results.run_log_lines import EndedLine
from jp_nb.json_writing import compact_json, sorted_json
from jp_nb.storage.configuration.answers_content import (
    RUNS_TABLE,
    AnswerKey,
)
from jp_nb.toolkit.question import FormAnswer, Question
from jp_nb.toolkit.question_types.select_answer import SelectAnswer

_GROUPING_KEYS: Final = ("id", "text", "answer_type", "exclusive", "required", "header")
"""Keys by which two questions differ. Context and default do not count: they may differ by run."""


class _OpenEntry(BaseModel):
    """An entry of `open_decisions` in the log, as `ReportedDecision.to_json` makes it.

    Attributes:
        kind: Kind of the decision, such as `question` or `permission`.
        tool: Name of the tool, or of the cell that a tool edits.
        why: The reason that it is open, such as an answer that did not fit.
        question: The question as JSON; None for other kinds.
        asked: The times that the run needed it.
    """

    model_config = Asking.model_config
    kind: DecisionKind
    tool: str
    why: str = ""
    question: dict[str, Any] | None = None
    asked: list[Asking] = []


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
            except (ValueError, TypeError):  # a `ValidationError` is a `ValueError`
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
    question_key = ""
    if entry.question is not None:
        question_key = compact_json({key: entry.question.get(key) for key in _GROUPING_KEYS})
        context = str(entry.question.get("context") or "")

    for asking in entry.asked or [NOWHERE]:
        arguments = asking.arguments if entry.kind == "permission" else None
        call_arguments = "" if arguments is None else sorted_json(arguments)
        key = (run.notebook, entry.kind, entry.tool, question_key, call_arguments)

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
