"""Notices for whoever reads a record: which entries cannot be read, or not be linked."""

from __future__ import annotations

from jp_nb.record.events import InquiryResponse
from jp_nb.record.inquiry_events import OUTCOMES
from jp_nb.record.stream import ConversationStream


def notices(stream: ConversationStream) -> list[str]:
    """Return a line for each entry that is kept and does not count in full, with its place."""
    found = [(damage.index, f"{damage.place}: {damage.message}") for damage in stream.damage]
    for index in stream.unresolved():
        found.append(
            (
                index,
                f"events[{index}].request_id: the request of this response is unknown, so it is "
                "not sent to the model",
            )
        )
    for index, (entry, raw) in enumerate(zip(stream.entries, stream.raw, strict=True)):
        if isinstance(entry, InquiryResponse) and raw.get("outcome", "answered") not in OUTCOMES:
            found.append(
                (
                    index,
                    f"events[{index}].outcome: this jp_nb does not know {raw['outcome']!r}; "
                    "the question is treated as closed",
                )
            )
    return [text for _, text in sorted(found)]
