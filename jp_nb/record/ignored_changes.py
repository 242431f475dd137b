"""What a stranger's record sets and is not followed, and what trust in it would change.

Source: `docs/record.md`, `docs/decisions.md` D13.
"""

from __future__ import annotations

from pydantic import JsonValue

from jp_nb.config.layers import fold
from jp_nb.config.partial import build, diff, get_path, leaves, strip_strategies
from jp_nb.record.projection import Projection


def ignored_changes(projection: Projection) -> dict[str, JsonValue]:
    """Return what the record sets otherwise than the user's own files, and may not, by path."""
    projection.partial()  # it is noticed while it is followed
    plain = strip_strategies(fold(projection.layers()))
    return {
        path: value
        for path, value in projection.ignored.items()
        if value is None
        or path.startswith("(")
        or strip_strategies(build(path, value)) != build(path, get_path(plain, path))
    }


def changes_if_trusted(projection: Projection) -> dict[str, JsonValue]:
    """Return what would be in force otherwise if the record was trusted, by path; None: nothing.

    Also what the record sets and something later outdoes. It is found out by doing it: of
    several changes of one thing none can pass for all of them.
    """
    found = ignored_changes(projection)
    if not projection.ignored:
        return found
    trusted = projection.if_trusted()
    after = trusted.partial()
    change = diff(projection.partial(), after)
    found |= dict.fromkeys(change.unsets)
    found |= {path: get_path(after, path) for path, _ in leaves(change.delta)}
    return found | trusted.ignored
