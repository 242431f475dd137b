"""Read a folder before an export writes into it, and refuse one that the export would damage.

JP is a command-line assistant. Each of its conversations is a directory with `metadata.json`,
`base_config.json`, and `events.json` (`directory_files.py`).

An export has one of two dialects. `native` keeps imported entries byte for byte, and `jp-head` is
the dialect that the newest JP loads. Both have the same conversation, so an export in one dialect
may replace an export in the other.

Source: `docs/record.md`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.interop.directories import read_files
from jp_nb.interop.directory_files import (
    BASE_CONFIG_FILE,
    DIRECTORY_FILES,
    EVENTS_FILE,
    METADATA_FILE,
)
from jp_nb.interop.directory_writer import Dialect, build_directory
from jp_nb.interop.folder_paths import is_existing_folder
from jp_nb.interop.json_comparison import same_json
from jp_nb.interop.json_text import read_list, read_value
from jp_nb.json_values import JsonObject
from jp_nb.record.documents.record_shape import get_conversation_id

FileContents = Mapping[str, bytes]
"""The files of a directory, by name."""


@dataclass(frozen=True, slots=True)
class ExistingDirectory:
    """A folder that is not empty, with its conversation.

    Attributes:
        files: The contents of the files that were read.
        names: The names of all files, also of those that were not read.
        entries: The entries of `events.json`.
        base: The content of `base_config.json`; None without this file.
    """

    files: dict[str, bytes]
    names: frozenset[str]
    entries: list[JsonValue]
    base: JsonValue

    def has_base(self, export: FileContents) -> bool:
        """Return True if the folder has the same base configuration as the files of an export."""
        base = _parse_base(export)
        return self.base is not None and same_json(self.base, base)


def read_existing(folder: Path) -> ExistingDirectory | None:
    """Return the content of `folder`; None if it is empty or does not exist.

    Raises:
        StorageError: It is not a folder, cannot be read, or has files that are no conversation.
    """
    if not is_existing_folder(folder):
        if os.path.lexists(folder):
            raise StorageError(f"{folder} is not a folder")
        return None

    try:
        files, skipped = read_files(folder)  # `skipped`: names of folders, links, and large files
    except StorageError as exc:
        raise StorageError(f"{folder}: {exc}") from exc

    if not files and not skipped:
        return None

    try:
        for name in (METADATA_FILE, BASE_CONFIG_FILE):
            if not isinstance(_parse_object(files.get(name, b"{}"), name), dict):
                raise StorageError("expected an object", place=name)
        entries = _parse_entries(files)
        base = _parse_base(files)
    except (StorageError, UnicodeDecodeError) as exc:
        raise StorageError(
            f"{folder} is not empty and contains no conversation ({exc}): export to another folder"
        ) from exc

    return ExistingDirectory(files, frozenset([*files, *skipped]), entries, base)


def refuse_foreign(
    jp: JsonObject, folder: Path, existing: ExistingDirectory, written: FileContents
) -> None:
    """Refuse a folder whose content the export of `jp` does not have. `written` are its files.

    - A folder with files of this export only, such as those of one that was killed, is accepted.
    - A folder with another id, and no entry of this conversation, contains something else.
    - A folder with an entry that this conversation does not have was continued there.
    - A folder with another base configuration was changed there.

    The entries and the base configuration may be those of an export of `jp` in the other dialect,
    which has the same content.

    Raises:
        StorageError: The folder is refused.
    """
    if _is_part_of_export(existing, written):
        return

    exports = [written, *_iter_exports(jp)]
    known_count = max(_count_known_entries(existing, export) for export in exports)
    if known_count == 0 and not _has_same_id(jp, folder):
        raise StorageError(
            f"{folder} is not empty and contains something else: export to another folder"
        )

    if known_count < len(existing.entries):
        raise _make_difference_error(folder, f"events[{known_count}]")

    # A `base_config.json` in the folder must be from an export of this conversation, and this
    # export must replace it. If it does not, its configuration is in its first entry, but JP would
    # read the file in the folder instead.
    if existing.base is not None:
        is_replaced = BASE_CONFIG_FILE in written
        is_known = any(existing.has_base(export) for export in exports)
        if not (is_replaced and is_known):
            raise _make_difference_error(folder, BASE_CONFIG_FILE)


def _is_part_of_export(existing: ExistingDirectory, written: FileContents) -> bool:
    """Return True if the folder has one or more of JP's files as this export, and no other names.

    Files that are not JP's may have changed: they are not written again.
    """
    files = existing.files.items()
    of_jp = {name: content for name, content in files if name in DIRECTORY_FILES}
    has_same_files = bool(of_jp) and of_jp.items() <= written.items()
    has_no_others = existing.names <= written.keys()
    return has_same_files and has_no_others


def _iter_exports(jp: JsonObject) -> Iterator[FileContents]:
    """Yield the files of the conversation in each dialect that can express it."""
    dialects: tuple[Dialect, ...] = ("native", "jp-head")
    for dialect in dialects:
        try:
            exported = build_directory(jp, dialect=dialect)
        except StorageError:
            continue
        yield exported.files


def _has_same_id(jp: JsonObject, folder: Path) -> bool:
    """Return True if the name of the folder begins with the id of the conversation.

    The folder of the conversation `jp-c17953844369` has a name such as `17953844369-walk`.
    """
    directory_number = folder.resolve().name.partition("-")[0]
    return get_conversation_id(jp) == f"jp-c{directory_number}"


def _count_known_entries(existing: ExistingDirectory, export: FileContents) -> int:
    """Return how many entries, from the first on, the export has as well, in the same order."""
    remaining = iter(_parse_entries(export))  # `any` continues where the last entry was found
    for index, entry in enumerate(existing.entries):
        if not any(same_json(entry, our_entry) for our_entry in remaining):
            return index
    return len(existing.entries)


def _make_difference_error(folder: Path, place: str) -> StorageError:
    return StorageError(
        f"{folder} and this notebook differ at {place}, because the conversation was changed "
        "there: export to another folder, or import that one"
    )


def _parse_entries(files: FileContents) -> list[JsonValue]:
    content = files.get(EVENTS_FILE)
    if content is None:
        return []
    items, _ = read_list(content.decode(), EVENTS_FILE)
    return [item.value for item in items]


def _parse_base(files: FileContents) -> JsonValue:
    content = files.get(BASE_CONFIG_FILE)
    return None if content is None else _parse_object(content, BASE_CONFIG_FILE)


def _parse_object(content: bytes, name: str) -> JsonValue:
    return read_value(content.decode(), name).value
