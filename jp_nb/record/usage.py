"""The tokens that models took, as the record keeps them.

In the `metadata` of the last entry of a response, and of the end of a question that a model
answered; only what the provider reported:
    {"usage": {"model": "anthropic/claude-opus-4", "input_tokens": 1200, "output_tokens": 48}}
Providers are never sent it. Where a response left no entry, a change of the configuration that
changes nothing says it at the end of its turn.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Final, TypeVar

from pydantic import JsonValue

from jp_nb.record.entry import Entry
from jp_nb.record.events import USAGE

MAX_TOKENS: Final = 2**53
"""A number from there on is no count: whoever else reads the record has no such integers."""
MAX_MODEL_CHARS: Final = 300

E = TypeVar("E", bound=Entry)


@dataclass(frozen=True, slots=True)
class TurnUsage:
    """Tokens of a turn, all its requests together; None where no provider reported them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None

    def __add__(self, other: TurnUsage) -> TurnUsage:
        """Return the tokens of both; None only where neither was reported."""
        return TurnUsage(**{name: _sum(getattr(self, name), getattr(other, name)) for name in KEYS})


KEYS: Final = tuple(each.name for each in fields(TurnUsage))


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Tokens that one model took.

    Attributes:
        model: `provider/name`; "" where the record does not say.
        tokens: How many.
    """

    model: str
    tokens: TurnUsage = field(default_factory=TurnUsage)


def with_usage(entry: E, *used: ModelUsage) -> E:
    """Return `entry` with what was `used` in its metadata; itself if nothing was reported."""
    stored: list[JsonValue] = [_written(one) for one in used if one.tokens != TurnUsage()]
    if not stored:
        return entry
    said: JsonValue = stored[0] if len(stored) == 1 else stored
    return entry.model_copy(update={"metadata": {**entry.metadata, USAGE: said}})


def _written(used: ModelUsage) -> dict[str, JsonValue]:
    counts = {name: getattr(used.tokens, name) for name in KEYS}
    named: dict[str, JsonValue] = {"model": used.model} if used.model else {}
    return named | {name: count for name, count in counts.items() if count is not None}


def usage_in(metadata: JsonValue | Mapping[str, JsonValue]) -> tuple[ModelUsage, ...]:
    """Return what the `metadata` of an entry says of tokens; what is malformed is passed over."""
    said = metadata.get(USAGE) if isinstance(metadata, Mapping) else None
    several = said if isinstance(said, list) else [said]
    return tuple(_read(one) for one in several if isinstance(one, dict))


def _read(said: Mapping[str, JsonValue]) -> ModelUsage:
    model = said.get("model")
    named = model if isinstance(model, str) and len(model) <= MAX_MODEL_CHARS else ""
    counts = {name: count for name in KEYS if _is_count(count := said.get(name))}
    return ModelUsage(named, TurnUsage(**counts))  # type: ignore[arg-type]  # see _is_count


def _is_count(value: JsonValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_TOKENS


def turn_usage(entries: Iterable[Entry]) -> TurnUsage:
    """Return the tokens that the `entries` of a turn say it took."""
    total = TurnUsage()
    for entry in entries:
        if USAGE in entry.metadata:
            for one in usage_in(entry.metadata):
                total += one.tokens
    return total
