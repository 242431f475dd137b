"""Journal files of running kernels: append-only, locked, one for each kernel and conversation.

A process locks its file while the file is open. If another process can lock it, the writer has
ended. A signature ends each write. Lines after the last signature are incomplete, and no tool has
run because of them.

Source: `docs/record.md` (the journal), which has the format.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.file_reading import open_regular
from jp_nb.file_writing import sync_folder
from jp_nb.json_values import JsonObject, canonical_json, format_storable_line
from jp_nb.record.events import RawEntry
from jp_nb.record.interrupted_turn import CallProgress, read_progress
from jp_nb.storage.files import get_data_folder, try_lock

JOURNAL_SUFFIX: Final = ".jsonl"
MAX_JOURNAL_BYTES: Final = 256_000_000
"""Maximum size of a file that is read. It is larger than any notebook."""
MAX_HEAD_BYTES: Final = 10_000_000
"""Limit of the first line, which describes the conversation."""
MAX_JOURNAL_AGE_S: Final = 30 * 24 * 3600.0
"""An unused file is removed after this time without a write."""
MAX_ALL_JOURNAL_BYTES: Final = 1_000_000_000
"""Limit for all files together. The oldest unused files are removed first."""
REMOVE_EVERY: Final = 32
"""Old files are removed before the first new file of a kernel, and then before each 32nd."""
MAX_JOURNAL_FILES: Final = 16
"""Maximum number of files of one conversation in one notebook."""
NEW_SUFFIX: Final = ".new"
"""Suffix of a temporary file that replaces a journal. A killed kernel may leave one behind."""
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,80}", re.ASCII)
_OPEN_FLAGS: Final = (
    os.O_RDWR | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
) | getattr(os, "O_NONBLOCK", 0)


class JournalFile:
    """An open journal file, locked by this process until `close`. `size` is in bytes."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor
        self.size = os.fstat(descriptor).st_size
        self._is_synced = True
        # The folder must be synced once for a new file.
        self._is_name_synced = self.size > 0
        _OPEN_FILES.add(self)

    def read(self) -> bytes:
        """Return the content.

        Raises:
            OSError: The file cannot be read, or is longer than `MAX_JOURNAL_BYTES`.
        """
        if self.size > MAX_JOURNAL_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(self.path))

        os.lseek(self._open_descriptor, 0, os.SEEK_SET)
        pieces: list[bytes] = []
        while piece := os.read(self._open_descriptor, 1 << 20):
            pieces.append(piece)
        return b"".join(pieces)

    def head(self) -> JournalHead | None:
        """Return the head; None if it is invalid, or the file cannot be read."""
        with suppress(OSError):
            return read_journal_head(_first_line(self._open_descriptor))
        return None

    def append(self, data: bytes) -> None:
        """Append `data`, without fsync.

        Raises:
            OSError: The data cannot be written. The file is unchanged.
        """
        self._is_synced = False
        try:
            _write(self._open_descriptor, data)
        except OSError:
            self.cut(self.size)
            raise

        self.size += len(data)

    def cut(self, size: int) -> None:
        """Truncate the file to `size` bytes."""
        with suppress(OSError):  # a reader ignores an incomplete last line
            os.ftruncate(self._open_descriptor, size)
        self.size = min(self.size, size)

    def sync(self) -> None:
        """Write appended data and a new file name to the disk (fsync).

        Raises:
            OSError: The data cannot be written.
        """
        if not self._is_synced:
            os.fsync(self._open_descriptor)
            self._is_synced = True

        if not self._is_name_synced:
            sync_folder(self.path.parent)
            self._is_name_synced = True

    def rewrite(self, data: bytes) -> None:
        """Replace the content atomically.

        Raises:
            OSError: The data cannot be written. The file is unchanged.
        """
        if not self.size:
            self.append(data)
            return

        replacement = self.path.with_suffix(NEW_SUFFIX)
        replacement.unlink(missing_ok=True)
        made = os.open(replacement, _OPEN_FLAGS | os.O_CREAT | os.O_EXCL, 0o600)

        try:
            try_lock(made)
            _write(made, data)
            os.replace(replacement, self.path)
        except OSError:
            os.close(made)
            replacement.unlink(missing_ok=True)
            raise

        os.close(self._open_descriptor)
        self._descriptor = made
        self.size = len(data)
        self._is_synced = self._is_name_synced = False

    def close(self, *, remove: bool = False) -> None:
        """Close and unlock the file; with `remove`, delete it first."""
        descriptor = self._descriptor
        self._descriptor = None

        if descriptor is None:
            return
        if remove:
            with suppress(OSError):
                self.path.unlink()

        os.close(descriptor)

    @property
    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), str(self.path))
        return self._descriptor


