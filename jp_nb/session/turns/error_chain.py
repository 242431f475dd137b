"""Chains of exceptions with their causes, and groups of exceptions.

Source: `docs/guide.md`, `docs/decisions.md` D85, D99.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from jp_nb.toolkit.function_tools import tool_errors

MAX_LINKS = 5
"""Limit of chained exceptions."""
MAX_IN_GROUPS = 30
"""Limit of the exceptions of a group, with nested groups."""


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


def format_error_group(
    error: BaseExceptionGroup[BaseException], format_error: Callable[[BaseException], str]
) -> Iterator[str]:
    """Yield lines for a group and its first exceptions, at any depth.

    The traceback module visits every exception of a group, which can be very many.
    """
    # A stack: the next exception is at its end.
    pending: list[tuple[int, str, BaseException]] = [(0, "", error)]
    count = 0
    while pending and count < MAX_IN_GROUPS:
        depth, mark, member = pending.pop()
        count += 1
        indentation = "  " * depth

        if not isinstance(member, BaseExceptionGroup):
            yield f"{indentation}{mark}{format_error(member)}"
            continue

        yield f"{indentation}{mark}{tool_errors.summarize_error(member)}"
        first_members = member.exceptions[:MAX_IN_GROUPS]
        nested = [(depth + 1, f"[{index}] ", inner) for index, inner in enumerate(first_members)]
        pending += reversed(nested)

    if pending:
        yield "  … (more errors of the group are omitted)"
