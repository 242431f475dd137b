"""The chain of an exception: its causes, and those that were handled when it was raised.

Source: `docs/guide.md`, `docs/decisions.md` D85, D99.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_LINKS = 5
"""Limit of chained exceptions."""


class ChainedError(NamedTuple):
    """One exception of a chain. `is_cause` is True if the next one was raised `from` it."""

    error: BaseException
    is_cause: bool


def list_error_chain(error: BaseException) -> list[ChainedError]:
    """Return the chain of `error`, the most recent exception last."""
    chain = [ChainedError(error, is_cause=False)]
    seen_ids = {id(error)}
    while len(chain) < MAX_LINKS:
        newest = chain[0].error
        earlier = newest.__cause__
        if earlier is None and not newest.__suppress_context__:
            earlier = newest.__context__
        if earlier is None or id(earlier) in seen_ids:
            break

        seen_ids.add(id(earlier))
        chain.insert(0, ChainedError(earlier, is_cause=newest.__cause__ is earlier))

    return chain
