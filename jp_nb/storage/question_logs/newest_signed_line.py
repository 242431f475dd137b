"""The newest signed line of each question log, in the user's data folder.

Someone who changes a log in its workspace cannot change this file, so a log from which signed lines
were removed is noticed.

Source: `docs/record.md`.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from jp_nb.errors import StorageError
from jp_nb.file_writing import replace_file
from jp_nb.json_reading import read_json
from jp_nb.json_values import JsonObject, as_object
from jp_nb.json_writing import compact_json
from jp_nb.storage.files import ForeignFileError, read_owned_file
from jp_nb.storage.user_folders import get_data_folder

NEWEST_LOGS_FOLDER: Final = "question-logs"
"""Folder in the user's data folder, with a file for each log."""


class NewestSigned(NamedTuple):
    """The newest signed line of a log.

    Attributes:
        line: Digest of the line.
        chain: Chain value of the log up to it: a digest of this line and all lines before.
    """

    line: str
    chain: str


def read_newest_signed(workspace: str) -> NewestSigned | None:
    """Return the newest signed line of the log in `workspace`; None if it is unknown."""
    with suppress(OSError, ForeignFileError, ValueError):
        match as_object(read_json(read_owned_file(_find_path(workspace)).decode())):
            case {"line": str() as line, "chain": str() as chain}:
                return NewestSigned(line, chain)
    return None


def store_newest_signed(workspace: str, newest: NewestSigned) -> None:
    """Store the newest signed line of the log in `workspace`.

    Raises:
        StorageError: The file cannot be written. The message has its path and the reason.
    """
    path = _find_path(workspace)
    stored: JsonObject = {"workspace": workspace, "line": newest.line, "chain": newest.chain}
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, compact_json(stored).encode("utf-8", "replace"), mode=0o600)
    except OSError as exc:
        raise StorageError(f"{path}: {exc.strerror or exc}") from exc


def _find_path(workspace: str) -> Path:
    name = hashlib.sha256(os.fsencode(workspace)).hexdigest()
    return get_data_folder() / NEWEST_LOGS_FOLDER / f"{name}.json"
