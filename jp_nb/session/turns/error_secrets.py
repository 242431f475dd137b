"""Hide secrets in the texts and the code of a request about an error.

`hide` finds them by their names, their forms, and the values of the user's variables.

Source: `docs/decisions.md` D85.
"""

from __future__ import annotations

from collections.abc import Mapping

from jp_nb.text import plain
from jp_nb.toolkit.secrets.notebook_secrets import NotebookSecrets


def hide_in_text(text: str, hide: NotebookSecrets) -> str:
    """Return `text` without secrets and without control characters."""
    return hide(plain(text, limit=len(text)))


def hide_in_code(lines: Mapping[int, str], hide: NotebookSecrets) -> dict[int, str]:
    """Return source lines by number without secrets, such as literals that are assigned.

    All lines are searched as one text, because a secret may have several lines.
    """
    # No line may become two, so that each keeps its number.
    plain_lines = (plain(line, limit=len(line)).replace("\n", " ") for line in lines.values())
    cleared = hide("\n".join(plain_lines), code=True).split("\n")
    return dict(zip(lines, cleared, strict=True))
