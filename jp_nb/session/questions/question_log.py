"""Write answered questions to the question log of the workspace, and import earlier answers.

A workspace has one log, which its notebooks share (`question_log_file.py`). Messages to the user
call it the project log. Each notebook also has its answers in its record. `%jp qna` and the tool
`ask_user_read` show the answers of the log (`question_log_reader.py`), or without a log those of
the record.

An answer that cannot be written to the log is still in the record. A notice reports the failure
once, and the next answer tries again. Only trusted notebooks write to the log or read it.

Source: `docs/record.md`.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import SecretBytes

from jp_nb.errors import JpNbError, StorageError, UsageError
from jp_nb.record.documents.record_trust import NoKeyError
from jp_nb.record.reading.question_log_entries import iter_ended_questions
from jp_nb.record.stream import ConversationStream
from jp_nb.session.questions.answer_import import import_answers, read_table, rename_table
from jp_nb.session.questions.question_log_reader import QuestionContext, QuestionLogReader
from jp_nb.storage.files import ForeignFileError, is_owned_folder, read_owned_file
from jp_nb.storage.key_file import KeyFile
from jp_nb.storage.question_logs.question_log_file import EntryTooLongError, QuestionLogFile
from jp_nb.storage.question_logs.question_log_lines import LogEntry

TABLE_NAME: Final = "qna.csv"
"""Name of the table of earlier versions, in the folder of the log."""
MAX_UNASKED: Final = 10_000
"""Limit of the rows that are imported without asking the user, who may not be their author."""
LOG_WAIT_S: Final = 2.0
"""Seconds that a turn waits for other kernels to write."""
MAX_WAITING: Final = 1000
"""Limit of the answers that wait to be written again."""
USER_CHANNELS: Final = ("form", "stdin", "terminal")
"""Channels of answers by the user.

Other answers, such as those of a file, are the same in every run. They are logged only once.
"""


class QuestionLog:
    """The question log of the workspace, as one notebook uses it.

    Attributes:
        reader: Reads the answers of the log, or of the record.
    """

    def __init__(self, active: QuestionContext, notebook: Path | None) -> None:
        self._active = active
        self._notebook = notebook
        self._keys = KeyFile()
        self.reader = QuestionLogReader(active, self._open_log, self._add_notices)
        self._log: QuestionLogFile | None = None  # opened again after a change of the settings
        self._unwritten: list[LogEntry] = []  # entries that wait to be written again
        self._reported: set[str] = set()  # notices that the user has got

    def describe_location(self) -> str:
        """Describe the places that keep the answers.

        Raises:
            ConfigError: The configuration is not valid.
        """
        if not self._trusted:
            return "only in this notebook's record: the notebook is not trusted (`%jp trust`)"

        log = self._open_log()
        if log is not None:
            return f"in this notebook's record and in the project log {log.path}"

        is_off = self._active.settings.config.record.project_log == "off"
        reason = "record.project_log is off" if is_off else "the workspace has no folder `.jp`"
        return f"only in this notebook's record: {reason}"

    @property
    def _trusted(self) -> bool:
        return self._active.trust.trusted

    def _open_log(self) -> QuestionLogFile | None:
        """Return the log; None if the settings or the folder want none."""
        record = self._active.settings.config.record
        root = self._active.files.root
        mode = record.project_log
        if mode == "off":
            return None
        if mode == "auto" and not is_owned_folder(root / ".jp"):
            return None

        max_archives = record.project_log_archives
        log = self._log
        if log is None or (log.root, log.max_archives) != (root, max_archives):
            log = QuestionLogFile(root, max_archives=max_archives, timeout_s=LOG_WAIT_S)
            self._log = log
        return log

    def keep_ended(self, stream: ConversationStream, start: int) -> None:
        """Log the questions that ended in `stream` from entry `start` on.

        Then import the table of earlier versions, if there is one. It never raises an error:
        notices report failures.
        """
        entries = list(iter_ended_questions(stream, start))
        if not entries or not self._trusted:
            return

        origin = self._make_origin(stream)
        self._unwritten += [{**entry, **origin} for entry in entries]

        try:
            log = self._open_log()
            if log is None:
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
                is_by_user = entry.get("channel") in USER_CHANNELS
                added = log.append([entry], key=self._obtain_key(), if_new=not is_by_user)
                self._add_notices(*added.problems)
            except EntryTooLongError as exc:  # not tried again
                self._add_notices(f"the answer is only in this notebook's record: {exc}")
            del self._unwritten[0]

    def _make_origin(self, stream: ConversationStream) -> LogEntry:
        """Return the keys of an entry that tell where the question was asked."""
        turn = stream.turn_count - 1
        origin: LogEntry = {"trusted": True, "conversation": stream.id, "turn": turn}
        if self._notebook is not None:
            path = self._notebook.resolve()
            root = self._active.files.root
            is_inside = path.is_relative_to(root)
            origin["notebook"] = path.relative_to(root).as_posix() if is_inside else path.name

        for entry in stream.current_turn():
            cell_id = entry.metadata.get("cell_id")
            if isinstance(cell_id, str):
                origin["cell"] = cell_id

        return origin

    def _obtain_key(self) -> SecretBytes | None:
        """Return the user's key, which is made if there is none; None if that is impossible.

        Without a key, entries are not signed. Later they need the user's consent, as those of other
        people do. The record, which needs the same key, reports the problem.
        """
        with suppress(NoKeyError):
            return self._keys.obtain()
        return None

    def _add_notices(self, *notices: str) -> None:
        for notice in notices:
            if notice not in self._reported:
                self._reported.add(notice)
                self._active.notices.append(notice)

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

        report = import_answers(log, path, read_table(path), trusted=True, key=self._obtain_key())
        is_old_table = path.resolve() == (log.folder / TABLE_NAME).resolve()
        return [*report, rename_table(path)] if is_old_table else report

    def migrate_table(self) -> list[str]:
        """Import the table of earlier versions, if there is one, and return a report.

        Its author is unknown, so its answers are not trusted. Raises a `ConfigError`.
        """
        log = self._open_log() if self._trusted else None
        if log is None:
            return []
        path = log.folder / TABLE_NAME
        if not path.is_file():
            return []

        try:
            report = import_answers(
                log, path, read_owned_file(path), trusted=False, max_rows=MAX_UNASKED
            )
        except (StorageError, ForeignFileError, OSError) as exc:
            return [f"{path} is not imported: {exc}"]
        return [*report, rename_table(path)]
