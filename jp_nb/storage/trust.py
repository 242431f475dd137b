"""Trust of folders: the consents of the user to the content of files.

Consents are stored as digests of file contents, in a private file of the user's data folder, so
changed content needs consent again.

Source: `docs/record.md`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.file_writing import replace_file
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
