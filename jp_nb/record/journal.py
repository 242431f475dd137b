"""Read and format the lines of a journal, and the progress of tool calls in it.

The first line is the head. Each later line is one object:
    {"journal": 1, "conversation": {…}, "base_config": {…}, "notebook": "…", "file": "…",
     "base": 12, "mark": "<digest of the entries before base>"}   and, if no notebook stores the
                                    conversation, "folder": "…"
    {"entry": {…}}                  the next stored entry
    {"conversation": {…}}           new metadata of the conversation
    {"signature": "2:…" | null}     signature of the record up to here; null if it is not signed
    {"signature": …, "call": {"event_id": "…", "stage": "started"}}    the same, with the progress
                                    of a tool call without a response (`CallProgress`)

A signature ends each write. Lines after the last signature are incomplete, and no tool has run
because of them.

After a crash, the progress tells calls that never ran from calls that may have run. It also has the
results of finished calls.

Source: `docs/record.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final, Literal, get_args

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject, canonical_json, format_storable_line
from jp_nb.record.events import (
    Entry,
    ImageEntry,
    RawEntry,
    ToolCallRequest,
    ToolCallResponse,
    decode,
)
from jp_nb.record.stream import ConversationStream

CallStage = Literal["asked", "permitted", "started", "finished"]
"""The last step of a call: permission asked, permission given, tool started, or tool finished."""
_STAGES: Final = get_args(CallStage)


@dataclass(frozen=True, slots=True)
class CallProgress:
    """The last known step of a tool call.

    Attributes:
        entries: If the call has finished: the stored images of its result, and the response.
    """

    stage: CallStage
    entries: tuple[RawEntry, ...] = ()

    def to_json(self, call: str) -> dict[str, JsonValue]:
        """Return the JSON object for the call with the event id `call`."""
        found: dict[str, JsonValue] = {"event_id": call, "stage": self.stage}
        return {**found, "entries": list(self.entries)} if self.entries else found


def read_progress(value: Any) -> tuple[str, CallProgress] | None:
    """Return the event id and the progress in `value`, or None if it is malformed."""
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


def latest_progress(one: CallProgress, other: CallProgress) -> CallProgress:
    """Return the progress with the later stage."""
    return max(one, other, key=lambda each: _STAGES.index(each.stage))


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A tool call without a response.

    Attributes:
        event_id: Event id of the request.
        stage: The last known step, or None.
    """

    request: ToolCallRequest
    event_id: str
    stage: CallStage | None = None

    @property
    def may_have_run(self) -> bool:
        """False if the tool certainly did not start."""
        return self.stage not in ("asked", "permitted")


def open_calls(stream: ConversationStream, progress: Mapping[str, CallProgress]) -> list[OpenCall]:
    """Return the calls of the current turn without a response, in call order."""
    found = []
    for index in stream.open_tool_call_indexes():
        request, event_id = stream.entries[index], stream.event_id(index)
        assert isinstance(request, ToolCallRequest)
        known = progress.get(event_id)
        found.append(OpenCall(request, event_id, known.stage if known else None))
    return found


def finished_entries(
    stream: ConversationStream, progress: Mapping[str, CallProgress]
) -> list[Entry]:
    """Return the entries of open calls that have finished, ready to be appended.

    In a record, a response belongs to the first open call with its id. If two calls have the same
    id, the response of the later one is omitted while the earlier one is open.

    Raises:
        StorageError: An entry is malformed.
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


FORMAT: Final = 1

JournalRelation = Literal["covered", "continues", "branch", "gap"]
"""Relation of a journal to a copy of its conversation.

