"""Tables of questions and answers, and other logs, taken over into the log of the workspace.

Source: `docs/record.md`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from jp_nb.errors import StorageError, UsageError
from jp_nb.record.question_rows import TableRows, read_log, read_rows
from jp_nb.workspace.own_files import MAX_BYTES, NotOwnError, read_own
from jp_nb.workspace.project_log import Finish, ProjectLog

MIGRATED: Final = ".migrated"
MAX_SAID: Final = 5
"""Of the rows that are skipped."""


def read_table(path: Path) -> bytes:
    """Return what is in the file at `path`, which the user named.

    Raises:
        UsageError: If it is none.
        StorageError: If it cannot be read, or is not the user's own.
    """
    if not path.is_file():
        raise UsageError(f"file {str(path)!r} does not exist")
    try:
        return read_own(path)
    except NotOwnError as exc:
        raise StorageError(f"nothing is imported: {exc}") from exc
    except OSError as exc:
        raise StorageError(f"{path} cannot be read: {exc.strerror or exc}") from exc


def import_rows(
    log: ProjectLog, path: Path, data: bytes, finish: Finish | None, *, most: int | None = None
) -> list[str]:
    """Write the rows of a table, or the lines of another log; return what to tell of it.

    Args:
        log: Where to; rows that it has are not written again.
        path: The file: a log if its name ends in `.jsonl`.
        data: What is in it.
        finish: Signs an entry, where the user vouches for the table; None where nobody does.
        most: How many rows it may have; None: any number.

    Raises:
        UsageError: If it is a file of this log.
        StorageError: If it is not a text, or has too many rows, or the log cannot be written.
    """
    is_log = path.suffix == ".jsonl"
    if is_log and path.resolve().parent == log.folder.resolve():
        raise UsageError(
            f"{path} is already part of this log. Accept the entries of others in it "
            "with `%jp trust --workspace`"
        )
    if len(data) > MAX_BYTES:
        raise StorageError(f"{path} has more than {MAX_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise StorageError(f"{path} is not UTF-8: {exc.reason} at byte {exc.start}") from exc
    rows = read_log(text) if is_log else read_rows(text)
    if most is not None and len(rows.entries) > most:
        raise StorageError(
            f"{len(rows.entries)} answers are too many for an automatic import. If "
            f"they are yours, import them with `%jp qna import {path}`"
        )
    entries = [{**entry, "trusted": finish is not None} for entry in rows.entries]
    added = log.append(entries, finish=finish)
    return [*_told(path, rows, added.written, added.known), *added.problems]


def set_aside(path: Path) -> str:
    """Keep the table under another name, so that it is not read again; say where."""
    kept = path.with_name(path.name + MIGRATED)
    count = 1
    while os.path.lexists(kept):
        count += 1
        kept = path.with_name(f"{path.name}{MIGRATED}{count}")
    try:
        path.rename(kept)
    except OSError as exc:
        return f"{path} cannot be renamed: {exc.strerror or exc}"
    return f"{path.name} was renamed to {kept.name}"


def _told(path: Path, rows: TableRows, written: int, known: int) -> Iterator[str]:
    """Yield what became of the rows of a table."""
    parts = [f"{'1 answer' if written == 1 else f'{written} answers'} imported from {path.name}"]
    parts += [f"{known} already known"] if known else []
    parts += [f"{len(rows.skipped)} skipped"] if rows.skipped else []
    yield ", ".join(parts)
    yield from rows.skipped[:MAX_SAID]
    if (more := len(rows.skipped) - MAX_SAID) > 0:
        yield f"and {more} more of this kind"
