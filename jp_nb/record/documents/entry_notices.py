"""Notices about stored entries that are kept but not fully used, such as damaged ones.

Source: `docs/record.md`.
"""

from __future__ import annotations

from jp_nb.record.entries.inquiry_events import OUTCOMES, InquiryResponse
from jp_nb.record.stream import ConversationStream


def list_notices(stream: ConversationStream) -> list[str]:
    """Return a line for each entry that is kept but not fully used, with its path."""
    notices = [(damage.index, f"{damage.place}: {damage.message}") for damage in stream.damage]

    for index in stream.find_unresolved():
        reason = "the request of this response is unknown, so it is not sent to the model"
        notices.append((index, f"events[{index}].request_id: {reason}"))

    for index, (entry, raw) in enumerate(zip(stream.entries, stream.raw, strict=True)):
        if isinstance(entry, InquiryResponse) and raw.get("outcome", "answered") not in OUTCOMES:
            outcome = raw["outcome"]
            reason = f"this jp_nb does not know {outcome!r}; the question is treated as closed"
            notices.append((index, f"events[{index}].outcome: {reason}"))

    return [text for _, text in sorted(notices)]
