"""Read answers from a table, to import them.

A table has the columns datetime, question and answer, separated by semicolons and quoted as in RFC
4180. Its first line may have their names:

    datetime;question;answer
    2026-03-18T13:19:06Z;"Which database?";Postgres

Each row becomes an entry of the question log.

Source: `docs/record.md`, RFC 4180.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Final

from jp_nb.record.entries.timestamps import format_rfc3339, parse_rfc3339, parse_timestamp
from jp_nb.record.reading.question_log_entries import ENTRY_VERSION
from jp_nb.session.questions.imported_rows import ImportedRows, ReadLine, collect_rows
from jp_nb.storage.question_logs.question_log_lines import LogEntry

COLUMNS: Final = ("datetime", "question", "answer")


def read_table_rows(text: str) -> ImportedRows:
    """Return the rows of the table `text`."""
    return collect_rows(_read_table_lines(text))


def _read_table_lines(text: str) -> Iterator[ReadLine]:
    """Yield rows that are not empty, each with the line number of its end."""
    lines = io.StringIO(text.removeprefix("\ufeff"), newline="")
    reader = csv.reader(lines, delimiter=";", strict=True)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as exc:
            yield ReadLine(reader.line_num, str(exc))
            continue

        names = tuple(cell.strip().lower() for cell in row)
        has_names = reader.line_num == 1 and names == COLUMNS
        if row and not has_names:
            yield ReadLine(reader.line_num, _make_entry(row), row)


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
