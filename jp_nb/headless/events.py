"""Read the events that the kernel of a run appended for its runner: decisions and cassette use.

`jp_nb/storage/run_events.py` writes them, and describes their shape.

Source: `docs/answers.md`, `docs/cassettes.md`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from jp_nb.headless.files import format_line
from jp_nb.storage.answers_file import Key, Section
from jp_nb.text import one_line
from jp_nb.tools.question import Question

MAX_DECISIONS: Final = 1000
"""Maximum number of decisions that are read, because a tool may ask without end."""
SECTIONS: Final[Mapping[str, Section]] = {
    "question": "questions",
    "permission": "permissions",
    "result": "results",
    "change": "changes",
}
"""Sections of an answers file by kind of decision."""
DESCRIPTIONS: Final[Mapping[str, str]] = {
    "permission": "permission to run {}",
    "result": "approval of the result of {}",
    "change": "approval of a configuration change proposed by {}",
}


@dataclass(frozen=True, slots=True)
class ReportedDecision:
    """A decision that needed the user and was not prepared.

    Attributes:
        key: Key in an answers file.
        times: Number of times that the run needed it.
        question: The question to answer; None for a permission or an approval.
    """

    key: Key
    kind: str
    why: str
    detail: tuple[str, ...] = ()
    question: Question | None = None
    times: int = 1

    @property
    def description(self) -> str:
        """Description in one line."""
        tool = one_line(self.key[1], limit=80)
        if self.question is None:
            return DESCRIPTIONS[self.kind].format(tool)
        name = one_line(self.question.id, limit=80)
        return f"question {name} of {tool}: {format_line(self.question.text)}"


@dataclass(slots=True)
class CassetteUse:
    """Use of one cassette in a run.

    Attributes:
        used: The numbers (ids) of the replayed exchanges.
        added: Number of recorded exchanges.
        is_new: True if the run recorded a new cassette, in place of an existing one.
    """

    used: set[int] = field(default_factory=set)
    added: int = 0
    is_new: bool = False


@dataclass(slots=True)
class RunEvents:
    """Events of a run.

    Attributes:
        undecided: Open decisions by key, in the order of the run.
        used_answers: Keys of the answers file that decided something.
        cassettes: Use of each cassette, by path.
    """

    undecided: dict[Key, ReportedDecision] = field(default_factory=dict)
    used_answers: set[Key] = field(default_factory=set)
    cassettes: dict[Path, CassetteUse] = field(default_factory=dict)


def read_events(path: Path, settings: Mapping[str, str] | None = None) -> RunEvents:
    """Read the file of the variable `JP_NB_EVENTS`. Incomplete lines are skipped.

    The cassette in the `settings` of the run is included even if it was not used.
    """
    events = RunEvents()
    if settings and (file := settings.get("providers.cassette.path")):
        is_new = settings.get("providers.cassette.mode") == "record"
        events.cassettes[Path(file)] = CassetteUse(is_new=is_new)
    for line in path.read_bytes().splitlines() if path.exists() else ():
        match _parse_line(line):
            case {"answer": list(key)}:
                events.used_answers.add(tuple(map(str, key)))
            case {"open": str(kind), **entry} if kind in SECTIONS:
                _add_decision(events.undecided, kind, entry)
            case {"cassette": str(file), **entry}:
                _add_use(events.cassettes.setdefault(Path(file), CassetteUse()), entry)
    return events


def _parse_line(line: bytes) -> object:
    try:
        return json.loads(line)
    except ValueError:  # the kernel died while it wrote the line
        return None


def _add_use(use: CassetteUse, entry: Mapping[Any, Any]) -> None:
    use.used.update(entry.get("used", ()))
    use.added += entry.get("added", 0)
    use.is_new |= entry.get("anew", False)


def _add_decision(
    undecided: dict[Key, ReportedDecision], kind: str, entry: Mapping[Any, Any]
) -> None:
    if len(undecided) >= MAX_DECISIONS:
        return
    question = entry.get("question")
    asked = None if question is None else Question.model_validate(question)
    key: Key = (SECTIONS[kind], str(entry.get("tool")), *([asked.id] if asked else []))
    if (earlier := undecided.get(key)) is not None:
        undecided[key] = replace(earlier, times=earlier.times + 1)
        return
    detail = entry.get("detail")
    lines = tuple(map(str, detail)) if isinstance(detail, list) else ()
    undecided[key] = ReportedDecision(key, kind, str(entry.get("why")), lines, asked)
