"""Comments of an answers file, and the entry or table that each one is about.

The inbox writes `OUT/answers.toml` anew with each decision. The user may have added comments, also
in places that the new file does not have. So each comment is kept with its table, entry, or file:

    # Answers to the open decisions of a batch, written by `jp-nb inbox`.
    # of the file: above a blank line, at its beginning

    # of the table
    [questions.publish]
    # of the entry
    audience = "team"  # also of the entry

    # of the file: after its last entry

A comment above a table that is not written, as its entries are in other tables now, belongs to its
first entry.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from jp_nb.storage.configuration.answers_content import (
    RUNS_TABLE,
    PreparedAnswer,
)
from jp_nb.storage.configuration.toml_lines import TomlStatement, read_header, split_toml
from jp_nb.storage.configuration.toml_text import format_toml_key

HEADING: Final = "# Answers to the open decisions of a batch, written by `jp-nb inbox`."


@dataclass(slots=True)
class EntryText:
    """Text of one entry of the file: its comments, and its own line if that can be kept.

    Attributes:
        comments: The comments above it.
        source: The key and the value as they are in the file; "" if the inbox will write them
            otherwise, because they are in another table or in several statements.
    """

    comments: list[str] = field(default_factory=list)
    source: str = ""

    def list_all_comments(self) -> list[str]:
        """Return all comments: those above the entry, and those in its own line."""
        inner = TomlStatement(0, self.source).list_comments()
        return [*self.comments, *inner]

    def add(self, comments: Sequence[str]) -> None:
        """Add comments below those that are there."""
        self.comments = _join(self.comments, comments)


class AnswersText:
    """The comments of the valid answers file with this `text` and these `answers`.

    The file is read statement by statement (`toml_lines.py`): a statement is the header of a table,
    or a key with its value, and has the lines of comments `above` it. Comments after the last one
    are those above a statement without `text`.

    Attributes:
        head: Comments at the beginning of the file, without the heading of the inbox.
        tables: Comments above a table, by its name.
        entries: Text of the entries, by the position of their answer.
        end: Comments at the end of the file.
    """

    def __init__(self, text: str = "", answers: Sequence[PreparedAnswer] = ()) -> None:
        self.head: list[str] = []
        self.tables: dict[str, list[str]] = {}
        self.entries: dict[int, EntryText] = {}
        self.end: list[str] = []

        self._answers = answers
        self._index_by_line: dict[int, int] = {}  # positions in `answers`
        for index, answer in enumerate(answers):
            self._index_by_line.setdefault(answer.line, index)

        # The present table, and the entry that a statement without an answer of its own continues.
        self._table = ""
        self._last_entry: EntryText | None = None

        # Comments above a table wait until its first entry shows where they belong: to the table,
        # or to this entry.
        self._pending: list[str] = []

        self._read(text.replace("\r\n", "\n"))

    def _read(self, text: str) -> None:
        """Assign the comments of `text` to the statements that they describe."""
        is_first = True
        for statement in split_toml(text):
            above = _trim(statement.above)
            if is_first:
                above = self._take_head(above, has_entries=bool(statement.text))
                is_first = False

            if not statement.text:  # only comments follow the last statement
                self.end = _join(self._pending, above)
            else:
                self._read_statement(statement, above)

    def _take_head(self, above: list[str], *, has_entries: bool) -> list[str]:
        """Take the comments of the file from those above its first statement; return the others."""
        if HEADING in above:
            above.remove(HEADING)
        if not has_entries:
            return above

        last_blank = max((index for index, line in enumerate(above) if not line), default=-1)
        self.head = _trim(above[: max(last_blank, 0)])
        return _trim(above[last_blank + 1 :])

    def _read_statement(self, statement: TomlStatement, above: list[str]) -> None:
        """Read a header or an entry. `[[permissions.pay]]` is both: its lines are one answer.

        `above` are the comments above the statement.
        """
        index = self._index_by_line.get(statement.line)
        if statement.is_header:
            self._table = ".".join(map(format_toml_key, read_header(statement)))
            if index is None:
                self._pending = _join(self._pending, [*above, *statement.list_comments()])
                return

        if index is None:
            self._add_to_last(statement, above)
            return

        answer = self._answers[index]
        is_own_line = not statement.is_header and self._is_own_line(statement, answer)
        if is_own_line and self._pending and answer.key[0] != "permissions":
            # The inbox writes this table again, with its comments. Tables of permissions have one
            # entry each, which takes the comments instead.
            self.tables[self._table] = self._pending
            self._pending = []

        entry = EntryText(_join(self._pending, above))
        self._pending = []
        if is_own_line:
            entry.source = statement.text.strip(" \t")
        else:
            entry.comments += statement.list_comments()

        self.entries[index] = entry
        self._last_entry = entry

    def _add_to_last(self, statement: TomlStatement, above: list[str]) -> None:
        """Add a statement that continues the last entry, such as the arguments of a permission."""
        comments = _join(self._pending, [*above, *statement.list_comments()])
        if self._last_entry is None:
            self._pending = comments
            return

        self._pending = []
        self._last_entry.comments = _join(self._last_entry.list_all_comments(), comments)
        self._last_entry.source = ""

    def _is_own_line(self, statement: TomlStatement, answer: PreparedAnswer) -> bool:
        """Return True if the statement is a key in the table in which the inbox writes it."""
        if self._table != name_answer_table(answer):
            return False
        return list(tomllib.loads(statement.text)) == [answer.key[-1]]


def name_answer_table(answer: PreparedAnswer) -> str:
    """Return the table of an answer: `permissions`, or `runs."ID".questions.publish`."""
    names = [answer.key[0]]
    if answer.key[0] in ("questions", "permissions"):
        names.append(answer.key[1])
    if answer.run is not None:
        names = [RUNS_TABLE, answer.run, *names]
    return ".".join(map(format_toml_key, names))


def _join(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """Return the lines of both, without blank ones at the beginning and the end."""
    return _trim([*first, *second])


def _trim(lines: Sequence[str]) -> list[str]:
    """Return the lines without blank ones at the beginning and the end."""
    start = 0
    end = len(lines)
    while start < end and not lines[start]:
        start += 1
    while end > start and not lines[end - 1]:
        end -= 1
    return list(lines[start:end])
