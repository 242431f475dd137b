"""Save conversations to the disk as JP's conversation directories.

Source: `docs/record.md`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.file_writing import replace_file, resolve_write_target, sync_folder
from jp_nb.interop.directories import (
    is_existing_folder,
    make_possible_path,
    read_file,
    read_files,
)
from jp_nb.interop.directory_files import (
    BASE_CONFIG_FILE,
    DIRECTORY_FILES,
    EVENTS_FILE,
    METADATA_FILE,
    is_other_name,
)
from jp_nb.interop.directory_writer import Dialect, write_directory
from jp_nb.interop.json_comparison import same_json
from jp_nb.interop.json_text import read_list, read_value
from jp_nb.json_values import JsonObject
from jp_nb.record.documents.document import get_conversation_id


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
    existing = _read_existing(make_possible_path(folder))
    metadata = existing.files.get(METADATA_FILE) if existing is not None else None

    written = write_directory(jp, dialect=dialect, metadata=metadata)
    files = dict(written.files)

    if existing is not None:
        _refuse_foreign(jp, folder, existing, files)
        base = existing.base
        if base is not None and same_json(base, _parse_file(files[BASE_CONFIG_FILE])):
            del files[BASE_CONFIG_FILE]  # JP writes it once and never changes it

    try:
        return SavedDirectory(written.dropped, _write_files(folder, files))
    except OSError as exc:
        raise StorageError(f"{folder} cannot be written: {exc.strerror or exc}") from exc


FileContents = Mapping[str, bytes]
"""The files of a directory, by name."""


@dataclass(frozen=True, slots=True)
class _ExistingFolder:
    """A folder that is not empty, with its conversation.

    Attributes:
        names: The names of all files, skipped ones included.
        entries: The entries of `events.json`.
        base: The content of `base_config.json`; None without this file.
    """

    files: dict[str, bytes]
    names: frozenset[str]
    entries: list[JsonValue]
    base: JsonValue


def _read_existing(folder: Path) -> _ExistingFolder | None:
    """Return None if the folder is empty or does not exist."""
    if not is_existing_folder(folder):
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
        for name in (METADATA_FILE, BASE_CONFIG_FILE):
            if not isinstance(_parse_file(files.get(name, b"{}"), name), dict):
                raise StorageError("expected an object", place=name)
        entries = _parse_entries(files.get(EVENTS_FILE))
        base = _parse_file(files.get(BASE_CONFIG_FILE))
    except (StorageError, UnicodeDecodeError) as exc:
        raise StorageError(
            f"{folder} is not empty and contains no conversation ({exc}): export to another folder"
        ) from exc

    return _ExistingFolder(files, frozenset([*files, *skipped]), entries, base)


def _refuse_foreign(
    jp: JsonObject, folder: Path, existing: _ExistingFolder, written: FileContents
) -> None:
    """Raise an error unless the folder has the same conversation and nothing else."""
    if _is_earlier_export(existing, written):
        return

    # Each dialect is tried, because an earlier export in another dialect loses nothing.
    exports = [written, *_iter_exports(jp)]

    # The number of existing entries, from the first on, that this conversation has as well.
    known_count = max(
        _count_known(existing.entries, _parse_entries(export[EVENTS_FILE])) for export in exports
    )

    directory_number = folder.resolve().name.partition("-")[0]
    has_same_id = get_conversation_id(jp) == f"jp-c{directory_number}"
    if not has_same_id and not known_count:
        raise StorageError(
            f"{folder} is not empty and contains something else: export to another folder"
        )

    if known_count < len(existing.entries):
        raise _make_difference_error(folder, f"events[{known_count}]")

    if existing.base is not None:
        bases = [_parse_file(export.get(BASE_CONFIG_FILE)) for export in exports]
        is_same_base = any(same_json(existing.base, base) for base in bases)
        if BASE_CONFIG_FILE not in written or not is_same_base:
            raise _make_difference_error(folder, BASE_CONFIG_FILE)


def _is_earlier_export(existing: _ExistingFolder, written: FileContents) -> bool:
    """Return True if the folder has files of this export only, perhaps not all of them."""
    files = existing.files.items()
    of_jp = {name: content for name, content in files if name in DIRECTORY_FILES}
    return bool(of_jp) and of_jp.items() <= written.items() and existing.names <= written.keys()


def _iter_exports(jp: JsonObject) -> Iterator[FileContents]:
    dialects: tuple[Dialect, ...] = ("native", "jp-head")
    for dialect in dialects:
        try:
            exported = write_directory(jp, dialect=dialect)
        except StorageError:  # the dialect cannot express this conversation
            continue
        yield exported.files


def _make_difference_error(folder: Path, place: str) -> StorageError:
    return StorageError(
        f"{folder} and this notebook differ at {place}, because the conversation was changed "
        "there: export to another folder, or import that one"
    )


def _parse_entries(content: bytes | None) -> list[JsonValue]:
    if content is None:
        return []
    items, _ = read_list(content.decode(), EVENTS_FILE)
    return [item.value for item in items]


def _parse_file(content: bytes | None, name: str = BASE_CONFIG_FILE) -> JsonValue:
    if content is None:
        return None
    return read_value(content.decode(), name).value


def _count_known(entries: Sequence[JsonValue], ours: Sequence[JsonValue]) -> int:
    """Return the number of `entries`, from the first on, that are in `ours` in the same order."""
    remaining = iter(ours)  # `any` continues where the previous entry was found
    for index, entry in enumerate(entries):
        if not any(same_json(entry, our_entry) for our_entry in remaining):
            return index
    return len(entries)


def _write_files(folder: Path, files: FileContents) -> list[str]:
    """Write the files that differ. Return the names of those that are not JP's."""
    resolve_write_target(folder / EVENTS_FILE, folder=folder.parent)  # the folder may be a link
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
    if os.path.lexists(path) and read_file(path, len(content)) == content:
        return False
    path.with_name(f"{path.name}.tmp").unlink(missing_ok=True)  # of an export that was killed
    replace_file(path, content)
    return True
