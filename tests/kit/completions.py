"""Completions of the magics, for the names of a session or for given names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jp_nb.notebook.completion import complete_cell
from jp_nb.notebook.completion_names import Names
from jp_nb.session.session import Session


class _GivenNames(Names):
    """Names of a session that does not exist. `keys`, `models`, and others are functions."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        vars(self).update(names)


def complete(cell: str, names: Session | Mapping[str, Any]) -> list[tuple[int, str]]:
    """Return the completions at the `|` in `cell`: where each begins in `cell`, and its text.

    `names` are those of a session, or given ones by kind: `{"tools": ["look"], "turn_count": 3}`.
    """
    known = Names(names) if isinstance(names, Session) else _GivenNames(names)

    before, _, after = cell.partition("|")
    line = before.count("\n")
    column = len(before) - before.rfind("\n") - 1
    found = complete_cell(before + after, line, column, known)

    assert 0 <= found.start <= column
    start = len(before) - column + found.start
    return [(start, text) for text in found.texts]
