"""State of a turn: configuration, record with its context, answers, and ports for tool calls.

Source: `docs/turns.md`, `docs/configuration.md`, `docs/record.md`, `docs/providers.md`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from pydantic import JsonValue

from jp_nb.agent.display import Display, UserMessage
from jp_nb.agent.inquiry import ChatModel, InquiryBackend
from jp_nb.agent.prompts import NOTHING_PREPARED, PreparedAnswers, Prompter
from jp_nb.agent.provider import (
    Attachment,
    ModelRequest,
    Provider,
    ToolChoice,
)
from jp_nb.agent.recording import RecordedResult, RecordedResults
from jp_nb.agent.tokens import UsageCounter
from jp_nb.agent.tool_call import Call
from jp_nb.agent.tool_set import OfferedTool, ToolSet
from jp_nb.config.proposal import ConfigSnapshot
from jp_nb.config.tree.app import Interrupt as InterruptConfig
from jp_nb.images import Image
from jp_nb.json_values import sorted_json
from jp_nb.record.context import RequestContext
from jp_nb.record.events import (
    ChatRequest,
    Entry,
    InquiryEntry,
    InquiryQuestion,
    ToolCallRequest,
)
from jp_nb.record.journal import CallStage
from jp_nb.record.marks import LastHost
from jp_nb.record.stream import ConversationStream
from jp_nb.tools.base import CellThread, SharedContext
from jp_nb.tools.question import Question
from jp_nb.tools.secrets import SecretAnswers


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved(ChatModel):
    """The effective configuration, resolved for one model request.

    Attributes:
        inquiry: Lets a model answer questions of tools.
        interrupts: Settings for interrupts of the kernel.
        basis: The configuration itself, which tools may propose to change.
        continues_answers: True if a response that reaches the token limit is continued.
        results: Recorded results of calls, for a replay; None: tools run.
        uses_cassette: True if requests are recorded or replayed.
        unavailable_reason: None if a user may be available.
    """

    tools: ToolSet
    tool_choice: str
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
        """Return the request of the turn that continues `thread`."""
        return self.make_request(
            thread,
            attachments=self.attachments,
            tools=tuple(tool.definition for tool in self.tools.tools.values()),
            choice=choice,
            schema=schema,
            conversation_id=conversation_id,
        )

    @property
    def host(self) -> str:
        """Host and port of the server, such as `127.0.0.1:8080`; "" without a network."""
        return urlsplit(self.provider.address).netloc


@dataclass(frozen=True, slots=True)
class LastRequest:
    """The request that was sent last.

    Attributes:
        request: Its context may have grown since.
        items: Length of the context when it was sent.
        after: Last entry of the record when it was sent.
    """

    provider: Provider
    provider_name: str
    request: ModelRequest
    items: int
    after: Entry

    @property
    def as_sent(self) -> ModelRequest:
        """The request with the context of that time."""
        return replace(self.request, thread=RequestContext(self.request.thread.items[: self.items]))


@dataclass(slots=True)
class TurnRecord:
    """The record of a conversation, and its context, which grows with it.

    Attributes:
        provider: Name of the provider that new entries are from.
        sent: The last request.
        last_host: Host of the last request over a network.
    """

    stream: ConversationStream
    thread: RequestContext
    provider: str = ""
    sent: LastRequest | None = None
    last_host: LastHost | None = None
    _held_inquiries: list[InquiryEntry] = field(default_factory=list)

    def add_question(self, entry: InquiryEntry) -> None:
        """Append the request or the response of an inquiry.

        A reproducible record orders inquiries by call, because concurrent calls ask in any order.
        It holds them back until the next entry.
        """
        if self.stream.is_reproducible:
            self._held_inquiries.append(entry)
        else:
            self.add(entry)

    def add(self, *entries: Entry, images: Iterable[Image] = ()) -> None:
        """Append `entries` in one step, after those `images` that are not yet recorded."""
        if self._held_inquiries:
            entries = (*sort_by_call(self._held_inquiries, self.stream.open_tool_calls()), *entries)
            self._held_inquiries = []
        start = len(self.stream)
        self.stream.append(*self.stream.new_images(images), *entries)
        for entry in self.stream.entries[start:]:
            self.thread.add(entry, self.provider, self.stream.images)

    @property
    def request(self) -> str:
        """The last text of the user to the model."""
        requests = (x for x in reversed(self.stream.entries) if isinstance(x, ChatRequest))
        return next((each.content for each in requests), "")

    def start_turn(self, request: ChatRequest, images: Iterable[Image] = ()) -> None:
        """Append the request that begins a turn, with its `images`."""
        self.stream.start_turn(request, images)
        self.thread.add(self.stream.entries[-1], self.provider, self.stream.images)

    def add_user_message(self, text: str, display: Display) -> None:
        """Append and show a text of the user to the model in the middle of a turn."""
        self.add(ChatRequest(content=text))
        display(UserMessage(text))


def sort_by_call(
    entries: Sequence[InquiryEntry], calls: Sequence[ToolCallRequest]
) -> list[InquiryEntry]:
    """Return `entries` grouped by call, then by question, in the order of the calls."""
    positions = {call.id: index for index, call in enumerate(calls)}
    by_question: dict[str, list[InquiryEntry]] = defaultdict(list)
    for entry in entries:
        by_question[entry.id].append(entry)
    # Sorting keeps the order of a call's own questions: it asks one after another.
    ordered = sorted(by_question, key=lambda each: _position_of_call(each, positions))
    return [entry for each in ordered for entry in by_question[each]]


def _position_of_call(inquiry: str, positions: Mapping[str, int]) -> int:
    """Return the position of the call of the inquiry `<call>.<question>.<attempt>`."""
    beginning = inquiry  # ids of calls may contain dots
    while beginning and beginning not in positions:
        beginning = beginning.rpartition(".")[0]
    return positions.get(beginning, len(positions))


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """The answer to the same question of the same call, before the turn was interrupted.

    Attributes:
        question: The recorded question. The answer is valid for no other.
        channel: Source of the answer, for the tool.
    """

    question: InquiryQuestion
    answer: JsonValue
    channel: str | None = None


@dataclass(slots=True)
class TurnState:
    """Answers and decisions for the rest of a turn. They are not stored.

    Attributes:
        answers: Remembered answers by `<tool>.<question id>`.
        permissions: Remembered permissions by tool and arguments, each with its tool. "" stands for
            all arguments.
        attempts: Number of times a question was asked, by `<call>.<question>`.
        secrets: Secrets of the session, which are hidden in results.
        images: Number of images in the turn, including results that wait for delivery.
        recorded: Answers with precedence over all others, by the id of the inquiry.
        prepared: Prepared answers and decisions. They outlive the turn.
        unavailable_reason: Set when a decision needed a user and none was available.
    """

    answers: dict[str, JsonValue] = field(default_factory=dict)
    permissions: dict[tuple[str, str], tuple[OfferedTool, bool]] = field(default_factory=dict)
    attempts: Counter[str] = field(default_factory=Counter)
    secrets: SecretAnswers = field(default_factory=SecretAnswers)
    images: int = 0
    recorded: Mapping[str, RecordedAnswer] = field(default_factory=dict)
    prepared: PreparedAnswers = NOTHING_PREPARED
    unavailable_reason: str | None = None

    def permission(self, tool: OfferedTool, arguments: Mapping[str, JsonValue]) -> bool | None:
        """Return the remembered decision for `tool` with these arguments, if any."""
        for covered in ("", sorted_json(dict(arguments))):
            about, decided = self.permissions.get((tool.name, covered), (None, None))
            if about == tool:
                return decided
        return None

    def remember_permission(
        self, tool: OfferedTool, arguments: Mapping[str, JsonValue], *, runs: bool
    ) -> None:
        """Reuse a decision about a call for the rest of the turn.

        A permission covers the displayed arguments, or the tool. A refusal covers the tool.
        """
        covered = sorted_json(dict(arguments)) if runs and tool.covers == "arguments" else ""
        self.permissions[tool.name, covered] = (tool, runs)

    def inquiry_id(self, call_id: str, question_id: str) -> str:
        """Return a new id `<call>.<question>.<attempt>`, unique in the turn."""
        key = f"{call_id}.{question_id}"  # ids may contain dots: equal texts share a count
        self.attempts[key] += 1
        return f"{key}.{self.attempts[key]}"

    def remembered(self, tool: str, question: Question) -> JsonValue:
        """Return the remembered answer to `question` if it is valid, else None."""
        if not is_reusable(question):
            return None
        answer = self.answers.get(f"{tool}.{question.id}")
        return None if answer is None or question.misfit(answer) else answer

    def remember(self, tool: str, question: Question, answer: JsonValue) -> None:
        """Reuse `answer` for the rest of the turn, if `question` allows it."""
        if is_reusable(question):
            self.answers[f"{tool}.{question.id}"] = answer


def is_reusable(question: Question) -> bool:
    """Return True if answers to `question` may be reused in the turn."""
    return question.persistence == "turn" and not question.answer_type.has_secret


@dataclass(frozen=True, slots=True)
class TurnContext:
    """State and ports that the tool calls of a turn share.

    Attributes:
        record: Appends an entry of an inquiry to the conversation.
        shared: The part of the tool context that is the same for all calls.
        on_tool_error: Receives the exception of a tool, for a debugger. Its traceback begins in the
            tool.
        on_progress: Stores the progress of a call in the journal, with the result of a finished
            call. It is also called on the cell's thread, when a function starts there.
    """

    record: Callable[[InquiryEntry], None]
    prompter: Prompter
    cell: CellThread
    display: Display
    state: TurnState
    shared: SharedContext = field(default_factory=SharedContext)
    on_tool_error: Callable[[Call, BaseException], None] | None = None
    on_progress: Callable[[Call, CallStage, Sequence[Entry]], None] | None = None


@dataclass(frozen=True, slots=True)
class BatchContext:
    """Context of all calls of a batch.

    Attributes:
        thread: Context of the conversation, for questions that a model answers.
        inquiry: Asks a model; None if that is not possible.
        catalog: Documentation of the available tools, by name.
        interrupts: Settings for interrupts.
        basis: Configuration at the start of the batch.
        tokens: Usage of the turn.
        results: Recorded results in the order of the calls. If set, no tool runs.
    """

    thread: RequestContext
    inquiry: InquiryBackend | None = None
    catalog: Mapping[str, str] = field(default_factory=dict)
    interrupts: InterruptConfig = field(default_factory=InterruptConfig)
    basis: ConfigSnapshot = field(default_factory=ConfigSnapshot)
    tokens: UsageCounter = field(default_factory=UsageCounter)
    results: Sequence[RecordedResult] | None = None
