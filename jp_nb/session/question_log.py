"""Write, read, and import the question log: the answered questions of a workspace.

Messages to the user call it the project log. An answer that cannot be written to the log is still
in the record. A notice reports the failure once, and the next answer tries again.

An imported table has the columns datetime, question and answer, separated by semicolons and quoted
as in RFC 4180. Its first line may have their names.

Source: `docs/record.md`, RFC 4180.
"""

from __future__ import annotations

import asyncio
import csv
import hashlib
import io
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from pydantic import JsonValue, SecretBytes

from jp_nb.errors import JpNbError, StorageError, UsageError
from jp_nb.json_values import sorted_json
from jp_nb.record.clock import parse_timestamp
from jp_nb.record.document import Document
from jp_nb.record.question_history import (
    ENTRY_VERSION,
    LoggedAnswer,
    QuestionHistory,
    format_rfc3339,
    is_answered,
    list_ended_questions,
    list_recorded_answers,
    parse_rfc3339,
    read_entry_time,
    read_logged_answer,
)
from jp_nb.record.signing import NoKeyError, Trust
from jp_nb.record.stream import ConversationStream
from jp_nb.session.settings import Settings
from jp_nb.storage.config_files import ConfigFiles
from jp_nb.storage.files import (
    MAX_OWNED_FILE_BYTES,
    ForeignFileError,
    is_owned_folder,
    read_owned_file,
)
from jp_nb.storage.question_log_file import (
    EntryTooLongError,
    LogContents,
    LogEntry,
    QuestionLogFile,
    decode_log_entry,
)
from jp_nb.storage.trust import KeyFile, PendingConsent
from jp_nb.text import MAX_FEW_NAMES

MIGRATED: Final = ".migrated"
TABLE_NAME: Final = "qna.csv"
"""Name of the table of earlier versions, in the folder of the log."""
MAX_UNASKED: Final = 10_000
"""Limit of the rows of an automatic import, as the author of the table is unknown."""
PATIENCE: Final = 2.0
"""Seconds that a turn waits for other kernels to write."""
MAX_WAITING: Final = 1000
"""Limit of the answers that wait to be written again."""
USER_CHANNELS: Final = ("form", "stdin", "terminal")
"""Channels of answers by the user. Other answers repeat with every run."""
COLUMNS = ("datetime", "question", "answer")


class TableRows(NamedTuple):
    """The rows of a table, or the lines of a log, oldest first.

    The `row` of an entry identifies it in repeated imports. `skipped` has the line number and the
    error of each other row.
    """

    entries: tuple[LogEntry, ...]
    skipped: tuple[str, ...]


def read_rows(text: str) -> TableRows:
    """Return the rows of the table `text`."""
    return _collect_rows(_read_table_lines(text))


def read_log(text: str) -> TableRows:
    """Return the answered questions of a log, without their numbers and signatures."""
    return _collect_rows(_read_log_lines(text))


def _collect_rows(found: Iterator[tuple[int, LogEntry | str, Sequence[JsonValue]]]) -> TableRows:
    """Collect entries or errors, with the line number and the values that identify the row."""
    entries: list[LogEntry] = []
    skipped: list[str] = []
    seen: Counter[str] = Counter()
    for line, entry, row in found:
        if isinstance(entry, str):
            skipped.append(f"line {line}: {entry}")
            continue

        text = sorted_json([*row])
        seen[text] += 1  # equal rows are numbered, so that each has its own digest
        digest = hashlib.sha256(f"{seen[text]} {text}".encode("utf-8", "replace"))
        entries.append({**entry, "row": digest.hexdigest()})

    return TableRows(tuple(sorted(entries, key=lambda x: str(x["timestamp"]))), tuple(skipped))


def _read_log_lines(text: str) -> Iterator[tuple[int, LogEntry | str, Sequence[JsonValue]]]:
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if not line.strip():
            continue
        entry = decode_log_entry(line.encode("utf-8", "replace"))
        if entry is None or (when := read_entry_time(entry)) is None:
            yield number, "not a log entry", ()
        elif is_answered(entry):
            moment = format_rfc3339(when)
            kept = {key: value for key, value in entry.items() if key not in _NOT_IMPORTED}
            row = (moment, entry["question"], entry["answer"])
            yield number, {"v": ENTRY_VERSION, "timestamp": moment, **kept}, row


_NOT_IMPORTED = {"v", "id", "timestamp", "datetime", "trusted", "signature", "row"}


