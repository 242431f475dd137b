"""Import answers into the question log: `%jp qna import FILE`, and the table of earlier versions.

Earlier versions kept the answers of a workspace in a table, `qna.csv` in the folder of the log.
`QuestionLog.migrate_table` imports and renames it without a request of the user, so its answers are
not trusted. `answer_tables.py` reads its rows. Rows that the log already has are not written, so an
interrupted import can be repeated. Each import returns a report for the user.

Source: `docs/record.md`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import SecretBytes

from jp_nb.errors import StorageError, UsageError
from jp_nb.session.questions.answer_tables import read_table_rows
from jp_nb.session.questions.imported_rows import ImportedRows
from jp_nb.session.questions.other_logs import read_log
from jp_nb.storage.files import MAX_OWNED_FILE_BYTES, ForeignFileError, read_owned_file
from jp_nb.storage.question_logs.question_log_file import QuestionLogFile
from jp_nb.storage.question_logs.question_log_lines import LogEntry
from jp_nb.text import MAX_FEW_NAMES

MIGRATED_SUFFIX: Final = ".migrated"
"""Suffix of the name of a table that was imported and renamed."""


def read_table(path: Path) -> bytes:
    """Return the content of the table at `path`, which the user gave.

    Raises:
        UsageError: `path` is not a file.
        StorageError: The file cannot be read, or belongs to another user.
    """
    if not path.is_file():
        raise UsageError(f"file {str(path)!r} does not exist")

    try:
        return read_owned_file(path)
    except ForeignFileError as exc:
        raise StorageError(f"nothing is imported: {exc}") from exc
    except OSError as exc:
        raise StorageError(f"{path} cannot be read: {exc.strerror or exc}") from exc


def import_answers(
    log: QuestionLogFile,
    path: Path,
    data: bytes,
    *,
    trusted: bool,
    key: SecretBytes | None = None,
    max_rows: int | None = None,
) -> list[str]:
    """Write the rows of a table, or the lines of another log, to `log`; return a report.

    Rows that `log` already has are not written.

    Args:
        log: The log of the workspace.
        path: The file, which is a log if its name ends in `.jsonl`.
        data: Its content.
        trusted: False if the author of the file is unknown.
        key: The user's key, which signs the entries; None: they are not signed.
        max_rows: Limit of the rows, if the user did not request the import.

    Raises:
        UsageError: The file belongs to this log.
        StorageError: The file is not text or has too many rows, or the log cannot be written.
    """
    is_other_log = path.suffix == ".jsonl"
    if is_other_log and path.resolve().parent == log.folder.resolve():
        raise UsageError(
            f"{path} is already part of the project log. Accept the entries of others in it "
            "with `%jp trust --workspace`"
        )

    if len(data) > MAX_OWNED_FILE_BYTES:
        raise StorageError(f"{path} has more than {MAX_OWNED_FILE_BYTES} bytes")

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise StorageError(f"{path} is not UTF-8: {exc.reason} at byte {exc.start}") from exc

    rows = read_log(text) if is_other_log else read_table_rows(text)
    if max_rows is not None and len(rows.entries) > max_rows:
        raise StorageError(
            f"{len(rows.entries)} answers are too many for an automatic import. If "
            f"they are yours, import them with `%jp qna import {path}`"
        )

    entries: list[LogEntry] = [{**entry, "trusted": trusted} for entry in rows.entries]
    added = log.append(entries, key=key)

    return [*_format_import(path, rows, added.written, added.known), *added.problems]


def _format_import(path: Path, rows: ImportedRows, written: int, known: int) -> Iterator[str]:
    """Yield a line with the numbers of rows, and one for each of the first skipped rows."""
    answers = "1 answer" if written == 1 else f"{written} answers"
    parts = [f"{answers} imported from {path.name}"]
    if known:
        parts.append(f"{known} already known")
    if rows.skipped:
        parts.append(f"{len(rows.skipped)} skipped")
    yield ", ".join(parts)

    yield from rows.skipped[:MAX_FEW_NAMES]
    omitted_count = len(rows.skipped) - MAX_FEW_NAMES
    if omitted_count > 0:
        yield f"and {omitted_count} more of this kind"


def rename_table(path: Path) -> str:
    """Rename an imported table, so that it is not read again; return a report."""
    target = path.with_name(f"{path.name}{MIGRATED_SUFFIX}")
    number = 1
    while os.path.lexists(target):
        number += 1
        target = path.with_name(f"{path.name}{MIGRATED_SUFFIX}{number}")

    try:
        path.rename(target)
    except OSError as exc:
        return f"{path} cannot be renamed: {exc.strerror or exc}"
    return f"{path.name} was renamed to {target.name}"
