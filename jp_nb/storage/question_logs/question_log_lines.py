"""Lines of a question log: encode and decode entries, number them, and check signatures.

Each line is one entry: a question of a record with its answer, or with the `outcome` of one that
the user saw and did not answer (`make_log_entry` in `question_log_entries.py`). Answers have a
permanent number, counted from 1. Entries of older logs have three fields, and their position is
their number.

A signature covers the entry, the workspace, and the *chain value* of the lines before it: a digest
of all of them. A signed line is the user's own if the chain from it to the newest signed line is
intact. No I/O: files are in `question_log_file.py`.

Source: `docs/record.md`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from pydantic import SecretBytes

from jp_nb.errors import StorageError
from jp_nb.json_reading import MAX_INTEGER, read_json
from jp_nb.json_values import JsonObject, as_object, canonical_json, make_storable, sorted_json
from jp_nb.record.entries.outcomes import SEEN_ENDS
from jp_nb.record.reading.question_log_entries import is_answered, read_entry_time

AFTER_KEY: Final = "after"
"""Key of the chain value of the lines before an entry."""
_SCHEME: Final = 2
_PURPOSE: Final = f"jp_nb question {_SCHEME}"
_LINE_BREAKS: Final = {ord(char): f"\\u{ord(char):04x}" for char in "\x85\u2028\u2029"}
"""Line ends for some readers, which JSON does not escape."""

LogEntry = JsonObject
"""Keys are `question`, `answer` or `outcome`, a time, `source`, `id` (the number), and others."""


def encode_log_entry(entry: LogEntry) -> bytes:
    """Return `entry` as one line."""
    text = json.dumps(make_storable(dict(entry)), ensure_ascii=False, separators=(",", ":"))
    return text.translate(_LINE_BREAKS).encode() + b"\n"


def decode_log_entry(line: bytes) -> LogEntry | None:
    """Return the entry in `line`, or None if it is damaged.

    Its question is not blank, and its time has an offset from UTC. Its answer is not blank unless
    `empty` is true. Its number, if it has one, is from 1 to `MAX_INTEGER`.
    """
    try:
        entry = as_object(read_json(line.decode()))
    except ValueError:
        return None
    question = entry.get("question")
    number = entry.get("id", 1)
    answer = entry.get("answer")

    if not isinstance(question, str) or not question.strip():
        return None
    if type(number) is not int or not 1 <= number <= MAX_INTEGER or read_entry_time(entry) is None:
        return None

    # Without an answer, only the end of a question that the user saw is valid.
    if not is_answered(entry):
        return entry if entry["outcome"] in SEEN_ENDS else None

    is_blank = isinstance(answer, str) and not answer.strip() and entry.get("empty") is not True
    return None if answer is None or is_blank else entry


def extend_chain(before: str, line: bytes) -> str:
    """Return the chain value of a log up to `line`. `before` is that of the lines before."""
    text = line.strip(b"\r\n")
    return hashlib.sha256(before.encode("ascii", "replace") + b"\n" + text).hexdigest()


def sign_entry(entry: LogEntry, key: SecretBytes, workspace: str) -> LogEntry:
    """Return `entry`, which has its chain value, with a signature for `workspace`."""
    return {**entry, "signature": _signature(entry, key, workspace)}


def has_valid_signature(entry: LogEntry, key: SecretBytes, workspace: str) -> bool:
    """Return True if `key` signed this `entry` in `workspace`.

    Signatures of scheme 1 are not valid, because they do not cover the workspace.
    """
    found = entry.get("signature")
    if isinstance(found, str) and found.isascii():
        with suppress(StorageError):
            return hmac.compare_digest(found, _signature(entry, key, workspace))
    return False


def _signature(entry: LogEntry, key: SecretBytes, workspace: str) -> str:
    """Return the signature of `entry`. A signature that it has already does not count."""
    unsigned = {name: value for name, value in entry.items() if name != "signature"}
    mac = hmac.new(key.get_secret_value(), digestmod="sha256")
    for value in (_PURPOSE, workspace, unsigned):
        mac.update(canonical_json(value).encode("ascii") + b"\n")
    return f"{_SCHEME}:{mac.hexdigest()}"


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
                self.last = max(self.last, found)
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
