"""The configuration files around a notebook, and the consent to their settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jp_nb.storage.configuration.config_files import ConfigFiles
from jp_nb.storage.trust import FolderTrust


def config_files(folder: Path, *, asks_consent: bool = False) -> Any:
    """Return the configuration files of a notebook in `folder`.

    With `asks_consent`, dangerous settings wait for the user's consent, as in a live session.
    `Settings.from_files` has what they set.
    """
    trust = FolderTrust() if asks_consent else None
    return ConfigFiles(folder, trust)
