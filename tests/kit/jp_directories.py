"""Conversation directories of JP, from and to the `jp` object of a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from jp_nb.interop import directories, directory_saving
from jp_nb.interop.directory_reader import read_directory
from jp_nb.interop.directory_writer import Dialect, build_directory


@dataclass(frozen=True)
class JpDirectory:
    """A directory of JP.

    Attributes:
        files: The contents of its files, by name.
        dropped: A line for each part of the notebook that the files cannot express.
    """

    files: dict[str, bytes]
    dropped: list[str]

    @classmethod
    def write(cls, jp: Any, *, dialect: Dialect = "native", metadata: bytes | None = None) -> Self:
        """Return the directory of the `jp` object; `metadata` is an existing `metadata.json`."""
        written = build_directory(jp, dialect=dialect, metadata=metadata)
        return cls(dict(written.files), list(written.dropped))

    @staticmethod
    def read(contents: Mapping[str, bytes], name: str = "17700000001-on-tides") -> Any:
        """Return the `jp` object of the directory `name`, imported on 2026-07-01 at 12:00:00.25."""
        return read_directory(name, contents, clock=_read_fixed_clock)

    # --- on disk ---------------------------------------------------------------------------------

    @staticmethod
    def load(folder: Path) -> Any:
        """Return the `jp` object of the conversation in `folder`."""
        return directories.load_directory(folder, clock=_read_clock)

    @staticmethod
    def save(jp: Any, folder: Path, dialect: Any = "native") -> Any:
        """Write the conversation of the `jp` object into `folder`."""
        return directory_saving.save_directory(jp, folder, dialect)

    @staticmethod
    def read_files(folder: Path) -> tuple[dict[str, bytes], list[str]]:
        """Return the files of `folder` that an import reads, and the names of the others."""
        contents, skipped = directories.read_files(folder)
        return contents, list(skipped)


def _read_fixed_clock() -> datetime:
    return datetime(2026, 7, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def _read_clock() -> datetime:
    return datetime.now(UTC)
