"""The tool calls that proposed a configuration change, in the metadata of the change.

Source: `docs/record.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from pydantic import JsonValue

from jp_nb.json_values import JsonObject, as_object
from jp_nb.record.entries.events import ConfigDelta, Entry, read_recorded_by

PROPOSED_BY = "proposed_by"
"""Key in the metadata of a configuration change."""
MAX_READ = 1_000
"""Maximum number of calls in a change and of paths in a call. An untrusted record may have more."""


@dataclass(frozen=True, slots=True)
class ProposedBy:
    """A tool call that proposed a part of a configuration change. The fields are the stored keys.

    Attributes:
        tool: Name of the tool.
        call_id: The model's id of the call.
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
    fields = [asdict(call) | {"paths": list(call.paths)} for call in proposed]
    written: JsonValue = list(map(_without_none, fields))
    return {PROPOSED_BY: written} if written else {}


def _without_none(fields: JsonObject) -> JsonObject:
    return {name: item for name, item in fields.items() if item is not None}


def read_proposed_by(entry: ConfigDelta) -> tuple[ProposedBy, ...]:
    """Return the calls that proposed a change, in call order, without malformed ones."""
    stored = entry.metadata.get(PROPOSED_BY)
    if not isinstance(stored, list):
        return ()

    calls = [_read_call(as_object(item)) for item in stored[:MAX_READ]]
    return tuple(call for call in calls if call is not None)


def _read_call(item: JsonObject) -> ProposedBy | None:
    match item:
        case {
            "tool": str(tool),
            "call_id": str(call_id),
            "paths": list(paths),
            "applied_by": ("person" | "grant") as applied_by,
        }:
            named = tuple(path for path in paths[:MAX_READ] if isinstance(path, str))
            channel = item.get("channel")
            if not isinstance(channel, str):
                channel = None
            return ProposedBy(tool, call_id, named, applied_by, channel, read_recorded_by(item))
    return None


def is_tool_change(entry: Entry) -> bool:
    """Return True for a configuration change by tools."""
    return isinstance(entry, ConfigDelta) and bool(read_proposed_by(entry))
