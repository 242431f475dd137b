"""Texts of models, notebooks, and files in the reports of a batch, safe to show.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from jp_nb.exact_form import spell_invisible
from jp_nb.headless.terminal_text import format_one_line

MAX_ERROR_CHARS: Final = 2_000
"""Maximum length of an error, or of a decision, in a report."""
MAX_VALUE_CHARS: Final = 200
"""Maximum length of a name, or of the value of a parameter, in a report."""


@lru_cache(maxsize=10_000)  # names of notebooks and parameters repeat
def clean_text(text: str, limit: int = MAX_VALUE_CHARS) -> str:
    """Return `text` in one line of bounded length, without secrets and invisible characters."""
    return format_one_line(spell_invisible(text), limit=limit)
