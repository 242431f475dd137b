"""Write the log of a batch, so that a killed batch loses at most the line that it was writing.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from jp_nb.batch.results.run_log_lines import LogLine
from jp_nb.errors import StorageError
from jp_nb.file_writing import open_file
from jp_nb.json_writing import format_storable_line

_BLOCK_BYTES: Final = 65536


class RunLogWriter:
    """Appends lines to the log at `path`. One process at a time writes: it has the folder's lock.

    A notebook may remove the folder: the next line is then an error, because no program could read
    it.

    Raises:
        StorageError: The log cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._descriptor = open_file(path, os.O_RDWR | os.O_CREAT)
            _remove_torn_line(self._descriptor)
        except OSError as exc:
            raise _make_write_error(path, exc) from exc

    def append(self, line: LogLine) -> None:
        """Append `line`, and flush it to the disk.

        Raises:
            StorageError: It cannot be written. The log keeps its earlier lines.
        """
        if not self._is_in_place():
            raise StorageError(
                f"{self._path} was removed or replaced while the batch ran, and its output folder "
                "with it: find the notebook that does this, and start the batch again"
            )

        text = format_storable_line(line.model_dump()) + b"\n"
        end = os.lseek(self._descriptor, 0, os.SEEK_END)
        try:
            write_all(self._descriptor, text)
            os.fsync(self._descriptor)
        except OSError as exc:
            os.ftruncate(self._descriptor, end)  # a full disk may have left a part of the line
            raise _make_write_error(self._path, exc) from exc

    def _is_in_place(self) -> bool:
        """Return True if the open file is the one that the path names."""
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False
        except OSError as exc:
            raise _make_write_error(self._path, exc) from exc

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def _make_write_error(path: Path, exc: OSError) -> StorageError:
    return StorageError(f"{path} cannot be written: {exc.strerror or exc}")


def write_all(descriptor: int, data: bytes) -> None:
    """Write `data` without a buffer that would keep a part of it after an error."""
    rest = memoryview(data)
    while rest:
        written = os.write(descriptor, rest)
        rest = rest[written:]


def _remove_torn_line(descriptor: int) -> None:
    """Remove the end of the file after its last newline, which is searched from the end."""
    end = os.lseek(descriptor, 0, os.SEEK_END)
    while end > 0:
        start = max(0, end - _BLOCK_BYTES)
        os.lseek(descriptor, start, os.SEEK_SET)
        newline = os.read(descriptor, end - start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start

    os.ftruncate(descriptor, end)
