"""Private JSON files in the user's data folder, which several kernels may change at once.

Examples are the rules about tool calls that the user kept, and the list of signed conversations. To
change a file, hold its lock, read all of it, and replace it.

Source: `docs/security.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from jp_nb.errors import StorageError
from jp_nb.file_writing import replace_file
from jp_nb.json_values import JsonObject
from jp_nb.storage.file_locks import LOCK_TIMEOUT_S, hold_file_lock
from jp_nb.storage.files import ForeignFileError, read_owned_file


def read_private_file(path: Path, *, ignored: str) -> JsonObject:
    """Return the JSON object in the file at `path`; empty if it is missing or damaged.

    `ignored` begins the message about a file that the user does not own. With `the rules are`, it
    is `the rules are ignored: …` and the reason.

    Raises:
        StorageError: The file cannot be read, or the user does not own it.
    """
    try:
        data = read_owned_file(path)
    except (FileNotFoundError, NotADirectoryError):  # perhaps the user has no home folder
        return {}
    except ForeignFileError as exc:
        raise StorageError(f"{ignored} ignored: {exc}") from exc
    except OSError as exc:
        raise StorageError(f"{path} cannot be read: {exc.strerror or exc}") from exc

    found: object = None
    with suppress(ValueError, RecursionError):
        found = json.loads(data)
    return found if isinstance(found, dict) else {}


@contextmanager
def lock_private_file(path: Path, *, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Create the folder of the file at `path`, and hold the lock of the file in the block.

    Raises:
        StorageError: The folder, the lock, or the file cannot be written, or the lock is held for
            longer than `timeout_s`.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with hold_file_lock(path.with_suffix(".lock"), timeout_s=timeout_s):
            yield
    except OSError as exc:
        raise StorageError(f"{path} cannot be written: {exc.strerror or exc}") from exc


def replace_private_file(path: Path, content: JsonObject) -> None:
    """Replace the file at `path`, which only the user can read, by `content`."""
    replace_file(path, json.dumps(content, indent=1).encode(), mode=0o600)
