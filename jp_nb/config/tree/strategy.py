"""Markers for the fields of the configuration tree: how a later value meets an earlier one.

    stop_words: Annotated[list[str], APPEND_SET] = []

A field without a marker: tables and maps recurse per key, lists append, everything else replaces.
A list or a text may always be written as `{value, strategy, dedup, separator}`; that form wins
over the field's own strategy.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Strategy = Literal["replace", "append", "preserve", "deep_merge"]
Items = Literal["set", "keyed", "sequence"]


@dataclass(frozen=True, slots=True)
class Merge:
    """The way a field merges.

    Attributes:
        strategy: `replace`; `append` (lists); `preserve` (the earlier one stays); for maps
            `deep_merge` (shared keys recurse).
        dedup: True if a list drops later equal items unless the value says otherwise.
        items: What names one item of a list. `set`: the item itself. `keyed`: one of `keys`.
            `sequence`: nothing, order and repeats matter, so that the list counts as a whole.
        keys: For `keyed`: the fields that may name an item, the first that it has.
        annotated: True if JP itself reads `{value, strategy}` here.
    """

    strategy: Strategy
    dedup: bool = False
    items: Items = "sequence"
    keys: tuple[str, ...] = ()
    annotated: bool = False


REPLACE: Final = Merge("replace")
APPEND: Final = Merge("append")
APPEND_SET: Final = Merge("append", dedup=True, items="set")
PRESERVE: Final = Merge("preserve")
TEXT: Final = Merge("replace", annotated=True)
"""A text that takes `{value, strategy, separator}`; a plain one replaces."""
DEEP: Final = Merge("deep_merge", annotated=True)


def keyed(*keys: str) -> Merge:
    """A list of tables that one of `keys` names."""
    return Merge("append", items="keyed", keys=keys, annotated=True)
