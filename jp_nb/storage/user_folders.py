"""The user's folders for data and configuration, as the platform has them.

Source: https://platformdirs.readthedocs.io/.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import platformdirs

NO_FOLDER: Final = Path(os.devnull) / "jp"
"""Replaces the folder of a user without a home directory: nothing can be read or written there."""


def get_data_folder() -> Path:
    """Return the folder for keys, consents, and journals. It may not exist."""
    return _platform_folder(platformdirs.user_data_path)


def get_config_folder() -> Path:
    """Return the folder of the user's configuration. It may not exist."""
    return _platform_folder(platformdirs.user_config_path)


def _platform_folder(path: Callable[[str], Path]) -> Path:
    try:
        found = path("jp")
    except RuntimeError:  # containers may run as a user without an entry in the password database
        return NO_FOLDER
    return found if found.is_absolute() else NO_FOLDER