`covered`: the copy has all entries. `continues`: the journal has more. `branch`: entries differ.
`gap`: the copy lacks entries before the journal, or they differ.
"""


@dataclass(frozen=True, slots=True)
class JournalHead:
    """The head of a journal.

    Attributes:
        conversation: Metadata of the conversation, with its `id`.
        base: Number of entries before the first one of the journal.
        mark: Digest of these entries (`EntriesDigest`).
        notebook: Path of the notebook, or "".
        file: Identity of the notebook's file, which a copy does not share; "" if there is none.
        folder: The kernel's folder, if no notebook stores the conversation; else "".
    """

    conversation: JsonObject
    base_config: JsonObject
    base: int
    mark: str
    notebook: str = ""
    file: str = ""
    folder: str = ""

    @property
    def id(self) -> str:
        """Id of the conversation."""
        return str(self.conversation.get("id", ""))

    @property
    def made(self) -> JsonValue:
        """`headless` or `live`; None if unknown."""
        return self.conversation.get("made")

    def line(self) -> bytes:
        """Return the first line of the journal."""
        return format_line(
            journal=FORMAT,
            conversation=self.conversation,
            base_config=self.base_config,
            notebook=self.notebook,
            file=self.file,
            base=self.base,
            mark=self.mark,
            **({"folder": self.folder} if self.folder else {}),
        )


@dataclass(slots=True)
class JournalContents:
    """Content of a journal.

    Attributes:
        head: The head.
        entries: The stored entries after the base.
        signature: Signature of the record up to the last entry; None if it is not signed.
        calls: Progress of open tool calls, by the event ids of their requests.
        size: Number of bytes up to the end of the last valid signature line.
        unreadable_bytes: Number of bytes after that.
    """

    head: JournalHead
    entries: list[RawEntry] = field(default_factory=list)
    signature: str | None = None
    calls: dict[str, CallProgress] = field(default_factory=dict)
    size: int = 0
    unreadable_bytes: int = 0

    @property
    def length(self) -> int:
        """Number of entries of the conversation, including those before the journal."""
        return self.head.base + len(self.entries)

    def continues_from(self, raw: Sequence[RawEntry]) -> bool:
        """Return True if `raw` contains the entries before the first one of the journal."""
        base = self.head.base
        return len(raw) >= base and EntriesDigest().at(raw, base) == self.head.mark

    def compare_with(self, raw: Sequence[RawEntry]) -> JournalRelation:
        """Return the relation of the journal to `raw`, a copy of its conversation."""
        base = self.head.base
        if not self.continues_from(raw):
            return "gap"
        if not all(map(_is_same_entry, raw[base:], self.entries)):
            return "branch"
        return "continues" if self.length > len(raw) else "covered"


def format_line(**fields: JsonValue) -> bytes:
    """Return a line with `fields`."""
    return format_storable_line(fields) + b"\n"


def format_entry_lines(entries: Iterable[RawEntry]) -> bytes:
    """Return the lines of `entries`."""
    return b"".join(format_line(entry=entry) for entry in entries)


def format_call_line(signature: JsonValue, call: str, progress: CallProgress) -> bytes:
    """Return the line with the `progress` of the call with the event id `call`."""
    return format_line(signature=signature, call=progress.to_json(call))


def read_journal(data: bytes) -> JournalContents | None:
    """Read a journal up to the last valid signature. Return None if its head is invalid.

    Lines after a damaged line are not read, because their order is unknown.
    """
    first, _, rest = data.partition(b"\n")
    head = read_head(first)
    if head is None:
        return None
    found = JournalContents(head, size=len(first) + 1)
    size, new = found.size, list[RawEntry]()
    for line in rest.split(b"\n")[:-1]:
        size += len(line) + 1
        match _read_line(line):
            case {"entry": dict(entry)}:
                new.append(entry)
            case {"conversation": {"id": str()} as conversation}:
                head = replace(head, conversation=conversation)
            case {"signature": str() | None as signature, **extra}:
                if any(entry.get("type") == "tool_call_response" for entry in new):
                    found.calls.clear()  # open calls are written again after it
                if (known := read_progress(extra.get("call"))) is not None:
                    found.calls[known[0]] = known[1]
                found.entries += new
                found.head, found.signature, found.size = head, signature, size
                new = []
            case _:
                break
    found.unreadable_bytes = max(len(data) - found.size, 0)
    return found


class EntriesDigest:
    """Incremental digest of the first entries of a growing list. It reads each entry once."""

    def __init__(self) -> None:
        self._running = sha256()
        self._count = 0

    def at(self, raw: Sequence[RawEntry], count: int) -> str:
        """Return the digest of the first `count` entries. `count` may not decrease."""
        for entry in raw[self._count : count]:
            identity = [entry.get(key) for key in _IDENTITY]
            self._running.update(json.dumps(identity).encode() + b"\n")
        self._count = count
        return self._running.hexdigest()


_IDENTITY: Final = ("type", "timestamp", "event_id", "id")


def _is_same_entry(one: RawEntry, other: RawEntry) -> bool:
    # Pages change the notation of numbers and characters.
    return one == other or (_canonical(one) == _canonical(other) != b"")


def _canonical(entry: RawEntry) -> bytes:
    try:
        return canonical_json(entry).encode("ascii")
    except StorageError:  # nested too deeply, which `decode` rejects
        return b""


def read_head(line: bytes) -> JournalHead | None:
    """Return the head in the first `line` of a journal; None if it is invalid."""
    match _read_line(line):
        case {
            "journal": 1,
            "conversation": {"id": str()} as conversation,
            "base_config": dict(base_config),
            "notebook": str(notebook),
            "base": int(base),
            "mark": str(mark),
            **others,
        } if base >= 0:
            file, folder = str(others.get("file", "")), str(others.get("folder", ""))
            return JournalHead(conversation, base_config, base, mark, notebook, file, folder)
    return None


def _read_line(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
