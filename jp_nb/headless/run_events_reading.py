"""Read the events of a headless run: open decisions, used answers and cassettes, running tools.

`jp_nb/storage/run_events.py` writes the events, and describes their shape.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from jp_nb.file_reading import MAX_NOTEBOOK_BYTES, read_regular
from jp_nb.headless.reported_decisions import (
    DECISION_SECTIONS,
    DecisionContext,
    ReportedDecision,
)
from jp_nb.storage.configuration.answers_content import AnswerKey
from jp_nb.toolkit.question import Question

MAX_DECISIONS: Final = 1000  # maximum number that is read, because a tool may ask without end
MAX_DECISION_CONTEXTS: Final = 200
"""Maximum number of different contexts of one decision, such as calls that need permission."""
MAX_ARGUMENTS_CHARS: Final = 100_000
"""Maximum length of arguments as JSON: the user could not read longer ones."""


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
        used_answers: `PreparedAnswer.identity` of each answer that was used: its key, and a digest
            of the arguments if it is for one exact call.
        answer_digests: `PreparedAnswer.digest` of each of them that has one.
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
    answer_digests: set[str] = field(default_factory=set)
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
            if digest := event.get("digest"):
                events.answer_digests.add(str(digest))

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
            contexts=(context,),
            question=question,
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
