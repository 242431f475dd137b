"""Where a turn appends what happens: the record, and the provider's view of it.

Source: `docs/record.md`.
"""

from __future__ import annotations

from dataclasses import dataclass

from jp_nb.agent.display_events import Display, PersonSays
from jp_nb.record.events import ChatRequest, Entry
from jp_nb.record.stream import ConversationStream
from jp_nb.record.thread import Thread


@dataclass(slots=True)
class TurnRecord:
    """Appends to the record of a conversation, and to its thread alongside.

    Attributes:
        provider: Name of the provider that the entries are from.
    """

    stream: ConversationStream
    thread: Thread
    provider: str = ""

    def add(self, *entries: Entry) -> None:
        """Append `entries` in one step."""
        start = len(self.stream)
        self.stream.append(*entries)
        for entry in self.stream.entries[start:]:
            self.thread.add(entry, self.provider)

    def start_turn(self, request: ChatRequest) -> None:
        """Append the request that begins a turn."""
        self.stream.start_turn(request)
        self.thread.add(self.stream.entries[-1], self.provider)

    def say(self, text: str, display: Display) -> None:
        """Append, and show, what the person says to the model in the middle of a turn."""
        self.add(ChatRequest(content=text))
        display(PersonSays(text))
