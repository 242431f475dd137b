"""Write, read, and import the question log: the answered questions of a workspace.

Messages to the user call it the project log. An answer that cannot be written to the log is still
in the record. A notice reports the failure once, and the next answer tries again.

Source: `docs/record.md`.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from jp_nb.errors import JpNbError, StorageError, UsageError
from jp_nb.json_values import sorted_json
from jp_nb.record.document import Document
from jp_nb.record.question_log import (
    QuestionHistory,
    TableRows,
    ended_inquiries,
    find_own_lines,
    make_entry,
    read_log,
    read_rows,
    recorded_answers,
    sign_entry,
    to_logged_answer,
)
from jp_nb.record.signing import NoKeyError, Trust
from jp_nb.record.stream import ConversationStream
from jp_nb.session.settings import Settings
from jp_nb.storage.config_files import ConfigFiles
from jp_nb.storage.files import MAX_BYTES, ForeignFileError, is_owned_folder, read_owned_file
from jp_nb.storage.question_log import (
    EntryTooLongError,
    Finish,
    LogContents,
    LogEntry,
    QuestionLogFile,
)
from jp_nb.storage.trust import KeyFile, PendingConsent

MIGRATED: Final = ".migrated"
MAX_SKIPPED: Final = 5
"""Limit of the skipped rows in a report."""
TABLE: Final = "qna.csv"
"""Name of the table of earlier versions, in the folder of the log."""
MAX_UNASKED: Final = 10_000
"""Limit of the rows of an automatic import, as the author of the table is unknown."""
PATIENCE: Final = 2.0
"""Seconds that a turn waits for other kernels to write."""
MAX_WAITING: Final = 1000
"""Limit of the answers that wait to be written again."""
USER_CHANNELS: Final = ("form", "stdin", "terminal")
"""Channels of answers by the user. Other answers repeat with every run."""


def read_table(path: Path) -> bytes:
    """Return the content of the table at `path`, which the user gave.

    Raises:
        UsageError: `path` is not a file.
        StorageError: The file cannot be read, or belongs to another user.
    """
    if not path.is_file():
        raise UsageError(f"file {str(path)!r} does not exist")
    try:
        return read_owned_file(path)
    except ForeignFileError as exc:
        raise StorageError(f"nothing is imported: {exc}") from exc
    except OSError as exc:
        raise StorageError(f"{path} cannot be read: {exc.strerror or exc}") from exc


def import_rows(
    log: QuestionLogFile, path: Path, data: bytes, finish: Finish | None, *, most: int | None = None
) -> list[str]:
    """Write the rows of a table, or the lines of another log; return a report.

    Args:
        log: The log. Rows that it already has are not written.
        path: The file: a log if its name ends in `.jsonl`.
        data: Its content.
        finish: Signs an entry of a table that the user trusts; None if the author is unknown.
        most: Limit of the rows; None for no limit.

    Raises:
        UsageError: The file belongs to this log.
        StorageError: The file is not text or has too many rows, or the log cannot be written.
    """
    is_log = path.suffix == ".jsonl"
    if is_log and path.resolve().parent == log.folder.resolve():
        raise UsageError(
            f"{path} is already part of the project log. Accept the entries of others in it "
            "with `%jp trust --workspace`"
        )
    if len(data) > MAX_BYTES:
        raise StorageError(f"{path} has more than {MAX_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise StorageError(f"{path} is not UTF-8: {exc.reason} at byte {exc.start}") from exc
    rows = read_log(text) if is_log else read_rows(text)
    if most is not None and len(rows.entries) > most:
        raise StorageError(
            f"{len(rows.entries)} answers are too many for an automatic import. If "
            f"they are yours, import them with `%jp qna import {path}`"
        )
    entries = [{**entry, "trusted": finish is not None} for entry in rows.entries]
    added = log.append(entries, finish=finish)
    return [*_format_import(path, rows, added.written, added.known), *added.problems]


def rename_table(path: Path) -> str:
    """Rename an imported table, so that it is not read again; return a report."""
    target = path.with_name(path.name + MIGRATED)
    count = 1
    while os.path.lexists(target):
        count += 1
        target = path.with_name(f"{path.name}{MIGRATED}{count}")
    try:
        path.rename(target)
    except OSError as exc:
        return f"{path} cannot be renamed: {exc.strerror or exc}"
    return f"{path.name} was renamed to {target.name}"


def _format_import(path: Path, rows: TableRows, written: int, known: int) -> Iterator[str]:
    parts = [f"{'1 answer' if written == 1 else f'{written} answers'} imported from {path.name}"]
    parts += [f"{known} already known"] if known else []
    parts += [f"{len(rows.skipped)} skipped"] if rows.skipped else []
    yield ", ".join(parts)
    yield from rows.skipped[:MAX_SKIPPED]
    if (more := len(rows.skipped) - MAX_SKIPPED) > 0:
        yield f"and {more} more of this kind"


class QuestionContext(Protocol):
    """The active conversation with its settings and files."""

    @property
    def document(self) -> Document:
        """The conversations of the notebook."""

    @property
    def trust(self) -> Trust:
        """The trust in the active conversation."""

    @property
    def settings(self) -> Settings:
        """The settings of the active conversation."""

    @property
    def files(self) -> ConfigFiles:
        """The configuration files."""

    @property
    def notices(self) -> list[str]:
        """Notices for the user."""


class QuestionLog:
    """The history of questions of one notebook, in its record and the log of the workspace."""

    def __init__(self, active: QuestionContext, notebook: Path | None) -> None:
        self._active = active
        self._notebook = notebook
        self._keys = KeyFile()
        self._log: QuestionLogFile | None = None
        self._unwritten: list[LogEntry] = []
        self._reported: set[str] = set()

    def _open_log(self) -> QuestionLogFile | None:
        record, root = self._active.settings.config.record, self._active.files.root
        mode = record.project_log
        if mode == "off" or (mode == "auto" and not is_owned_folder(root / ".jp")):
            return None
        keeps = record.project_log_archives
        if self._log is None or (self._log.root, self._log.max_archives) != (root, keeps):
            self._log = QuestionLogFile(root, max_archives=keeps, timeout_s=PATIENCE)
        return self._log

    def describe_location(self) -> str:
        """Describe the places that keep the answers.

        Raises:
            ConfigError: The configuration is not valid.
        """
        if not self._trusted:
            return "only in this notebook's record: the notebook is not trusted (`%jp trust`)"
        if (log := self._open_log()) is not None:
            return f"in this notebook's record and in the project log {log.path}"
        off = self._active.settings.config.record.project_log == "off"
        reason = "record.project_log is off" if off else "the workspace has no folder `.jp`"
        return f"only in this notebook's record: {reason}"

    @property
    def _trusted(self) -> bool:
        return self._active.trust.trusted

    def keep_ended(self, stream: ConversationStream, start: int) -> None:
        """Log the questions that ended in `stream` from entry `start` on. Never raises an error."""
        entries = [
            entry
            for inquiry in ended_inquiries(stream.raw, start)
            if (entry := make_entry(*inquiry)) is not None
        ]
        if not entries or not self._trusted:
            return
        origin = self._describe_origin(stream)
        self._unwritten += [{**entry, **origin} for entry in entries]
        try:
            if (log := self._open_log()) is None:
                self._unwritten.clear()
                return
            self._write(log)
            self._add_notices(*self.migrate_table())
        except (JpNbError, OSError) as exc:
            self._add_notices(
                "the answer is in this notebook's record, but not in the project "
                f"log: {exc}. jp_nb tries again with the next answer"
            )

    def _write(self, log: QuestionLogFile) -> None:
        """Write the waiting entries one by one, so that none is written twice."""
        del self._unwritten[:-MAX_WAITING]
        while self._unwritten:
            entry = self._unwritten[0]
            try:
                repeats = entry.get("channel") not in USER_CHANNELS
                added = log.append([entry], finish=partial(self._signed, log), if_new=repeats)
                self._add_notices(*added.problems)
            except EntryTooLongError as exc:  # not tried again
                self._add_notices(f"the answer is only in this notebook's record: {exc}")
            del self._unwritten[0]

    def _describe_origin(self, stream: ConversationStream) -> LogEntry:
        turn = stream.turn_count - 1
        origin: LogEntry = {"trusted": True, "conversation": stream.id, "turn": turn}
        if self._notebook is not None:
            path, root = self._notebook.resolve(), self._active.files.root
            inside = path.is_relative_to(root)
            origin["notebook"] = path.relative_to(root).as_posix() if inside else path.name
        for entry in stream.current_turn():
            if isinstance(cell := entry.metadata.get("cell_id"), str):
                origin["cell"] = cell
        return origin

    def _signed(self, log: QuestionLogFile, entry: LogEntry) -> LogEntry:
        with suppress(NoKeyError):  # reported by the record; an unsigned entry needs consent
            return sign_entry(entry, self._keys.obtain(), log.workspace)
        return entry

    def _add_notices(self, *notices: str) -> None:
        for notice in notices:
            if notice not in self._reported:
                self._reported.add(notice)
                self._active.notices.append(notice)

    def history(self, *, everybody: bool = False) -> QuestionHistory:
        """Return the earlier answers of the workspace's log; without a log, of this conversation.

        An untrusted notebook has no history. `everybody` includes entries that the user neither
        signed nor accepted.

        Raises:
            ConfigError: The configuration is not valid.
            StorageError: The log cannot be read.
        """
        log = self._open_log() if self._trusted else None
        return self._read_record() if log is None else self._read_log(log, everybody=everybody)

    async def read(self) -> QuestionHistory:
        """Return the earlier answers that a model may read. A worker thread reads the files.

        Raises:
            ConfigError: The configuration is not valid.
            StorageError: The log cannot be read.
        """
        log = self._open_log() if self._trusted else None
        if log is None:
            return self._read_record()
        return await asyncio.to_thread(self._read_log, log, everybody=False)

    def _read_record(self) -> QuestionHistory:
        if not self._trusted:
            return QuestionHistory(trusted=False)
        return QuestionHistory(recorded_answers(self._active.document.conversation.raw))

    def _read_log(self, log: QuestionLogFile, *, everybody: bool) -> QuestionHistory:
        if not log.exists():
            return self._read_record()
        contents = self._read_contents(log)
        mine = self._find_own(log, contents)
        accepted = self._is_accepted(self._foreign(contents, mine))
        answers = [
            to_logged_answer(entry, number, is_trusted=is_mine or accepted)
            for (number, entry), is_mine in zip(contents.answered, mine, strict=True)
            if is_mine or accepted or everybody
        ]
        answers.sort(key=lambda answer: (answer.moment, answer.id))
        omitted = 0 if accepted else mine.count(False)
        return QuestionHistory(tuple(answers), True, "log", omitted, contents.damaged)

    def _read_contents(self, log: QuestionLogFile) -> LogContents:
        contents = log.read()
        if contents.damaged:
            lines = "1 line" if contents.damaged == 1 else f"{contents.damaged} lines"
            them = "it" if contents.damaged == 1 else "them"
            self._add_notices(
                f"{lines} of the project log in {log.folder} cannot be read: jp_nb ignores {them}"
            )
        for problem in contents.unread:
            self._add_notices(f"a file of the project log is ignored: {problem}")
        return contents

    def _find_own(self, log: QuestionLogFile, contents: LogContents) -> list[bool]:
        """Return a flag for each answer: True if this user gave it in this workspace."""
        key, newest = None, log.newest_signed()
        if newest is not None:
            with suppress(NoKeyError):
                key = self._keys.read()
        if key is None or newest is None:
            return [False] * len(contents.answered)
        mine = find_own_lines(contents.read, key, log.workspace, newest.chain)
        return [mine[place] for place in contents.places]

    @staticmethod
    def _foreign(contents: LogContents, mine: Sequence[bool]) -> list[tuple[int, LogEntry]]:
        pairs = zip(contents.answered, mine, strict=True)
        return [numbered for numbered, is_mine in pairs if not is_mine]

    def _is_accepted(self, foreign: Sequence[tuple[int, LogEntry]]) -> bool:
        # Headless runs have no `trust`, and accept the files of their folder.
        trust, root = self._active.files.trust, self._active.files.root
        return trust is None or not foreign or trust.covers(root, _digest(foreign))

    def pending(self) -> list[PendingConsent]:
        """Return the log entries of others that the user has not accepted."""
        log = self._open_log()
        if log is None or not log.exists():
            return []
        contents = log.read()
        foreign = self._foreign(contents, self._find_own(log, contents))
        if self._is_accepted(foreign):
            return []
        leaves = tuple(
            (f"answers[{number}]", f"{entry['question']} → {answer.words}", str(log.path))
            for number, entry in foreign
            for answer in [to_logged_answer(entry, number, is_trusted=False)]
        )
        return [PendingConsent(self._active.files.root, log.path, _digest(foreign), leaves)]

    def import_table(self, path: Path) -> list[str]:
        """Import the table at `path`, and return a report.

        Rows that the log already has are not written, so an interrupted import can be repeated.

        Raises:
            UsageError: `path` is not a file, the notebook is untrusted, or there is no log.
            StorageError: The table cannot be read, or the log cannot be written.
        """
        if not self._trusted:
            raise UsageError("this notebook is not trusted, so nothing is written: `%jp trust`")
        log = self._open_log()
        if log is None:
            raise UsageError(
                "there is no project log. Turn it on with `%jp config record.project_log=on`"
            )
        report = import_rows(log, path, read_table(path), partial(self._signed, log))
        is_old_table = path.resolve() == (log.folder / TABLE).resolve()
        return [*report, rename_table(path)] if is_old_table else report

    def migrate_table(self) -> list[str]:
        """Import the table of earlier versions, if there is one, and return a report.

        Its author is unknown, so its answers are not trusted.

        Raises:
            ConfigError: The configuration is not valid.
        """
        log = self._open_log() if self._trusted else None
        if log is None or not (path := log.folder / TABLE).is_file():
            return []
        try:
            report = import_rows(log, path, read_owned_file(path), None, most=MAX_UNASKED)
        except (StorageError, ForeignFileError, OSError) as exc:
            return [f"{path} is not imported: {exc}"]
        return [*report, rename_table(path)]


def _digest(foreign: Sequence[tuple[int, LogEntry]]) -> str:
    digest = hashlib.sha256()
    for number, entry in foreign:
        digest.update(f"{number} {sorted_json(entry)}\n".encode("utf-8", "replace"))
    return digest.hexdigest()
