"""Files replaced so that none is ever half there."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def replace_file(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Put `data` in place of what is at `path`: all of it or nothing.

    Args:
        path: The file; it need not exist. A link is replaced, not what it leads to. A device or a
            pipe is written to: who may, such as root, would have no `/dev/null` any more.
        data: What it will hold.
        mode: Its permissions. None: those it has, for a new one those of other new files.

    Raises:
        OSError: If it cannot be written; what was there is as it was.
    """
    if is_stream(path):
        with path.open("wb") as stream:
            stream.write(data)
        return
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _mode_of(path) if mode is None else mode)
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)  # of a file that could not be replaced


def is_stream(path: Path) -> bool:
    """Return True if `path` leads to a device or a pipe, such as `/dev/null` and `/dev/stdout`."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _mode_of(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o7777
    except FileNotFoundError:
        mask = os.umask(0o022)
        os.umask(mask)
        return 0o666 & ~mask