_OPEN_FILES: Final[weakref.WeakSet[JournalFile]] = weakref.WeakSet()


def _after_fork() -> None:
    for file in list(_OPEN_FILES):  # descriptors of a forked child would keep the locks
        file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class JournalFolder:
    """Folder of journals, by default in the user's data folder."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._created = 0

    @cached_property
    def path(self) -> Path:
        """Path of the folder. It may not exist."""
        return self._path or get_data_folder() / "journal"

    def has_journals(self) -> bool:
        """Return True if there is a journal of any kernel, running or ended."""
        try:
            with os.scandir(self.path) as entries:
                return any(entry.name.endswith(JOURNAL_SUFFIX) for entry in entries)
        except OSError:  # no folder, or no permission, which a later write reports
            return False

    def create(self, conversation: str, notebook: str = "") -> JournalFile:
        """Create a journal of `conversation`, and remove old ones at times (`REMOVE_EVERY`).

        `notebook` is the notebook's path. It is part of the file name, because conversations of two
        notebooks may have the same id.

        Raises:
            StorageError: The folder is not private, or the conversation has `MAX_JOURNAL_FILES`
                journals.
            OSError: The file cannot be created.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check()

        if self._created % REMOVE_EVERY == 0:
            self.remove_old()
        self._created += 1

        name = f"{make_file_name(conversation)}.{_digest(notebook)[:8]}"
        for number in range(MAX_JOURNAL_FILES):
            path = self.path / f"{name}.{number}{JOURNAL_SUFFIX}"
            with suppress(FileExistsError):
                descriptor = os.open(path, _OPEN_FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
                try:
                    if try_lock(descriptor):
                        return JournalFile(path, descriptor)
                except OSError:  # the file system has no locks
                    os.close(descriptor)
                    path.unlink()
                    raise
                os.close(descriptor)

        raise StorageError(
            f"this conversation already has {MAX_JOURNAL_FILES} journals in {self.path}"
        )

    def abandoned(self) -> Iterator[JournalFile]:
        """Yield the journals that no process has open, newest first and locked.

        The caller closes them.

        Raises:
            StorageError: The folder is not private.
            OSError: The folder cannot be read.
        """
        if not os.path.lexists(self.path):
            return

        self._check()
        for _, _, path in self._files():
            if (found := take_journal(path)) is not None:
                yield found

    def open_heads(
        self, conversation: str, *, besides: JournalFile | None = None
    ) -> Iterator[JournalHead]:
        """Yield the heads of the journals of `conversation` that a process has open.

        `besides`, the caller's own journal, is omitted.

        Raises:
            OSError: The folder cannot be read.
        """
        for _, _, path in self._files(f"{make_file_name(conversation)}."):
            if besides is None or path != besides.path:
                with (
                    suppress(OSError),
                    open(open_regular(path, _OPEN_FLAGS), "rb", buffering=0) as file,
                ):
                    is_open = not try_lock(file.fileno())
                    if (
                        is_open
                        and (head := read_journal_head(_first_line(file.fileno()))) is not None
                    ):
                        yield head

    def remove_old(self) -> None:
        """Remove unused files that are too old, or that exceed `MAX_ALL_JOURNAL_BYTES` together.

        Raises:
            OSError: The folder cannot be read.
        """
        kept = 0
        oldest = time.time() - MAX_JOURNAL_AGE_S

        for written, size, path in self._files(suffixes=(JOURNAL_SUFFIX, NEW_SUFFIX)):
            kept += size
            is_over = written < oldest * 1e9 or kept > MAX_ALL_JOURNAL_BYTES
            if is_over and (found := take_journal(path)) is not None:
                found.close(remove=True)

    def _files(
        self, begins: str = "", suffixes: tuple[str, ...] = (JOURNAL_SUFFIX,)
    ) -> list[tuple[int, int, Path]]:
        """Return modification time in ns, size in bytes, and path of files, newest first."""
        found = []

        with os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.startswith(begins) and entry.name.endswith(suffixes):
                    with suppress(FileNotFoundError):  # its kernel has just removed it
                        status = entry.stat(follow_symlinks=False)
                        found.append((status.st_mtime_ns, status.st_size, Path(entry.path)))

        return sorted(found, reverse=True)

    def _check(self) -> None:
        status = self.path.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise StorageError(f"{self.path} is not a folder")
        if why := _why_not_private(status):
            raise StorageError(f"{self.path} {why}: make it private (`chmod 700`)")


def make_file_name(conversation: str) -> str:
    """Return the prefix of a conversation's file names: its id, or a digest of an unusual id."""
    if _NAME.fullmatch(conversation):
        return conversation
    return _digest(conversation)


def get_file_identity(notebook: str) -> str:
    """Return device and inode, which a rename keeps and a copy changes; "" if there is no file."""
    try:
        status = os.stat(notebook)
    except (OSError, ValueError):
        return ""
    return f"{status.st_dev}:{status.st_ino}" if stat.S_ISREG(status.st_mode) else ""


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def take_journal(path: Path) -> JournalFile | None:
    """Open and lock a journal; None if a process has it, it is gone, or it is not private."""
    try:
        descriptor = open_regular(path, _OPEN_FLAGS)
    except OSError:
        return None

    try:
        status = os.fstat(descriptor)
        own = not _why_not_private(status)
        if own and try_lock(descriptor) and os.path.samestat(status, os.lstat(path)):
            return JournalFile(path, descriptor)
    except OSError:  # it has just been removed
        pass

    os.close(descriptor)
    return None


def _why_not_private(status: os.stat_result) -> str | None:
    if not hasattr(os, "geteuid"):
        return None
    if status.st_uid != os.geteuid():
        return "belongs to another user"
    return "is accessible to other users" if status.st_mode & _OTHERS else None


def _first_line(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)

    found = b""
    while b"\n" not in found and len(found) <= MAX_HEAD_BYTES:
        piece = os.read(descriptor, 1 << 14)
        if not piece:
            break
        found += piece
    return found.partition(b"\n")[0]


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


# --- content ----------------------------------------------------------------------------------

JOURNAL_FORMAT: Final = 1

JournalRelation = Literal["covered", "continues", "branch", "gap"]
"""Relation of a journal to a copy of its conversation.

`covered`: the copy has all entries. `continues`: the journal has more. `branch`: entries differ.
`gap`: the copy lacks entries before the journal, or they differ.
"""


@dataclass(frozen=True, slots=True)
class JournalHead:
    """The head of a journal. The fields are stored.

    Attributes:
        notebook: Path of the notebook, or "".
        file: Identity of the notebook's file, which a copy does not share; "" if there is none.
        base: Number of entries before the first one of the journal.
        mark: Digest of these entries (`EntriesDigest`).
        folder: The kernel's folder, if no notebook stores the conversation; else "".
    """

    conversation: JsonObject
    base_config: JsonObject
    notebook: str
    file: str
    base: int
    mark: str
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
        stored: JsonObject = {each.name: getattr(self, each.name) for each in fields(self)}
        if not self.folder:
            del stored["folder"]
        return format_journal_line(journal=JOURNAL_FORMAT, **stored)


@dataclass(slots=True)
class JournalContents:
    """Content of a journal: the `entries` after the base, and the `signature` of the record.

    `signature` is None if the record is not signed.
    """

    head: JournalHead
    entries: list[RawEntry] = field(default_factory=list)
    signature: str | None = None
    calls: dict[str, CallProgress] = field(default_factory=dict)  # by event ids of the requests
    size: int = 0  # in bytes, up to the end of the last valid signature line
    unreadable_bytes: int = 0  # after that

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


def format_journal_line(**content: JsonValue) -> bytes:
    """Return a line with an object."""
    return format_storable_line(content) + b"\n"


def format_entry_lines(entries: Iterable[RawEntry]) -> bytes:
    """Return the lines of `entries`."""
    return b"".join(format_journal_line(entry=entry) for entry in entries)


def format_call_lines(signature: JsonValue, progress: Mapping[str, CallProgress]) -> bytes:
    """Return the lines with the `progress` of calls, by their event ids."""
    lines = (
        format_journal_line(signature=signature, call=x.to_json(call))
        for call, x in progress.items()
    )
    return b"".join(lines)


def read_journal(data: bytes) -> JournalContents | None:
    """Read a journal up to the last valid signature. Return None if its head is invalid.

    Lines after a damaged line are not read, because their order is unknown.
    """
    first, _, rest = data.partition(b"\n")

    head = read_journal_head(first)
    if head is None:
        return None

    found = JournalContents(head, size=len(first) + 1)
    size = found.size
    new = list[RawEntry]()

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
                found.head = head
                found.signature = signature
                found.size = size
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
    try:  # pages change the notation of numbers and characters
        return one == other or canonical_json(one) == canonical_json(other)
    except StorageError:  # nested too deeply, which `decode` rejects
        return False


def read_journal_head(line: bytes) -> JournalHead | None:
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
            file = str(others.get("file", ""))
            folder = str(others.get("folder", ""))
            return JournalHead(conversation, base_config, notebook, file, base, mark, folder)
    return None


def _read_line(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
