"""Save conversations to the disk as JP's conversation directories.

JP is a command-line assistant. Each of its conversations is a directory with `metadata.json`,
`base_config.json`, and `events.json` (`directory_files.py`).

Source: `docs/record.md`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from jp_nb.errors import StorageError
from jp_nb.file_writing import replace_file, resolve_write_target, sync_folder
from jp_nb.interop.directories import read_file
from jp_nb.interop.directory_files import (
    BASE_CONFIG_FILE,
    DIRECTORY_FILES,
    EVENTS_FILE,
    METADATA_FILE,
    is_other_name,
)
from jp_nb.interop.directory_writer import Dialect, build_directory
from jp_nb.interop.existing_directory import FileContents, read_existing, refuse_foreign
from jp_nb.interop.folder_paths import make_possible_path
from jp_nb.json_values import JsonObject


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
    from `jp`, because the conversation was continued there (`existing_directory.py`).

    In an existing `metadata.json`, only the title and the time change. Unchanged files and existing
    other files are not written again. No file is deleted.

    Raises:
        UsageError: The path is not possible.
        StorageError: The dialect cannot express the conversation, or the folder is refused or not
            writable. Nothing was written, unless the disk failed.
    """
    existing = read_existing(make_possible_path(folder))
    metadata = existing.files.get(METADATA_FILE) if existing is not None else None

    written = build_directory(jp, dialect=dialect, metadata=metadata)
    files = dict(written.files)

    if existing is not None:
        refuse_foreign(jp, folder, existing, files)
        if existing.has_base(files):
            del files[BASE_CONFIG_FILE]  # JP writes it once and never changes it

    try:
        return SavedDirectory(written.dropped, _write_files(folder, files))
    except OSError as exc:
        raise StorageError(f"{folder} cannot be written: {exc.strerror or exc}") from exc


def _write_files(folder: Path, files: FileContents) -> list[str]:
    """Write the files that differ. Return the names of the written ones that are not JP's."""
    resolve_write_target(folder / EVENTS_FILE, folder=folder.parent)  # the folder may be a link
    folder.mkdir(parents=True, exist_ok=True)

    changed = False
    others: list[str] = []

    for name in DIRECTORY_FILES:
        if name in files and _write_file(folder / name, files[name]):
            changed = True

    for name in sorted(files.keys() - set(DIRECTORY_FILES)):
        # An existing file may have newer content.
        if is_other_name(name) and not os.path.lexists(folder / name):
            _write_file(folder / name, files[name])
            changed = True
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
