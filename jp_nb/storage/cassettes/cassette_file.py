"""The file of a cassette: its default path, safe reading, and checks before it is written.

Lines are in `cassette_parser.py`, recording in `cassette_writer.py`.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from jp_nb.errors import StorageError
from jp_nb.file_reading import open_regular
from jp_nb.file_writing import is_stream, resolve_write_target
from jp_nb.json_reading import read_json
from jp_nb.json_values import as_object
from jp_nb.storage.cassettes.cassette_content import CASSETTE_KIND, CassetteContent
from jp_nb.storage.cassettes.cassette_parser import parse_cassette
from jp_nb.storage.files import ForeignFileError, read_owned_file

CASSETTE_SUFFIX: Final = ".cassette.jsonl"
MAX_CASSETTE_BYTES: Final = 50_000_000
"""Size limit of a cassette, which is read as a whole."""


def make_default_cassette_path(notebook: Path) -> Path:
    """Return the default cassette path of a notebook."""
    return notebook.with_suffix(CASSETTE_SUFFIX)


def refuse_unsafe_cassette_link(path: Path, folder: Path | None = None) -> None:
    """Check that `path` may be written.

    Raises:
        StorageError: It is a link out of `folder` or to another user's file.
    """
    try:
        resolve_write_target(path, folder=folder)
    except OSError as exc:
        raise StorageError(f"the cassette {path} cannot be written: {exc.strerror}") from exc


def refuse_unless_cassette(path: Path) -> None:
    """Check that `path` is a cassette or an empty file, or does not exist.

    Raises:
        StorageError: It is another file.
    """
    if is_stream(path):
        raise StorageError(f"{path} is a device or a pipe, not a cassette: use a file")

    try:
        with os.fdopen(open_regular(path), "rb") as file:
            first = file.readline(1000).strip()
    except FileNotFoundError:
        return
    except OSError as exc:
        raise StorageError(f"the cassette {path} cannot be written: {exc.strerror}") from exc

    try:
        is_ours = not first or as_object(read_json(first.decode())).get("jp_nb") == CASSETTE_KIND
    except ValueError:
        is_ours = False

    if not is_ours:
        raise StorageError(
            f"{path} is not a cassette and is not overwritten: use another file name"
        )


def read_cassette(path: Path) -> CassetteContent:
    """Read the cassette at `path`. Raises what `read_cassette_bytes` and `parse_cassette` raise."""
    return parse_cassette(path, read_cassette_bytes(path))


def read_cassette_bytes(path: Path) -> bytes:
    """Return the content of the cassette at `path`.

    Raises:
        StorageError: The file does not exist, belongs to another user, or is too long.
    """
    try:
        return read_owned_file(path, max_bytes=MAX_CASSETTE_BYTES)
    except FileNotFoundError:
        raise StorageError(f"there is no cassette {path}") from None
    except ForeignFileError as exc:
        raise StorageError(f"the cassette is not used: {exc}") from exc
    except OSError as exc:
        raise StorageError(f"the cassette {path} cannot be read: {exc.strerror}") from exc
