"""The folders of a user, outside of all notebooks. Light: every load of the extension asks.

Source: https://platformdirs.readthedocs.io/
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import platformdirs

NOWHERE: Final = Path(os.devnull) / "jp"
"""In place of a folder of who has no home: nothing is there, and nothing can be put there."""


def data_folder() -> Path:
    """Return where keys, consents and journals are; it need not exist."""
    return _found(platformdirs.user_data_path)


def config_folder() -> Path:
    """Return where the user's own configuration is; it need not exist."""
    return _found(platformdirs.user_config_path)


def _found(path: Callable[[str], Path]) -> Path:
    try:
        found = path("jp")
    except RuntimeError:  # containers run as users that the system does not know
        return NOWHERE
    return found if found.is_absolute() else NOWHERE
