"""Load and save JP's conversation directories.

Source: `docs/record.md`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue

from jp_nb.errors import StorageError, UsageError
from jp_nb.file_reading import NotRegularFileError, open_regular
from jp_nb.file_writing import replace_file, resolve_write_target, sync_folder
from jp_nb.interop.directory_files import (
    BASE_CONFIG_FILE,
    DIRECTORY_FILES,
    EVENTS_FILE,
    MAX_DIRECTORY_FILE_BYTES,
    MAX_OTHER_BYTES,
    METADATA_FILE,
    is_other_name,
    is_temporary,
)
from jp_nb.interop.directory_reader import read_directory
from jp_nb.interop.directory_writer import Dialect, write_directory
from jp_nb.interop.json_text import read_list, read_value, same_json
from jp_nb.json_values import JsonObject
from jp_nb.record.documents.document import get_conversation_id
from jp_nb.record.entries.clock import Clock

_NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)


def find_folder(text: str | Path, below: Path) -> Path:
    """Return the path of a folder: `~` is expanded, and a relative path starts at `below`.

    Raises:
        UsageError: The path is not possible.
    """
    try:
        return make_possible_path(below / Path(text).expanduser())
    except RuntimeError as exc:
        raise UsageError(f"the home directory in {str(text)!r} is unknown") from exc


def make_possible_path(path: Path) -> Path:
    """Return `path`, which may not exist.

    Raises:
        UsageError: It contains NUL, which no file system allows.
    """
    if "\0" in str(path):
        raise UsageError(f"a path cannot contain NUL: {str(path)!r}")
    return path


class FolderContent(NamedTuple):
    """The files directly in a folder by name, without temporary files.

    A file of JP that is too large has only the first `MAX_DIRECTORY_FILE_BYTES + 1` bytes.
    `skipped` are the names of folders, links, hidden files, files that are not UTF-8 text, and
    files over the limits.
    """

    files: dict[str, bytes]
    skipped: list[str]


def load_directory(folder: Path, *, clock: Clock) -> JsonObject:
    """Return the `jp` object of the conversation in `folder`; see `directory_reader.py`.

    Raises:
        UsageError: The folder does not exist, or its path is not possible.
        StorageError: The folder contains no conversation, or one that cannot be read.
    """
    if not _is_folder(make_possible_path(folder)):
        raise UsageError(f"there is no folder {folder}")

    try:
        files, skipped = read_files(folder)
        # `Path(".").name` is empty.
        name = folder.resolve().name
        return read_directory(name, files, clock=clock, skipped=skipped)
    except StorageError as exc:
        raise StorageError(f"{folder}: {exc}") from exc


def read_files(folder: Path) -> FolderContent:
    """Read the files directly in `folder`. Links are not followed, because they may lead anywhere.

    Raises:
        StorageError: The folder cannot be read, or one of JP's files is not a regular file.
    """
    files: dict[str, bytes] = {}
    skipped: list[str] = []
    room = MAX_OTHER_BYTES

    try:
        for path in sorted(folder.iterdir()):
            name = path.name
            if name in DIRECTORY_FILES:
                content = _read_file(path, MAX_DIRECTORY_FILE_BYTES)
                if content is None:
                    raise StorageError("expected a regular file", place=name)
                files[name] = content
            elif not is_temporary(name):
                content = _read_file(path, room) if room and is_other_name(name) else None
                try:
                    if content is None or len(content) > room:
                        raise ValueError
                    content.decode()
                except ValueError:
                    skipped.append(name)
                else:
                    files[name] = content
                    room -= len(content)
    except OSError as exc:
        raise StorageError(f"{exc.filename or folder}: {exc.strerror or exc}") from exc

    return FolderContent(files, skipped)


def _read_file(path: Path, limit: int) -> bytes | None:
    """Return at most `limit + 1` bytes; None if `path` is not a regular file."""
    if not stat.S_ISREG(path.lstat().st_mode):
        return None

    try:
        opened = open_regular(path, os.O_RDONLY | _NO_FOLLOW)
    except NotRegularFileError:
        return None
    except OSError as exc:
        if exc.errno == errno.ELOOP:  # a link has replaced the file since `lstat`
            return None
        raise

    with os.fdopen(opened, "rb") as file:
        return file.read(limit + 1)


def _is_folder(folder: Path) -> bool:
    try:
        return folder.is_dir()
    except OSError as exc:  # a name that is too long, or a parent without permission
        raise StorageError(f"{folder}: {exc.strerror or exc}") from exc


class SavedDirectory(NamedTuple):
    """Result of an export.

    `dropped` has a line for each part that JP does not support. `others` are the names of written
    files that are not JP's.
    """

    dropped: list[str]
    others: list[str]


def save_directory(jp: JsonObject, folder: Path, dialect: Dialect = "native") -> SavedDirectory:
    """Write the conversation at the top of `jp` into `folder`.

    A folder with other content is refused, and so is one whose entries or base configuration differ
    from `jp`, because the conversation was continued there. In an existing `metadata.json`, only
    the title and the time change. Unchanged files and existing other files are not written again.
    No file is deleted.

    Raises:
        UsageError: The path is not possible.
        StorageError: The dialect cannot express the conversation, or the folder is refused or not
            writable. Nothing was written, unless the disk failed.
    """
    there = _read_existing(make_possible_path(folder))
    metadata = there.files.get(METADATA_FILE) if there is not None else None

    written = write_directory(jp, dialect=dialect, metadata=metadata)
    files = dict(written.files)
    if there is not None:
        base = _refuse_foreign(jp, folder, there, files)
        if base is not None and same_json(base, _json_value(files[BASE_CONFIG_FILE])):
            del files[BASE_CONFIG_FILE]  # JP writes it once and never changes it

    try:
        return SavedDirectory(written.dropped, _write_files(folder, files))
    except OSError as exc:
        raise StorageError(f"{folder} cannot be written: {exc.strerror or exc}") from exc


FileContents = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class _ExistingFolder:
    """A folder that is not empty, with its conversation."""

    files: dict[str, bytes]
    names: frozenset[str]
    entries: list[JsonValue]
    base: JsonValue


def _read_existing(folder: Path) -> _ExistingFolder | None:
    """Return None if the folder is empty or does not exist."""
    if not _is_folder(folder):
        if os.path.lexists(folder):
            raise StorageError(f"{folder} is not a folder")
        return None

    try:
        files, skipped = read_files(folder)
    except StorageError as exc:
        raise StorageError(f"{folder}: {exc}") from exc

    if not files and not skipped:
        return None

    try:
        for name in DIRECTORY_FILES:
            if name != EVENTS_FILE and not isinstance(
                _json_value(files.get(name, b"{}"), name), dict
            ):
                raise StorageError("expected an object", place=name)
        entries = _json_items(files.get(EVENTS_FILE))
        base = _json_value(files.get(BASE_CONFIG_FILE))
    except (StorageError, UnicodeDecodeError) as exc:
        raise StorageError(
            f"{folder} is not empty and contains no conversation ({exc}): export to another folder"
        ) from exc

    return _ExistingFolder(files, frozenset([*files, *skipped]), entries, base)


def _refuse_foreign(
    jp: JsonObject, folder: Path, there: _ExistingFolder, written: FileContents
) -> JsonValue:
    """Raise an error unless `there` holds the same conversation and nothing else.

    Each dialect is tried, because an earlier export in another dialect loses nothing. Returns the
    existing base configuration.
    """
    known = {name: content for name, content in there.files.items() if name in DIRECTORY_FILES}
    if known and known.items() <= written.items() and there.names <= written.keys():
        return there.base  # an earlier or interrupted export

    forms = [written]
    dialects: tuple[Dialect, ...] = ("native", "jp-head")
    for dialect in dialects:
        with suppress(StorageError):  # the dialect cannot express this conversation
            forms.append(write_directory(jp, dialect=dialect).files)
    index = max(_first_missing(there.entries, _json_items(form[EVENTS_FILE])) for form in forms)

    number = folder.resolve().name.partition("-")[0]
    same_id = get_conversation_id(jp) == f"jp-c{number}"

    if not same_id and not index:
        raise StorageError(
            f"{folder} is not empty and contains something else: export to another folder"
        )

    if index < len(there.entries):
        raise _changed_there_error(folder, f"events[{index}]")

    if there.base is not None:
        ours = [_json_value(form.get(BASE_CONFIG_FILE)) for form in forms]
        if BASE_CONFIG_FILE not in written or not any(same_json(there.base, base) for base in ours):
            raise _changed_there_error(folder, BASE_CONFIG_FILE)

    return there.base


def _changed_there_error(folder: Path, place: str) -> StorageError:
    return StorageError(
        f"{folder} and this notebook differ at {place}, because the conversation was changed "
        "there: export to another folder, or import that one"
    )


def _json_items(content: bytes | None) -> list[JsonValue]:
    return [] if content is None else [s.value for s in read_list(content.decode(), EVENTS_FILE)[0]]


def _json_value(content: bytes | None, name: str = BASE_CONFIG_FILE) -> JsonValue:
    return None if content is None else read_value(content.decode(), name).value


def _first_missing(entries: Sequence[JsonValue], ours: Sequence[JsonValue]) -> int:
    """Return the index of the first entry that is not in `ours`, in order; else the length."""
    rest = iter(ours)
    for index, entry in enumerate(entries):
        if not any(same_json(entry, mine) for mine in rest):
            return index
    return len(entries)


def _write_files(folder: Path, files: FileContents) -> list[str]:
    """Write the files that differ. Return the names of those that are not JP's."""
    resolve_write_target(
        folder / EVENTS_FILE, folder=folder.parent
    )  # the folder itself may be a link
    folder.mkdir(parents=True, exist_ok=True)

    changed = False
    others: list[str] = []

    for name in DIRECTORY_FILES:
        if name in files:
            changed |= _write_file(folder / name, files[name])

    for name in sorted(files.keys() - set(DIRECTORY_FILES)):
        # An existing file may have newer content.
        if is_other_name(name) and not os.path.lexists(folder / name):
            changed |= _write_file(folder / name, files[name])
            others.append(name)

    if changed:
        sync_folder(folder)

    return others


def _write_file(path: Path, content: bytes) -> bool:
    """Replace the file at `path` atomically. Return False if it already has that content."""
    if os.path.lexists(path) and _read_file(path, len(content)) == content:
        return False
    path.with_name(f"{path.name}.tmp").unlink(missing_ok=True)  # of an export that was killed
    replace_file(path, content)
    return True
