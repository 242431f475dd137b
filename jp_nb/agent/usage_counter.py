"""Count the tokens of a turn, and attach them to the entries of the record.

Source: `docs/turns.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jp_nb.agent.display import Display, TokensSoFar
from jp_nb.agent.provider_events import Usage
from jp_nb.record.entries.events import EntryT
from jp_nb.record.entries.token_usage import ModelUsage, with_usage


@dataclass(slots=True)
class UsageCounter:
    """Tokens of a turn so far, including questions that a model answered.

    Each request counts once: with `count_for_entry` if an entry of the turn gets its tokens later,
    or with `count` if the caller records them itself.

    Attributes:
        display: Gets the new total after each request.
        max_tokens: The limit of the turn; 0 for none.
        usage: The sum of all requests.
    """

    display: Display | None = None
    max_tokens: int = 0
    usage: Usage = field(default_factory=Usage)
    _unstored: dict[str, Usage] = field(default_factory=dict)  # by model, for the next entry

    @property
    def total(self) -> int:
        """Sum of input and output tokens."""
        return (self.usage.input_tokens or 0) + (self.usage.output_tokens or 0)

    @property
    def is_over_limit(self) -> bool:
        """True if the turn took more tokens than `max_tokens`."""
        return 0 < self.max_tokens < self.total

    def count(self, usage: Usage) -> Usage:
        """Count and return the tokens of one request. The caller records them."""
        if usage != Usage():
            self.usage += usage
            if self.display is not None:
                self.display(TokensSoFar(self.usage.input_tokens, self.usage.output_tokens))
        return usage

    def count_for_entry(self, model: str, usage: Usage) -> None:
        """Count the tokens of one request to `model`, which `attach_usage` records later."""
        self._unstored[model] = self._unstored.get(model, Usage()) + self.count(usage)

    def attach_usage_to_last(self, entries: Sequence[EntryT]) -> list[EntryT]:
        """Return `entries` with all unrecorded usage attached to the last one."""
        return [*entries[:-1], *map(self.attach_usage, entries[-1:])]

    def attach_usage(self, entry: EntryT) -> EntryT:
        """Return `entry` with all unrecorded usage attached to it."""
        used = [ModelUsage(model, tokens) for model, tokens in self._unstored.items()]
        self._unstored.clear()
        return with_usage(entry, *used)
