"""Counts of reasoning that did not fit a request, in the metadata of the response's entries.

Such an *input change* has a reason, in the words of the provider, which dropped the reasoning or
kept it. `%jp usage --why` shows the counts.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.json_limits import MAX_INTEGER
from jp_nb.json_values import JsonObject, as_object
from jp_nb.record.entries.events import (
    EntryT,
)

INPUT_CHANGES: Final = "input_changes"
"""Counts of reasoning that the provider received changed, or not at all."""
_KINDS_OF_CHANGE: Final = {"dropped": True, "kept": False}
"""Stored name of each kind of input change: True if the model did not get the reasoning.

Reasoning under `kept` reached the model, although it did not fit the conversation.
"""


def with_input_changes(entry: EntryT, changes: Mapping[tuple[str, bool], int]) -> EntryT:
    """Return `entry` with the counts of input changes.

    The keys are the reason, and True if the reasoning was dropped.
    """
    if not changes:
        return entry

    stored: JsonObject = {}
    for name, is_dropped in _KINDS_OF_CHANGE.items():
        alike = {key: count for key, count in changes.items() if key[1] is is_dropped}
        if alike:
            stored[name] = {reason: count for (reason, _), count in alike.items()}

    return entry.with_metadata(**{INPUT_CHANGES: stored})


def read_input_changes(metadata: Mapping[str, JsonValue]) -> Counter[tuple[str, bool]]:
    """Return the valid counts of `with_input_changes` in the `metadata` of an entry."""
    counts: Counter[tuple[str, bool]] = Counter()
    stored = as_object(metadata.get(INPUT_CHANGES))
    for name, is_dropped in _KINDS_OF_CHANGE.items():
        for reason, count in as_object(stored.get(name)).items():
            if type(count) is int and 0 < count <= MAX_INTEGER:
                counts[reason, is_dropped] += count
    return counts
