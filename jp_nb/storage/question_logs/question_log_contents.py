"""`LogContents`: the lines of a question log, their numbers, and the user's own among them.

Answers have a permanent number, counted from 1. Entries of older logs have none, and their position
is their number.

The *chain value* of a line is a digest of it and all lines before. A signed line has that of the
line before it (`AFTER_KEY`), which its signature covers. It is the user's own if the chain from it
to the newest signed line is intact. No I/O: files are in `question_log_file.py`, and the chain
value of the newest signed line is in a file of the user (`newest_signed_line.py`).

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pydantic import SecretBytes

from jp_nb.json_writing import sorted_json
from jp_nb.record.reading.question_log_entries import is_answered
from jp_nb.storage.question_logs.question_log_lines import (
    AFTER_KEY,
    LogEntry,
    decode_log_entry,
    extend_chain,
    has_valid_signature,
)


@dataclass(frozen=True, slots=True)
class QuestionLogLine:
    """A line that is not blank.

    Attributes:
        entry: The entry; None if the line is damaged.
        number: Id of the answer; None if the entry has no answer.
        is_own: True if this user gave the answer in this workspace.
    """

    data: bytes
    entry: LogEntry | None
    number: int | None = None
    is_own: bool = False


def mark_own_lines(
    lines: Sequence[QuestionLogLine], key: SecretBytes, workspace: str, newest: str
) -> list[QuestionLogLine]:
    """Return all lines of a log, with marks on the key holder's own.

    These are signed, and no line between one of them and the newest signed line is missing, added,
    or moved. `newest` is the chain value of the log up to the newest signed line.

    A *run* is a part of the log whose chain is intact. A signed line begins a new run if its chain
    value is not that of the lines before it: someone has changed these. Only the run that contains
    the newest signed line counts.
    """
    chain = ""
    run = 0
    newest_run: int | None = None
    run_of_signed: list[int | None] = []  # by line; None if it is not signed

    for line in lines:
        entry = line.entry
        if entry is None or not has_valid_signature(entry, key, workspace):
            chain = extend_chain(chain, line.data)
            run_of_signed.append(None)
            continue

        after = str(entry.get(AFTER_KEY))
        if after != chain:
            chain = after
            run += 1

        chain = extend_chain(chain, line.data)
        run_of_signed.append(run)
        if chain == newest:
            newest_run = run

    return [
        replace(line, is_own=signed_run is not None and signed_run == newest_run)
        for line, signed_run in zip(lines, run_of_signed, strict=True)
    ]


@dataclass(slots=True)
class LogContents:
    """Content of the files of a log, oldest first, without blank lines.

    Attributes:
        lines: The lines of all files.
        last: The highest id so far.
        unread: Messages about files that were not read.
        count: Number of lines of the last file, blank ones included. That is the active one.
        size: Size of the last file in bytes.
        is_torn: True if the last line of the last file is incomplete.
    """

    lines: list[QuestionLogLine] = field(default_factory=list)
    last: int = 0
    unread: list[str] = field(default_factory=list)
    count: int = 0
    size: int = 0
    is_torn: bool = False

    def add(self, data: bytes) -> None:
        """Add the content of the next file.

        An answer without an id gets the next one. A damaged line also uses an id, so that damage
        does not change the ids of later answers.
        """
        lines = data.split(b"\n")

        self.is_torn = lines[-1] != b""
        self.size = len(data)
        self.count = len(lines) if self.is_torn else len(lines) - 1

        for line in filter(bytes.strip, lines):
            number: int | None = None
            entry = decode_log_entry(line)
            if entry is None:
                self.last += 1
            elif is_answered(entry):
                found = entry.get("id", self.last + 1)
                assert isinstance(found, int)  # `decode_log_entry` checks it
                number = found
                self.last = max(self.last, number)

            self.lines.append(QuestionLogLine(line, entry, number))

    def begin_file(self) -> None:
        """Note that the active file has no content."""
        self.count = 0
        self.size = 0
        self.is_torn = False

    @property
    def damaged(self) -> int:
        """Number of damaged lines."""
        return sum(line.entry is None for line in self.lines)

    @property
    def answered(self) -> list[tuple[int, LogEntry]]:
        """Ids and entries of answered questions."""
        pairs = [(line.number, line.entry) for line in self.lines]
        return [(number, entry) for number, entry in pairs if number is not None and entry]

    def has_same_answer(self, wanted: LogEntry) -> bool:
        """Return True if the newest answer to the same question from the same source is equal."""
        asked = (wanted.get("question"), wanted.get("source"))
        for _, entry in reversed(self.answered):
            if (entry.get("question"), entry.get("source")) == asked:
                return sorted_json(entry.get("answer")) == sorted_json(wanted.get("answer"))
        return False
