"""Find the item of the conversation that a server rejects, so that the user can remove its turn.

The server names a message of the request by its index, as in `messages[3].content must not be
empty`. An *item* is an entry of the conversation, such as a call. It may give several messages or
none, and may share one with other items. So the item is found by the number of messages that each
beginning of the context gives.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from typing import Final

from jp_nb.errors import ProviderError
from jp_nb.record.request_context.context import RequestContext

_REJECTED: Final = (400, 422)
"""Statuses of a request whose content is not valid."""
_NAMED_MESSAGE: Final = re.compile(r"\b(?:messages|input|contents)\W{1,4}([0-9]{1,7})\b")


def read_rejected_index(error: ProviderError) -> int | None:
    """Return the index of the message that `error` names; None if it rejects no message."""
    named = _NAMED_MESSAGE.search(str(error))
    if named is None or error.status not in _REJECTED:
        return None
    return int(named[1])


def find_rejected_item(
    message_index: int, context: RequestContext, count_messages: Callable[[RequestContext], int]
) -> int | None:
    """Return the position in `context` of the item that a message contains.

    None for a message before or after those of the context, such as the attachments.

    Args:
        message_index: The index of the message among those of the context; negative before them.
        context: The conversation of the request.
        count_messages: Returns the number of messages that a beginning of the context gives.
    """
    if message_index < 0:
        return None

    def count_first(item_count: int) -> int:
        return count_messages(context.until(item_count))

    # The shortest beginning that gives this message ends with its item. A longer beginning never
    # gives fewer messages, so `bisect_right` finds it without counting each. It returns the number
    # of beginnings that are too short, which is the position of this item.
    item_counts = range(1, len(context) + 1)
    position = bisect_right(item_counts, message_index, key=count_first)
    return position if position < len(context) else None