def _read_table_lines(text: str) -> Iterator[tuple[int, LogEntry | str, Sequence[JsonValue]]]:
    """Yield rows that are not empty, each with the line number of its end."""
    lines = io.StringIO(text.removeprefix("\ufeff"), newline="")
    reader = csv.reader(lines, delimiter=";", strict=True)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as exc:
            yield reader.line_num, str(exc), ()
            continue

        is_head = reader.line_num == 1 and tuple(cell.strip().lower() for cell in row) == COLUMNS
        if row and not is_head:
            yield reader.line_num, _entry(row), row


def _entry(row: Sequence[str]) -> LogEntry | str:
    if len(row) != len(COLUMNS):
        return f"{len(row)} columns, expected datetime;question;answer"
    when, question, answer = row
    # As in the record, a time without an offset is UTC.
    moment = parse_rfc3339(when.strip()) or parse_timestamp(when.strip())
    if moment is None:
        return f"{when[:40]!r} is not a date with a time, such as 2026-03-18T13:19:06Z"
    if not question.strip() or not answer.strip():
        return "the question or the answer is blank"
    timestamp = format_rfc3339(moment)
    return {"v": ENTRY_VERSION, "timestamp": timestamp, "question": question, "answer": answer}


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


def import_answers(
    log: QuestionLogFile,
    path: Path,
    data: bytes,
    *,
    trusted: bool,
    key: SecretBytes | None = None,
    most: int | None = None,
) -> list[str]:
    """Write the rows of a table, or the lines of another log; return a report.

    `data` is the content of the file at `path`, a log if its name ends in `.jsonl`. Rows that `log`
    already has are not written. Entries are `trusted` unless the author is unknown.

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

    if len(data) > MAX_OWNED_FILE_BYTES:
        raise StorageError(f"{path} has more than {MAX_OWNED_FILE_BYTES} bytes")

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

    entries: list[LogEntry] = [{**entry, "trusted": trusted} for entry in rows.entries]
    added = log.append(entries, key=key)
    return [*_format_import(path, rows, added.written, added.known), *added.problems]


def rename_table(path: Path) -> str:
    """Rename an imported table, so that it is not read again; return a report."""
    target = path.with_name(f"{path.name}{MIGRATED}")
    number = 1
    while os.path.lexists(target):
        number += 1
        target = path.with_name(f"{path.name}{MIGRATED}{number}")

    try:
        path.rename(target)
    except OSError as exc:
        return f"{path} cannot be renamed: {exc.strerror or exc}"
    return f"{path.name} was renamed to {target.name}"


def _format_import(path: Path, rows: TableRows, written: int, known: int) -> Iterator[str]:
    answers = "1 answer" if written == 1 else f"{written} answers"
    parts = [f"{answers} imported from {path.name}"]
    if known:
        parts.append(f"{known} already known")
    if rows.skipped:
        parts.append(f"{len(rows.skipped)} skipped")
    yield ", ".join(parts)

    yield from rows.skipped[:MAX_FEW_NAMES]
    if (more := len(rows.skipped) - MAX_FEW_NAMES) > 0:
        yield f"and {more} more of this kind"


class QuestionContext(Protocol):
    """The active conversation with its settings and files, and notices for the user."""

    document: Document
    files: ConfigFiles
    notices: list[str]

    @property
    def trust(self) -> Trust: ...  # noqa: D102
    @property
    def settings(self) -> Settings: ...  # noqa: D102


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
        record = self._active.settings.config.record
        root = self._active.files.root
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
        entries = list(list_ended_questions(stream, start))
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
                added = log.append([entry], key=self._find_key(), if_new=repeats)
                self._add_notices(*added.problems)
            except EntryTooLongError as exc:  # not tried again
                self._add_notices(f"the answer is only in this notebook's record: {exc}")
            del self._unwritten[0]

    def _describe_origin(self, stream: ConversationStream) -> LogEntry:
        turn = stream.turn_count - 1
        origin: LogEntry = {"trusted": True, "conversation": stream.id, "turn": turn}
        if self._notebook is not None:
            path = self._notebook.resolve()
            root = self._active.files.root
            inside = path.is_relative_to(root)
            origin["notebook"] = path.relative_to(root).as_posix() if inside else path.name

        for entry in stream.current_turn():
            if isinstance(cell := entry.metadata.get("cell_id"), str):
                origin["cell"] = cell

        return origin

    def _find_key(self) -> SecretBytes | None:
        with suppress(NoKeyError):  # reported by the record; an unsigned entry needs consent
            return self._keys.obtain()
        return None

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
        return self._read_log(self._open_trusted_log(), everybody=everybody)

    async def read(self) -> QuestionHistory:
        """Return `history` for a model. A worker thread reads the files."""
        log = self._open_trusted_log()
        if log is None:
            return self._read_log(None, everybody=False)
        return await asyncio.to_thread(self._read_log, log, everybody=False)

    def _open_trusted_log(self) -> QuestionLogFile | None:
        return self._open_log() if self._trusted else None

    def _read_log(self, log: QuestionLogFile | None, *, everybody: bool) -> QuestionHistory:
        if not self._trusted:
            return QuestionHistory(trusted=False)
        if log is None or not log.exists():
            return QuestionHistory(list_recorded_answers(self._active.document.conversation))

        contents = self._read_contents(log)
        if damaged := contents.damaged:
            lines, them = ("1 line", "it") if damaged == 1 else (f"{damaged} lines", "them")
            self._add_notices(
                f"{lines} of the project log in {log.folder} cannot be read: jp_nb ignores {them}"
            )
        for problem in contents.unread:
            self._add_notices(f"a file of the project log is ignored: {problem}")

        foreign = _foreign_answers(contents)
        accepted = self._is_accepted(foreign)

        answers: list[LoggedAnswer] = []
        for line in contents.lines:
            if line.entry is None or line.number is None:
                continue
            is_trusted = line.is_own or accepted
            if is_trusted or everybody:
                answers.append(read_logged_answer(line.entry, line.number, is_trusted=is_trusted))

        answers.sort(key=lambda answer: (answer.moment, answer.id))
        omitted = 0 if accepted else len(foreign)

        return QuestionHistory(tuple(answers), True, "log", omitted, contents.damaged)

    def _read_contents(self, log: QuestionLogFile) -> LogContents:
        key = None
        with suppress(NoKeyError):  # then every entry needs consent
            key = self._keys.read()
        return log.read(key)

    def _is_accepted(self, foreign: Sequence[tuple[int, LogEntry]]) -> bool:
        # Headless runs have no `trust`, and accept the files of their folder.
        trust = self._active.files.trust
        root = self._active.files.root
        return trust is None or not foreign or trust.covers(root, _digest(foreign))

    def pending(self) -> list[PendingConsent]:
        """Return the log entries of others that the user has not accepted."""
        log = self._open_log()
        if log is None or not log.exists():
            return []

        foreign = _foreign_answers(self._read_contents(log))
        if self._is_accepted(foreign):
            return []

        leaves: list[tuple[str, str, str]] = []
        for number, entry in foreign:
            answer = read_logged_answer(entry, number, is_trusted=False)
            words = f"{entry['question']} → {answer.words}"
            leaves.append((f"answers[{number}]", words, str(log.path)))

        root = self._active.files.root
        return [PendingConsent(root, log.path, _digest(foreign), tuple(leaves))]

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

        report = import_answers(log, path, read_table(path), trusted=True, key=self._find_key())
        is_old_table = path.resolve() == (log.folder / TABLE_NAME).resolve()
        return [*report, rename_table(path)] if is_old_table else report

    def migrate_table(self) -> list[str]:
        """Import the table of earlier versions, if there is one, and return a report.

        Its author is unknown, so its answers are not trusted. Raises a `ConfigError`.
        """
        log = self._open_trusted_log()
        if log is None or not (path := log.folder / TABLE_NAME).is_file():
            return []

        try:
            report = import_answers(
                log, path, read_owned_file(path), trusted=False, most=MAX_UNASKED
            )
        except (StorageError, ForeignFileError, OSError) as exc:
            return [f"{path} is not imported: {exc}"]
        return [*report, rename_table(path)]


def _foreign_answers(contents: LogContents) -> list[tuple[int, LogEntry]]:
    return [
        (line.number, line.entry)
        for line in contents.lines
        if line.entry is not None and line.number is not None and not line.is_own
    ]


def _digest(foreign: Sequence[tuple[int, LogEntry]]) -> str:
    digest = hashlib.sha256()
    for number, entry in foreign:
        digest.update(f"{number} {sorted_json(entry)}\n".encode("utf-8", "replace"))
    return digest.hexdigest()
