"""Read the answers of the question log back, for the user and for a model.

The log of a workspace may have entries of other people, who share the folder. An entry is the
user's own if the user's key has signed it. The other entries are *foreign*: no model gets them
before the user has accepted them with `%jp trust --workspace`.

Source: `docs/record.md`.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from jp_nb.json_writing import sorted_json
from jp_nb.record.documents.document import Document
from jp_nb.record.documents.record_trust import NoKeyError, Trust
from jp_nb.record.reading.question_history import (
    LoggedAnswer,
    QuestionHistory,
    list_recorded_answers,
    read_logged_answer,
)
from jp_nb.session.configuration.settings import Settings
from jp_nb.storage.configuration.config_files import ConfigFiles
from jp_nb.storage.key_file import KeyFile
from jp_nb.storage.question_logs.question_log_contents import LogContents
from jp_nb.storage.question_logs.question_log_file import QuestionLogFile
from jp_nb.storage.question_logs.question_log_lines import LogEntry
from jp_nb.storage.trust import PendingConsent, PendingLeaf


class QuestionContext(Protocol):
    """The active conversation with its settings and files, and notices for the user.

    `trust` is the signature of the record. `files.trust` is the consent to files of folders.
    """

    document: Document
    files: ConfigFiles
    notices: list[str]

    @property
    def trust(self) -> Trust: ...  # noqa: D102
    @property
    def settings(self) -> Settings: ...  # noqa: D102


class QuestionLogReader:
    """Reads the history of questions of one notebook, from the log or from its record.

    Args:
        open_log: Returns the log of the workspace; None if there is none.
        add_notices: Adds notices for the user, each one once.
    """

    def __init__(
        self,
        active: QuestionContext,
        open_log: Callable[[], QuestionLogFile | None],
        add_notices: Callable[..., None],
    ) -> None:
        self._active = active
        self._open_log = open_log
        self._add_notices = add_notices
        self._keys = KeyFile()

    def read_history(self, *, includes_foreign: bool = False) -> QuestionHistory:
        """Return the earlier answers of the workspace's log; without a log, of this conversation.

        An untrusted notebook has no history. With `includes_foreign`, it has also the foreign
        entries that the user has not accepted.

        Raises:
            ConfigError: The configuration is not valid.
            StorageError: The log cannot be read.
        """
        log = self._open_trusted_log()
        return self._make_history(log, includes_foreign=includes_foreign)

    async def read_for_model(self) -> QuestionHistory:
        """Return the history that a model may get. A worker thread reads the files."""
        log = self._open_trusted_log()
        if log is None:
            return self._make_history(None, includes_foreign=False)
        return await asyncio.to_thread(self._make_history, log, includes_foreign=False)

    def _open_trusted_log(self) -> QuestionLogFile | None:
        return self._open_log() if self._active.trust.trusted else None

    def _make_history(
        self, log: QuestionLogFile | None, *, includes_foreign: bool
    ) -> QuestionHistory:
        """Return the answers of `log`, or without a log those of the conversation.

        `left_out` is the number of foreign entries that the user has not accepted.
        """
        if not self._active.trust.trusted:
            return QuestionHistory(trusted=False)
        if log is None or not log.exists():
            return QuestionHistory(list_recorded_answers(self._active.document.conversation))

        contents = self._read_contents(log)
        self._report_damage(log, contents)

        foreign = _list_foreign_answers(contents)
        is_accepted = self._is_accepted(foreign)

        answers: list[LoggedAnswer] = []
        for line in contents.lines:
            if line.entry is None or line.number is None:  # a damaged line, or one without answer
                continue
            is_trusted = line.is_own or is_accepted
            if is_trusted or includes_foreign:
                answers.append(read_logged_answer(line.entry, line.number, is_trusted=is_trusted))

        answers.sort(key=lambda answer: (answer.moment, answer.id))
        left_out = 0 if is_accepted else len(foreign)
        return QuestionHistory(
            answers=tuple(answers), source="log", left_out=left_out, damaged=contents.damaged
        )

    def _report_damage(self, log: QuestionLogFile, contents: LogContents) -> None:
        damaged = contents.damaged
        if damaged:
            lines = "1 line" if damaged == 1 else f"{damaged} lines"
            pronoun = "it" if damaged == 1 else "them"
            self._add_notices(
                f"{lines} of the project log in {log.folder} cannot be read: "
                f"jp_nb ignores {pronoun}"
            )

        for problem in contents.unread:
            self._add_notices(f"a file of the project log is ignored: {problem}")

    def _read_contents(self, log: QuestionLogFile) -> LogContents:
        key = None
        with suppress(NoKeyError):  # then every entry is foreign
            key = self._keys.read()
        return log.read(key)

    def _is_accepted(self, foreign: Sequence[tuple[int, LogEntry]]) -> bool:
        """Return True if the user has accepted exactly these foreign entries, or there are none."""
        consents = self._active.files.trust
        if consents is None:  # a headless run accepts the files of its folder
            return True
        return not foreign or consents.covers(self._active.files.root, _make_digest(foreign))

    def list_pending(self) -> list[PendingConsent]:
        """Return the foreign entries that the user has not accepted, as one question of consent."""
        log = self._open_log()
        if log is None or not log.exists():
            return []

        foreign = _list_foreign_answers(self._read_contents(log))
        if self._is_accepted(foreign):
            return []

        leaves: list[PendingLeaf] = []
        for number, entry in foreign:
            answer = read_logged_answer(entry, number, is_trusted=False)
            shown = f"{entry['question']} → {answer.words}"
            leaves.append(PendingLeaf(f"answers[{number}]", shown, str(log.path)))

        root = self._active.files.root
        return [PendingConsent(root, log.path, _make_digest(foreign), tuple(leaves))]


def _list_foreign_answers(contents: LogContents) -> list[tuple[int, LogEntry]]:
    """Return the answers that the user has not signed, with their numbers."""
    foreign: list[tuple[int, LogEntry]] = []
    for line in contents.lines:
        if line.is_own or line.entry is None or line.number is None:
            continue
        foreign.append((line.number, line.entry))
    return foreign


def _make_digest(foreign: Sequence[tuple[int, LogEntry]]) -> str:
    """Return the digest by which a consent knows these entries."""
    digest = hashlib.sha256()
    for number, entry in foreign:
        digest.update(f"{number} {sorted_json(entry)}\n".encode("utf-8", "replace"))
    return digest.hexdigest()
