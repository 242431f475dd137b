"""JP's conversation directories on disk, for a kernel and for the command line alike.

Source: `docs/record.md`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue

from jp_nb.errors import StorageError, UsageError
from jp_nb.file_writing import replace_file, resolve_write_target
from jp_nb.interop.files import (
    BASE_CONFIG,
    EVENTS,
    FILES,
    MAX_FILE_BYTES,
    MAX_OTHER_BYTES,
    METADATA,
    Dialect,
    is_other_name,
    is_temporary,
    read_directory,
    write_directory,
)
from jp_nb.interop.json_text import read_list, read_value, same_json
from jp_nb.json_values import JsonObject
from jp_nb.record.clock import Clock
from jp_nb.record.document import conversation_id

_NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
_READ: int = os.O_RDONLY | _NO_FOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def folder_at(text: str | Path, below: Path) -> Path:
    """Return the folder that a person named: `~` is a home, and what is relative lies `below`.

    Raises:
        UsageError: If there can be no such path.
    """
    try:
        return possible_path(below / Path(text).expanduser())
    except RuntimeError as exc:
        raise UsageError(f"the home directory in {str(text)!r} is unknown") from exc


def possible_path(path: Path) -> Path:
    """Return `path`; raise `UsageError` if no system can have such a one."""
    if "\0" in str(path):
        raise UsageError(f"a path cannot contain NUL: {str(path)!r}")
    return path


# --- reading ---------------------------------------------------------------------------------


class Found(NamedTuple):
    """The files that lie directly in a folder; temporary files are nobody's.

    Attributes:
        files: Content by name. Of one of JP's files that is too large, the beginning.
        left_out: Names of what else is there: folders, links, and what is hidden or too much.
    """

    files: dict[str, bytes]
    left_out: list[str]


def load_directory(folder: Path, *, clock: Clock) -> JsonObject:
    """Return the `jp` object of the conversation in `folder`; see `jp_nb.interop.files`.

    Raises:
        UsageError: If there is no such folder.
        StorageError: If it holds no conversation, or one that cannot be read.
    """
    if not _is_folder(possible_path(folder)):
        raise UsageError(f"there is no folder {folder}")
    try:
        files, left_out = read_files(folder)
        # Not `name`: that of `.` is empty.
        name = folder.resolve().name
        return read_directory(name, files, clock=clock, left_out=left_out)
    except StorageError as exc:
        raise StorageError(f"{folder}: {exc}") from exc


def read_files(folder: Path) -> Found:
    """Return the files directly in `folder`. Links are not followed: they may lead anywhere.

    Raises:
        StorageError: If it cannot be read, or one of JP's files is not a regular one.
    """
    files: dict[str, bytes] = {}
    left_out: list[str] = []
    room = MAX_OTHER_BYTES
    try:
        for path in sorted(folder.iterdir()):
            name = path.name
            if name in FILES:
                content = _read_file(path, MAX_FILE_BYTES)
                if content is None:
                    raise StorageError("expected a regular file", place=name)
                files[name] = content
            elif not is_temporary(name):
                content = _read_file(path, room) if room and is_other_name(name) else None
                if content is None or len(content) > room or not _is_text(content):
                    left_out.append(name)
                else:
                    files[name] = content
                    room -= len(content)
    except OSError as exc:
        raise StorageError(f"{exc.filename or folder}: {exc.strerror or exc}") from exc
    return Found(files, left_out)


def _read_file(path: Path, limit: int) -> bytes | None:
    """Return at most one byte more than `limit`; None if `path` is a link or no file."""
    if not stat.S_ISREG(path.lstat().st_mode):
        return None
    try:
        opened = os.open(path, _READ)
    except OSError as exc:
        if exc.errno == errno.ELOOP:  # it has become a link
            return None
        raise
    with os.fdopen(opened, "rb") as file:
        return file.read(limit + 1) if stat.S_ISREG(os.fstat(opened).st_mode) else None


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_folder(folder: Path) -> bool:
    try:
        return folder.is_dir()
    except OSError as exc:  # too long, or in a folder that is closed
        raise StorageError(f"{folder}: {exc.strerror or exc}") from exc


# --- writing ---------------------------------------------------------------------------------


class Saved(NamedTuple):
    """The result of an export: what could not be said, and which files of others it wrote."""

    dropped: list[str]
    others: list[str]


def save_directory(jp: JsonObject, folder: Path, dialect: Dialect = "native") -> Saved:
    """Write the conversation at the top of `jp` into `folder`.

    A folder that holds something else is left alone, and so is one where an entry or the base
    configuration is not as `jp` has it: somebody went on there. Of its `metadata.json`, the title
    and the time alone change. Files that would be the same are not written, nor is one of the
    others that is there; none is deleted.

    Raises:
        UsageError: If there can be no such folder.
        StorageError: If the conversation cannot be put in that dialect, or not be written there.
            Unless the disk failed, nothing was written.
    """
    there = _there(possible_path(folder))
    metadata = there.files.get(METADATA) if there is not None else None
    written = write_directory(jp, dialect=dialect, metadata=metadata)
    files = dict(written.files)
    if there is not None:
        base = _refuse_foreign(jp, folder, there, files)
        if base is not None and same_json(base, _value(files[BASE_CONFIG])):
            del files[BASE_CONFIG]  # written once
    try:
        return Saved(written.dropped, _write_files(folder, files))
    except OSError as exc:
        raise StorageError(f"{folder} cannot be written: {exc.strerror or exc}") from exc


@dataclass(frozen=True, slots=True)
class _There:
    """A folder with something in it: its files, all names, and what the files of JP say."""

    files: dict[str, bytes]
    names: frozenset[str]
    entries: list[JsonValue]
    base: JsonValue


def _there(folder: Path) -> _There | None:
    """Return what is in `folder`; None if nothing is, or there is no such folder."""
    if not _is_folder(folder):
        if os.path.lexists(folder):
            raise StorageError(f"{folder} is not a folder")
        return None
    try:
        files, left_out = read_files(folder)
    except StorageError as exc:
        raise StorageError(f"{folder}: {exc}") from exc
    if not files and not left_out:
        return None
    try:
        for name in FILES:
            if name != EVENTS and not isinstance(_value(files.get(name, b"{}"), name), dict):
                raise StorageError("expected an object", place=name)
        entries, base = _values(files.get(EVENTS)), _value(files.get(BASE_CONFIG))
    except (StorageError, UnicodeDecodeError) as exc:
        raise StorageError(
            f"{folder} is not empty and contains no conversation ({exc}): export to another folder"
        ) from exc
    return _There(files, frozenset([*files, *left_out]), entries, base)


Files = Mapping[str, bytes]


def _refuse_foreign(jp: JsonObject, folder: Path, there: _There, written: Files) -> JsonValue:
    """Raise unless `there` is the same conversation and says nothing that it does not say.

    In either dialect: what the other one left out or put otherwise is not lost. Returns the base
    configuration that is there.
    """
    known = {name: content for name, content in there.files.items() if name in FILES}
    if known and known.items() <= written.items() and there.names <= written.keys():
        return there.base  # an export that was interrupted, or that was made before
    forms = list(_forms(jp, written))
    index = max(_first_missing(there.entries, _values(form[EVENTS])) for form in forms)
    number = folder.resolve().name.partition("-")[0]
    same_id = conversation_id(jp) == f"jp-c{number}"
    if not same_id and not index:
        raise StorageError(
            f"{folder} is not empty and contains something else: export to another folder"
        )
    if index < len(there.entries):
        raise _went_on(folder, f"events[{index}]")
    if there.base is not None:
        ours = [_value(form.get(BASE_CONFIG)) for form in forms]
        if BASE_CONFIG not in written or not any(same_json(there.base, base) for base in ours):
            raise _went_on(folder, BASE_CONFIG)
    return there.base


def _forms(jp: JsonObject, written: Files) -> Iterator[Files]:
    yield written
    dialects: tuple[Dialect, ...] = ("native", "jp-head")
    for dialect in dialects:
        try:
            yield write_directory(jp, dialect=dialect).files
        except StorageError:  # not every conversation can be put so
            continue


def _went_on(folder: Path, place: str) -> StorageError:
    return StorageError(
        f"{folder} and this notebook differ at {place}, because the conversation was changed "
        "there: export to another folder, or import that one"
    )


def _values(content: bytes | None) -> list[JsonValue]:
    """Return the entries in a file, as they are stored."""
    return [] if content is None else [s.value for s in read_list(content.decode(), EVENTS)[0]]


def _value(content: bytes | None, name: str = BASE_CONFIG) -> JsonValue:
    return None if content is None else read_value(content.decode(), name).value


def _first_missing(entries: Sequence[JsonValue], ours: Sequence[JsonValue]) -> int:
    """Return the index of the first of `entries` that `ours` lack in this order; else the end."""
    rest = iter(ours)
    for index, entry in enumerate(entries):
        if not any(same_json(entry, mine) for mine in rest):
            return index
    return len(entries)


def _write_files(folder: Path, files: Files) -> list[str]:
    """Write those that differ; returns the names of the others among them."""
    resolve_write_target(folder / EVENTS, folder=folder.parent)  # the folder itself may be a link
    folder.mkdir(parents=True, exist_ok=True)
    changed = False
    others: list[str] = []
    for name in FILES:
        if name in files:
            changed |= _write_file(folder / name, files[name])
    for name in sorted(files.keys() - set(FILES)):
        # Somebody may have gone on in one that is there.
        if is_other_name(name) and not os.path.lexists(folder / name):
            changed |= _write_file(folder / name, files[name])
            others.append(name)
    if changed:
        _sync_folder(folder)
    return others


def _write_file(path: Path, content: bytes) -> bool:
    """Replace the file at `path` at once or not at all; returns whether it was another one."""
    if os.path.lexists(path) and _read_file(path, len(content)) == content:
        return False
    path.with_name(f"{path.name}.tmp").unlink(missing_ok=True)  # of an export that was killed
    replace_file(path, content)
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
