"""Marks in the metadata of configuration changes: turns without an answer, and proposals of tools.

Source: `docs/record.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from pydantic import JsonValue

from jp_nb.json_values import JsonObject, as_object
from jp_nb.record.events import (
    ChatRequest,
    ChatResponse,
    ConfigDelta,
    Entry,
    ToolCallRequest,
    is_reasoning,
    is_usage_mark,
    read_recorded_by,
)

NO_ANSWER = "no_answer"
"""Key in the metadata of a configuration change."""

Ended = Literal["failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Mark of a turn that failed or was interrupted before the model answered.

    The `takes_back` configuration changes before it were made for this turn and do not apply.
    """

    ended: Ended
    takes_back: int = 0


def make_no_answer(found: NoAnswer) -> ConfigDelta:
    """Return the entry that marks the end of a turn without an answer."""
    mark = {"ended": found.ended, "takes_back": found.takes_back}
    return ConfigDelta(metadata={NO_ANSWER: mark})


def read_no_answer(entry: Entry) -> NoAnswer | None:
    """Return the mark in `entry`, or None."""
    match entry.metadata.get(NO_ANSWER) if isinstance(entry, ConfigDelta) else None:
        case {"ended": ("failed" | "interrupted") as ended, "takes_back": int(count)}:
            return NoAnswer(ended, max(int(count), 0))
    return None


def is_unanswered(turn: Iterable[Entry]) -> bool:
    """Return True if `turn` has a request, and no text or tool call of the model.

    Reasoning alone is not an answer, because a conversation cannot continue from it.
    """
    asked = False
    for entry in turn:
        if isinstance(entry, ToolCallRequest | ChatResponse) and not is_reasoning(entry):
            return False
        asked = asked or isinstance(entry, ChatRequest)
    return asked


class RevertedChanges:
    """The indexes of the configuration changes that `NoAnswer` marks revert.

    `follow` updates `numbers` as the record grows.
    """

    def __init__(self) -> None:
        self.numbers: set[int] = set()
        self._seen = 0
        self._after_mark = 0

    def follow(self, deltas: Sequence[ConfigDelta]) -> set[int]:
        """Read the marks that were appended to `deltas`, and return newly reverted numbers."""
        found: set[int] = set()

        for number in range(self._seen, len(deltas)):
            mark = read_no_answer(deltas[number])
            if mark is not None:  # not past the previous mark, so the work is linear
                found.update(range(max(self._after_mark, number - mark.takes_back), number))
                self._after_mark = number + 1

        self._seen = len(deltas)
        self.numbers |= found
        return found


def select_effective_deltas(deltas: Sequence[ConfigDelta]) -> list[tuple[int, ConfigDelta]]:
    """Return the changes that apply with their indexes, without marks and reverted changes."""
    reverted = RevertedChanges().follow(deltas)
    return [
        (number, delta)
        for number, delta in enumerate(deltas)
        if number not in reverted and read_no_answer(delta) is None and not is_usage_mark(delta)
    ]


PROPOSED_BY = "proposed_by"
"""Key in the metadata of a configuration change."""


MAX_READ = 1_000
"""Maximum number of calls in a change and of paths in a call. An untrusted record may have more."""


@dataclass(frozen=True, slots=True)
class ProposedBy:
    """A tool call that proposed a part of a configuration change. The fields are stored.

    Attributes:
        paths: The settings that it set or unset.
        applied_by: `person` if the user approved the change, `grant` if a rule in the configuration
            did.
        channel: Source of the approval: `form`, `stdin`, `terminal`, or `answers` for an answers
            file; None for a rule.
        by: Name of the user, if several users share the notebook.
    """

    tool: str
    call_id: str
    paths: tuple[str, ...]
    applied_by: Literal["person", "grant"]
    channel: str | None = None
    by: str | None = None


def make_proposal_metadata(proposed: Sequence[ProposedBy]) -> dict[str, JsonValue]:
    """Return the metadata of a change with its proposals, or `{}`."""
    fields = [asdict(one) | {"paths": list(one.paths)} for one in proposed]
    written: JsonValue = list(map(_without_none, fields))
    return {PROPOSED_BY: written} if written else {}


def _without_none(fields: JsonObject) -> JsonObject:
    return {name: item for name, item in fields.items() if item is not None}


def read_proposed_by(entry: ConfigDelta) -> tuple[ProposedBy, ...]:
    """Return the calls that proposed a change, in call order, without malformed ones."""
    found = entry.metadata.get(PROPOSED_BY)
    read = map(_read, map(as_object, found[:MAX_READ])) if isinstance(found, list) else ()
    return tuple(one for one in read if one is not None)


def _read(item: JsonObject) -> ProposedBy | None:
    match item:
        case {
            "tool": str(tool),
            "call_id": str(call_id),
            "paths": list(paths),
            "applied_by": ("person" | "grant") as applied_by,
        }:
            named = tuple(path for path in paths[:MAX_READ] if isinstance(path, str))
            channel = item.get("channel")
            asked_in = channel if isinstance(channel, str) else None
            return ProposedBy(tool, call_id, named, applied_by, asked_in, read_recorded_by(item))
    return None


def find_end_of_turn(entries: Sequence[Entry], end: int) -> int:
    """Return the index after the changes at the end of a turn.

    `end` is the index after the last event of the turn.
    """
    while end < len(entries) and belongs_to_turn_end(entries[end]):
        end += 1
    return end


def belongs_to_turn_end(entry: Entry) -> bool:
    """Return True for a change of the turn before it: by its tools, or a mark of its end."""
    return is_tool_change(entry) or read_no_answer(entry) is not None or is_usage_mark(entry)


def is_tool_change(entry: Entry) -> bool:
    """Return True for a configuration change by tools."""
    return isinstance(entry, ConfigDelta) and bool(read_proposed_by(entry))
