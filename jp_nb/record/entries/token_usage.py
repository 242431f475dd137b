"""Token usage in the metadata of entries.

If a response has no entry, an empty configuration change at the end of the turn has its usage.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from pydantic import JsonValue

from jp_nb.json_limits import MAX_INTEGER
from jp_nb.json_values import JsonObject
from jp_nb.record.entries.events import USAGE_KEY, Entry, EntryT


@dataclass(frozen=True, slots=True)
class Usage:
    """Numbers of tokens; None if the provider did not report one.

    During a response, a provider may report several times. Each report counts from the beginning of
    the request, so its numbers replace earlier ones. The field names are also the keys in records
    and in the reports of `jp-nb run`.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None

    def __add__(self, other: Usage) -> Usage:
        """Return the sums. A sum is None only if neither number was reported."""
        sums: dict[str, int] = {}
        for name in USAGE_FIELDS:
            counts = [getattr(self, name), getattr(other, name)]
            reported = [count for count in counts if count is not None]
            if reported:
                sums[name] = sum(reported)
        return Usage(**sums)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the reported numbers as records and reports store them."""
        counts = {name: getattr(self, name) for name in USAGE_FIELDS}
        return {name: count for name, count in counts.items() if count is not None}


USAGE_FIELDS: Final = tuple(count.name for count in fields(Usage))


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Tokens of one model, which is `provider/name`, or "" if unknown."""

    model: str
    tokens: Usage = field(default_factory=Usage)


def with_usage(entry: EntryT, *used: ModelUsage) -> EntryT:
    """Return `entry` with usage in its metadata, or `entry` itself if no number was reported."""
    stored: list[JsonValue] = []
    for usage in used:
        if usage.tokens != Usage():
            model: JsonObject = {"model": usage.model} if usage.model else {}
            stored.append(model | usage.tokens.to_json())

    if not stored:
        return entry

    value = stored[0] if len(stored) == 1 else stored
    return entry.with_metadata(**{USAGE_KEY: value})


def read_usage(metadata: JsonValue | Mapping[str, JsonValue]) -> tuple[ModelUsage, ...]:
    """Return the valid usage in the `metadata` of an entry."""
    stored = metadata.get(USAGE_KEY) if isinstance(metadata, Mapping) else None
    items = stored if isinstance(stored, list) else [stored]
    return tuple(_read_model_usage(item) for item in items if isinstance(item, dict))


def _read_model_usage(stored: Mapping[str, JsonValue]) -> ModelUsage:
    model = stored.get("model")

    # A longer text is not the name of a model.
    name_of_model = model if isinstance(model, str) and len(model) <= 300 else ""

    counts: dict[str, int] = {}
    for name in USAGE_FIELDS:
        count = stored.get(name)
        if type(count) is int and 0 <= count <= MAX_INTEGER:
            counts[name] = count

    return ModelUsage(name_of_model, Usage(**counts))


def sum_usage(entries: Iterable[Entry]) -> Usage:
    """Return the tokens of the `entries` of a turn."""
    total = Usage()
    for entry in entries:
        if USAGE_KEY in entry.metadata:
            for usage in read_usage(entry.metadata):
                total += usage.tokens
    return total
