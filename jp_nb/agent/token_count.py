"""Counts the tokens of a turn, and keeps those that the record does not have yet.

Source: `docs/turns.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from jp_nb.agent.display_events import Display, TokensSoFar
from jp_nb.agent.model_events import Usage
from jp_nb.record.events import Entry
from jp_nb.record.usage import KEYS, ModelUsage, TurnUsage, with_usage


def _unseen(event: object) -> None:
    """Show nothing."""


@dataclass(slots=True)
class TokenCount:
    """The tokens of a turn so far, with those of the questions that a model answered.

    Attributes:
        display: Is told how many there are.
        most: So many the turn may take; 0: any number.
    """

    display: Display = _unseen
    most: int = 0
    _total: TurnUsage = field(default_factory=TurnUsage)
    _unstored: dict[str, TurnUsage] = field(default_factory=dict)

    @property
    def usage(self) -> Usage:
        """Tokens so far."""
        return Usage(**asdict(self._total))

    @property
    def total(self) -> int:
        """Tokens that were sent and received."""
        return (self._total.input_tokens or 0) + (self._total.output_tokens or 0)

    @property
    def is_over(self) -> bool:
        """True if the turn took more tokens than it may."""
        return 0 < self.most < self.total

    def count(self, usage: Usage) -> TurnUsage:
        """Count the tokens of one request, which its caller records; return them."""
        tokens = TurnUsage(**{name: getattr(usage, name) for name in KEYS})
        if tokens != TurnUsage():
            self._total += tokens
            self.display(TokensSoFar(self._total.input_tokens, self._total.output_tokens))
        return tokens

    def add(self, model: str, usage: Usage) -> None:
        """Count the tokens of one request to `model`; an entry of its response is to say them."""
        self._unstored[model] = self._unstored.get(model, TurnUsage()) + self.count(usage)

    def told_by_last(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return `entries`, the last of which says what no entry has said yet."""
        if not entries:
            return []
        return [*entries[:-1], self.told_by(entries[-1])]

    def told_by(self, entry: Entry) -> Entry:
        """Return `entry`, which says what no entry has said yet."""
        used = [ModelUsage(model, tokens) for model, tokens in self._unstored.items()]
        self._unstored.clear()
        return with_usage(entry, *used)
