"""Text of notebooks in reports and on terminals: plain, and without what looks like a key.

Keys are hidden before a text is cut: the beginning of one looks like nothing.

Source: `docs/ci.md`.
"""

from __future__ import annotations

import sys
from typing import Final

from jp_nb.config.secret_names import without_secrets
from jp_nb.safe_text import one_line, plain

MAX_LINE: Final = 200
MAX_TEXT: Final = 20_000


def shown_text(text: str) -> str:
    """Return `text`, such as an error, in its lines, of which at most `MAX_TEXT` characters."""
    return plain(_hidden(text), limit=MAX_TEXT)


def shown_line(text: str, *, limit: int = MAX_LINE) -> str:
    """Return `text` in one line of at most `limit` characters."""
    return one_line(_hidden(text), limit=limit)


def _hidden(text: str) -> str:
    return without_secrets(plain(text, limit=sys.maxsize))
