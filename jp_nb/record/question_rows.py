"""Questions and answers out of a table, or another log: text in, entries of a log out. Pure.

The table has the columns datetime, question and answer, separated by semicolons and quoted as in
RFC 4180. Its first line may name them. A log has an entry a line.

Source: `docs/record.md`, RFC 4180.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from jp_nb.json_values import sorted_json
from jp_nb.record.question_entry import (
    VERSION,
    is_answered,
    moment_of,
    read_line,
    read_moment,
    zoned,
)
from jp_nb.record.timestamps import parse_timestamp

COLUMNS = ("datetime", "question", "answer")


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of a table, or the lines of a log.

    Attributes:
        entries: The good ones, oldest first. `row` names each: the same row of another reading.
        skipped: Of the others: the line they end in, and what is wrong.
    """

    entries: tuple[dict[str, JsonValue], ...]
    skipped: tuple[str, ...]


def read_rows(text: str) -> TableRows:
    """Return the rows of the table `text`."""
    entries: list[dict[str, JsonValue]] = []
    skipped: list[str] = []
    seen: Counter[str] = Counter()
    for line, row in _rows(text):
        if isinstance(row, str):
            skipped.append(f"line {line}: {row}")
        elif line == 1 and tuple(cell.strip().lower() for cell in row) == COLUMNS:
            continue
        elif isinstance(found := _entry(row), str):
            skipped.append(f"line {line}: {found}")
        else:
            found["row"] = _digest(list(row), seen)
            entries.append(found)
    return _in_order(entries, skipped)


def read_log(text: str) -> TableRows:
    """Return the answered questions of a log, whatever their numbers were and whoever signed."""
    entries: list[dict[str, JsonValue]] = []
    skipped: list[str] = []
    seen: Counter[str] = Counter()
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if not line.strip():
            continue
        entry = read_line(line.encode("utf-8", "replace"))
        if entry is None:
            skipped.append(f"line {number}: not a log entry")
        elif is_answered(entry):
            moment = zoned(moment_of(entry))
            said = {key: value for key, value in entry.items() if key not in _NOT_TAKEN_OVER}
            row = _digest([moment, entry["question"], entry["answer"]], seen)
            entries.append({"v": VERSION, "timestamp": moment, **said, "row": row})
    return _in_order(entries, skipped)


_NOT_TAKEN_OVER = {"v", "id", "timestamp", "datetime", "trusted", "signature", "row"}


def _in_order(entries: Sequence[dict[str, JsonValue]], skipped: Sequence[str]) -> TableRows:
    return TableRows(tuple(sorted(entries, key=lambda x: str(x["timestamp"]))), tuple(skipped))


def _rows(text: str) -> Iterator[tuple[int, Sequence[str] | str]]:
    """Yield each row that is not empty, or what is wrong with it, and the line where it ends."""
    reader = csv.reader(
        io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=";", strict=True
    )
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as exc:
            yield reader.line_num, str(exc)
            continue
        if row:
            yield reader.line_num, row


def _entry(row: Sequence[str]) -> dict[str, JsonValue] | str:
    """Return the entry that `row` is, but for its number; or what is wrong with it."""
    if len(row) != len(COLUMNS):
        return f"{len(row)} columns, expected datetime;question;answer"
    when, question, answer = row
    # As in the record, a time without an offset is UTC.
    moment = read_moment(when.strip()) or parse_timestamp(when.strip())
    if moment is None:
        return f"{when[:40]!r} is not a date with a time, such as 2026-03-18T13:19:06Z"
    if not question.strip() or not answer.strip():
        return "the question or the answer is blank"
    return {"v": VERSION, "timestamp": zoned(moment), "question": question, "answer": answer}


def _digest(row: list[JsonValue] | list[str], seen: Counter[str]) -> str:
    """Return what names a row wherever it stands; equal ones are counted in `seen`."""
    text = sorted_json([*row])
    seen[text] += 1
    return hashlib.sha256(f"{seen[text]} {text}".encode("utf-8", "replace")).hexdigest()
