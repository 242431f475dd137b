"""What the user agreed to of the configuration files in folders, kept between kernels.

Kept are digests of whole contents, in a file of the user's data directory that nobody else can
read: another content is asked about again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.file_writing import replace_file
from jp_nb.workspace import variables
from jp_nb.workspace.own_files import NotOwnError, Stamp, read_own, stamp
from jp_nb.workspace.user_folders import data_folder

MAX_DIGESTS: Final = 50
"""Of one folder: those that were agreed to last."""


PendingLeaf = tuple[str, JsonValue, str]
"""Path, value, and the file that says so."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A file that sets what only the user may decide, and that nobody agreed to yet.

    Attributes:
        folder: Where it counts.
        file: The file; what it includes belongs to it.
        digest: Of all that was read.
        leaves: What is ignored until then.
    """

    folder: Path
    file: Path
    digest: str
    leaves: tuple[PendingLeaf, ...]


def revoked(folder: Path) -> list[str]:
    """Take back what was agreed to in `folder` and above it, and say what there was.

    Raises:
        StorageError: If that cannot be kept.
    """
    lines = [f"the consent that you gave in {gone} no longer applies"
             for gone in FolderTrust().revoke(folder)]  # fmt: skip
    if is_listed(folder):
        lines.append(f"{folder} is still trusted: {variables.TRUST_FOLDERS} lists it")
    return lines or [f"you have not trusted {folder}"]


def consents_path() -> Path:
    """Return the file that keeps the consents of this user."""
    return data_folder() / "trusted-folders.json"


def is_listed(folder: Path) -> bool:
    """Return whether the user's environment says that the files in `folder` count."""
    listed = os.environ.get(variables.TRUST_FOLDERS, "").split(os.pathsep)
    resolved = folder.resolve()
    return any(resolved.is_relative_to(Path(x).resolve()) for x in listed if os.path.isabs(x))


class FolderTrust:
    """The user's consents."""

    def __init__(self) -> None:
        self._known: tuple[Stamp, dict[str, list[str]]] | None = None

    def covers(self, folder: Path, digest: str) -> bool:
        """Return whether the user agreed to the content of `digest` in `folder`."""
        if is_listed(folder):
            return True
        try:
            return digest in self._load().get(_key(folder), ())
        except StorageError:  # who agrees again is told
            return False

    def agree(self, found: Iterable[Pending]) -> None:
        """Have what was `found` count from here on.

        Raises:
            StorageError: If that cannot be kept.
        """
        kept = dict(self._load())
        for pending in found:
            digests = [x for x in kept.get(_key(pending.folder), ()) if x != pending.digest]
            kept[_key(pending.folder)] = [*digests, pending.digest][-MAX_DIGESTS:]
        self._store(kept)

    def revoke(self, folder: Path) -> list[Path]:
        """Take back what was agreed to in `folder` and above it; the folders of which there was.

        Raises:
            StorageError: If that cannot be kept.
        """
        kept = dict(self._load())
        resolved = folder.resolve()
        gone = [x for x in (resolved, *resolved.parents) if kept.pop(str(x), None)]
        if gone:
            self._store(kept)
        return gone

    # --- the file ----------------------------------------------------------------------------

    def _load(self) -> dict[str, list[str]]:
        path = consents_path()
        try:
            now = stamp(path)
            if self._known is None or self._known[0] != now:
                self._known = now, _parsed(read_own(path))
        except FileNotFoundError:
            return {}
        except NotOwnError as exc:
            raise StorageError(f"your consent is ignored: {exc}") from exc
        except OSError as exc:
            raise StorageError(f"{path} cannot be read: {exc.strerror or exc}") from exc
        return self._known[1]

    def _store(self, kept: dict[str, list[str]]) -> None:
        path = consents_path()
        text = json.dumps({"version": 1, "folders": kept}, indent=1)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(path, text.encode(), mode=0o600)
        except OSError as exc:
            raise StorageError(f"{path} cannot be written: {exc.strerror or exc}") from exc


def _key(folder: Path) -> str:
    return str(folder.resolve())


def _parsed(data: bytes) -> dict[str, list[str]]:
    """Return the digests by folder; what is damaged is nobody's consent."""
    found: object = None
    with suppress(ValueError, RecursionError):
        found = json.loads(data)
    folders = found.get("folders") if isinstance(found, dict) else None
    return {
        folder: [x for x in digests if isinstance(x, str)]
        for folder, digests in (folders.items() if isinstance(folders, dict) else ())
        if isinstance(digests, list)
    }
