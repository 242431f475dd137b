"""Chained exceptions, and exceptions in groups.

Source: `docs/guide.md`, `docs/decisions.md` D85, D99.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jp_nb.toolkit.function_tools import tool_errors

MAX_LINKS = 5  # limit of chained exceptions


MAX_IN_GROUPS = 30  # limit of the exceptions of a group, with nested groups


def iter_error_chain(error: BaseException) -> Iterator[tuple[BaseException, bool]]:
    """Yield the chain of `error`, most recent last, with True for an explicit cause."""
    chain = [(error, False)]
    seen = {id(error)}
    while len(chain) < MAX_LINKS:
        last = chain[-1][0]
        before = last.__cause__
        if before is None and not last.__suppress_context__:
            before = last.__context__
        if before is None or id(before) in seen:
            break
        seen.add(id(before))
        chain.append((before, last.__cause__ is before))

    yield from reversed(chain)


def format_error_group(
    error: BaseExceptionGroup[BaseException], format_error: Callable[[BaseException], str]
) -> Iterator[str]:
    """Yield lines for a group and its first exceptions, at any depth.

    The traceback module visits every exception of a group, which can be very many.
    """
    waiting: list[tuple[int, str, BaseException]] = [(0, "", error)]
    count = 0
    while waiting and count < MAX_IN_GROUPS:
        depth, mark, each = waiting.pop()
        count += 1

        parts = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        is_group = isinstance(each, BaseExceptionGroup)
        text = tool_errors.summarize_error(each) if is_group else format_error(each)
        yield f"{'  ' * depth}{mark}{text}"

        nested = [(depth + 1, f"[{n}] ", part) for n, part in enumerate(parts[:MAX_IN_GROUPS])]
        waiting += reversed(nested)

    if waiting:
        yield "  … (more errors of the group are omitted)"
