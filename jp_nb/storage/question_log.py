"""Question log of a workspace: `.jp/context/qna.jsonl`, shared by processes.

Each line is one entry. A writer holds a lock until its lines are on the disk, so a killed process
leaves at most one incomplete line, at the end. The next writer then begins a new line. A file with
100 lines is archived under the next number.

Source: `docs/record.md`.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.file_writing import open_file, replace_file, sync_folder
from jp_nb.json_values import as_object, compact_json, read_json, sorted_json
from jp_nb.record.question_log import (
    AFTER,
    MAX_ID,
    decode_entry,
    encode_entry,
    extend_chain,
    is_answered,
)
from jp_nb.storage.files import (
    LOCK_TIMEOUT_S,
    MAX_BYTES,
    ForeignFileError,
    data_folder,
    file_lock,
    is_owned_folder,
    read_owned_file,
)

FOLDER: Final = Path(".jp") / "context"
ACTIVE: Final = "qna.jsonl"
LOCK: Final = ".qna.lock"
NEWEST: Final = "question-logs"
"""Folder in the user's data folder that stores the newest signed line of each log."""
MAX_LINES: Final = 100
"""Lines of one file, blank ones included, before it is archived."""
MAX_FILE_BYTES: Final = MAX_BYTES // 4
"""Size of one file before it is archived."""
MAX_LOG_BYTES: Final = 200_000_000
"""Size of all files together. A larger log is not read."""
_ARCHIVE: Final = re.compile(r"qna_(\d{4,9})\.jsonl", re.ASCII)
_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT


class EntryTooLongError(StorageError):
    """An entry that is too long for the log. A retry does not help."""


LogEntry = dict[str, JsonValue]
Finish = Callable[[LogEntry], LogEntry]


@dataclass(slots=True)
class LogContents:
    """Content of the files of a log, oldest first.

    Attributes:
        answered: Ids and entries of answered questions.
        read: Lines that are not blank, with their entries; None for a damaged line.
        places: Index in `read` of each answered question.
        last: Highest id so far.
        damaged: Number of damaged lines.
        unread: Reasons for files that were not read.
        lines: Number of lines of the active file.
        size: Size of the active file in bytes.
        is_torn: True if the last line of the active file is incomplete.
    """

    answered: list[tuple[int, LogEntry]] = field(default_factory=list)
    read: list[tuple[bytes, LogEntry | None]] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    last: int = 0
    damaged: int = 0
    unread: list[str] = field(default_factory=list)
    lines: int = 0
    size: int = 0
    is_torn: bool = False

    def add(self, data: bytes) -> None:
        """Add the content of the next file.

        An answer without an id gets the next one. A damaged line also uses an id, so that damage
        does not change the ids of later answers.
        """
        lines = data.split(b"\n")
        self.is_torn, self.size = lines[-1] != b"", len(data)
        self.lines = len(lines) - (not self.is_torn)
        for line in filter(bytes.strip, lines):
            entry = decode_entry(line)
            self.read.append((line, entry))
            if entry is None:
                self.damaged += 1
                self.last += 1
            elif is_answered(entry):
                number = entry.get("id", self.last + 1)
                assert isinstance(number, int)  # `decode_entry` checks it
                self.last = max(self.last, number)
                self.answered.append((number, entry))
                self.places.append(len(self.read) - 1)

    def rows(self) -> set[str]:
        """Return the digests of imported lines."""
        rows = (entry.get("row") for _, entry in self.answered)
        return {row for row in rows if isinstance(row, str)}

    def has_same_answer(self, wanted: LogEntry) -> bool:
        """Return True if the newest answer to the same question from the same source is equal."""
        asked = (wanted.get("question"), wanted.get("source"))
        for _, entry in reversed(self.answered):
            if (entry.get("question"), entry.get("source")) == asked:
                return sorted_json(entry.get("answer")) == sorted_json(wanted.get("answer"))
        return False


@dataclass(frozen=True, slots=True)
class NewestSigned:
    """Newest signed line of a log, stored outside of the workspace.

    Attributes:
        line: Digest of the line.
        chain: Chain value of the log up to the line.
    """

    line: str
    chain: str


@dataclass(frozen=True, slots=True)
class Added:
    """Result of an `append`.

    Attributes:
        written: Number of written entries.
        known: Number of entries that the log already contained.
        problems: Messages about problems that did not prevent the write.
    """

    written: int = 0
    known: int = 0
    problems: tuple[str, ...] = ()


