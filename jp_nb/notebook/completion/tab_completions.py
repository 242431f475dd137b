"""Completions of a word or a line, and the simplest way to find them: by their beginning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TabCompletions:
    """Completions of a word or a line, best first.

    Attributes:
        start: The position in the word or line from which the completions replace it.
        texts: The completions.
        notes: Texts to show beside completions, by the completion.
    """

    start: int
    texts: list[str]
    notes: Mapping[str, str] = field(default_factory=dict)


def match_prefix(text: str, names: Iterable[str], start: int = 0) -> TabCompletions:
    """Return the names that begin with `text`, from the character `start` of it."""
    return TabCompletions(start, [name for name in names if name.startswith(text[start:])])


def combine_completions(first: TabCompletions, second: TabCompletions) -> TabCompletions:
    """Return both completions if they replace the same text, else only those of one."""
    if first.start == second.start:
        return TabCompletions(first.start, [*first.texts, *second.texts])
    return first if first.texts else second
