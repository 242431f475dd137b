"""Workspaces in which the user signed conversations.

A signature is valid in each folder, and so in each copy of a notebook. But a relative path in a
setting, such as that of a command, leads to another file there. So a private file of the user's
data folder lists the conversations that the user signed, by workspace. Paths and ids are stored as
digests, so that all have the same length.

Source: `docs/security.md`, `docs/decisions.md` D200.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from jp_nb.errors import StorageError
from jp_nb.file_writing import replace_file
from jp_nb.storage.file_locks import hold_file_lock
from jp_nb.storage.files import ForeignFileError, read_owned_file
from jp_nb.storage.user_folders import get_data_folder

MAX_WORKSPACES: Final = 500
MAX_SIGNED: Final = 200
_LOCK_TIMEOUT_S: Final = 2.0


@dataclass(slots=True)
class _Workspace:
    """The `signed` conversations of a workspace, oldest first; `all` if the user accepted it."""

    signed: list[str] = field(default_factory=list)
    all: bool = False


_Workspaces = dict[str, _Workspace]
"""By the digest of the path without links, the one that changed last at the end."""


def get_signed_conversations_path() -> Path:
    """Return the path of the list. It may not exist."""
    return get_data_folder() / "signed-conversations.json"


class SignedConversations:
    """Conversations that the user signed in the workspace `folder`.

    Other workspaces do not count, even if they contain it, or it contains them.
    """

    def __init__(self, folder: Path) -> None:
        self._name = _digest(str(folder.resolve()))

    def covers(self, conversation: str) -> bool:
        """Return True if the user signed `conversation` here, or accepted the workspace.

        Raises:
            StorageError: The list cannot be read.
        """
        found = _load().get(self._name, _Workspace())
        return found.all or _digest(conversation) in found.signed

    def add(self, conversation: str) -> None:
        """Remember that the user signed `conversation` here. The oldest ones are forgotten.

        Raises:
            StorageError: The list cannot be read or written.
        """

        def change(workspaces: _Workspaces) -> None:
            workspace = workspaces.pop(self._name, _Workspace())
            signed = [x for x in workspace.signed if x != _digest(conversation)]
            workspace.signed = [*signed, _digest(conversation)][-MAX_SIGNED:]
            workspaces[self._name] = workspace

        _change(change)

    def accept_all(self) -> None:
        """Accept all conversations that are signed by the user, from any folder.

        Raises:
            StorageError: The list cannot be read or written.
        """

        def change(workspaces: _Workspaces) -> None:
            workspace = workspaces.pop(self._name, _Workspace())
            workspace.all = True
            workspaces[self._name] = workspace

        _change(change)

    def remove(self, conversation: str) -> None:
        """Forget that the user signed `conversation` here.

        Raises:
            StorageError: The list cannot be read or written.
        """

        def change(workspaces: _Workspaces) -> None:
            if workspace := workspaces.get(self._name):
                workspace.signed = [x for x in workspace.signed if x != _digest(conversation)]

        if self._name in _load():
            _change(change)


def forget_workspaces(folders: Iterable[Path]) -> list[Path]:
    """Forget the conversations of the workspaces `folders`. Return those that had any.

    The paths have no links.

    Raises:
        StorageError: The list cannot be read or written.
    """
    names = {_digest(str(folder)): folder for folder in folders}
    forgotten: list[Path] = []

    def change(workspaces: _Workspaces) -> None:
        forgotten.extend(folder for name, folder in names.items() if workspaces.pop(name, None))

    if names.keys() & _load():
        _change(change)
    return forgotten


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _change(change: Callable[[_Workspaces], None]) -> None:
    path = get_signed_conversations_path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with hold_file_lock(path.with_suffix(".lock"), timeout_s=_LOCK_TIMEOUT_S):
            workspaces = _load()
            before = _encode(workspaces)
            change(workspaces)
            after = _encode(workspaces)
            if after != before:
                replace_file(path, after, mode=0o600)
    except OSError as exc:
        raise StorageError(f"{path} cannot be written: {exc.strerror or exc}") from exc


def _load() -> _Workspaces:
    path = get_signed_conversations_path()
    try:
        return _parse(read_owned_file(path))
    except (FileNotFoundError, NotADirectoryError):  # perhaps the user has no home folder
        return {}
    except ForeignFileError as exc:
        raise StorageError(f"the list of what you signed is ignored: {exc}") from exc
    except OSError as exc:
        raise StorageError(f"{path} cannot be read: {exc.strerror or exc}") from exc


def _parse(data: bytes) -> _Workspaces:
    """Return the workspaces of the file. Damaged parts are ignored, so they permit nothing."""
    found: object = None
    with suppress(ValueError, RecursionError):
        found = json.loads(data)

    listed = found.get("workspaces") if isinstance(found, dict) else None
    workspaces: _Workspaces = {}
    for name, value in (listed if isinstance(listed, dict) else {}).items():
        if isinstance(value, dict):
            signed = value.get("signed")
            digests = signed if isinstance(signed, list) else []
            known = [x for x in digests if isinstance(x, str)]
            workspaces[name] = _Workspace(known, all=value.get("all") is True)

    return workspaces


def _encode(workspaces: _Workspaces) -> bytes:
    kept = list(workspaces.items())[-MAX_WORKSPACES:]
    stored = {name: {"signed": each.signed, "all": each.all} for name, each in kept}
    return json.dumps({"version": 1, "workspaces": stored}, indent=1).encode()
