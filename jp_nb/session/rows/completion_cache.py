"""A file of answers, so that no prompt is asked and paid for twice.

Each line is a JSON object: `key` is the digest of model, prompt, schema, and settings, which
`cached_answers.py` makes. `prompt`, `model`, `text` or `json`, and `usage` are for its readers.
Lines are only appended. A line that was cut because the kernel ended is skipped.

A line with a key that begins with `batch:` names a batch that a provider was given, and the keys of
its rows. A later line with this key tells that the batch has ended.

Source: `docs/rows.md`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.file_writing import open_file
from jp_nb.json_reading import read_json
from jp_nb.json_writing import compact_json
from jp_nb.session.rows.completions import Completion
from jp_nb.session.rows.single_completion import RowPrompt
from jp_nb.storable_json import encode_utf8

MAX_CACHED_LINE_BYTES: Final = 8_000_000
"""Longest line of a cache file. A longer one is read in pieces, which are skipped as damaged."""
_BATCH_PREFIX: Final = "batch:"
_LINE_START: Final = b'{"key":"'
"""The beginning of each line that this module writes."""


@dataclass(frozen=True, slots=True)
class SubmittedBatch:
    """A batch that a provider was given.

    Attributes:
        id: The id that the server has given it.
        address: Address of the server, which alone knows the batch.
        rows: Keys of the rows, which are the names of the requests.
    """

    id: str
    address: str
    rows: tuple[str, ...]


class _LinePlace(NamedTuple):
    """The place of a line in the file: its offset and length in bytes."""

    offset: int
    length: int


class CompletionCache:
    """The answers in the file at `path`, which is made if there is none. Thread-safe.

    Several processes may append to one file. This object knows the lines that were there when it
    was opened, not those that are appended later. The lock guards the file, so that lines of two
    threads do not mix.

    Raises:
        StorageError: The file cannot be read or written, or is no cache file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._places: dict[str, _LinePlace] = {}  # by key; the last line with a key counts
        self._is_cut = False  # True if the file does not end with a line break

        try:
            # Before anything is asked: an answer that cannot be kept is paid for twice.
            self._file = open_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as exc:
            raise _make_cache_error(path, "opened", exc) from exc
        try:
            self._read_places()
        except BaseException:
            os.close(self._file)
            raise

    def _read_places(self) -> None:
        """Find the places of all lines with a key. A damaged line is skipped, except a first one.

        If the first line has no key, either the kernel ended while it wrote the line, or the user
        gave the name of another file, which must not be changed. It is a cut line of this module

        - if it begins with `_LINE_START`;
        - if it is only a part of `_LINE_START`, and is the whole file, or has answers of a later
          call behind it. The part alone is no proof: an indented JSON file also begins with `{`.

        Raises:
            StorageError: It is another file.
        """
        offset = 0
        line_count = 0
        is_start_cut = False  # True if the first line is only a part of `_LINE_START`

        with os.fdopen(os.dup(self._file), "rb") as file:
            while line := file.readline(MAX_CACHED_LINE_BYTES):
                key = _read_key(line)
                if key is not None:
                    self._places[key] = _LinePlace(offset, len(line))
                elif offset == 0:
                    beginning = line.rstrip(b"\n")[: len(_LINE_START)]
                    if not _LINE_START.startswith(beginning):
                        raise _make_foreign_file_error(self._path)
                    is_start_cut = beginning != _LINE_START

                self._is_cut = not line.endswith(b"\n")
                line_count += 1
                offset += len(line)

        is_cut_alone = line_count == 1 and self._is_cut
        if is_start_cut and not is_cut_alone and not self._places:
            raise _make_foreign_file_error(self._path)

    def find(self, key: str) -> dict[str, Any] | None:
        """Return the stored line with this `key`; None if there is none."""
        with self._lock:
            place = self._places.get(key)
            if place is None:
                return None
            line = os.pread(self._file, place.length, place.offset)

        stored = read_json(line.decode("utf-8", "replace"))
        return stored if isinstance(stored, dict) else None

    def add(self, key: str, prompt: RowPrompt, completion: Completion) -> None:
        """Append an answer. It is in the file when this returns.

        Raises:
            StorageError: The file cannot be written.
        """
        stored: dict[str, JsonValue] = {
            "key": key,
            "model": completion.model,
            "prompt": prompt.text,
            "usage": completion.usage.to_json(),
        }
        if completion.json is None and completion.data is None:  # without a schema, or `null`
            stored["text"] = completion.text
        else:
            stored["json"] = completion.json
        self._add_line(stored)

    def add_batch(self, batch: SubmittedBatch) -> None:
        """Append a batch that was submitted.

        Raises:
            StorageError: The file cannot be written.
        """
        stored: dict[str, JsonValue] = {
            "key": _BATCH_PREFIX + batch.id,
            "address": batch.address,
            "rows": list(batch.rows),
        }
        self._add_line(stored)

    def end_batch(self, batch: SubmittedBatch) -> None:
        """Append that a batch has ended, and that its answers are in the file.

        Raises:
            StorageError: The file cannot be written.
        """
        self._add_line({"key": _BATCH_PREFIX + batch.id, "ended": True})

    def list_open_batches(self, address: str) -> list[SubmittedBatch]:
        """Return the batches of the server at `address` that have not ended, in their order."""
        keys = [key for key in self._places if key.startswith(_BATCH_PREFIX)]
        batches: list[SubmittedBatch] = []

        for key in keys:
            stored = self.find(key) or {}  # the last line about the batch
            rows = stored.get("rows")
            is_open = not stored.get("ended") and stored.get("address") == address
            if is_open and isinstance(rows, list):
                batch_id = key.removeprefix(_BATCH_PREFIX)
                batches.append(SubmittedBatch(batch_id, address, tuple(map(str, rows))))
        return batches

    def _add_line(self, stored: Mapping[str, JsonValue]) -> None:
        line = encode_utf8(compact_json(dict(stored))) + b"\n"

        with self._lock:
            try:
                self._append(line)
            except OSError as exc:
                raise _make_cache_error(self._path, "written", exc) from exc

    def _append(self, line: bytes) -> None:
        data = b"\n" + line if self._is_cut else line
        written = os.write(self._file, data)
        self._is_cut = written < len(data)
        if self._is_cut:
            raise OSError(None, "the disk is full", str(self._path))

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _read_key(line: bytes) -> str | None:
    """Return the key of a line; None if it has none."""
    try:
        stored = read_json(line.decode("utf-8"))
    except ValueError:  # damaged, or cut
        return None
    if not isinstance(stored, dict):
        return None
    key = stored.get("key")
    return key if isinstance(key, str) else None


def _make_foreign_file_error(path: Path) -> StorageError:
    return StorageError(
        f"the first line of {path} is no cached answer. Give the name of a new file, or of one "
        "that `cache=` has written"
    )


def _make_cache_error(path: Path, action: str, error: OSError) -> StorageError:
    # `action` is a participle, such as `opened`.
    return StorageError(f"the cache file {path} cannot be {action}: {error.strerror or error}")
