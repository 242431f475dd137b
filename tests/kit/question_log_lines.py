"""Lines of the question log of a workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import SecretBytes

from jp_nb.record.reading.question_history import LoggedAnswer, read_logged_answer
from jp_nb.session.questions.answer_tables import read_table_rows
from jp_nb.session.questions.other_logs import read_log
from jp_nb.storage.question_logs.question_log_contents import QuestionLogLine, mark_own_lines
from jp_nb.storage.question_logs.question_log_lines import (
    decode_log_entry,
    encode_log_entry,
    extend_chain,
    has_valid_signature,
    sign_entry,
)


class QuestionLogLines:
    """The lines of a question log, and their signatures by `key` in the folder `workspace`.

    An entry is the JSON object of a line, a log is a list of lines.
    """

    def __init__(self, key: bytes, workspace: str) -> None:
        self._key = SecretBytes(key)
        self._workspace = workspace

    # --- one line ----------------------------------------------------------------------------

    @staticmethod
    def encode(entry: Mapping[str, Any]) -> bytes:
        """Return the line of `entry`."""
        return encode_log_entry(dict(entry))

    @staticmethod
    def decode(line: bytes) -> Any:
        """Return the entry of `line`, or None if it is malformed."""
        return decode_log_entry(line)

    @staticmethod
    def read_answer(entry: Any, number: int = 1, *, is_trusted: bool = True) -> LoggedAnswer:
        """Return the answer in `entry`, as the history of questions has it."""
        return read_logged_answer(entry, number, is_trusted=is_trusted)

    def sign(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return `entry` with its signature."""
        return sign_entry(dict(entry), self._key, self._workspace)

    def is_valid(self, entry: Any) -> bool:
        """Return True if the signature of `entry` is by this key in this workspace."""
        return has_valid_signature(entry, self._key, self._workspace)

    # --- logs --------------------------------------------------------------------------------

    def write(self, *entries: Mapping[str, Any] | None, theirs: bytes) -> tuple[list[bytes], str]:
        """Return the lines of a log with signed `entries`, and its chain value.

        None is the line `theirs`, which someone else wrote.
        """
        lines: list[bytes] = []
        value = ""
        newest = ""

        for entry in entries:
            if entry is None:
                lines.append(theirs)
            else:
                lines.append(self.encode(self.sign({**entry, "after": value})))
            value = extend_chain(value, lines[-1])
            if entry is not None:
                newest = value

        return lines, newest

    def own_lines(self, lines: Sequence[bytes], newest: str) -> list[bool]:
        """Return True for each line that counts as the user's, by the chain value `newest`."""
        read = [QuestionLogLine(line, self.decode(line)) for line in lines]
        marked = mark_own_lines(read, self._key, self._workspace, newest)
        return [line.is_own for line in marked]

    # --- imports -----------------------------------------------------------------------------

    @staticmethod
    def import_table(text: str) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the entries of a table with semicolons, and the reason for each skipped line."""
        rows = read_table_rows(text)
        return [dict(entry) for entry in rows.entries], list(rows.skipped)

    @staticmethod
    def import_log(text: str) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the entries of another log, and the reason for each skipped line."""
        rows = read_log(text)
        return [dict(entry) for entry in rows.entries], list(rows.skipped)
