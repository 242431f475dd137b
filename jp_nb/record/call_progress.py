"""Progress of the tool calls that have no response in the record yet.

The journal keeps it: after a crash it tells the calls that never ran from those that may have run,
and has the results of those that finished.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from pydantic import JsonValue

from jp_nb.record.entry import Entry, RawEntry
from jp_nb.record.events import ImageEntry, ToolCallRequest, ToolCallResponse, decode
from jp_nb.record.stream import ConversationStream

CallStage = Literal["asked", "permitted", "started", "finished"]
"""The last step of a call: permission was asked for or given, the tool started, or it finished."""

_STAGES: Final = get_args(CallStage)


@dataclass(frozen=True, slots=True)
class CallProgress:
    """The last known step of one tool call.

    Attributes:
        entries: If it finished: the images of its result and the response, as they are stored.
    """

    stage: CallStage
    entries: tuple[RawEntry, ...] = ()

    def to_json(self, call: str) -> dict[str, JsonValue]:
        """Return the JSON object that tells this of the call with the event id `call`."""
        found: dict[str, JsonValue] = {"event_id": call, "stage": self.stage}
        return {**found, "entries": list(self.entries)} if self.entries else found


def read_progress(value: Any) -> tuple[str, CallProgress] | None:
    """Return the event id of a call and its progress as `to_json` wrote them; None if malformed."""
    match value:
        case {
            "event_id": str() as call,
            "stage": ("asked" | "permitted" | "started" | "finished") as stage,
            **rest,
        }:
            entries = rest.get("entries", [])
            if isinstance(entries, list) and all(isinstance(each, dict) for each in entries):
                return call, CallProgress(stage, tuple(entries))
    return None


def later(one: CallProgress, other: CallProgress) -> CallProgress:
    """Return the one of two reports about a call that is further on."""
    return max(one, other, key=lambda each: _STAGES.index(each.stage))


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A tool call without a response.

    Attributes:
        event_id: That of its request.
        stage: Its last known step; None if nothing is known of it.
    """

    request: ToolCallRequest
    event_id: str
    stage: CallStage | None = None

    @property
    def may_have_run(self) -> bool:
        """True unless the tool is known not to have started."""
        return self.stage not in ("asked", "permitted")


def open_calls(stream: ConversationStream, progress: Mapping[str, CallProgress]) -> list[OpenCall]:
    """Return the calls of the current turn that have no response, in call order."""
    found = []
    for index in stream.unanswered_indexes():
        request, event_id = stream.entries[index], stream.event_id(index)
        assert isinstance(request, ToolCallRequest)
        known = progress.get(event_id)
        found.append(OpenCall(request, event_id, known.stage if known else None))
    return found


def finished_entries(
    stream: ConversationStream, progress: Mapping[str, CallProgress]
) -> list[Entry]:
    """Return the results of open calls that finished, as they are to be appended.

    Where several calls share an id, a response answers the first open one: a later one that
    finished before it cannot be recorded yet.

    Raises:
        StorageError: If an entry is malformed.
    """
    found: list[Entry] = []
    blocked: set[str] = set()
    digests: set[str] = set()
    for call in open_calls(stream, progress):
        entries = (
            [decode(raw, len(stream)) for raw in progress[call.event_id].entries]
            if (call.stage == "finished" and call.request.id not in blocked)
            else []
        )
        if not any(isinstance(e, ToolCallResponse) and e.id == call.request.id for e in entries):
            blocked.add(call.request.id)
            continue
        for entry in entries:
            if isinstance(entry, ImageEntry):
                if entry.digest in digests or stream.images.find(entry.digest) is not None:
                    continue
                digests.add(entry.digest)
            found.append(entry)
    return found
