"""Calls of the model by their ids, as a person names them on a line.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from jp_nb.errors import UsageError
from jp_nb.safe_text import one_line

MAX_IDS: Final = 10
"""Of those that are listed where several would do."""
_SHOWN: Final = 80


class WithId(Protocol):
    """A call, as it is recorded or as code reads it."""

    @property
    def id(self) -> str:
        """Return the model's id of it."""
        ...


C = TypeVar("C", bound=WithId)


def call_with_id(calls: Sequence[C], wanted: str, *, about: str = "") -> C:
    """Return the last of `calls` with the id `wanted`, else the one whose id begins so.

    `about` says which calls these are, for errors: ` of weather`.

    Raises:
        UsageError: If there is none, or several ids begin so.
    """
    found = [call for call in calls if call.id == wanted]
    found = found or [call for call in calls if call.id.startswith(wanted)]
    shown = one_line(wanted, limit=_SHOWN)
    if not found:
        raise UsageError(f"no call{about} in this conversation has an id that begins with {shown}")
    ids = list(dict.fromkeys(one_line(call.id, limit=_SHOWN) for call in found))
    if len(ids) > 1:
        more = f" and {len(ids) - MAX_IDS} more" if len(ids) > MAX_IDS else ""
        listed = f"{', '.join(ids[:MAX_IDS])}{more}"
        raise UsageError(f"several calls{about} have an id that begins with {shown}: {listed}")
    return found[-1]
