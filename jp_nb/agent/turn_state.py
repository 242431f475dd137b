"""State of a turn: the resolved configuration of a cycle, the record and the context.

Source: `docs/turns.md`, `docs/configuration.md`, `docs/record.md`, `docs/providers.md`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from pydantic import JsonValue

from jp_nb.agent.display import Display, UserMessage
from jp_nb.agent.inquiry import InquiryBackend
from jp_nb.agent.provider import (
    Attachment,
    ModelParameters,
    ModelRequest,
    Provider,
    ToolChoice,
)
from jp_nb.agent.recording import RecordedResults
from jp_nb.agent.tool_set import ToolSet
from jp_nb.config.proposal import ConfigSnapshot
from jp_nb.config.tree.app import Interrupt as InterruptConfig
from jp_nb.config.tree.models import Request as RequestConfig
from jp_nb.images import Image
from jp_nb.record.context import RequestContext
from jp_nb.record.events import ChatRequest, Entry, InquiryEntry, ToolCallRequest
from jp_nb.record.marks import LastHost
from jp_nb.record.stream import ConversationStream


@dataclass(frozen=True, slots=True)
class Resolved:
    """All that one model request needs of the configuration in force.

    Attributes:
        inquiry: Answers questions of tools by asking a model.
        interrupts: What an interrupt of the kernel does.
        basis: The configuration itself, which tools may propose to change.
        continues_answers: True if an answer that reaches the token limit is continued.
        results: Has the results of calls in their place; None: tools run.
        uses_cassette: True if a cassette records the model or answers in its place.
        unavailable_reason: None if a user may be available.
    """

    provider: Provider
    provider_name: str
    model: str
    system: tuple[str, ...]
    tools: ToolSet
    tool_choice: str
    parameters: ModelParameters
    request: RequestConfig
    attachments: tuple[Attachment, ...] = ()
    inquiry: InquiryBackend | None = None
    interrupts: InterruptConfig = field(default_factory=InterruptConfig)
    basis: ConfigSnapshot = field(default_factory=ConfigSnapshot)
    continues_answers: bool = False
    results: RecordedResults | None = None
    uses_cassette: bool = False
    unavailable_reason: str | None = None

    def model_request(
        self,
        thread: RequestContext,
        *,
        choice: ToolChoice,
        schema: Mapping[str, JsonValue] | None,
        conversation_id: str,
    ) -> ModelRequest:
        """Return the request that has `thread` gone on with."""
        return ModelRequest(
            model=self.model,
            thread=thread,
            system=self.system,
            attachments=self.attachments,
            tools=tuple(tool.definition for tool in self.tools.tools.values()),
            tool_choice=choice,
            parameters=self.parameters,
            schema=schema,
            idle_timeout=float(self.request.stream_idle_timeout_secs),
            max_response_bytes=self.request.max_response_bytes,
            conversation_id=conversation_id,
        )

    @property
    def host(self) -> str:
        """The host that requests are sent to, such as `127.0.0.1:8080`; "" without a network."""
        return urlsplit(self.provider.address).netloc

    @property
    def full_name(self) -> str:
        """The model's name as it is configured: `provider/name`."""
        return f"{self.provider_name}/{self.model}"


@dataclass(frozen=True, slots=True)
class LastRequest:
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
        return replace(self.request, thread=RequestContext(self.request.thread.items[: self.items]))


@dataclass(slots=True)
class TurnRecord:
    """Appends to the record of a conversation, and to its thread alongside.

    Attributes:
        provider: Name of the provider that the entries are from.
        sent: The last request that went out for them.
        last_host: The host of the last request that was sent over a network.
    """

    stream: ConversationStream
    thread: RequestContext
    provider: str = ""
    sent: LastRequest | None = None
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
        display(UserMessage(text))


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
