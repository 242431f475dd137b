"""The user's key, in a file that nobody else may read: it signs records.

It lies in the user's data directory, or where `JP_NB_KEY_FILE` says. Whoever can read it can sign
as the user, so a file that others can read is no key; neither is one that is not whole.

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

from jp_nb.record.trust import NoKeyError
from jp_nb.workspace import variables
from jp_nb.workspace.user_folders import data_folder

KEY_BYTES = 32
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
# Bytes as they are on Windows; elsewhere no waiting for somebody to write into a named pipe.
_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def key_path() -> Path:
    """Return where the user's key is, or would be."""
    named = os.environ.get(variables.KEY_FILE)
    return Path(named) if named else data_folder() / "notebook-key"


class KeyFile:
    """The key in the file at `path`, by default the user's. Nothing is kept between calls."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path

    @property
    def path(self) -> Path:
        """The file that holds the key, or would."""
        return self._path or key_path()

    def read(self) -> SecretBytes | None:
        """Return the key; None if there is no file.

        Raises:
            NoKeyError: If the file cannot be read, is not the user's alone, or holds no key.
        """
        path = self.path
        try:
            return _read(path)
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise _refused(path, f"cannot be read: {exc.strerror or exc}") from exc

    def obtain(self) -> SecretBytes:
        """Return the key, made if there is no file. Of two processes both get that of the first.

        Raises:
            NoKeyError: As `read` does, and if the file cannot be made.
        """
        if (found := self.read()) is not None:
            return found
        path = self.path
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _make(path)
        except OSError as exc:
            raise _refused(path, f"cannot be created: {exc.strerror or exc}") from exc
        if (made := self.read()) is None:
            raise _refused(path, "cannot be created: it is a broken link, or was deleted")
        return made


def _read(path: Path) -> SecretBytes:
    descriptor = os.open(path, _READ)
    try:
        # Of what was opened: a path may mean another file a moment later.
        if why := _why_no_key(os.fstat(descriptor)):
            raise _refused(path, why)
        key = SecretBytes(os.read(descriptor, KEY_BYTES))
        if len(key) < KEY_BYTES:
            raise _refused(path, "changed while it was read")
        return key
    finally:
        os.close(descriptor)


def _why_no_key(status: os.stat_result) -> str | None:
    if not stat.S_ISREG(status.st_mode):
        return "is not a file"
    if sys.platform != "win32":
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


def _make(path: Path) -> None:
    """Put a new key at `path`, whole at once, unless there is a file already."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        _write(temporary)
        try:
            os.link(temporary, path)  # unlike a renaming it replaces nothing
        except FileExistsError:
            return
        except OSError:  # a file system without links
            with suppress(FileExistsError):
                _write(path)
    finally:
        temporary.unlink(missing_ok=True)


def _write(path: Path) -> None:
    descriptor = os.open(path, _MAKE, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)  # less than a key is worse than none
        raise


def _refused(path: Path, why: str) -> NoKeyError:
    with suppress(ValueError, RuntimeError):
        path = Path("~") / path.relative_to(Path.home())
    return NoKeyError(f"the key file {path} {why}")
