"""The consents of the user to the content of files, and the files that still need one.

A file outside of the user's configuration folder may be from someone else, for example in a cloned
repository. A consent that cannot be stored is a `StorageError`.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from pydantic import JsonValue

from jp_nb.storage.configuration.workspace_folder import WorkspaceFolder
from jp_nb.storage.trust import FolderTrust, PendingConsent, PendingLeaf


class FileConsents:
    """The consents to the files of a `workspace`.

    A file is *pending* if it was checked and needs a consent. It is checked each time that it is
    read. `trust` has the stored consents. It is None in an unattended run, where all files apply.
    """

    def __init__(self, trust: FolderTrust | None, workspace: WorkspaceFolder) -> None:
        self._trust = trust
        self._workspace = workspace
        self._pending: dict[Path, PendingConsent] = {}

    def check(
        self, path: Path, content: bytes, shown_values: Iterable[tuple[str, JsonValue]]
    ) -> bool:
        """Return True if the `content` of a file applies: the user has consented to it.

        If not, the file becomes pending. `shown_values` are the settings that the user reads before
        the consent, each with its path in the file and its value.
        """
        digest = hashlib.sha256(os.fsencode(path.resolve()) + b"\0" + content).hexdigest()
        leaves = tuple(PendingLeaf(key, value, str(path)) for key, value in shown_values)
        consent = PendingConsent(self.choose_folder(path), path, f"sha256:{digest}", leaves)
        return self.check_consent(consent)

    def check_consent(self, consent: PendingConsent) -> bool:
        """Return True if the file of `consent` applies. If not, it becomes pending."""
        if self._trust is None or self._is_agreed(consent):
            self.forget(consent.file)
            return True

        self._pending[consent.file] = consent
        return False

    def choose_folder(self, path: Path) -> Path:
        """Return the folder for which a consent to the file at `path` is stored."""
        # A file in `.jp/` belongs to the folder above, also if that is not the workspace.
        if path.parent.name == ".jp":
            return path.parent.parent

        root = self._workspace.root
        return root if path.is_relative_to(root) else path.parent

    def forget(self, path: Path) -> None:
        """Let the file at `path` be pending no more, until it is checked again."""
        self._pending.pop(path, None)

    def forget_deleted(self) -> None:
        """Let files that do not exist be pending no more."""
        kept = {path: consent for path, consent in self._pending.items() if path.exists()}
        self._pending = kept

    def get_pending(self, path: Path) -> PendingConsent | None:
        """Return the missing consent to the file at `path`; None if the file is not pending."""
        return self._pending.get(path)

    def list_pending(self) -> list[PendingConsent]:
        """Return the pending files to which the user has not consented since they were checked."""
        return [consent for consent in self._pending.values() if not self._is_agreed(consent)]

    def store(self, consents: Iterable[PendingConsent]) -> None:
        """Store `consents`: the user agrees to the content that the files had when checked."""
        if self._trust is not None:
            self._trust.agree(consents)

    def explain_none_pending(self) -> str:
        """Return the reason why no file needs consent."""
        if self._trust is None:
            return "the run is unattended: files of the folder are applied without your consent"
        return "no file of this folder needs your consent"

    def _is_agreed(self, consent: PendingConsent) -> bool:
        """Return True if the user has consented to this content of the file, for its folder."""
        return self._trust is not None and self._trust.covers(consent.folder, consent.digest)
