"""Report a request that does not begin like the previous one of its conversation.

Requests only grow, so that the server's cache covers their beginning. A loss has a reason that the
user should know, such as a changed tool.

Source: `docs/providers.md`, "Requests only grow".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from jp_nb.agent.provider import ModelRequest, PrefixLoss
from jp_nb.providers.request_parts.request_body import RequestBody, find_prefix_loss

MAX_WATCHED_CONVERSATIONS: Final = 4


@dataclass(frozen=True, slots=True)
class _SentRequest:
    """The last request of a conversation, and the number of items that its context had then."""

    request: ModelRequest
    item_count: int
    body: RequestBody


class PrefixWatch:
    """Compares the requests of each conversation."""

    def __init__(self) -> None:
        self._last_requests: dict[str, _SentRequest] = {}  # by conversation; the oldest first

    def compare(self, request: ModelRequest, body: RequestBody) -> PrefixLoss | None:
        """Return what the `body` of `request` lost of the previous one, if it is much.

        None if the user knows of the loss: the messages were removed, or compacted.
        """
        key = request.conversation_id
        context = request.context
        last = self._last_requests.pop(key, None)

        self._last_requests[key] = _SentRequest(request, len(context), body)
        if len(self._last_requests) > MAX_WATCHED_CONVERSATIONS:
            del self._last_requests[next(iter(self._last_requests))]

        if last is None or not context.continues(last.request.context, last.item_count):
            return None

        # Each model has its own cache, so another one begins with nothing.
        if last.request.model != request.model:
            return find_prefix_loss(last.body, replace(body, messages=()), "the model")
        return find_prefix_loss(last.body, body)
