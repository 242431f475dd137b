"""The user's key that signs records: a private file.

It is in the user's data folder, or at `JP_NB_KEY_FILE`. Anyone who reads the key can sign as the
user, so a file that others can read is refused.

Source: `docs/record.md`.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from contextlib import suppress
from pathlib import Path

from pydantic import SecretBytes

from jp_nb.file_reading import NotRegularFileError, open_regular
from jp_nb.record.documents.record_trust import NoKeyError
from jp_nb.storage import environment
from jp_nb.storage.user_folders import get_data_folder

KEY_BYTES = 32
_OTHERS = stat.S_IRWXG | stat.S_IRWXO  # permissions of the group and of all other users
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def get_key_path() -> Path:
    """Return the path of the user's key. It may not exist."""
    named = os.environ.get(environment.KEY_FILE_VARIABLE)
    return Path(named) if named else get_data_folder() / "notebook-key"


class KeyFile:
    """Key file, by default at `get_key_path()`. It is read anew by each call."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path

    @property
    def path(self) -> Path:
        """Path of the key file. It may not exist."""
        return self._path or get_key_path()

    def read(self) -> SecretBytes | None:
        """Return the key; None if there is no file.

        Raises:
            NoKeyError: The file cannot be read, is not private, or contains no key.
        """
        path = self.path
        try:
            return _read_key(path)
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise _make_error(path, f"cannot be read: {exc.strerror or exc}") from exc

    def obtain(self) -> SecretBytes:
        """Return the key, and create it if there is no file. Concurrent calls get the same key.

        Raises:
            NoKeyError: As for `read`, or the file cannot be created.
        """
        found = self.read()
        if found is not None:
            return found

        path = self.path
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _create_key_file(path)
        except OSError as exc:
            raise _make_error(path, f"cannot be created: {exc.strerror or exc}") from exc

        # Another process may have created the file first, so the key is that of the file.
        created = self.read()
        if created is None:
            raise _make_error(path, "cannot be created: it is a broken link, or was deleted")
        return created


def _read_key(path: Path) -> SecretBytes:
    try:
        descriptor = open_regular(path)
    except (NotRegularFileError, IsADirectoryError) as exc:
        raise _make_error(path, "is not a file") from exc

    try:
        # The opened file is checked, because the path may lead to another file a moment later.
        if why := _find_key_problem(os.fstat(descriptor)):
            raise _make_error(path, why)
        key = SecretBytes(os.read(descriptor, KEY_BYTES))
        if len(key) < KEY_BYTES:
            raise _make_error(path, "changed while it was read")
        return key
    finally:
        os.close(descriptor)


def _find_key_problem(status: os.stat_result) -> str | None:
    """Return the reason why a file with this `status` is not used as a key; None if it is."""
    if sys.platform != "win32":  # Windows has no such owners and permissions
        if status.st_uid != os.geteuid():
            return "belongs to another user"
        if status.st_mode & _OTHERS:
            return (
                "is accessible to other users: make it private (`chmod 600`), or "
                "delete it if someone may have read it"
            )

    if status.st_size != KEY_BYTES:
        return (
            f"has {status.st_size} bytes instead of {KEY_BYTES}: restore the right "
            "file, or delete it to create a new key"
        )
    return None


def _create_key_file(path: Path) -> None:
    """Create a key file atomically, unless there is a file already."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        _write_new_key(temporary)
        try:
            os.link(temporary, path)  # unlike a rename, a link never replaces a file
        except FileExistsError:
            return
        except OSError:  # a file system without links
            with suppress(FileExistsError):
                _write_new_key(path)
    finally:
        temporary.unlink(missing_ok=True)


def _write_new_key(path: Path) -> None:
    descriptor = os.open(path, _CREATE_FLAGS, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)  # an incomplete key would be refused later
        raise


def _make_error(path: Path, why: str) -> NoKeyError:
    """Return the error about the key file at `path`, which is shown relative to the home folder."""
    with suppress(ValueError, RuntimeError):
        path = Path("~") / path.relative_to(Path.home())
    return NoKeyError(f"the key file {path} {why}")
