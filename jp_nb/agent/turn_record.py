"""Where a turn appends what happens: the record, and the provider's view of it.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jp_nb.agent.display_events import Display, PersonSays
from jp_nb.agent.sent_note import SentNote
from jp_nb.image import Image
from jp_nb.record.events import ChatRequest, Entry
from jp_nb.record.stream import ConversationStream
from jp_nb.record.thread import Thread


@dataclass(slots=True)
class TurnRecord:
    """Appends to the record of a conversation, and to its thread alongside.

    Attributes:
        provider: Name of the provider that the entries are from.
        sent: The last request that went out for them.
    """

    stream: ConversationStream
    thread: Thread
    provider: str = ""
    sent: SentNote | None = None

    def add(self, *entries: Entry, images: Iterable[Image] = ()) -> None:
        """Append `entries` in one step, and before them those `images` that are new."""
        start = len(self.stream)
        self.stream.append(*self.stream.new_images(images), *entries)
        for entry in self.stream.entries[start:]:
            self.thread.add(entry, self.provider, self.stream.images)

    def start_turn(self, request: ChatRequest, images: Iterable[Image] = ()) -> None:
        """Append the request that begins a turn, and shows `images`."""
        self.stream.start_turn(request, images)
        self.thread.add(self.stream.entries[-1], self.provider, self.stream.images)

    def say(self, text: str, display: Display) -> None:
        """Append, and show, what the person says to the model in the middle of a turn."""
        self.add(ChatRequest(content=text))
        display(PersonSays(text))
