"""Where journals are. Light: every load of the extension looks whether there is one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from jp_nb.workspace.user_folders import data_folder

SUFFIX: Final = ".jsonl"


def journal_path() -> Path:
    """Return the folder of the journals, made or not."""
    return data_folder() / "journal"


def has_journals() -> bool:
    """Return whether some kernel left a journal, or has one now."""
    try:
        with os.scandir(journal_path()) as entries:
            return any(entry.name.endswith(SUFFIX) for entry in entries)
    except OSError:  # no folder, or nobody may look into it: who writes there says so
        return False
