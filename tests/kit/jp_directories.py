"""Conversation directories of JP, from and to the stored form of a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from jp_nb.interop.directory_reader import read_directory
from jp_nb.interop.directory_writer import Dialect, write_directory


class WrittenDirectory(NamedTuple):
    """The files of a directory by name, and a line for each part that they cannot express."""

    files: dict[str, bytes]
    dropped: list[str]


def read_jp_directory(files: Mapping[str, bytes], name: str = "17700000001-on-tides") -> Any:
    """Return the `jp` object of the directory `name`, imported on 2026-07-01 at 12:00:00.25."""
    return read_directory(name, files, clock=_now)


def write_jp_directory(
    jp: Any, *, dialect: Dialect = "native", metadata: bytes | None = None
) -> WrittenDirectory:
    """Return the directory of the `jp` object; `metadata` is an existing `metadata.json`."""
    return WrittenDirectory(*write_directory(jp, dialect=dialect, metadata=metadata))


def _now() -> datetime:
    return datetime(2026, 7, 1, 12, 0, 0, 250_000, tzinfo=UTC)
