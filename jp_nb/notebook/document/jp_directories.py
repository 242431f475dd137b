"""JP's conversation directories on disk, for a kernel and for the command line alike.

Source: `spec/conversation-stream.md` 6.2 and 7.3.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from jp_nb.errors import StorageError, UsageError
from jp_nb.record.jp_files import (
    EVENTS,
    FILES,
    MAX_FILE_BYTES,
    MAX_OTHER_BYTES,
    Dialect,
    Directory,
    is_other_name,
    read_directory,
    write_directory,
)
from jp_nb.record.jp_json import JsonObject, read_list
from jp_nb.record.timestamps import Clock

_NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)

# --- reading ---------------------------------------------------------------------------------


def load_directory(folder: Path, *, clock: Clock) -> JsonObject:
    """The `jp` object of the conversation in `folder`; see `jp_nb.record.jp_files`.

    Raises:
        UsageError: If there is no such folder.
        StorageError: If it holds no conversation, or one that cannot be read.
    """
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}")
    try:
        # Not `name`: that of `.` is empty.
        return read_directory(folder.resolve().name, read_files(folder), clock=clock)
    except StorageError as exc:
        raise StorageError(f"{folder}: {exc}") from exc


def read_files(folder: Path) -> dict[str, bytes]:
    """The files directly in `folder`; of one that is too large, the beginning.

    Raises:
        StorageError: If one cannot be read.
    """
    found: dict[str, bytes] = {}
    try:
        for path in sorted(folder.iterdir()):
            if path.is_file():
                limit = MAX_FILE_BYTES if path.name in FILES else MAX_OTHER_BYTES
                with path.open("rb") as file:
                    found[path.name] = file.read(limit + 1)
    except OSError as exc:
        raise StorageError(f"{exc.filename or folder}: {exc.strerror or exc}") from exc
    return found


# --- writing ---------------------------------------------------------------------------------


def save_directory(
    jp: Mapping[str, JsonValue], folder: Path, dialect: Dialect = "native"
) -> list[str]:
    """Write the conversation at the top of `jp` into `folder`; returns what could not be said.

    A folder that holds something else, or entries that `jp` does not have, is left alone. Files
    that would be the same are not written, nor is one of the others that is there; none is deleted.

    Raises:
        StorageError: If the conversation cannot be put in that dialect, or not be written there.
    """
    written = write_directory(jp, dialect=dialect)
    if folder.exists() and not folder.is_dir():
        raise StorageError(f"{folder} is no folder")
    if folder.is_dir():
        native = written if dialect == "native" else write_directory(jp)
        _refuse_foreign(jp, folder, native, written)
    try:
        _write_files(folder, written.files)
    except OSError as exc:
        raise StorageError(f"{folder} cannot be written: {exc.strerror or exc}") from exc
    return written.dropped


def _refuse_foreign(
    jp: Mapping[str, JsonValue], folder: Path, native: Directory, written: Directory
) -> None:
    """Raise unless `folder` is empty or holds the same conversation, and nothing that we lack."""
    there = {n: c for n, c in read_files(folder).items() if not n.endswith(".tmp")}
    if not there and not any(path.is_dir() for path in folder.iterdir()):
        return
    if there and all(c in (written.files.get(n), native.files.get(n)) for n, c in there.items()):
        return
    entries = _identities(there.get(EVENTS), folder)
    ours = (_identities(d.files[EVENTS], folder) for d in (native, written))
    missing = min(_missing(entries, mine) for mine in ours)
    head = jp.get("conversation")
    number = folder.resolve().name.partition("-")[0]
    same_id = isinstance(head, dict) and head.get("id") == f"jp-c{number}"
    if not same_id and missing == len(entries):
        raise StorageError(
            f"{folder} is not empty and holds something else: export to another folder"
        )
    if missing:
        raise StorageError(
            f"{folder} has {missing} entries that this notebook does not have: export to another "
            "folder, or import that one"
        )


def _identities(content: bytes | None, folder: Path) -> list[tuple[str, ...]]:
    """What tells entries apart: kind, time, id."""
    if content is None:
        return []
    try:
        sources, _ = read_list(content.decode(), EVENTS)
    except (StorageError, UnicodeDecodeError) as exc:
        raise StorageError(
            f"{folder} is not empty and holds no conversation ({exc}): export to another folder"
        ) from exc
    found: list[tuple[str, ...]] = []
    for source in sources:
        value = source.value if isinstance(source.value, dict) else {"type": source.text}
        found.append(tuple(str(value.get(key)) for key in ("type", "timestamp", "id")))
    return found


def _missing(entries: Sequence[tuple[str, ...]], ours: Sequence[tuple[str, ...]]) -> int:
    """How many of `entries` are not among `ours`; as many as there are of the same."""
    return (Counter(entries) - Counter(ours)).total()


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    changed = False
    for name in FILES:
        if name in files:
            changed |= _write_file(folder / name, files[name])
    for name in sorted(files.keys() - set(FILES)):
        if is_other_name(name) and not (folder / name).exists():  # somebody may have gone on in it
            changed |= _write_file(folder / name, files[name])
    if changed:
        _sync_folder(folder)


def _write_file(path: Path, content: bytes) -> bool:
    """Replace the file at `path` at once or not at all; returns whether it was another one."""
    if path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content:
        return False
    temporary = path.with_name(f"{path.name}.tmp")
    opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _NO_FOLLOW, 0o666)
    try:
        with os.fdopen(opened, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return True


def _sync_folder(folder: Path) -> None:
    """Make the new names last; where a folder cannot be opened, the system does so by itself."""
    try:
        opened = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