class QuestionLogFile:
    """Question log of the workspace in the folder `root`.

    Attributes:
        max_archives: Number of archives to keep; 0 keeps all.
        timeout_s: Longest time to wait for the lock.
        workspace: Real path of `root`, which names the workspace in signatures.
        folder: Folder of the files.
        path: The active file.
    """

    def __init__(
        self, root: Path, *, max_archives: int = 0, timeout_s: float = LOCK_TIMEOUT_S
    ) -> None:
        self.root = root
        self.max_archives = max_archives
        self.timeout_s = timeout_s
        self.workspace = os.path.realpath(root)
        self.folder = root / FOLDER
        self.path = self.folder / ACTIVE
        self._known: dict[Path, tuple[object, int]] = {}

    def exists(self) -> bool:
        """Return True if the log has a file."""
        return bool(self._files())

    # --- reading -----------------------------------------------------------------------------

    def read(self) -> LogContents:
        """Read the log, and change nothing.

        Raises:
            StorageError: The folder is not owned, or another process keeps it locked.
        """
        if not os.path.lexists(self.folder):
            return LogContents()
        self._check_folder()
        with _translated("read", self.folder), self._locked(make=False):
            return self._gather()

    def _gather(self, *, ends_alone: bool = False) -> LogContents:
        """Read the files. `ends_alone` reads only the last id of archives that were read before."""
        contents, size = LogContents(), 0
        for path in self._files():
            before, status = contents.last, path.lstat()
            size += status.st_size
            if size > MAX_LOG_BYTES:
                raise StorageError(
                    f"the files in {self.folder} have more than "
                    f"{MAX_LOG_BYTES // 10**6} MB: move old files away, or set "
                    "`record.project_log` to `off`"
                )
            stamp = (status.st_ino, status.st_size, status.st_mtime_ns, before)
            if ends_alone and path != self.path and self._known.get(path, (None, 0))[0] == stamp:
                contents.last = self._known[path][1]
                continue
            try:
                contents.add(read_owned_file(path))
            except ForeignFileError as exc:
                contents.unread.append(str(exc))
                continue
            except OSError as exc:
                contents.unread.append(f"{path} cannot be read: {exc.strerror or exc}")
                continue
            self._known[path] = stamp, contents.last
        if not os.path.lexists(self.path):
            contents.lines, contents.size, contents.is_torn = 0, 0, False
        return contents

    def _files(self) -> list[Path]:
        """Return the archives in order, then the active file."""
        active = [self.path] if os.path.lexists(self.path) else []
        return [self.folder / name for _, name in self._archives()] + active

    def _archives(self) -> list[tuple[int, str]]:
        found = []
        with suppress(FileNotFoundError, NotADirectoryError):
            for name in os.listdir(self.folder):
                if match := _ARCHIVE.fullmatch(name):
                    found.append((int(match[1]), name))
        return sorted(found)

    # --- writing -----------------------------------------------------------------------------

    def append(
        self, entries: Sequence[LogEntry], *, finish: Finish | None = None, if_new: bool = False
    ) -> Added:
        """Append `entries` to the log and sync them to the disk. Answered ones get the next ids.

        An entry with a `row` is not written if the log already contains this row.

        Args:
            entries: Entries of `record.question_log.entry_of`.
            finish: Called with a numbered entry; returns the entry to write, such as a signed one.
            if_new: Skip an entry if the newest answer to the same question is equal.

        Raises:
            StorageError: An entry cannot be written. Earlier ones may have been written.
        """
        self._make_folder()
        with _translated("written", self.folder), self._locked():
            needs_all = if_new or any("row" in entry for entry in entries)
            contents = self._gather(ends_alone=not needs_all)
            newest = self.newest_signed() if finish else None
            if newest and not needs_all and not _has(contents, newest):
                contents = self._gather()  # the newest signed line is in an archive
            if contents.unread:  # their ids are unknown and could be assigned twice
                raise StorageError(f"the answers are not written: {'; '.join(contents.unread)}")
            if contents.last + len(entries) > MAX_ID:
                raise StorageError(
                    f"an answer in {self.folder} has the id {contents.last}, which is "
                    "the highest possible id: delete that line"
                )
            rows = contents.rows()
            new = [each for each in entries if each.get("row") not in rows]
            if if_new:
                new = [each for each in new if not contents.has_same_answer(each)]
            chain = _chain(contents, newest)
            problems = self._write(list(_lines(new, contents.last, finish, chain)), contents)
            return Added(len(new), len(entries) - len(new), problems)

    def _write(self, lines: list[_NewLine], contents: LogContents) -> tuple[str, ...]:
        """Write `lines`, archive full files, and return messages about problems."""
        problems: dict[str, None] = {}
        while lines:
            if contents.lines >= MAX_LINES or contents.size >= MAX_FILE_BYTES:
                try:
                    self._set_aside()
                    contents.lines, contents.size, contents.is_torn = 0, 0, False
                except OSError as exc:  # a long file is better than a lost answer
                    why = exc.strerror or exc
                    problems[f"{self.path} is full and cannot be archived: {why}"] = None
            count = max(MAX_LINES - contents.lines, 1)
            data = b"".join(each.line for each in lines[:count])
            data = b"\n" + data if contents.is_torn else data
            self._append(data)
            signed = [each.signed for each in lines[:count] if each.signed is not None]
            if signed:
                problems |= dict.fromkeys(self._keep_newest(signed[-1]))
            contents.lines += len(lines[:count])
            contents.size += len(data)
            contents.is_torn = False
            del lines[:count]
        return tuple(problems)

    def _append(self, data: bytes) -> None:
        """Append and sync `data`, all or nothing."""
        made = not os.path.lexists(self.path)
        descriptor = open_file(self.path, _APPEND, 0o644, folder=self.root)
        try:
            before = os.fstat(descriptor).st_size
            try:
                if os.write(descriptor, data) < len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, before)  # safe: this process holds the lock
                raise
        finally:
            os.close(descriptor)
        if made:
            sync_folder(self.folder)

    # --- the newest signed line ------------------------------------------------------------------

    def newest_signed(self) -> NewestSigned | None:
        """Return the newest signed line; None if this user has signed none.

        It is stored in the user's data folder, where someone who removes lines of the log cannot
        change it.
        """
        try:
            found = read_json(read_owned_file(self._newest_path()).decode())
        except (OSError, ForeignFileError, ValueError):
            return None
        known = as_object(found)
        line, chain = known.get("line"), known.get("chain")
        if not isinstance(line, str) or not isinstance(chain, str):
            return None
        return NewestSigned(line, chain)

    def _keep_newest(self, newest: NewestSigned) -> Iterator[str]:
        """Store the newest signed line; yield messages about problems."""
        path = self._newest_path()
        kept = {"workspace": self.workspace, "line": newest.line, "chain": newest.chain}
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(path, compact_json(kept).encode("utf-8", "replace"), mode=0o600)
        except OSError as exc:
            yield f"answers in {self.folder} will need your consent: {path}: {exc.strerror or exc}"

    def _newest_path(self) -> Path:
        name = hashlib.sha256(os.fsencode(self.workspace)).hexdigest()
        return data_folder() / NEWEST / f"{name}.json"

    def _set_aside(self) -> None:
        """Rename the active file to the next archive, and delete archives over the limit."""
        archives = self._archives()
        number = archives[-1][0] + 1 if archives else 1
        os.rename(self.path, self.folder / f"qna_{number:04d}.jsonl")
        sync_folder(self.folder)
        if self.max_archives:
            for _, name in archives[: max(len(archives) + 1 - self.max_archives, 0)]:
                os.unlink(self.folder / name)

    def _locked(self, *, make: bool = True) -> AbstractContextManager[None]:
        return file_lock(self.folder / LOCK, make=make, timeout_s=self.timeout_s)

    # --- the folder --------------------------------------------------------------------------

    def _make_folder(self) -> None:
        with _translated("made", self.folder):
            for folder in (self.folder.parent, self.folder):
                if not os.path.lexists(folder):
                    with suppress(FileExistsError):  # another process was faster
                        os.mkdir(folder, 0o755)
        self._check_folder()

    def _check_folder(self) -> None:
        """Raise `StorageError` if the folder is a link or is not owned."""
        if self.folder.is_symlink():
            raise StorageError(f"{self.folder} is a link: replace it by a folder")
        for folder in (self.folder.parent, self.folder):
            if not is_owned_folder(folder):
                raise StorageError(
                    f"{folder} is not private: it must belong to you, and no other "
                    "user may write to it"
                )


