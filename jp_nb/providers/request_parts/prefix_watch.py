"""Report a request that does not begin like the previous one of its conversation.

Requests only grow, so that the server's cache covers their beginning. A loss has a reason that the
user should know, such as a changed tool.

Source: `docs/providers.md`, "Requests only grow".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jp_nb.agent.provider import ModelRequest
from jp_nb.agent.provider_events import PrefixLoss
from jp_nb.agent.shared_prefix import BodyPart, compare_parts
from jp_nb.providers.request_parts.request_body import RequestBody

MAX_WATCHED_CONVERSATIONS: Final = 4
NOTABLE_LOSS: Final = 0.05
"""Smallest part of the previous request whose loss is reported."""
MIN_CACHED_BYTES: Final = 4096
"""Smallest loss that is reported. Providers cache beginnings of 1,024 tokens and more, with
about four bytes each."""


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
        """Return the loss of the `body` of `request` against the previous one, if it is large.

        None if the user knows of the loss: the messages were removed, or compacted.
        """
        key = request.conversation_id
        context = request.context
        last = self._last_requests.pop(key, None)

        self._last_requests[key] = _SentRequest(request, len(context), body)
        if len(self._last_requests) > MAX_WATCHED_CONVERSATIONS:
            del self._last_requests[next(iter(self._last_requests))]

        # `continues` is False if items that the last request sent are gone, or were replaced.
        if last is None or not context.continues(last.request.context, last.item_count):
            return None

        # Each model has its own cache, so another one begins with nothing.
        if last.request.model != request.model:
            return _measure_loss(last.body, [], changed="the model")

        count = len(last.body.messages)
        has_only_grown = (
            all(last.body.fields.get(name) == body.fields.get(name) for name in last.body.prefix)
            and last.body.messages == body.messages[:count]
        )
        if has_only_grown:
            return None  # the usual case, without encoding all parts
        return _measure_loss(last.body, body.list_parts())


def _measure_loss(
    before: RequestBody, after: Sequence[BodyPart], *, changed: str = ""
) -> PrefixLoss | None:
    """Return the part of the beginning of `before` that a request with the parts `after` lost.

    None if it lost less than a twentieth, or less than the smallest beginning that is cached.
    `changed` names the cause of the loss; "" for the name of the first part that differs.
    """
    # `kept` of `total` bytes are the same at the beginning of both.
    shared = compare_parts(before.list_parts(), after)
    lost = shared.total - shared.kept

    if lost <= NOTABLE_LOSS * shared.total or lost < MIN_CACHED_BYTES:
        return None
    return PrefixLoss(shared.percent, changed or shared.part)
