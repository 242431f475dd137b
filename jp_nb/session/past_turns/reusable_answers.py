"""Read the answers in a recorded turn, for calls of that turn that run a second time.

`%jp replay` and `%jp resume` answer the same questions of the tools with them.

Source: `docs/decisions.md` D101, D124.
"""

from __future__ import annotations

from collections.abc import Sequence

from jp_nb.agent.turn_state import RecordedAnswer
from jp_nb.record.entries.events import Entry
from jp_nb.record.entries.inquiry_events import InquiryRequest, InquiryResponse


def read_reusable_answers(entries: Sequence[Entry]) -> dict[str, RecordedAnswer]:
    """Return the answers in the `entries` of a turn, without secrets, by inquiry id."""
    questions = {entry.id: entry.question for entry in entries if isinstance(entry, InquiryRequest)}
    answers: dict[str, RecordedAnswer] = {}

    for entry in entries:
        if not isinstance(entry, InquiryResponse) or entry.outcome != "answered":
            continue

        question = questions.get(entry.id)
        if question is None:
            continue

        channel = entry.metadata.get("channel")
        origin = channel if isinstance(channel, str) else None
        answers[entry.id] = RecordedAnswer(question, entry.answer, origin)

    return answers
