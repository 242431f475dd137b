"""Read the events of a headless run: open decisions, used answers and cassettes, running tools.

`jp_nb/storage/run_events.py` writes the events, and describes their shape.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.file_reading import MAX_NOTEBOOK_BYTES, read_regular
from jp_nb.headless.terminal_text import format_one_line
from jp_nb.json_values import JsonObject
from jp_nb.storage.configuration.answers_content import (
    AnswerKey,
    AnswersSection,
)
from jp_nb.text import one_line
from jp_nb.toolkit.question import Question

MAX_DECISIONS: Final = 1000  # maximum number that is read, because a tool may ask without end
MAX_DECISION_CONTEXTS: Final = 200
"""Maximum number of different contexts of one decision, such as calls that need permission."""
MAX_ARGUMENTS_CHARS: Final = 100_000
"""Maximum length of arguments as JSON: the user could not read longer ones."""
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
"""Descriptions of decisions by kind, for the name of the tool. Questions have their own text."""


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """Place and subject of a decision.

    Attributes:
        cell: Index of the cell, from 0; None if it is unknown.
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
        detail: Other content of the first context, such as the lines of a change.
        question: The question; None for other kinds.
        times: How often the run needed it.
        contexts: Its different contexts, of which a permission has one for each exact call.
    """

    key: AnswerKey
    kind: str
    why: str
    detail: tuple[str, ...] = ()
    question: Question | None = None
    times: int = 1
    contexts: tuple[DecisionContext, ...] = ()

    @property
    def section(self) -> AnswersSection:
        """The section of an answers file that prepares it."""
        return DECISION_SECTIONS[self.kind]

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


@dataclass(slots=True)
class CassetteUse:
    """Use of one cassette in a run.

    Attributes:
        used: Numbers of the exchanges that were replayed, from 0.
        added: Number of exchanges that were recorded.
        is_new: True if the run records a new cassette.
    """

    used: set[int] = field(default_factory=set)
    added: int = 0
    is_new: bool = False


@dataclass(slots=True)
class RunEvents:
    """Events of a run.

    Attributes:
        undecided: Open decisions by their key, in the order in which they were first needed.
        used_answers: `PreparedAnswer.identity` of each answer that was used.
        cassettes: The use of each cassette, by its path.
        running_tools: The name of the tool of each call without an end, by the key of the call.
        cell: Index of the cell that started last; None if none has started.
        cell_id: Id of this cell; "" without one.
        requests: Number of requests to models, replayed ones included.
        input_tokens: Tokens of these requests.
        output_tokens: Tokens of the answers.
    """

    undecided: dict[AnswerKey, ReportedDecision] = field(default_factory=dict)
    used_answers: set[AnswerKey] = field(default_factory=set)
    cassettes: dict[Path, CassetteUse] = field(default_factory=dict)
    running_tools: dict[str, str] = field(default_factory=dict)
    cell: int | None = None
    cell_id: str = ""
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


def read_events(path: Path, settings: Mapping[str, str] | None = None) -> RunEvents:
    """Read the file of the variable `JP_NB_EVENTS`. Incomplete lines are skipped.

    A cassette in the `settings` of the run is included even if the file does not name it.
    """
    events = RunEvents()
    if settings and (file := settings.get("providers.cassette.path")):
        is_new = settings.get("providers.cassette.mode") == "record"
        events.cassettes[Path(file)] = CassetteUse(is_new=is_new)

    for line in _read_lines(path):
        try:
            event = json.loads(line)
        except ValueError:  # the kernel died while it wrote the line
            continue
        _add_event(events, event)

    return events


def _add_event(events: RunEvents, event: Any) -> None:
    """Add one event of the file, in a shape of `jp_nb/storage/run_events.py`."""
    match event:
        case {"answer": list(key)}:
            events.used_answers.add(tuple(map(str, key)))

        case {"cell": int(index), "id": str(identifier)}:
            events.cell = index
            events.cell_id = identifier

        case {"open": str(kind), **entry} if kind in DECISION_SECTIONS:
            _add_decision(events, kind, entry)

        case {"cassette": str(file)}:
            use = events.cassettes.setdefault(Path(file), CassetteUse())
            use.used.update(event.get("used", ()))
            use.added += event.get("added", 0)
            use.is_new |= event.get("anew", False)

        case {"request": str()}:
            events.requests += 1
            events.input_tokens += _read_count(event.get("input"))
            events.output_tokens += _read_count(event.get("output"))

        case {"call": str(call), "tool": str(name)}:  # the start of a call
            events.running_tools[call] = name

        case {"call": str(call)}:  # its end
            events.running_tools.pop(call, None)


def _read_count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _read_lines(path: Path) -> list[bytes]:
    try:
        return read_regular(path, max_bytes=MAX_NOTEBOOK_BYTES).splitlines()
    except FileNotFoundError:
        return []


def _add_decision(events: RunEvents, kind: str, entry: Mapping[Any, Any]) -> None:
    """Add an open decision, or count it if the same one was already open."""
    key: AnswerKey = (DECISION_SECTIONS[kind], str(entry.get("tool")))
    question: Question | None = None
    if entry.get("question") is not None:
        question = Question.model_validate(entry["question"])
        key = (*key, question.id)

    context = _read_context(events, entry)
    earlier = events.undecided.get(key)

    if earlier is not None:
        contexts = earlier.contexts
        if context not in contexts and len(contexts) < MAX_DECISION_CONTEXTS:
            contexts = (*contexts, context)
        events.undecided[key] = replace(earlier, times=earlier.times + 1, contexts=contexts)
    elif len(events.undecided) < MAX_DECISIONS:
        why = str(entry.get("why"))
        events.undecided[key] = ReportedDecision(
            key,
            kind,
            why=why,
            detail=context.detail,
            question=question,
            contexts=(context,),
        )


def _read_context(events: RunEvents, entry: Mapping[Any, Any]) -> DecisionContext:
    """Return the context of an open decision, in the cell that runs. Wrong values are omitted."""
    detail = entry.get("detail")
    lines = tuple(map(str, detail)) if isinstance(detail, list) else ()
    turn = entry.get("turn")
    result = entry.get("result")

    arguments = entry.get("arguments")
    if not isinstance(arguments, dict) or len(json.dumps(arguments)) > MAX_ARGUMENTS_CHARS:
        arguments = None

    return DecisionContext(
        cell=events.cell,
        cell_id=events.cell_id,
        turn=turn if isinstance(turn, int) else None,
        words=str(entry.get("words") or ""),
        arguments=arguments,
        result=result if isinstance(result, str) else None,
        detail=lines,
    )
