"""The output folder of a batch, which one batch at a time may write.

`OutputFolder` makes the folder, locks it, and opens its log. The lock is that of a file, so it ends
with the process, however it ends. The file names its process for the message to a second batch.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Final, Self

from jp_nb.batch.results.run_log import LOG_NAME, RunLog, read_run_log
from jp_nb.batch.results.run_log_writer import RunLogWriter, write_all
from jp_nb.errors import StorageError, UsageError
from jp_nb.file_reading import open_regular
from jp_nb.file_writing import open_file
from jp_nb.json_reading import read_json
from jp_nb.json_values import as_object
from jp_nb.storage.file_locks import try_lock
from jp_nb.text import one_line

LOCK_NAME: Final = ".jp-nb-batch.lock"
_LOG_BEGIN: Final = b'{"type":"batch",'
MAX_LOCK_BYTES: Final = 1_000
"""Bytes of a lock file that are read: the process and host of its batch."""


def is_output_folder(path: Path) -> bool:
    """Return True if a batch has written to the folder at `path`: it has the log of one.

    A copy of the folder may be without its lock file.
    """
    try:
        with os.fdopen(open_regular(path / LOG_NAME), "rb") as file:
            return file.read(len(_LOG_BEGIN)) == _LOG_BEGIN
    except OSError:
        return False


class OutputFolder:
    """The folder at `path`. Use it in a `with` statement, which locks it.

    Attributes:
        log: What earlier batches wrote into the log.
        writer: Appends to the log.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = RunLog()
        self.writer: RunLogWriter  # set by `__enter__`
        self._lock: int | None = None  # descriptor of the lock file, inside of the block

    @property
    def has_log(self) -> bool:
        """True if a batch has written to the folder."""
        return (self.path / LOG_NAME).exists()

    @property
    def is_open(self) -> bool:
        """True inside of the `with` block."""
        return self._lock is not None

    def __enter__(self) -> Self:
        """Make and lock the folder, and open its log.

        Raises:
            UsageError: Another batch uses the folder.
            StorageError: The folder cannot be made, or its log cannot be read.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = open_file(self.path / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as exc:
            raise StorageError(f"{self.path} cannot be written: {exc.strerror or exc}") from exc

        try:
            self._take_lock(self._lock)
            if self.has_log:
                self.log = read_run_log(self.path / LOG_NAME)
            self.writer = RunLogWriter(self.path / LOG_NAME)
        except BaseException:
            os.close(self._lock)
            self._lock = None
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.close()
        assert self._lock is not None
        # No process owns the folder now. The file stays: a second batch may have opened it already,
        # and its lock would be on a deleted file.
        os.ftruncate(self._lock, 0)
        os.close(self._lock)
        self._lock = None

    def _take_lock(self, descriptor: int) -> None:
        """Lock the file, and write this process into it, for the message of a second batch."""
        if not try_lock(descriptor):
            owner = _read_owner(descriptor)
            raise UsageError(
                f"another batch writes to {self.path} ({owner}): wait for its end, or choose "
                "another folder with `-o`"
            )
        os.ftruncate(descriptor, 0)
        owner = json.dumps({"pid": os.getpid(), "host": socket.gethostname()})
        write_all(descriptor, owner.encode())


def _read_owner(descriptor: int) -> str:
    """Return the process that a lock file names, in words."""
    text = os.pread(descriptor, MAX_LOCK_BYTES, 0).decode(errors="replace")
    try:
        owner = as_object(read_json(text))
    except ValueError:
        owner = {}
    pid = one_line(str(owner.get("pid", "unknown")), limit=40)
    host = one_line(str(owner.get("host", "unknown")), limit=80)
    return f"process {pid} on {host}"
