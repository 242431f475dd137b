"""The tools that proposed a change of the configuration, and who let it count.

Kept in the `metadata` of the one `config_delta` that a cycle's calls lead to:
    {"proposed_by": [{"tool": "change_model", "call_id": "call_1", "paths": ["assistant.name"],
                      "applied_by": "person", "channel": "form"}]}
`channel` is absent where no person was asked, `by` where one person has the notebook. It is for
people to read, and says to which turn a change belongs that lies between two.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from jp_nb.json_values import as_object
from jp_nb.record.events import ConfigDelta, Entry, is_usage_mark
from jp_nb.record.inquiry_events import BY, who_in
from jp_nb.record.unanswered import no_answer

PROPOSED_BY = "proposed_by"
"""The key in the metadata of a delta."""


MAX_READ = 1_000
"""Calls of one change, and paths of one call: a stranger may have written more."""


@dataclass(frozen=True, slots=True)
class ProposedBy:
    """One call of a tool that had a part in a change.

    Attributes:
        tool: Its name.
        call_id: The provider's id of the call.
        paths: What it set and unset.
        applied_by: Who let it count: a person, or a grant in the configuration.
        channel: Where the person was asked: `form`, `stdin`, `terminal`, or `answers` if a file of
            theirs said so beforehand; None for a grant.
        by: Who that person is, where several share the notebook.
    """

    tool: str
    call_id: str
    paths: tuple[str, ...]
    applied_by: Literal["person", "grant"]
    channel: str | None = None
    by: str | None = None


def metadata_of(proposed: Sequence[ProposedBy]) -> dict[str, JsonValue]:
    """Return the metadata of a delta that `proposed` led to; empty if there is none."""
    return {PROPOSED_BY: [_written(one) for one in proposed]} if proposed else {}


def _written(one: ProposedBy) -> dict[str, JsonValue]:
    written: dict[str, JsonValue] = {
        "tool": one.tool,
        "call_id": one.call_id,
        "paths": list(one.paths),
        "applied_by": one.applied_by,
    }
    known = {"channel": one.channel, BY: one.by}
    return written | {key: said for key, said in known.items() if said is not None}


def proposed_by(entry: ConfigDelta) -> tuple[ProposedBy, ...]:
    """Return the calls that led to `entry`, in call order; what is malformed is passed over."""
    found = entry.metadata.get(PROPOSED_BY)
    read = map(_read, found[:MAX_READ]) if isinstance(found, list) else ()
    return tuple(one for one in read if one is not None)


def _read(item: JsonValue) -> ProposedBy | None:
    match item:
        case {
            "tool": str(tool),
            "call_id": str(call_id),
            "paths": list(paths),
            "applied_by": ("person" | "grant") as applied_by,
            **rest,
        }:
            named = tuple(path for path in paths[:MAX_READ] if isinstance(path, str))
            channel = rest.get("channel")
            asked_in = channel if isinstance(channel, str) else None
            return ProposedBy(tool, call_id, named, applied_by, asked_in, who_in(as_object(item)))
    return None


def end_of_turn(entries: Sequence[Entry], end: int) -> int:
    """Return `end`, behind a turn's last event, moved behind the changes that belong to its end."""
    while end < len(entries) and ends_turn(entries[end]):
        end += 1
    return end


def ends_turn(entry: Entry) -> bool:
    """True of a change that belongs to the turn before it: its tools', or a mark of its end."""
    return is_of_tools(entry) or no_answer(entry) is not None or is_usage_mark(entry)


def is_of_tools(entry: Entry) -> bool:
    """Return whether tools changed the configuration there, in a turn or at its end."""
    return isinstance(entry, ConfigDelta) and bool(proposed_by(entry))
