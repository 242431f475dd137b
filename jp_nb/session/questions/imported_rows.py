"""Rows of a table or log of answers, as entries of the question log that can be imported again.

A digest identifies each row, so that a repeated import skips the rows that the log has.

Source: `docs/record.md`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pydantic import JsonValue

from jp_nb.json_writing import sorted_json
from jp_nb.storage.question_logs.question_log_lines import LogEntry


class ImportedRows(NamedTuple):
    """The rows of a table, or the lines of a log, oldest first.

    Attributes:
        entries: Entries of the question log. Their `row` identifies them in repeated imports.
        skipped: The line number and the error of each other row.
    """

    entries: tuple[LogEntry, ...]
    skipped: tuple[str, ...]


class ReadLine(NamedTuple):
    """A row of a table, or a line of a log, that was read.

    Attributes:
        number: Number of the line in the file.
        entry: The entry, or the error.
        values: The values that identify the row.
    """

    number: int
    entry: LogEntry | str
    values: Sequence[JsonValue] = ()


def collect_rows(lines: Iterator[ReadLine]) -> ImportedRows:
    """Return the entries with the digests that identify them, and the errors of other lines."""
    entries: list[LogEntry] = []
    skipped: list[str] = []
    counts: Counter[str] = Counter()
    for line_number, entry, values in lines:
        if isinstance(entry, str):
            skipped.append(f"line {line_number}: {entry}")
            continue

        identity = sorted_json([*values])
        counts[identity] += 1  # equal rows are numbered, so that each has its own digest
        numbered = f"{counts[identity]} {identity}"
        digest = hashlib.sha256(numbered.encode("utf-8", "replace"))
        entries.append({**entry, "row": digest.hexdigest()})

    entries.sort(key=lambda entry: str(entry["timestamp"]))
    return ImportedRows(tuple(entries), tuple(skipped))
