"""Trust of folders: the consents of the user to the content of files.

Consents are stored as digests of file contents, in a private file of the user's data folder, so
changed content needs consent again. Several kernels and commands may change this file, so a change
reads and writes it under its lock.

Source: `docs/record.md`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject
from jp_nb.storage import environment
from jp_nb.storage.files import ForeignFileError, Stamp, make_stamp, read_owned_file
from jp_nb.storage.private_files import lock_private_file, replace_private_file
from jp_nb.storage.signed_conversations import forget_workspaces
from jp_nb.storage.user_folders import get_data_folder

MAX_FOLDER_CONSENTS: Final = 50
"""Maximum number of consents for a folder. The oldest ones are dropped."""


class PendingLeaf(NamedTuple):
    """Path and value of one setting, a leaf of the configuration, and the file that sets it."""

    path: str
    value: JsonValue
    file: str


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
    lines = [f"the consent that you gave in {path} no longer applies" for path in revoked]
    resolved = folder.resolve()

    for workspace in forget_workspaces([resolved, *resolved.parents]):
        lines.append(f"the conversations that you signed in {workspace} need your consent again")
    if is_trusted_by_environment(folder):
        lines.append(f"{folder} is still trusted: {environment.TRUST_FOLDERS_VARIABLE} lists it")

    return lines or [f"you have not trusted {folder}"]


def get_consents_path() -> Path:
    """Return the path of the stored consents."""
    return get_data_folder() / "trusted-folders.json"


def is_trusted_by_environment(folder: Path) -> bool:
    """Return True if `JP_NB_TRUST_FOLDERS` lists `folder` or a parent."""
    listed = os.environ.get(environment.TRUST_FOLDERS_VARIABLE, "").split(os.pathsep)
    trusted = [Path(path).resolve() for path in listed if os.path.isabs(path)]
    resolved = folder.resolve()
    return any(map(resolved.is_relative_to, trusted))


_Consents = dict[str, list[str]]
"""Digests of the contents to which the user has consented, oldest first, by the folder's path."""


class FolderTrust:
    """Stored consents of the user."""

    def __init__(self) -> None:
        # The stamp of the file (its inode, size, and times) when it was last read, and its content.
        self._known: tuple[Stamp, _Consents] | None = None

    def covers(self, folder: Path, digest: str) -> bool:
        """Return True if the user consented to the content with `digest` in `folder`.

        Also True if `JP_NB_TRUST_FOLDERS` lists the folder or a parent.
        """
        if is_trusted_by_environment(folder):
            return True
        try:
            return digest in self._load().get(_make_key(folder), ())
        except StorageError:  # the next attempt to consent reports the problem
            return False

    def agree(self, pending: Iterable[PendingConsent]) -> None:
        """Store the consents. A folder keeps the last `MAX_FOLDER_CONSENTS` ones.

        Raises:
            StorageError: The stored consents cannot be read or written.
        """
        with lock_private_file(get_consents_path()):
            consents = dict(self._load())
            for consent in pending:
                key = _make_key(consent.folder)
                others = [digest for digest in consents.get(key, ()) if digest != consent.digest]
                consents[key] = [*others, consent.digest][-MAX_FOLDER_CONSENTS:]
            _store(consents)

    def revoke(self, folder: Path) -> list[Path]:
        """Withdraw the consents for `folder` and its parents. Return the folders that had any.

        Raises:
            StorageError: The change cannot be stored.
        """
        resolved = folder.resolve()
        revoked: list[Path] = []

        with lock_private_file(get_consents_path()):
            consents = dict(self._load())
            for path in (resolved, *resolved.parents):
                digests = consents.pop(str(path), None)
                if digests:
                    revoked.append(path)
            if revoked:
                _store(consents)

        return revoked

    def _load(self) -> _Consents:
        """Return the stored consents, which are read again after a change."""
        path = get_consents_path()
        try:
            stamp = make_stamp(path)
            if self._known is None or self._known[0] != stamp:
                self._known = stamp, _parse_consents(read_owned_file(path))
        except FileNotFoundError:
            return {}
        except ForeignFileError as exc:
            raise StorageError(f"your consent is ignored: {exc}") from exc
        except OSError as exc:
            raise StorageError(f"{path} cannot be read: {exc.strerror or exc}") from exc
        return self._known[1]


def _store(consents: _Consents) -> None:
    """Write the file. The caller holds its lock, which also reports errors of writing."""
    folders: JsonObject = {folder: [*digests] for folder, digests in consents.items()}
    replace_private_file(get_consents_path(), {"version": 1, "folders": folders})


def _make_key(folder: Path) -> str:
    return str(folder.resolve())


def _parse_consents(data: bytes) -> _Consents:
    """Return the consents in a file. Damaged parts are ignored, so they give no consent."""
    content: object = None
    with suppress(ValueError, RecursionError):
        content = json.loads(data)

    stored = content.get("folders") if isinstance(content, dict) else None
    if not isinstance(stored, dict):
        return {}

    consents: _Consents = {}
    for folder, digests in stored.items():
        if isinstance(digests, list):
            consents[folder] = [digest for digest in digests if isinstance(digest, str)]

    return consents
