"""Question log of a workspace: `.jp/context/qna.jsonl`, shared by processes.

Each line is one question with its answer (`question_log_lines.py`). `question_log_folder.py` has
the files: the active one, and the archives of full ones.

A writer holds a lock until its lines are on the disk, so a killed process leaves at most one
incomplete line, at the end. The next writer then begins a new line.

The *chain value* of a log is a digest of all its lines. The user's data folder has that of the
newest signed line (`newest_signed_line.py`), so that a changed log is noticed.

Source: `docs/record.md`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import SecretBytes

from jp_nb.errors import StorageError
from jp_nb.json_limits import MAX_INTEGER
from jp_nb.record.reading.question_log_entries import is_answered
from jp_nb.storage.file_locks import LOCK_TIMEOUT_S
from jp_nb.storage.files import MAX_OWNED_FILE_BYTES, ForeignFileError, read_owned_file
from jp_nb.storage.question_logs.newest_signed_line import (
    NewestSigned,
    read_newest_signed,
    store_newest_signed,
)
from jp_nb.storage.question_logs.question_log_contents import LogContents, mark_own_lines
from jp_nb.storage.question_logs.question_log_folder import (
    QuestionLogFolder,
    translate_log_errors,
)
from jp_nb.storage.question_logs.question_log_lines import (
    AFTER_KEY,
    LogEntry,
    encode_log_entry,
    extend_chain,
    sign_entry,
)

MAX_LOG_LINES: Final = 100
"""Lines of one file, blank ones included, before it is archived."""
MAX_LOG_FILE_BYTES: Final = MAX_OWNED_FILE_BYTES // 4
"""Size of one file before it is archived."""
MAX_LOG_BYTES: Final = 200_000_000
"""Size of all files together. A larger log is not read."""


class EntryTooLongError(StorageError):
    """An entry that is too long for the log. A retry does not help."""


class _KnownFile(NamedTuple):
    """A file that was read before.

    Attributes:
        stamp: Identity of its content. It also has the highest id before the file, because answers
            without an id are counted from there.
        last: The highest id up to the end of the file.
    """

    stamp: tuple[int, ...]
    last: int


class _NewLine(NamedTuple):
    """A line that is about to be written, and the chain value of the log up to it."""

    data: bytes
    chain: str


@dataclass(frozen=True, slots=True)
class Added:
    """Result of an `append`.

    Attributes:
        written: Number of entries that were written.
        known: Number of entries that the log already contained.
        problems: Messages about problems that did not prevent the write.
    """

    written: int = 0
    known: int = 0
    problems: tuple[str, ...] = ()


class QuestionLogFile:
    """Question log of the workspace in the folder `root`: the active file and its archives.

    A lock guards the files against other processes. `read` and `append` take it, and private
    methods expect it.

    Args:
        root: The folder of the workspace.
        max_archives: Number of archives that are kept; 0 for all.
        timeout_s: The longest wait for the lock.

    Attributes:
        workspace: The name of the workspace in signatures.
        folder: The folder of the files.
        path: The active file.
    """

    def __init__(
        self, root: Path, *, max_archives: int = 0, timeout_s: float = LOCK_TIMEOUT_S
    ) -> None:
        self.root = root
        self.max_archives = max_archives
        self.timeout_s = timeout_s
        self.workspace = os.path.realpath(root)

        self._files = QuestionLogFolder(root)
        self.folder = self._files.path
        self.path = self._files.active_file

        # Files as they were read last, so that an append need not read old archives again.
        self._known: dict[Path, _KnownFile] = {}

    def exists(self) -> bool:
        """Return True if the log has a file."""
        return bool(self._files.list_files())

    # --- reading -----------------------------------------------------------------------------

    def read(self, key: SecretBytes | None = None) -> LogContents:
        """Read the log, and change nothing. The lines of the owner of `key` are marked.

        Raises:
            StorageError: The folder is not owned, or another process keeps it locked.
        """
        if not os.path.lexists(self.folder):
            return LogContents()

        self._files.check_is_private()
        with translate_log_errors("read", self.folder), self._lock(make=False):
            contents = self._read_files()
            newest = read_newest_signed(self.workspace)
            if key is not None and newest is not None:
                contents.lines = mark_own_lines(contents.lines, key, self.workspace, newest.chain)
            return contents

    def _lock(self, *, make: bool) -> AbstractContextManager[None]:
        return self._files.lock(timeout_s=self.timeout_s, make=make)

    def _read_files(self, *, skips_known_archives: bool = False) -> LogContents:
        """Read the files, oldest first.

        With `skips_known_archives`, the lines of an unchanged archive are not read again: only its
        last id counts.
        """
        contents = LogContents()
        total_bytes = 0

        for path in self._files.list_files():
            status = path.lstat()
            total_bytes += status.st_size
            if total_bytes > MAX_LOG_BYTES:
                raise StorageError(
                    f"the files in {self.folder} have more than {MAX_LOG_BYTES // 10**6} MB: move "
                    "old files away, or set `record.project_log` to `off`"
                )

            stamp = (status.st_ino, status.st_size, status.st_mtime_ns, contents.last)
            known = self._known.get(path)
            is_archive = path != self.path
            if skips_known_archives and is_archive and known is not None and known.stamp == stamp:
                contents.last = known.last
                continue

            try:
                contents.add(read_owned_file(path))
            except ForeignFileError as exc:  # other users could have written its answers
                contents.unread.append(str(exc))
            except OSError as exc:
                contents.unread.append(f"{path} cannot be read: {exc.strerror or exc}")
            else:
                self._known[path] = _KnownFile(stamp, contents.last)

        if not os.path.lexists(self.path):
            contents.begin_file()
        return contents

    # --- writing -----------------------------------------------------------------------------

    def append(
        self, entries: Sequence[LogEntry], *, key: SecretBytes | None = None, if_new: bool = False
    ) -> Added:
        """Append `entries` to the log and sync them to the disk. Answered ones get the next ids.

        An entry from a table that the user imports has a `row`, a digest of its row. It is not
        written if the log already contains this row.

        Args:
            entries: Entries of `make_log_entry`.
            key: Signs the entries.
            if_new: Skip an entry if the newest answer to the same question is equal.

        Raises:
            StorageError: An entry cannot be written. Earlier ones may have been written.
        """
        self._files.make()
        self._files.check_is_private()

        with translate_log_errors("written", self.folder), self._lock(make=True):
            newest = read_newest_signed(self.workspace) if key else None
            needs_all = if_new or any("row" in entry for entry in entries)
            contents = self._read_files() if needs_all else self._read_end(newest)

            self._check_next_ids(contents, len(entries))

            new = _select_new_rows(entries, contents)
            if if_new:
                new = [entry for entry in new if not contents.has_same_answer(entry)]

            chain = _compute_chain(contents, newest)
            lines = self._make_lines(new, contents.last, key, chain)
            problems = self._write(lines, contents, signed=key is not None)
            return Added(len(new), len(entries) - len(new), problems)

    def _read_end(self, newest: NewestSigned | None) -> LogContents:
        """Read the part of the log that an append needs: its last id, and its chain value.

        The chain value is computed from the `newest` signed line on, which may be in an archive.
        """
        contents = self._read_files(skips_known_archives=True)
        if newest is None:
            return contents

        # The digest of a line alone: the chain value of a log that has only this line.
        digests = [extend_chain("", line.data) for line in contents.lines]
        return contents if newest.line in digests else self._read_files()

    def _check_next_ids(self, contents: LogContents, count: int) -> None:
        """Raise `StorageError` if the next `count` ids are unknown or too high."""
        if contents.unread:  # their ids could be assigned twice
            raise StorageError(f"the answers are not written: {'; '.join(contents.unread)}")
        if contents.last + count > MAX_INTEGER:
            raise StorageError(
                f"an answer in {self.folder} has the id {contents.last}, which is "
                "the highest possible id: delete that line"
            )

    def _make_lines(
        self, entries: Sequence[LogEntry], last: int, key: SecretBytes | None, chain: str
    ) -> list[_NewLine]:
        """Return each of `entries` as a line.

        `last` is the highest id so far, and `chain` the chain value of the earlier lines.
        """
        made: list[_NewLine] = []
        for entry in entries:
            if is_answered(entry):
                last += 1
                entry = {"id": last, **entry}

            if key is not None:
                entry = sign_entry({**entry, AFTER_KEY: chain}, key, self.workspace)

            line = encode_log_entry(entry)
            if len(line) > MAX_LOG_FILE_BYTES:
                raise EntryTooLongError(
                    f"the entry has {len(line)} bytes, which is too long for the project log"
                )

            chain = extend_chain(chain, line)
            made.append(_NewLine(line, chain))

        return made

    def _write(
        self, lines: list[_NewLine], contents: LogContents, *, signed: bool
    ) -> tuple[str, ...]:
        """Write `lines`, archive full files, and return messages about problems.

        `contents` is that of the files so far, and follows what is written.
        """
        problems: dict[str, None] = {}
        remaining = list(lines)

        while remaining:
            if contents.count >= MAX_LOG_LINES or contents.size >= MAX_LOG_FILE_BYTES:
                try:
                    self._files.archive_active(max_archives=self.max_archives)
                    contents.begin_file()
                except OSError as exc:  # a long file is better than a lost answer
                    why = exc.strerror or exc
                    problems[f"{self.path} is full and cannot be archived: {why}"] = None

            # As many lines as the file has room for; one if it could not be archived.
            written = remaining[: max(MAX_LOG_LINES - contents.count, 1)]
            data = b"".join(line.data for line in written)
            if contents.is_torn:  # a killed process has left an incomplete line
                data = b"\n" + data
            self._files.append(data)

            if signed:
                problem = self._store_newest(written[-1])
                if problem is not None:
                    problems[problem] = None

            contents.count += len(written)
            contents.size += len(data)
            contents.is_torn = False
            remaining = remaining[len(written) :]

        return tuple(problems)

    def _store_newest(self, line: _NewLine) -> str | None:
        """Store that `line` is the newest signed one; return a message about a problem."""
        newest = NewestSigned(extend_chain("", line.data), line.chain)
        try:
            store_newest_signed(self.workspace, newest)
        except StorageError as exc:
            return f"answers in {self.folder} will need your consent: {exc}"
        return None


def _select_new_rows(entries: Sequence[LogEntry], contents: LogContents) -> list[LogEntry]:
    """Return `entries` without those from rows of a table that the log already contains."""
    known_rows = {entry["row"] for _, entry in contents.answered if "row" in entry}
    return [entry for entry in entries if "row" not in entry or entry["row"] not in known_rows]


def _compute_chain(contents: LogContents, newest: NewestSigned | None) -> str:
    """Return the chain value of the log, continued from the newest signed line if possible.

    Then it does not matter that earlier lines were not read.
    """
    value = ""
    for line in contents.lines:
        value = extend_chain(value, line.data)
        if newest is not None and extend_chain("", line.data) == newest.line:
            value = newest.chain
    return value
