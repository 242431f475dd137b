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
class _SentBefore:
    request: ModelRequest
    item_count: int  # of its context, which grows afterwards
    body: RequestBody


class PrefixWatch:
    """Compares the requests of each conversation."""

    def __init__(self) -> None:
        self._sent: dict[str, _SentBefore] = {}  # the last request, by conversation

    def compare(self, request: ModelRequest, body: RequestBody) -> PrefixLoss | None:
        """Return what the `body` of `request` lost of the previous one, if it is much.

        None if the user knows of the loss: the messages were removed, or compacted.
        """
        key = request.conversation_id
        context = request.context
        last = self._sent.pop(key, None)

        self._sent[key] = _SentBefore(request, len(context), body)
        if len(self._sent) > MAX_WATCHED_CONVERSATIONS:
            del self._sent[next(iter(self._sent))]

        if last is None or not context.continues(last.request.context, last.item_count):
            return None

        if last.request.model != request.model:
            return find_prefix_loss(last.body, replace(body, messages=()), "the model")
        return find_prefix_loss(last.body, body)
