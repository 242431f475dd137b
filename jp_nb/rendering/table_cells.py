"""Cells and limits of tables that several reports share."""

from __future__ import annotations

from typing import Final

UNKNOWN_VALUE: Final = "-"
MAX_TABLE_ROWS: Final = 50
"""Limit of rows, because an untrusted record may have any number of models and compactions."""


def format_count(count: int | None, unknown: str = UNKNOWN_VALUE) -> str:
    """Return `count` with separators; `unknown` for None."""
    return unknown if count is None else f"{count:,}"
