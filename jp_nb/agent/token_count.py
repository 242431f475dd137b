"""Counts the tokens of a turn.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from jp_nb.agent.model_events import Usage
from jp_nb.config.tree.model_config import Request as RequestConfig


@dataclass(slots=True)
class TokenCount:
    """The tokens of a turn so far, with those of the questions that a model answered."""

    usage: Usage = field(default_factory=Usage)

    def add(self, more: Usage) -> None:
        """Count the tokens of one request."""
        self.usage = add_usage(self.usage, more)

    @property
    def total(self) -> int:
        """Tokens that were sent and received."""
        return (self.usage.input_tokens or 0) + (self.usage.output_tokens or 0)

    def is_over(self, limits: RequestConfig) -> bool:
        """True if the turn took more tokens than it may."""
        return 0 < limits.max_total_tokens < self.total


def add_usage(total: Usage, more: Usage) -> Usage:
    """Return the tokens of both; None only where neither was reported."""
    summed = {}
    for each in fields(Usage):
        a, b = getattr(total, each.name), getattr(more, each.name)
        summed[each.name] = b if a is None else a if b is None else a + b
    return Usage(**summed)
