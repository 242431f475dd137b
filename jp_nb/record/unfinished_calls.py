"""The open tool calls of the current turn, and how far each of them came.

A call is *open* if it has no response yet. After a crash of the kernel, the progress of calls in
the journal tells calls that never ran from calls that may have run. It also has the results of
finished calls.

Source: `docs/record.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from pydantic import JsonValue

from jp_nb.record.entries.event_decoding import decode_event
from jp_nb.record.entries.events import (
    Entry,
    ImageEntry,
    RawEntry,
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.record.stream import ConversationStream

CallStage = Literal["asked", "permitted", "started", "finished"]
"""The last step of a call: permission asked, permission given, tool started, or tool finished."""
_STAGES: Final = get_args(CallStage)


@dataclass(frozen=True, slots=True)
class CallProgress:
    """The last known step of a tool call.

    The `entries` of a finished call are the stored images of its result, and the response. `change`
    has the edits of cells that the call was about to apply.
    """

    stage: CallStage
    entries: tuple[RawEntry, ...] = ()
    change: JsonValue = None

    def to_json(self, call: str) -> dict[str, JsonValue]:
        """Return the JSON object for the call with the event id `call`."""
        stored: dict[str, JsonValue] = {"event_id": call, "stage": self.stage}
        if self.entries:
            stored["entries"] = list(self.entries)
        if self.change is not None:
            stored["change"] = self.change
        return stored


def read_progress(value: Any) -> tuple[str, CallProgress] | None:
    """Return the event id and the progress in `value`, or None if it is malformed."""
    match value:
        case {
            "event_id": str() as call,
            "stage": ("asked" | "permitted" | "started" | "finished") as stage,
            **rest,
        }:
            entries = rest.get("entries", [])
            if isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries):
                change = rest.get("change")
                if not isinstance(change, dict):
                    change = None
                return call, CallProgress(stage, tuple(entries), change)
    return None


def pick_latest_progress(one: CallProgress, other: CallProgress) -> CallProgress:
    """Return the progress with the later stage; of the same stage, the one with a change."""
    return max(one, other, key=_rank_progress)


def _rank_progress(progress: CallProgress) -> tuple[int, bool]:
    return _STAGES.index(progress.stage), progress.change is not None


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A tool call without a response, the event id of its request, and its last known step.

    `change` has the edits of cells that it was about to apply; None if it did not get that far.
    """

    request: ToolCallRequest
    event_id: str
    stage: CallStage | None = None
    change: JsonValue = None

    @property
    def may_have_run(self) -> bool:
        """False if the tool certainly did not start; True if no step is known."""
        return self.stage not in ("asked", "permitted")


def list_open_calls(
    stream: ConversationStream, progress: Mapping[str, CallProgress]
) -> list[OpenCall]:
    """Return the calls of the current turn without a response, in call order."""
    calls = []

    for index in stream.list_open_tool_call_indexes():
        request = stream.entries[index]
        event_id = stream.event_id(index)
        assert isinstance(request, ToolCallRequest)
        known = progress.get(event_id)
        stage = known.stage if known else None
        change = known.change if known else None
        calls.append(OpenCall(request, event_id, stage, change))
    return calls


def make_finished_entries(
    stream: ConversationStream, progress: Mapping[str, CallProgress]
) -> list[Entry]:
    """Return the entries of open calls that have finished, ready to be appended.

    In a record, a response belongs to the first open call with its id. If two calls have the same
    id, the response of the later one is omitted while the earlier one is open.

    Raises:
        StorageError: An entry is malformed.
    """
    finished: list[Entry] = []
    open_ids: set[str] = set()  # of calls that stay open
    digests: set[str] = set()

    for call in list_open_calls(stream, progress):
        entries: list[Entry] = []
        if call.stage == "finished" and call.request.id not in open_ids:
            entries = [decode_event(raw, len(stream)) for raw in progress[call.event_id].entries]

        responses = [entry for entry in entries if isinstance(entry, ToolCallResponse)]
        has_response = any(response.id == call.request.id for response in responses)
        if not has_response:
            open_ids.add(call.request.id)
            continue

        # An image that the record already has is not stored again.
        for entry in entries:
            if isinstance(entry, ImageEntry):
                if entry.digest in digests or stream.images.find(entry.digest) is not None:
                    continue
                digests.add(entry.digest)
            finished.append(entry)

    return finished
