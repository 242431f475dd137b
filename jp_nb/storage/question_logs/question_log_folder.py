"""The folder of a question log: its active file, its archives, and the lock of its writers.

New lines are appended to the *active file*, `.jp/context/qna.jsonl`. A full one becomes an archive,
such as `qna_0001.jsonl`, and the next line begins a new file. Here lines are bytes;
`question_log_file.py` gives them their content.

Source: `docs/record.md`.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final

from jp_nb.errors import StorageError
from jp_nb.file_writing import open_file, sync_folder
from jp_nb.storage.file_locks import hold_file_lock
from jp_nb.storage.files import is_owned_folder

LOG_FOLDER: Final = Path(".jp") / "context"
ACTIVE_LOG_NAME: Final = "qna.jsonl"
LOG_LOCK_NAME: Final = ".qna.lock"
_ARCHIVE: Final = re.compile(r"qna_(\d{4,9})\.jsonl", re.ASCII)
_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT


class QuestionLogFolder:
    """The folder with the question log of the workspace `root`.

    Errors are `OSError`s, except where a `StorageError` is named. The caller holds the lock
    (`lock`) while it appends or archives.

    Attributes:
        path: The folder.
        active_file: The file for new lines, which may not exist.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self.path = root / LOG_FOLDER
        self.active_file = self.path / ACTIVE_LOG_NAME

    def list_files(self) -> list[Path]:
        """Return the archives by their numbers, and the active file: oldest lines first.

        Raises:
            StorageError: The folder cannot be read.
        """
        active = [self.active_file] if os.path.lexists(self.active_file) else []
        return [self.path / name for _, name in self._list_archives()] + active

    def _list_archives(self) -> list[tuple[int, str]]:
        with translate_log_errors("read", self.path):
            try:
                names = os.listdir(self.path)
            except (FileNotFoundError, NotADirectoryError):
                return []

        found = map(_ARCHIVE.fullmatch, names)
        return sorted((int(match[1]), match[0]) for match in found if match)

    def lock(self, *, timeout_s: float, make: bool) -> AbstractContextManager[None]:
        """Hold the lock of the log in the `with` block. `make` creates the lock file.

        Without the file, a block that only reads runs without a lock: no process has written yet.
        """
        return hold_file_lock(self.path / LOG_LOCK_NAME, make=make, timeout_s=timeout_s)

    def make(self) -> None:
        """Make the folder, if there is none.

        Raises:
            StorageError: It cannot be made.
        """
        with translate_log_errors("made", self.path):
            for folder in (self.path.parent, self.path):
                if not os.path.lexists(folder):
                    with suppress(FileExistsError):  # another process was faster
                        os.mkdir(folder, 0o755)

    def check_is_private(self) -> None:
        """Check that only this user can write to the folder: its answers are used as the user's.

        Raises:
            StorageError: The folder is a link or is not owned.
        """
        if self.path.is_symlink():
            raise StorageError(f"{self.path} is a link: replace it by a folder")

        for folder in (self.path.parent, self.path):
            if not is_owned_folder(folder):
                raise StorageError(
                    f"{folder} is not private: it must belong to you, and no other "
                    "user may write to it"
                )

    def append(self, data: bytes) -> None:
        """Append `data` to the active file and sync it, all or nothing."""
        is_new = not os.path.lexists(self.active_file)
        descriptor = open_file(self.active_file, _APPEND, 0o644, folder=self._root)

        try:
            size_before = os.fstat(descriptor).st_size
            try:
                if os.write(descriptor, data) < len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, size_before)  # safe: this process holds the lock
                raise
        finally:
            os.close(descriptor)

        if is_new:
            sync_folder(self.path)  # or a crash of the machine could lose the new name

    def archive_active(self, *, max_archives: int) -> None:
        """Rename the active file to the next archive, and delete archives over the limit.

        With 0 `max_archives`, all are kept.
        """
        archives = self._list_archives()
        number = archives[-1][0] + 1 if archives else 1
        os.rename(self.active_file, self.path / f"qna_{number:04d}.jsonl")
        sync_folder(self.path)

        if max_archives:
            for _, name in archives[: max(len(archives) + 1 - max_archives, 0)]:
                os.unlink(self.path / name)


@contextmanager
def translate_log_errors(done: str, folder: Path) -> Iterator[None]:
    """Convert an `OSError` in the block to a `StorageError`: `… cannot be DONE`."""
    try:
        yield
    except OSError as exc:
        place = exc.filename or folder
        raise StorageError(f"{place} cannot be {done}: {exc.strerror or exc}") from exc
