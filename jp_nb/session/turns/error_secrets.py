"""Hide secrets in the texts and the code of a request about an error.

`hide` finds them by their names, their forms, and the values of the user's variables.

Source: `docs/decisions.md` D85.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jp_nb.text import plain
from jp_nb.toolkit.secrets.notebook_secrets import NotebookSecrets

MAX_SECRET_SEARCH_CHARS: Final = 100_000
"""Limit of the searched part of a text: far more than is shown, and than a secret has."""


def hide_in_text(text: str, hide: NotebookSecrets) -> str:
    """Return `text` without secrets and without control characters."""
    return hide(plain(text, limit=len(text)))


def hide_in_beginning(text: str, limit: int, hide: NotebookSecrets) -> str:
    """Return the first `limit` characters of `text` without secrets, and `…` if there are more."""
    # More is searched than is shown: the beginning of a secret alone would not be recognized.
    cleared = hide_in_text(text[:MAX_SECRET_SEARCH_CHARS], hide)
    return cleared if len(cleared) <= limit else f"{cleared[:limit]}…"


def hide_in_code(lines: Mapping[int, str], hide: NotebookSecrets) -> dict[int, str]:
    """Return source lines by number without secrets, such as literals that are assigned.

    All lines are searched as one text, because a secret may have several lines.
    """
    # No line may become two, so that each keeps its number.
    plain_lines = (plain(line, limit=len(line)).replace("\n", " ") for line in lines.values())
    cleared = hide("\n".join(plain_lines), code=True).split("\n")
    return dict(zip(lines, cleared, strict=True))
