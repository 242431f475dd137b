"""Read answers from a table, or from the question log of another workspace.

A table has the columns datetime, question and answer, separated by semicolons and quoted as in RFC
4180. Its first line may have their names:

    datetime;question;answer
    2026-03-18T13:19:06Z;"Which database?";Postgres

A log has a JSON object on each line. Each row or line becomes an entry of the question log.

Source: `docs/record.md`, RFC 4180.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pydantic import JsonValue

from jp_nb.json_values import sorted_json
from jp_nb.record.entries.timestamps import parse_timestamp
from jp_nb.record.reading.question_log_entries import (
    ENTRY_VERSION,
    format_rfc3339,
    is_answered,
    parse_rfc3339,
    read_entry_time,
)
from jp_nb.storage.question_logs.question_log_lines import LogEntry, decode_log_entry

COLUMNS: Final = ("datetime", "question", "answer")
_NOT_IMPORTED: Final = {"v", "id", "timestamp", "datetime", "trusted", "signature", "row"}
"""Keys of another log that its entries do not keep."""


class TableRows(NamedTuple):
    """The rows of a table, or the lines of a log, oldest first.

    Attributes:
        entries: Entries of the question log. Their `row` identifies them in repeated imports.
        skipped: The line number and the error of each other row.
    """

    entries: tuple[LogEntry, ...]
    skipped: tuple[str, ...]


class _ReadLine(NamedTuple):
    """A line that was read.

    Attributes:
        number: Number of the line in the file.
        entry: The entry, or the error.
        values: The values that identify the row.
    """

    number: int
    entry: LogEntry | str
    values: Sequence[JsonValue] = ()


def read_table_rows(text: str) -> TableRows:
    """Return the rows of the table `text`."""
    return _collect_rows(_read_table_lines(text))


def _read_table_lines(text: str) -> Iterator[_ReadLine]:
    """Yield rows that are not empty, each with the line number of its end."""
    lines = io.StringIO(text.removeprefix("\ufeff"), newline="")
    reader = csv.reader(lines, delimiter=";", strict=True)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as exc:
            yield _ReadLine(reader.line_num, str(exc))
            continue

        names = tuple(cell.strip().lower() for cell in row)
        has_names = reader.line_num == 1 and names == COLUMNS
        if row and not has_names:
            yield _ReadLine(reader.line_num, _make_entry(row), row)


def _make_entry(row: Sequence[str]) -> LogEntry | str:
    """Return the entry of a row of a table, or the error."""
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


def read_log(text: str) -> TableRows:
    """Return the answered questions of a log, without their numbers and signatures."""
    return _collect_rows(_read_log_lines(text))


def _read_log_lines(text: str) -> Iterator[_ReadLine]:
    """Yield the answered questions of a log, and the lines that are damaged."""
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if not line.strip():
            continue

        entry = decode_log_entry(line.encode("utf-8", "replace"))
        moment = None if entry is None else read_entry_time(entry)
        if entry is None or moment is None:
            yield _ReadLine(number, "not a log entry")
        elif is_answered(entry):
            timestamp = format_rfc3339(moment)
            kept = {key: value for key, value in entry.items() if key not in _NOT_IMPORTED}
            imported: LogEntry = {"v": ENTRY_VERSION, "timestamp": timestamp, **kept}
            identity = (timestamp, entry["question"], entry["answer"])
            yield _ReadLine(number, imported, identity)


def _collect_rows(lines: Iterator[_ReadLine]) -> TableRows:
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
    return TableRows(tuple(entries), tuple(skipped))
