"""Where a turn appends what happens: the record, and the provider's view of it.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from jp_nb.agent.display_events import Display, PersonSays
from jp_nb.agent.sent_note import SentNote
from jp_nb.image import Image
from jp_nb.record.events import ChatRequest, Entry, InquiryEntry, ToolCallRequest
from jp_nb.record.stream import ConversationStream
from jp_nb.record.thread import Thread
from jp_nb.record.turn_marks import LastHost


@dataclass(slots=True)
class TurnRecord:
    """Appends to the record of a conversation, and to its thread alongside.

    Attributes:
        provider: Name of the provider that the entries are from.
        sent: The last request that went out for them.
        last_host: The host of the last request that was sent over a network.
    """

    stream: ConversationStream
    thread: Thread
    provider: str = ""
    sent: SentNote | None = None
    last_host: LastHost | None = None
    _held: list[InquiryEntry] = field(default_factory=list)

    def add_question(self, entry: InquiryEntry) -> None:
        """Append what a tool asks, or how that ended: at once.

        In a record that is the same each time it waits for what is added next: calls that run
        side by side ask in any order.
        """
        if self.stream.same_each_time:
            self._held.append(entry)
        else:
            self.add(entry)

    def add(self, *entries: Entry, images: Iterable[Image] = ()) -> None:
        """Append `entries` in one step, and before them those `images` that are new."""
        if self._held:
            entries = (*in_call_order(self._held, self.stream.unanswered()), *entries)
            self._held = []
        start = len(self.stream)
        self.stream.append(*self.stream.new_images(images), *entries)
        for entry in self.stream.entries[start:]:
            self.thread.add(entry, self.provider, self.stream.images)

    @property
    def request(self) -> str:
        """The user's last words to the model."""
        requests = (x for x in reversed(self.stream.entries) if isinstance(x, ChatRequest))
        return next((each.content for each in requests), "")

    def start_turn(self, request: ChatRequest, images: Iterable[Image] = ()) -> None:
        """Append the request that begins a turn, and shows `images`."""
        self.stream.start_turn(request, images)
        self.thread.add(self.stream.entries[-1], self.provider, self.stream.images)

    def say(self, text: str, display: Display) -> None:
        """Append, and show, what the person says to the model in the middle of a turn."""
        self.add(ChatRequest(content=text))
        display(PersonSays(text))


def in_call_order(
    entries: Sequence[InquiryEntry], calls: Sequence[ToolCallRequest]
) -> list[InquiryEntry]:
    """Return `entries` call by call, and of each call question by question, as it asked them."""
    places = {call.id: place for place, call in enumerate(calls)}
    by_question: dict[str, list[InquiryEntry]] = defaultdict(list)
    for entry in entries:
        by_question[entry.id].append(entry)
    # Sorting keeps the order of a call's own questions: it asks one after another.
    ordered = sorted(by_question, key=lambda each: _place(each, places))
    return [entry for each in ordered for entry in by_question[each]]


def _place(inquiry: str, places: Mapping[str, int]) -> int:
    """Return the place of the call that asked `<call>.<question>.<attempt>`; ids may have dots."""
    beginning = inquiry
    while beginning and beginning not in places:
        beginning = beginning.rpartition(".")[0]
    return places.get(beginning, len(places))
