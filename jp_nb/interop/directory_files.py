"""The files of JP's conversation directories: names, limits, and their bytes as JSON objects.

JP (https://github.com/dcdpr/jp) is a command-line assistant. Each conversation is a directory, such
as `17738399468-bread/`, with `metadata.json`, `base_config.json`, and `events.json`. Files with
other names are kept if they are short texts. No I/O: callers give and get bytes.

Source: `docs/record.md`; `docs/decisions.md` D7, D28.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject
from jp_nb.storable_json import replace_surrogates

METADATA_FILE = "metadata.json"
BASE_CONFIG_FILE = "base_config.json"
EVENTS_FILE = "events.json"
DIRECTORY_FILES = (METADATA_FILE, BASE_CONFIG_FILE, EVENTS_FILE)
"""In write order: an interrupted export leaves a readable directory."""

MAX_DIRECTORY_FILE_BYTES = 64 * 1024 * 1024
MAX_OTHER_BYTES = 64 * 1024
"""Limit for all other files together, because they are stored in the notebook."""
MAX_NAME_BYTES = 200
"""Longest name of another file; leaves room for the suffix of a temporary file."""

_OTHER_NAME = re.compile(r"\w[\w .-]*")
"""Names that are safe on every system: no separators, and no dot at the beginning."""


class Directory(NamedTuple):
    """Files of a conversation directory, and one line for each part that they cannot express."""

    files: dict[str, bytes]
    dropped: list[str]


def is_other_name(file: str) -> bool:
    """Return True if `file` may be the name of a file that JP did not write."""
    is_plain = _OTHER_NAME.fullmatch(file) is not None and not file.endswith((".", " "))
    is_short = len(replace_surrogates(file).encode()) <= MAX_NAME_BYTES
    is_of_jp = file.casefold() in DIRECTORY_FILES or is_temporary(file)
    return is_plain and is_short and not is_of_jp


def is_temporary(file: str) -> bool:
    """Return True if `file` is a temporary file of JP, left by an interrupted write."""
    return file.casefold().endswith(".tmp")


def decode_file(content: bytes, file: str) -> str:
    """Return the text of the file named `file`.

    Raises:
        StorageError: It is too long, or not UTF-8.
    """
    if len(content) > MAX_DIRECTORY_FILE_BYTES:
        raise StorageError(f"more than {MAX_DIRECTORY_FILE_BYTES // 1024**2} MB", place=file)

    try:
        return content.decode()
    except UnicodeDecodeError as exc:
        raise StorageError(f"not UTF-8: {exc.reason} at byte {exc.start}", place=file) from exc


def require_object(value: JsonValue, place: str) -> JsonObject:
    """Return `value`, which must be a JSON object.

    Raises:
        StorageError: It is another value. The message has the `place`.
    """
    if not isinstance(value, dict):
        raise StorageError(f"expected an object, found {type(value).__name__}", place=place)
    return value
