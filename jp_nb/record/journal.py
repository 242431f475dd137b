"""Journal rows, and the progress of tool calls in them.

The first line is the head, each line behind it one object:
    {"journal": 1, "conversation": {…}, "base_config": {…}, "notebook": "…", "file": "…",
     "base": 12, "mark": "<digest of the entries before base>"}   and, if no notebook keeps the
                                    conversation, "folder": "…"
    {"entry": {…}}                  the next entry, as the record stores it
    {"conversation": {…}}           what is stored about the conversation itself, from here on
    {"signature": "2:…" | null}     of the record as it is here, null if it is not signed
    {"signature": …, "call": {"event_id": "…", "stage": "started"}}    likewise, and progress of a
                                    tool call without a response (`CallProgress`)

A signature ends what was written at once: lines behind the last one were cut while they were
written, and nothing was done because of them yet.

The journal keeps it: after a crash it tells the calls that never ran from those that may have run,
and has the results of those that finished.

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
from jp_nb.record.stream import (
    ConversationStream,
)

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


def latest_progress(one: CallProgress, other: CallProgress) -> CallProgress:
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
    for index in stream.open_tool_call_indexes():
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


FORMAT: Final = 1

JournalRelation = Literal["covered", "continues", "branch", "gap"]
"""What a journal is to a copy of its conversation: in it whole, longer, another, or further on."""


@dataclass(frozen=True, slots=True)
class JournalHead:
    """The beginning of a journal.

    Attributes:
        conversation: What is stored about the conversation itself, its `id` among that.
        base: How many entries are before the first one of the journal.
        mark: The `EntriesDigest` of those.
        notebook: The notebook's path, "" if it is not known.
        file: What tells the file at that path from a copy of it, "" if there was none.
        folder: The kernel's folder, if no notebook keeps the conversation; else "".
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
        """The id of the conversation."""
        return str(self.conversation.get("id", ""))

    @property
    def made(self) -> JsonValue:
        """By what kind of run it was made: `headless` or `live`; None if that is not said."""
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
    """What the lines of a journal say.

    Attributes:
        head: Its beginning.
        entries: The entries behind the base, as they are stored.
        signature: That of the record with the last entry; None if that is not signed.
        calls: The progress of tool calls without a response, by the event ids of their requests.
        size: Bytes up to the end of the last line that counts.
        lost: Bytes behind that: they cannot be read.
    """

    head: JournalHead
    entries: list[RawEntry] = field(default_factory=list)
    signature: str | None = None
    calls: dict[str, CallProgress] = field(default_factory=dict)
    size: int = 0
    unreadable_bytes: int = 0

    @property
    def length(self) -> int:
        """How many entries the conversation has with those of the journal."""
        return self.head.base + len(self.entries)

    def continues_from(self, raw: Sequence[RawEntry]) -> bool:
        """Return True if `raw` has the entries that are before the first of the journal."""
        base = self.head.base
        return len(raw) >= base and EntriesDigest().at(raw, base) == self.head.mark

    def compare_with(self, raw: Sequence[RawEntry]) -> JournalRelation:
        """Return what the journal is to `raw`, the entries of a copy of its conversation."""
        base = self.head.base
        if not self.continues_from(raw):
            return "gap"
        if not all(map(_is_same, raw[base:], self.entries)):
            return "branch"
        return "continues" if self.length > len(raw) else "covered"


def format_line(**fields: JsonValue) -> bytes:
    """Return the line that says `fields`."""
    return format_storable_line(fields) + b"\n"


def format_entry_lines(entries: Iterable[RawEntry]) -> bytes:
    """Return the lines of `entries`."""
    return b"".join(format_line(entry=entry) for entry in entries)


def format_call_line(signature: JsonValue, call: str, progress: CallProgress) -> bytes:
    """Return the line that tells the `progress` of the call with the event id `call`."""
    return format_line(signature=signature, call=progress.to_json(call))


def read_journal(data: bytes) -> JournalContents | None:
    """Read a journal as far as its lines can be read; None if it has no beginning.

    What follows a damaged line would be out of its order, so nothing behind one counts, and
    nothing behind the last signature.
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
            case {"signature": str() | None as signature, **beside}:
                if any(entry.get("type") == "tool_call_response" for entry in new):
                    found.calls.clear()  # calls that are still open are told again behind it
                if (known := read_progress(beside.get("call"))) is not None:
                    found.calls[known[0]] = known[1]
                found.entries += new
                found.head, found.signature, found.size = head, signature, size
                new = []
            case _:
                break
    found.unreadable_bytes = max(len(data) - found.size, 0)
    return found


class EntriesDigest:
    """The marks of one conversation as it grows: each entry is looked at once."""

    def __init__(self) -> None:
        self._running = sha256()
        self._count = 0

    def at(self, raw: Sequence[RawEntry], count: int) -> str:
        """Return the mark of the first `count` entries, no fewer than at the last call."""
        for entry in raw[self._count : count]:
            identity = [entry.get(key) for key in _IDENTITY]
            self._running.update(json.dumps(identity).encode() + b"\n")
        self._count = count
        return self._running.hexdigest()


_IDENTITY: Final = ("type", "timestamp", "event_id", "id")


def _is_same(one: RawEntry, other: RawEntry) -> bool:
    """Return True if both say the same: pages change how numbers and characters are written."""
    return one == other or (_canonical(one) == _canonical(other) != b"")


def _canonical(entry: RawEntry) -> bytes:
    try:
        return canonical_json(entry).encode("ascii")
    except StorageError:  # nested too deeply, as no entry is that `decode` has read
        return b""


def read_head(line: bytes) -> JournalHead | None:
    """Return what the first `line` of a journal says; None if it is none."""
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
    """Return what `line` says; None if it is damaged."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
