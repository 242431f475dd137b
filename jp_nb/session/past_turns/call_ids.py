"""Find a tool call of the conversation by its id, or by the beginning of it, as a user types it.

`%jp call --id` and `%jp code --call` use it.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from jp_nb.errors import UsageError
from jp_nb.record.entries.events import ToolCallRequest
from jp_nb.record.reading.turn_view import ToolCall
from jp_nb.text import MAX_ITEMS_IN_LINE, one_line

CallT = TypeVar("CallT", ToolCall, ToolCallRequest)


def find_call(calls: Sequence[CallT], wanted: str, *, about: str = "") -> CallT:
    """Return the last of `calls` whose id is `wanted` or begins with it.

    `about` describes the calls in errors: ` of weather`.

    Raises:
        UsageError: There is none, or there are several that begin with it.
    """
    matches = [call for call in calls if call.id == wanted]
    if not matches:
        matches = [call for call in calls if call.id.startswith(wanted)]

    shown = one_line(wanted, limit=80)
    if not matches:
        raise UsageError(f"no call{about} in this conversation has an id that begins with {shown}")

    ids = list(dict.fromkeys(one_line(call.id, limit=80) for call in matches))
    if len(ids) > 1:
        listed = ", ".join(ids[:MAX_ITEMS_IN_LINE])
        if len(ids) > MAX_ITEMS_IN_LINE:
            listed += f" and {len(ids) - MAX_ITEMS_IN_LINE} more"
        raise UsageError(f"several calls{about} have an id that begins with {shown}: {listed}")

    return matches[-1]  # models repeat ids
