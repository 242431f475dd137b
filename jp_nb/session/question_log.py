"""Write, query and import the question log.

The record has priority: an answer that cannot be written to the log stays in the record, is
reported once, and is tried again with the next answer.

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
MAX_SAID: Final = 5
"""Of the rows that are skipped."""


def read_table(path: Path) -> bytes:
    """Return what is in the file at `path`, which the user named.

    Raises:
        UsageError: If it is none.
        StorageError: If it cannot be read, or is not the user's own.
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
    """Write the rows of a table, or the lines of another log; return what to tell of it.

    Args:
        log: Where to; rows that it has are not written again.
        path: The file: a log if its name ends in `.jsonl`.
        data: What is in it.
        finish: Signs an entry, where the user vouches for the table; None where nobody does.
        most: How many rows it may have; None: any number.

    Raises:
        UsageError: If it is a file of this log.
        StorageError: If it is not a text, or has too many rows, or the log cannot be written.
    """
    is_log = path.suffix == ".jsonl"
    if is_log and path.resolve().parent == log.folder.resolve():
        raise UsageError(
            f"{path} is already part of this log. Accept the entries of others in it "
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
    return [*_told(path, rows, added.written, added.known), *added.problems]


def rename_table(path: Path) -> str:
    """Keep the table under another name, so that it is not read again; say where."""
    kept = path.with_name(path.name + MIGRATED)
    count = 1
    while os.path.lexists(kept):
        count += 1
        kept = path.with_name(f"{path.name}{MIGRATED}{count}")
    try:
        path.rename(kept)
    except OSError as exc:
        return f"{path} cannot be renamed: {exc.strerror or exc}"
    return f"{path.name} was renamed to {kept.name}"


def _told(path: Path, rows: TableRows, written: int, known: int) -> Iterator[str]:
    """Yield what became of the rows of a table."""
    parts = [f"{'1 answer' if written == 1 else f'{written} answers'} imported from {path.name}"]
    parts += [f"{known} already known"] if known else []
    parts += [f"{len(rows.skipped)} skipped"] if rows.skipped else []
    yield ", ".join(parts)
    yield from rows.skipped[:MAX_SAID]
    if (more := len(rows.skipped) - MAX_SAID) > 0:
        yield f"and {more} more of this kind"


TABLE: Final = "qna.csv"
"""The log's predecessor, beside it."""
MAX_UNASKED: Final = 10_000
"""Rows of a table that comes in without being asked for: a stranger may have put it there."""
PATIENCE: Final = 2.0
"""Seconds that a turn waits for other kernels to write."""
MAX_WAITING: Final = 1000
"""Of the answers that could not be written and are tried again."""
ASKED: Final = ("form", "stdin", "terminal")
"""Channels of answers that somebody gave. Others come again with every run."""


class QuestionContext(Protocol):
    """The conversation in which questions are asked, and what is around it."""

    @property
    def document(self) -> Document:
        """The conversations of the notebook."""
        ...

    @property
    def trust(self) -> Trust:
        """Says whether the active one is the user's own."""
        ...

    @property
    def settings(self) -> Settings:
        """Its configuration."""
        ...

    @property
    def files(self) -> ConfigFiles:
        """The configuration files around the notebook."""
        ...

    @property
    def notices(self) -> list[str]:
        """What the person should be told once."""
        ...


class QuestionLog:
    """The history of questions of one notebook.

    Args:
        active: The active conversation, the configuration and the files around it.
        notebook: The notebook's file, if it is known.
    """

    def __init__(self, active: QuestionContext, notebook: Path | None) -> None:
        self._active = active
        self._notebook = notebook
        self._keys = KeyFile()
        self._log: QuestionLogFile | None = None
        self._waiting: list[LogEntry] = []
        self._said: set[str] = set()

    # --- where -------------------------------------------------------------------------------

    def _place(self) -> QuestionLogFile | None:
        """Return the log that `record.project_log` means; None if none is kept here.

        Raises:
            ConfigError: If the configuration is not valid.
        """
        record, root = self._active.settings.config.record, self._active.files.root
        kept = record.project_log
        if kept == "off" or (kept == "auto" and not is_owned_folder(root / ".jp")):
            return None
        keeps = record.project_log_archives
        if self._log is None or (self._log.root, self._log.max_archives) != (root, keeps):
            self._log = QuestionLogFile(root, max_archives=keeps, timeout_s=PATIENCE)
        return self._log

    def describe_location(self) -> str:
        """Return in words where answers are kept.

        Raises:
            ConfigError: If the configuration is not valid.
        """
        if not self._trusted:
            return "only in this notebook's record: the notebook is not trusted (`%jp trust`)"
        if (log := self._place()) is not None:
            return f"in this notebook's record and in the workspace's log {log.path}"
        off = self._active.settings.config.record.project_log == "off"
        why = "record.project_log is off" if off else "the workspace has no folder `.jp`"
        return f"only in this notebook's record: {why}"

    @property
    def _trusted(self) -> bool:
        return self._active.trust.trusted

    # --- keeping -----------------------------------------------------------------------------

    def keep_ended(self, stream: ConversationStream, start: int) -> None:
        """Keep the questions that ended in the entries of `stream` from `start` on. Never raises.

        Asked anew for each: whether the notebook is trusted, and whether a log is kept.
        """
        found = [make_entry(*pair) for pair in ended_inquiries(stream.raw, start)]
        entries = [entry for entry in found if entry is not None]
        if not entries or not self._trusted:
            return
        about = self._about(stream)
        self._waiting += [{**entry, **about} for entry in entries]
        try:
            if (log := self._place()) is None:
                self._waiting.clear()
                return
            self._write(log)
            self._say(*self.migrate_table())
        except (JpNbError, OSError) as exc:
            self._say(
                "the answer is in this notebook's record, but not in the project "
                f"log: {exc}. The next answer tries again"
            )

    def _write(self, log: QuestionLogFile) -> None:
        """Write what waits, one by one: what was written is not written again."""
        del self._waiting[:-MAX_WAITING]
        while self._waiting:
            entry = self._waiting[0]
            try:
                again, finish = entry.get("channel") not in ASKED, partial(self._signed, log)
                self._say(*log.append([entry], finish=finish, if_new=again).problems)
            except EntryTooLongError as exc:  # for good
                self._say(f"the answer is only in this notebook's record: {exc}")
            del self._waiting[0]

    def _about(self, stream: ConversationStream) -> LogEntry:
        """Return where the questions of the current turn were asked."""
        about: LogEntry = {
            "trusted": True,
            "conversation": stream.id,
            "turn": stream.turn_count - 1,
        }
        if self._notebook is not None:
            path, root = self._notebook.resolve(), self._active.files.root
            inside = path.is_relative_to(root)
            about["notebook"] = path.relative_to(root).as_posix() if inside else path.name
        for entry in stream.current_turn():
            if isinstance(cell := entry.metadata.get("cell_id"), str):
                about["cell"] = cell
        return about

    def _signed(self, log: QuestionLogFile, entry: LogEntry) -> LogEntry:
        with suppress(NoKeyError):  # the record says why; unsigned it needs consent
            return sign_entry(entry, self._keys.obtain(), log.workspace)
        return entry

    def _say(self, *notices: str) -> None:
        """Tell the person each of `notices` once."""
        for notice in notices:
            if notice not in self._said:
                self._said.add(notice)
                self._active.notices.append(notice)

    # --- reading -----------------------------------------------------------------------------

    def history(self, *, everybody: bool = False) -> QuestionHistory:
        """Return what was answered: in the project, if it keeps a log, else in this conversation.

        Of an untrusted notebook nothing is read.

        Args:
            everybody: With those in the log that the user neither signed nor agreed to.

        Raises:
            ConfigError: If the configuration is not valid.
            StorageError: If the log cannot be read.
        """
        log = self._place() if self._trusted else None
        return self._kept_here() if log is None else self._kept_in(log, everybody=everybody)

    async def read(self) -> QuestionHistory:
        """Return what a model may know of what was answered; the files are read elsewhere.

        Raises:
            ConfigError: If the configuration is not valid.
            StorageError: If the log cannot be read.
        """
        log = self._place() if self._trusted else None
        if log is None:
            return self._kept_here()
        return await asyncio.to_thread(self._kept_in, log, everybody=False)

    def _kept_here(self) -> QuestionHistory:
        """Return what was answered in this conversation."""
        if not self._trusted:
            return QuestionHistory(trusted=False)
        return QuestionHistory(recorded_answers(self._active.document.conversation.raw))

    def _kept_in(self, log: QuestionLogFile, *, everybody: bool) -> QuestionHistory:
        """Return what was answered in the workspace, by the log; if it is empty, as above."""
        if not log.exists():
            return self._kept_here()
        contents = self._read(log)
        mine = self._owned(log, contents)
        agreed = self._agreed(self._foreign(contents, mine))
        answers = [
            to_logged_answer(entry, number, is_trusted=is_mine or agreed)
            for (number, entry), is_mine in zip(contents.answered, mine, strict=True)
            if is_mine or agreed or everybody
        ]
        answers.sort(key=lambda answer: (answer.moment, answer.id))
        left_out = 0 if agreed else mine.count(False)
        return QuestionHistory(tuple(answers), True, "log", left_out, contents.damaged)

    def _read(self, log: QuestionLogFile) -> LogContents:
        contents = log.read()
        if contents.damaged:
            many = "1 line" if contents.damaged == 1 else f"{contents.damaged} lines"
            self._say(f"{many} of the project log in {log.folder} ignored: not readable")
        self._say(*(f"a file of the project log is ignored: {why}" for why in contents.unread))
        return contents

    def _owned(self, log: QuestionLogFile, contents: LogContents) -> list[bool]:
        """Return of each answer whether this user gave it in this workspace."""
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

    def _agreed(self, foreign: Sequence[tuple[int, LogEntry]]) -> bool:
        """Return True if the user agreed to these; with nobody there the folder's files count."""
        trust = self._active.files.trust
        return (
            trust is None or not foreign or trust.covers(self._active.files.root, _digest(foreign))
        )

    def pending(self) -> list[PendingConsent]:
        """Return what somebody else wrote into the log and the user did not agree to yet."""
        log = self._place()
        if log is None or not log.exists():
            return []
        contents = log.read()
        foreign = self._foreign(contents, self._owned(log, contents))
        if self._agreed(foreign):
            return []
        leaves = tuple(
            (f"answers[{number}]", f"{entry['question']} → {said.words}", str(log.path))
            for number, entry in foreign
            for said in [to_logged_answer(entry, number, is_trusted=False)]
        )
        return [PendingConsent(self._active.files.root, log.path, _digest(foreign), leaves)]

    # --- tables ------------------------------------------------------------------------------

    def import_table(self, path: Path) -> list[str]:
        """Take over the questions of the table at `path`, and return what to tell of it.

        Done again, it goes on: a row that is there already is not written twice.

        Raises:
            UsageError: If the file is none, or no log is kept here.
            StorageError: If it cannot be read, or the log cannot be written.
        """
        if not self._trusted:
            raise UsageError("this notebook is not trusted, so nothing is written: `%jp trust`")
        log = self._place()
        if log is None:
            raise UsageError(
                "there is no project log. Turn it on with `%jp config record.project_log=on`"
            )
        said = import_rows(log, path, read_table(path), partial(self._signed, log))
        beside = path.resolve() == (log.folder / TABLE).resolve()
        return [*said, rename_table(path)] if beside else said

    def migrate_table(self) -> list[str]:
        """Take over the table beside the log, if one is there, and return what to tell of it.

        Nobody knows who wrote it: its answers stay a stranger's.

        Raises:
            ConfigError: If the configuration is not valid.
        """
        log = self._place() if self._trusted else None
        if log is None or not (path := log.folder / TABLE).is_file():
            return []
        try:
            said = import_rows(log, path, read_owned_file(path), None, most=MAX_UNASKED)
        except (StorageError, ForeignFileError, OSError) as exc:
            return [f"{path} is not imported: {exc}"]
        return [*said, rename_table(path)]


def _digest(foreign: Sequence[tuple[int, LogEntry]]) -> str:
    """Return what tells whether these are the entries that the user agreed to."""
    whole = hashlib.sha256()
    for number, entry in foreign:
        whole.update(f"{number} {sorted_json(entry)}\n".encode("utf-8", "replace"))
    return whole.hexdigest()
