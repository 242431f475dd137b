"""Workspaces in which the user signed conversations.

A signature is valid in each folder, and so in each copy of a notebook. But a relative path in a
setting, such as that of a command, leads to another file there. So a private file of the user's
data folder lists the conversations that the user signed, by workspace. Paths and ids are stored as
digests, so that all have the same length.

Source: `docs/security.md`, `docs/decisions.md` D200.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from jp_nb.json_values import JsonObject, as_object
from jp_nb.json_writing import compact_json
from jp_nb.storage.private_files import (
    lock_private_file,
    read_private_file,
    replace_private_file,
)
from jp_nb.storage.user_folders import get_data_folder

MAX_WORKSPACES: Final = 500
MAX_SIGNED: Final = 200
_LOCK_TIMEOUT_S: Final = 2.0


@dataclass(slots=True)
class _Workspace:
    """A workspace in the list.

    Attributes:
        signed: Digests of the ids of the signed conversations, oldest first.
        all: True if the user accepted all conversations with the user's signature here.
    """

    signed: list[str] = field(default_factory=list)
    all: bool = False


_Workspaces = dict[str, _Workspace]
"""By the digest of the path without links. The workspace that changed last is at the end."""


def get_signed_conversations_path() -> Path:
    """Return the path of the list. It may not exist."""
    return get_data_folder() / "signed-conversations.json"


class SignedConversations:
    """Conversations that the user signed in the workspace `folder`.

    Other workspaces do not count, even if they contain it, or it contains them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder_digest = _digest(str(folder.resolve()))

    def covers(self, conversation: str) -> bool:
        """Return True if the user signed `conversation` here, or accepted the workspace.

        Raises:
            StorageError: The list cannot be read.
        """
        found = _load().get(self._folder_digest, _Workspace())
        return found.all or _digest(conversation) in found.signed

    def add(self, conversation: str) -> None:
        """Remember that the user signed `conversation` here. The oldest ones are forgotten.

        Raises:
            StorageError: The list cannot be read or written.
        """

        def change(workspaces: _Workspaces) -> None:
            workspace = workspaces.pop(self._folder_digest, _Workspace())
            digest = _digest(conversation)
            others = [known for known in workspace.signed if known != digest]
            workspace.signed = [*others, digest][-MAX_SIGNED:]
            workspaces[self._folder_digest] = workspace  # the last key changed last

        _change(change)

    def accept_all(self) -> None:
        """Accept all conversations that are signed by the user, from any folder.

        Raises:
            StorageError: The list cannot be read or written.
        """

        def change(workspaces: _Workspaces) -> None:
            workspace = workspaces.pop(self._folder_digest, _Workspace())
            workspace.all = True
            workspaces[self._folder_digest] = workspace

        _change(change)

    def remove(self, conversation: str) -> None:
        """Forget that the user signed `conversation` here.

        Raises:
            StorageError: The list cannot be read or written.
        """

        def change(workspaces: _Workspaces) -> None:
            if workspace := workspaces.get(self._folder_digest):
                digest = _digest(conversation)
                workspace.signed = [known for known in workspace.signed if known != digest]

        if self._folder_digest in _load():
            _change(change)


def forget_workspaces(folders: Iterable[Path]) -> list[Path]:
    """Forget the conversations of the workspaces `folders`. Return those that had any.

    The paths must be resolved, because the list has the digests of paths without links.

    Raises:
        StorageError: The list cannot be read or written.
    """
    folder_by_digest = {_digest(str(folder)): folder for folder in folders}
    forgotten: list[Path] = []

    def change(workspaces: _Workspaces) -> None:
        for digest, folder in folder_by_digest.items():
            removed = workspaces.pop(digest, None)
            if removed is not None:
                forgotten.append(folder)

    if folder_by_digest.keys() & _load():
        _change(change)
    return forgotten


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _change(change: Callable[[_Workspaces], None]) -> None:
    """Apply `change` to the list, which other kernels change as well."""
    path = get_signed_conversations_path()
    with lock_private_file(path, timeout_s=_LOCK_TIMEOUT_S):
        workspaces = _load()
        before = _encode(workspaces)
        change(workspaces)
        after = _encode(workspaces)
        if compact_json(after) != compact_json(before):  # the order counts
            replace_private_file(path, after)


def _load() -> _Workspaces:
    """Return the workspaces of the file. Damaged parts are ignored, so they permit nothing."""
    path = get_signed_conversations_path()
    found = read_private_file(path, ignored="the list of the conversations that you signed is")
    workspaces: _Workspaces = {}

    for name, value in as_object(found.get("workspaces")).items():
        if isinstance(value, dict):
            signed = value.get("signed")
            digests = signed if isinstance(signed, list) else []
            texts = [digest for digest in digests if isinstance(digest, str)]
            workspaces[name] = _Workspace(texts, all=value.get("all") is True)

    return workspaces


def _encode(workspaces: _Workspaces) -> JsonObject:
    kept = list(workspaces.items())[-MAX_WORKSPACES:]
    stored: JsonObject = {}
    for name, workspace in kept:
        stored[name] = {"signed": [*workspace.signed], "all": workspace.all}
    return {"version": 1, "workspaces": stored}
