"""Trust of folders, and the key that signs records.

Consents are stored as digests of file contents, in a private file of the user's data folder, so
changed content needs consent again. The key is in the same folder, or at `JP_NB_KEY_FILE`. Anyone
who reads the key can sign as the user, so a key file that others can read is refused.

Source: `docs/record.md`.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue, SecretBytes

from jp_nb.errors import StorageError
from jp_nb.file_reading import NotRegularFileError, open_regular
from jp_nb.file_writing import replace_file
from jp_nb.record.documents.record_trust import NoKeyError
from jp_nb.storage import environment
from jp_nb.storage.files import ForeignFileError, Stamp, make_stamp, read_owned_file
from jp_nb.storage.signed_conversations import forget_workspaces
from jp_nb.storage.user_folders import get_data_folder

PendingLeaf = tuple[str, JsonValue, str]
"""Path and value of a setting, and the file that sets it."""


@dataclass(frozen=True, slots=True)
class PendingConsent:
    """A file in `folder` with settings that need the user's consent.

    `digest` covers the file and its includes. The `leaves` are ignored until the user consents.
    """

    folder: Path
    file: Path
    digest: str
    leaves: tuple[PendingLeaf, ...]


def revoke_consent(folder: Path) -> list[str]:
    """Withdraw the consents for `folder` and its parents. Return messages for the user.

    Conversations that were signed in these folders need consent again.

    Raises:
        StorageError: The change cannot be stored.
    """
    revoked = FolderTrust().revoke(folder)
    lines = [f"the consent that you gave in {each} no longer applies" for each in revoked]
    resolved = folder.resolve()

    for each in forget_workspaces([resolved, *resolved.parents]):
        lines.append(f"the conversations that you signed in {each} need your consent again")
    if is_trusted_by_environment(folder):
        lines.append(f"{folder} is still trusted: {environment.TRUST_FOLDERS_VARIABLE} lists it")

    return lines or [f"you have not trusted {folder}"]


def get_consents_path() -> Path:
    """Return the path of the stored consents."""
    return get_data_folder() / "trusted-folders.json"


def is_trusted_by_environment(folder: Path) -> bool:
    """Return True if `JP_NB_TRUST_FOLDERS` lists `folder` or a parent."""
    listed = os.environ.get(environment.TRUST_FOLDERS_VARIABLE, "").split(os.pathsep)
    resolved = folder.resolve()
    return any(resolved.is_relative_to(Path(x).resolve()) for x in listed if os.path.isabs(x))


class FolderTrust:
    """Stored consents of the user."""

    def __init__(self) -> None:
        self._known: tuple[Stamp, dict[str, list[str]]] | None = None

    def covers(self, folder: Path, digest: str) -> bool:
        """Return True if the user consented to the content with `digest` in `folder`.

        Also True if `JP_NB_TRUST_FOLDERS` lists the folder or a parent.
        """
        if is_trusted_by_environment(folder):
            return True
        try:
            return digest in self._load().get(_key(folder), ())
        except StorageError:  # the next attempt to consent reports the problem
            return False

    def agree(self, found: Iterable[PendingConsent]) -> None:
        """Store the user's consent to `found`. A folder keeps the last 50 consents.

        Raises:
            StorageError: The stored consents cannot be read or written.
        """
        kept = dict(self._load())
        for pending in found:
            digests = [x for x in kept.get(_key(pending.folder), ()) if x != pending.digest]
            kept[_key(pending.folder)] = [*digests, pending.digest][-50:]  # the oldest are dropped
        self._store(kept)

    def revoke(self, folder: Path) -> list[Path]:
        """Withdraw the consents for `folder` and its parents. Return the folders that had any.

        Raises:
            StorageError: The change cannot be stored.
        """
        kept = dict(self._load())
        resolved = folder.resolve()
        revoked = [x for x in (resolved, *resolved.parents) if kept.pop(str(x), None)]

        if revoked:
            self._store(kept)
        return revoked

    # --- the file ----------------------------------------------------------------------------

    def _load(self) -> dict[str, list[str]]:
        path = get_consents_path()
        try:
            now = make_stamp(path)
            if self._known is None or self._known[0] != now:
                self._known = now, _parsed(read_owned_file(path))
        except FileNotFoundError:
            return {}
        except ForeignFileError as exc:
            raise StorageError(f"your consent is ignored: {exc}") from exc
        except OSError as exc:
            raise StorageError(f"{path} cannot be read: {exc.strerror or exc}") from exc
        return self._known[1]

    def _store(self, kept: dict[str, list[str]]) -> None:
        path = get_consents_path()
        text = json.dumps({"version": 1, "folders": kept}, indent=1)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(path, text.encode(), mode=0o600)
        except OSError as exc:
            raise StorageError(f"{path} cannot be written: {exc.strerror or exc}") from exc


def _key(folder: Path) -> str:
    return str(folder.resolve())


def _parsed(data: bytes) -> dict[str, list[str]]:
    """Return the digests by folder. Damaged parts are ignored, so they give no consent."""
    found: object = None
    with suppress(ValueError, RecursionError):
        found = json.loads(data)

    stored = found.get("folders") if isinstance(found, dict) else None
    if not isinstance(stored, dict):
        return {}

    folders: dict[str, list[str]] = {}
    for folder, digests in stored.items():
        if isinstance(digests, list):
            folders[folder] = [each for each in digests if isinstance(each, str)]

    return folders


KEY_BYTES = 32
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


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
            return _read(path)
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise _refused(path, f"cannot be read: {exc.strerror or exc}") from exc

    def obtain(self) -> SecretBytes:
        """Return the key, and create it if there is no file. Concurrent calls get the same key.

        Raises:
            NoKeyError: As for `read`, or the file cannot be created.
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
    try:
        descriptor = open_regular(path)
    except (NotRegularFileError, IsADirectoryError) as exc:
        raise _refused(path, "is not a file") from exc

    try:
        # The opened file is checked, because the path may lead to another file a moment later.
        if why := _why_no_key(os.fstat(descriptor)):
            raise _refused(path, why)
        key = SecretBytes(os.read(descriptor, KEY_BYTES))
        if len(key) < KEY_BYTES:
            raise _refused(path, "changed while it was read")
        return key
    finally:
        os.close(descriptor)


def _why_no_key(status: os.stat_result) -> str | None:
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
    """Create a key file atomically, unless there is a file already."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        _write(temporary)
        try:
            os.link(temporary, path)  # unlike a rename, a link never replaces a file
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
        path.unlink(missing_ok=True)  # an incomplete key would be refused later
        raise


def _refused(path: Path, why: str) -> NoKeyError:
    with suppress(ValueError, RuntimeError):
        path = Path("~") / path.relative_to(Path.home())
    return NoKeyError(f"the key file {path} {why}")