class _NewLine(NamedTuple):
    line: bytes
    signed: NewestSigned | None


def _has(contents: LogContents, newest: NewestSigned) -> bool:
    return any(_digest(line) == newest.line for line, _ in contents.read)


def _digest(line: bytes) -> str:
    return extend_chain("", line)


def _chain(contents: LogContents, newest: NewestSigned | None) -> str:
    """Return the chain value of the log, continued from the newest signed line if possible."""
    lines, value = [line for line, _ in contents.read], ""
    if newest is not None:
        places = [place for place, line in enumerate(lines) if _digest(line) == newest.line]
        if places:
            lines, value = lines[places[-1] + 1 :], newest.chain
    for line in lines:
        value = extend_chain(value, line)
    return value


def _lines(
    entries: Sequence[LogEntry], number: int, finish: Finish | None, chain: str
) -> Iterator[_NewLine]:
    """Yield `entries` as lines. Answered ones get the ids after `number`.

    `chain` is the chain value of the earlier lines.
    """
    for entry in entries:
        numbered: LogEntry = dict(entry)
        if is_answered(entry):
            number += 1
            numbered = {"id": number, **entry}
        finished = finish({**numbered, AFTER: chain}) if finish else numbered
        line = encode_entry(finished)
        chain = extend_chain(chain, line)
        if len(line) > MAX_FILE_BYTES:
            raise EntryTooLongError(
                f"the entry has {len(line)} bytes, which is too long for the project log"
            )
        is_signed = "signature" in finished
        yield _NewLine(line, NewestSigned(_digest(line), chain) if is_signed else None)


@contextmanager
def _translated(done: str, folder: Path) -> Iterator[None]:
    """Convert `OSError` to `StorageError`."""
    try:
        yield
    except OSError as exc:
        place = exc.filename or folder
        raise StorageError(f"{place} cannot be {done}: {exc.strerror or exc}") from exc
