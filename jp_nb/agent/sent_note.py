"""What is kept of the request that went out last: the request itself, no copy of what it holds.

Source: `docs/providers.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from jp_nb.agent.model_events import ModelRequest, Provider
from jp_nb.record.events import Entry
from jp_nb.record.thread import Thread


@dataclass(frozen=True, slots=True)
class SentNote:
    """A request that went out.

    Attributes:
        provider: Who was asked.
        provider_name: Its name.
        request: What was asked. Its thread has grown since.
        items: So long was the thread.
        after: The last entry of the record at that time.
    """

    provider: Provider
    provider_name: str
    request: ModelRequest
    items: int
    after: Entry

    @property
    def as_sent(self) -> ModelRequest:
        """The request with the thread of that time."""
        return replace(self.request, thread=Thread(self.request.thread.items[: self.items]))
