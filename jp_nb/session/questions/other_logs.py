"""Read the answered questions from the question log of another workspace, to import them.

The log has a JSON object on each line.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from jp_nb.record.entries.timestamps import format_rfc3339
from jp_nb.record.reading.question_log_entries import ENTRY_VERSION, is_answered, read_entry_time
from jp_nb.session.questions.imported_rows import ImportedRows, ReadLine, collect_rows
from jp_nb.storage.question_logs.question_log_lines import LogEntry, decode_log_entry

_NOT_IMPORTED: Final = {"v", "id", "timestamp", "datetime", "trusted", "signature", "row"}
"""Keys of another log that its entries do not keep, or get anew."""


def read_log(text: str) -> ImportedRows:
    """Return the answered questions of a log, without their numbers and signatures."""
    return collect_rows(_read_log_lines(text))


def _read_log_lines(text: str) -> Iterator[ReadLine]:
    """Yield the answered questions of a log, and the lines that are damaged."""
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if not line.strip():
            continue

        entry = decode_log_entry(line.encode("utf-8", "replace"))
        moment = None if entry is None else read_entry_time(entry)
        if entry is None or moment is None:
            yield ReadLine(number, "not a log entry")
        elif is_answered(entry):
            timestamp = format_rfc3339(moment)
            kept = {key: value for key, value in entry.items() if key not in _NOT_IMPORTED}
            imported: LogEntry = {"v": ENTRY_VERSION, "timestamp": timestamp, **kept}
            identity = (timestamp, entry["question"], entry["answer"])
            yield ReadLine(number, imported, identity)
