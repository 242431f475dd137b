"""Lines of a journal: write them, read them, and compare a journal with a copy of its record.

A journal is JSON Lines. A header begins it, and a signature ends each write:

    {"journal": 1, "conversation": {…}, "base_config": {…}, "notebook": "/a.ipynb", "base": 2, …}
    {"entry": {"type": "tool_call_request", …}}
    {"conversation": {…}}                       changed properties, such as a new title
    {"signature": "…", "call": {…}}

The journal has only the entries that the notebook file may lack: those after the first `base` ones.
Lines after the last signature are incomplete, and no tool has run because of them. The `call` of a
signature is the progress of an open tool call, for example that it has started (`CallProgress`).
No I/O.

Source: `docs/record.md` (the journal), which has the format.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final, Literal

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject
from jp_nb.json_writing import canonical_json, format_storable_line
from jp_nb.record.entries.events import RawEntry
from jp_nb.record.unfinished_calls import CallProgress, read_progress

JOURNAL_FORMAT: Final = 1

JournalRelation = Literal["covered", "continues", "branch", "gap"]
"""Relation of a journal to a copy of its conversation.

`covered`: the copy has all entries. `continues`: the journal has more. `branch`: entries differ.
`gap`: the copy lacks entries before the journal, or they differ.
"""


@dataclass(frozen=True, slots=True)
class JournalHeader:
    """The header: the first line of a journal.

    Attributes:
        conversation: The properties of the conversation, such as its id and its title.
        base_config: The configuration at the beginning of the conversation.
        notebook: Path of the notebook, or "".
        file: Identity of the notebook's file, which a copy does not share; "" if there is none.
        base: Number of entries before the first one of the journal.
        base_digest: Digest of these entries (`EntriesDigest`), stored as `mark`.
        folder: The kernel's folder, if no notebook stores the conversation; else "".
    """

    conversation: JsonObject
    base_config: JsonObject
    notebook: str
    file: str
    base: int
    base_digest: str
    folder: str = ""

    @property
    def id(self) -> str:
        """Id of the conversation."""
        return str(self.conversation.get("id", ""))

    @property
    def made(self) -> JsonValue:
        """`headless` or `live`; None if unknown."""
        return self.conversation.get("made")

    def format_line(self) -> bytes:
        """Return the first line of the journal."""
        stored: JsonObject = {
            "conversation": self.conversation,
            "base_config": self.base_config,
            "notebook": self.notebook,
            "file": self.file,
            "base": self.base,
            "mark": self.base_digest,
        }
        if self.folder:
            stored["folder"] = self.folder

        return format_journal_line(journal=JOURNAL_FORMAT, **stored)


@dataclass(slots=True)
class JournalContents:
    """Content of a journal up to its last signature line.

    Attributes:
        entries: The entries after the first `header.base` ones of the conversation.
        signature: The signature of the record; None if the record is not signed.
        calls: The progress of open tool calls, by the event ids of their requests.
        size: Size of this content in bytes.
        unreadable_bytes: Size of the incomplete or damaged content after it.
    """

    header: JournalHeader
    entries: list[RawEntry] = field(default_factory=list)
    signature: str | None = None
    calls: dict[str, CallProgress] = field(default_factory=dict)
    size: int = 0
    unreadable_bytes: int = 0

    @property
    def length(self) -> int:
        """Number of entries of the conversation, including those before the journal."""
        return self.header.base + len(self.entries)

    def continues_from(self, raw: Sequence[RawEntry]) -> bool:
        """Return True if `raw` contains the entries before the first one of the journal."""
        base = self.header.base
        return len(raw) >= base and EntriesDigest().compute(raw, base) == self.header.base_digest

    def compare_with(self, raw: Sequence[RawEntry]) -> JournalRelation:
        """Return the relation of the journal to `raw`, a copy of its conversation."""
        base = self.header.base

        if not self.continues_from(raw):
            return "gap"
        if not all(map(_is_same_entry, raw[base:], self.entries)):
            return "branch"

        return "continues" if self.length > len(raw) else "covered"


def format_journal_line(**content: JsonValue) -> bytes:
    """Return a line with the object `content`."""
    return format_storable_line(content) + b"\n"


def format_entry_lines(entries: Iterable[RawEntry]) -> bytes:
    """Return the lines of `entries`."""
    return b"".join(format_journal_line(entry=entry) for entry in entries)


def format_call_lines(signature: JsonValue, progress: Mapping[str, CallProgress]) -> bytes:
    """Return the lines with the `progress` of calls, by the event ids of their requests.

    Each has the signature of the record, because lines after the last signature do not count.
    """
    lines = [
        format_journal_line(signature=signature, call=each.to_json(call))
        for call, each in progress.items()
    ]
    return b"".join(lines)


def read_journal(data: bytes) -> JournalContents | None:
    """Read a journal up to the last signature line. Return None if its header is invalid.

    The signature is not verified here: readers of the record do so, as for one from a notebook.
    Lines after a damaged line are not read, because their order is unknown.
    """
    first, _, rest = data.partition(b"\n")

    header = read_journal_header(first)
    if header is None:
        return None

    contents = JournalContents(header, size=len(first) + 1)

    # Read since the last signature line, which the next one makes valid:
    size = contents.size
    entries: list[RawEntry] = []

    for line in rest.split(b"\n")[:-1]:
        size += len(line) + 1

        match _read_line(line):
            case {"entry": dict(entry)}:
                entries.append(entry)
            case {"conversation": {"id": str()} as conversation}:
                header = replace(header, conversation=conversation)
            case {"signature": str() | None as signature, **others}:
                # A call has ended. The writer repeats the progress of the calls that are still open
                # in lines after this one.
                if any(entry.get("type") == "tool_call_response" for entry in entries):
                    contents.calls.clear()

                progress = read_progress(others.get("call"))  # None if the line has no call
                if progress is not None:
                    event_id, call = progress
                    contents.calls[event_id] = call

                contents.entries += entries
                contents.header = header
                contents.signature = signature
                contents.size = size
                entries = []
            case _:  # a damaged line
                break

    contents.unreadable_bytes = max(len(data) - contents.size, 0)
    return contents


_IDENTITY: Final = ("type", "timestamp", "event_id", "id")
"""Keys of an entry that tell it from others."""


class EntriesDigest:
    """Incremental digest of the first entries of a growing list.

    It reads each entry once, as long as the number of entries does not decrease. Only the keys
    `_IDENTITY` of an entry count, because pages change the notation of other values.
    """

    def __init__(self) -> None:
        self._running = sha256()
        self._count = 0

    def compute(self, raw: Sequence[RawEntry], count: int) -> str:
        """Return the digest of the first `count` entries."""
        if count < self._count:  # a digest cannot forget entries, so it begins again
            self._running = sha256()
            self._count = 0

        for entry in raw[self._count : count]:
            identity = [entry.get(key) for key in _IDENTITY]
            self._running.update(json.dumps(identity).encode() + b"\n")
        self._count = count
        return self._running.hexdigest()


def _is_same_entry(one: RawEntry, other: RawEntry) -> bool:
    try:  # pages change the notation of numbers and characters
        return one == other or canonical_json(one) == canonical_json(other)
    except StorageError:  # nested too deeply: such an entry is refused when it is decoded
        return False


def read_journal_header(line: bytes) -> JournalHeader | None:
    """Return the header in the first `line` of a journal; None if it is invalid."""
    match _read_line(line):
        case {
            "journal": 1,  # `JOURNAL_FORMAT`
            "conversation": {"id": str()} as conversation,
            "base_config": dict(base_config),
            "notebook": str(notebook),
            "base": int(base),
            "mark": str(base_digest),
            **others,
        } if base >= 0:
            file = str(others.get("file", ""))
            folder = str(others.get("folder", ""))
            return JournalHeader(
                conversation=conversation,
                base_config=base_config,
                notebook=notebook,
                file=file,
                base=base,
                base_digest=base_digest,
                folder=folder,
            )
    return None


def _read_line(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
