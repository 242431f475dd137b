"""The table of what somebody would agree to in the files of a folder, to be read exactly.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from jp_nb.config.layers import to_text
from jp_nb.config.masking import masked
from jp_nb.config.paths import parse_path
from jp_nb.safe_text import escape_unseen, spell_unseen
from jp_nb.workspace.folder_trust import Pending

PENDING_HEAD: Final = ("path", "value", "file")


def pending_rows(found: Iterable[Pending]) -> list[tuple[str, str, str]]:
    """Return what would count if the user agreed to it: path, value, and the file."""
    return [
        (
            spell_unseen(path),
            escape_unseen(to_text(masked(value, parse_path(path)))),
            spell_unseen(file),
        )
        for pending in found
        for path, value, file in pending.leaves
    ]
