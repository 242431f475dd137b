"""Merge rules of settings: how a value of an upper layer combines with that of a lower one.

    stop_words: Annotated[list[str], APPEND_SET_MERGE] = []

Without a merge rule, tables and maps merge by key, lists append, and other values replace. A list
or a text can always be written as `{value, strategy, dedup, separator}`, which overrides the merge
rule. `partials/partial_merge.py` applies the rules.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

MergeStrategy = Literal["replace", "append", "preserve", "deep_merge"]
MergeItems = Literal["set", "keyed", "sequence"]


@dataclass(frozen=True, slots=True)
class Merge:
    """The merge rule of a setting."""

    strategy: MergeStrategy
    """`replace`, `append` (lists), `preserve` (the earlier value stays), or `deep_merge` (maps)."""
    dedup: bool = False
    """True if a list drops later equal items by default."""
    items: MergeItems = "sequence"
    """Identity of the items of a list. `set`: the item itself. `keyed`: one of `keys`. `sequence`:
    none, so that the list is one value."""
    keys: tuple[str, ...] = ()
    """For `keyed`: fields that can identify an item. The first one that is set is used."""
    annotated: bool = False
    """True if JP also reads `{value, strategy}` here."""


REPLACE_MERGE: Final = Merge("replace")
APPEND_MERGE: Final = Merge("append")
APPEND_SET_MERGE: Final = Merge("append", dedup=True, items="set")
PRESERVE_MERGE: Final = Merge("preserve")
TEXT_MERGE: Final = Merge("replace", annotated=True)
"""A text that can be written as `{value, strategy, separator}`. A plain text replaces."""
DEEP_MERGE: Final = Merge("deep_merge", annotated=True)


def merge_by_keys(*keys: str) -> Merge:
    """Return the merge rule for a list of tables that `keys` identify."""
    return Merge("append", items="keyed", keys=keys, annotated=True)
