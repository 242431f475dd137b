"""The record of a conversation, and beside it the context that requests send of it.

An entry that is appended to the record is also added to the context, so both grow together.
Compaction replaces the context, and leaves the record as it is.

Source: `docs/record.md`, `docs/providers.md`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from jp_nb.agent.display import Display, UserMessage
from jp_nb.agent.provider import ModelRequest, Provider
from jp_nb.images import Image
from jp_nb.record.entries.events import ChatRequest, ChatResponse, Entry, ToolCallRequest
from jp_nb.record.entries.inquiry_events import InquiryEntry
from jp_nb.record.reading.marks import is_note_to_model, is_schema_retry
from jp_nb.record.request_context.context import RequestContext
from jp_nb.record.request_context.host_marks import LastHost
from jp_nb.record.stream import ConversationStream


@dataclass(frozen=True, slots=True)
class LastRequest:
    """The request that was sent last.

    Attributes:
        provider: The provider that sent it.
        provider_name: Its name in the configuration.
        request: The request. Its context is that of the turn, which has grown since.
        item_count: Number of items of the context when the request was sent.
        last_entry: The last entry of the record at that time.
    """

    provider: Provider
    provider_name: str
    request: ModelRequest
    item_count: int
    last_entry: Entry

    @property
    def as_sent(self) -> ModelRequest:
        """The request with the context of that time."""
        return replace(self.request, context=self.request.context.until(self.item_count))


@dataclass(slots=True)
class TurnRecord:
    """The record of a conversation, and the context of its requests, which grows with it.

    Attributes:
        stream: The record.
        context: The context of requests. Compaction replaces it with another object.
        provider_name: Name of the provider whose responses are added now.
        sent: The request that was sent last; None before the first one.
        last_host: The host, such as `api.openai.com`, that got the conversation last; None if it is
            unknown.
    """

    stream: ConversationStream
    context: RequestContext
    provider_name: str = ""
    sent: LastRequest | None = None
    last_host: LastHost | None = None
    _held_inquiries: list[InquiryEntry] = field(default_factory=list)

    def add_inquiry_entry(self, entry: InquiryEntry) -> None:
        """Append the request or the response of an inquiry.

        A reproducible record must be the same after each run of the notebook. So it orders
        inquiries by call, because concurrent calls ask in any order, and holds them back until the
        next entry.
        """
        if self.stream.is_reproducible:
            self._held_inquiries.append(entry)
        else:
            self.add(entry)

    def add(self, *entries: Entry, images: Iterable[Image] = ()) -> None:
        """Append `entries` in one step, after those `images` that are not yet recorded."""
        if self._held_inquiries:
            entries = (
                *sort_by_call(self._held_inquiries, self.stream.list_open_tool_calls()),
                *entries,
            )
            self._held_inquiries = []

        # The stream completes entries, so the context gets them as the stream has them.
        start = len(self.stream)
        self.stream.append(*self.stream.make_image_entries(images), *entries)
        for entry in self.stream.entries[start:]:
            # The first entry of a response contains the *head* of its request: the instructions and
            # tools. It is noted first, because it comes before the response in the context.
            self.context.note_head(entry)
            self.context.add(entry, self.provider_name, self.stream.images)

    @property
    def last_user_text(self) -> str:
        """The last text of the user to the model; "" without one."""
        for entry in reversed(self.stream.entries):
            if isinstance(entry, ChatRequest) and not _is_of_program(entry):
                return entry.content
        return ""

    @property
    def last_model_text(self) -> str:
        """The last text of the model in the current turn; "" without one."""
        for entry in reversed(self.stream.current_turn()):
            if isinstance(entry, ChatResponse) and entry.message:
                return entry.message
        return ""

    def start_turn(self, request: ChatRequest, images: Iterable[Image] = ()) -> None:
        """Append the request that begins a turn, with its `images`.

        No inquiry is held back, because the calls of the turn before have ended.
        """
        self.stream.start_turn(request, images)
        self.context.add(self.stream.entries[-1], self.provider_name, self.stream.images)

    def add_user_message(self, text: str, display: Display) -> None:
        """Append and show a text of the user to the model in the middle of a turn."""
        self.add(ChatRequest(content=text))
        display(UserMessage(text))


def _is_of_program(request: ChatRequest) -> bool:
    """Return True if the program wrote the request to the model, and not the user."""
    return is_schema_retry(request) or is_note_to_model(request)


def sort_by_call(
    entries: Sequence[InquiryEntry], calls: Sequence[ToolCallRequest]
) -> list[InquiryEntry]:
    """Return `entries` grouped by call, then by question, in the order of the calls."""
    positions = {call.id: index for index, call in enumerate(calls)}
    by_question: dict[str, list[InquiryEntry]] = defaultdict(list)
    for entry in entries:
        by_question[entry.id].append(entry)

    def find_call_position(inquiry_id: str) -> int:
        # An id is `<call>.<question>.<attempt>`, and each of these may contain dots.
        call_id = inquiry_id
        while call_id and call_id not in positions:
            call_id = call_id.rpartition(".")[0]
        return positions.get(call_id, len(positions))

    # Sorting keeps the order of a call's own questions: it asks one after another.
    ordered = sorted(by_question, key=find_call_position)
    groups = [by_question[question] for question in ordered]
    return list(chain.from_iterable(groups))
