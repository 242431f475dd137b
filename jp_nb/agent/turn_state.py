"""State of a turn and its tool calls: configuration, record with its context, answers, and ports.

Source: `docs/turns.md`, `docs/configuration.md`, `docs/record.md`, `docs/providers.md`.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from time import monotonic
from typing import Final
from urllib.parse import urlsplit

from pydantic import JsonValue

from jp_nb.agent.display import ChangeEnds, Display, TokensSoFar, UserMessage
from jp_nb.agent.exchanges import RecordedResult, RecordedResults
from jp_nb.agent.inquiry import ChatModel, InquiryBackend
from jp_nb.agent.permission_rules import KeptRules, Ruling, SessionRules
from jp_nb.agent.prepared_answers import PreparedAnswers
from jp_nb.agent.prompts import Channel, Prompter
from jp_nb.agent.provider import Attachment, ModelRequest, Provider, ToolChoice, Usage
from jp_nb.agent.tool_set import OfferedTool, ToolSet
from jp_nb.config.proposal import ConfigSnapshot
from jp_nb.config.tree.app import Record
from jp_nb.images import Image, find_image_problem
from jp_nb.json_values import as_object, copy_json, make_storable, sorted_json
from jp_nb.record.context import RequestContext
from jp_nb.record.events import (
    ChatRequest,
    Entry,
    InquiryEntry,
    InquiryQuestion,
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.record.head import RequestHead
from jp_nb.record.marks import LastHost, ModelUsage, is_schema_retry, with_usage
from jp_nb.record.outcomes import QuestionOutcome
from jp_nb.record.stream import ConversationStream
from jp_nb.record.turn_view import CallProgress
from jp_nb.text import MAX_LISTED
from jp_nb.toolkit.base import CellThread, DeltaRejection, SharedContext, error_summary
from jp_nb.toolkit.outcome import Failure
from jp_nb.toolkit.parameters import coerce_arguments, drop_optional_nulls
from jp_nb.toolkit.question import Question
from jp_nb.toolkit.secret_answers import SecretAnswers


def host_of(provider: Provider) -> str:
    """Return host and port of the provider's server; "" without a network."""
    return urlsplit(provider.address).netloc


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved(ChatModel):
    """The effective configuration (`basis`), resolved for one model request.

    Attributes:
        continues_answers: True if a response that reaches the token limit is continued.
        results: Recorded results of calls, for a replay; None: tools run.
        context_tokens: Size of the model's context; None if it is unknown.
    """

    tools: ToolSet
    tool_choice: str
    attachments: tuple[Attachment, ...] = ()
    inquiry: InquiryBackend | None = None
    basis: ConfigSnapshot = field(default_factory=ConfigSnapshot)
    continues_answers: bool = False
    results: RecordedResults | None = None
    uses_cassette: bool = False
    unavailable_reason: str | None = None
    context_tokens: int | None = None

    def model_request(
        self,
        thread: RequestContext,
        *,
        choice: ToolChoice,
        schema: Mapping[str, JsonValue] | None,
        conversation_id: str,
    ) -> ModelRequest:
        """Return the request of the turn that continues `thread`."""
        thread.note_contents(self.attachments)
        request = self.make_request(
            thread,
            attachments=self.attachments,
            tools=tuple(tool.definition for tool in self.tools.tools.values()),
            choice=choice,
            schema=schema,
            conversation_id=conversation_id,
        )
        return replace(request, is_turn=True)

    @property
    def head(self) -> RequestHead:
        """The head of a request without a schema."""
        thread = RequestContext()
        request = self.model_request(thread, choice="auto", schema=None, conversation_id="")
        return request.head

    @property
    def host(self) -> str:
        """Host and port of the server, such as `127.0.0.1:8080`; "" without a network."""
        return host_of(self.provider)


@dataclass(frozen=True, slots=True)
class LastRequest:
    """The request that was sent last, when the context had `items` and the record ended in `after`.

    The context of `request` may have grown since.
    """

    provider: Provider
    provider_name: str
    request: ModelRequest
    items: int
    after: Entry

    @property
    def as_sent(self) -> ModelRequest:
        """The request with the context of that time."""
        return replace(self.request, thread=self.request.thread.until(self.items))


@dataclass(slots=True)
class TurnRecord:
    """The record of a conversation, and its context `thread`, which grows with it.

    Compaction replaces `thread` with another object. `provider` is the one of new entries.
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
            self.thread.read_head(entry)
            self.thread.add(entry, self.provider, self.stream.images)

    @property
    def request(self) -> str:
        """The last text of the user to the model."""
        entries = reversed(self.stream.entries)
        requests = (x for x in entries if isinstance(x, ChatRequest) and not is_schema_retry(x))
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

    def position_of_call(inquiry_id: str) -> int:
        beginning = inquiry_id  # `<call>.<question>.<attempt>`: ids of calls may contain dots
        while beginning and beginning not in positions:
            beginning = beginning.rpartition(".")[0]
        return positions.get(beginning, len(positions))

    # Sorting keeps the order of a call's own questions: it asks one after another.
    ordered = sorted(by_question, key=position_of_call)
    return [entry for each in ordered for entry in by_question[each]]


@dataclass(slots=True)
class UsageCounter:
    """Tokens of a turn so far, including questions that a model answered.

    `display` gets the new total after each request. `max_tokens` is the limit of the turn, or 0.
    """

    display: Display | None = None
    max_tokens: int = 0
    usage: Usage = field(default_factory=Usage)
    _unstored: dict[str, Usage] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Sum of input and output tokens."""
        return (self.usage.input_tokens or 0) + (self.usage.output_tokens or 0)

    @property
    def is_over(self) -> bool:
        """True if the turn took more tokens than `max_tokens`."""
        return 0 < self.max_tokens < self.total

    def count(self, usage: Usage) -> Usage:
        """Count and return the tokens of one request. The caller records them."""
        if usage != Usage():
            self.usage += usage
            if self.display is not None:
                self.display(TokensSoFar(self.usage.input_tokens, self.usage.output_tokens))
        return usage

    def add(self, model: str, usage: Usage) -> None:
        """Count the tokens of one request to `model`, which `attach_usage` records later."""
        self._unstored[model] = self._unstored.get(model, Usage()) + self.count(usage)

    def attach_usage_to_last(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return `entries` with all unrecorded usage attached to the last one."""
        return [*entries[:-1], *map(self.attach_usage, entries[-1:])]

    def attach_usage(self, entry: Entry) -> Entry:
        """Return `entry` with all unrecorded usage attached to it."""
        used = [ModelUsage(model, tokens) for model, tokens in self._unstored.items()]
        self._unstored.clear()
        return with_usage(entry, *used)


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """The answer to the same `question` of the same call, before the turn was interrupted."""

    question: InquiryQuestion
    answer: JsonValue
    channel: str | None = None


def is_reusable(question: Question) -> bool:
    """Return True if answers to `question` may be reused in the turn."""
    return question.persistence == "turn" and not question.answer_type.has_secret


@dataclass(slots=True)
class TurnContext:
    """Ports of a turn, and its answers and decisions, which its requests and tool calls share.

    `prepared` and `secrets` are those of the session. Answers and decisions are not stored.

    Attributes:
        recorded: Answers with precedence over all others, by the id of the inquiry.
        on_tool_error: Receives the exception of a tool, with a traceback that begins in the tool.
        progress: Stores the progress of calls, by their event ids, in the journal. Before a tool
            starts, it flushes the journal to disk. It is also called on the cell's thread.
        applies_changes: False outside of a turn, where no configuration change takes effect.
        clock: Seconds for the time between two interrupts, such as `last_interrupt`.
        answers: Remembered answers by `<tool>.<question id>`.
        permissions: Remembered permissions by tool, rule, and arguments ("" for all), each with its
            tool.
        kept_rules: Rules that the user kept for further turns.
        attempts: Number of times a question was asked, by `<call>.<question>`.
        images: Number of images in the turn, including results that wait for delivery.
        unavailable_reason: Set when a decision needed a user and none was available.
    """

    record: TurnRecord
    prompter: Prompter
    cell: CellThread
    display: Display
    prepared: PreparedAnswers
    secrets: SecretAnswers = field(default_factory=SecretAnswers)
    recorded: Mapping[str, RecordedAnswer] = field(default_factory=dict)
    tokens: UsageCounter = field(default_factory=UsageCounter)
    shared: SharedContext = field(default_factory=SharedContext)
    on_tool_error: Callable[[BaseException], None] | None = None
    progress: Callable[[Mapping[str, CallProgress]], None] | None = None
    applies_changes: bool = True
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = monotonic
    answers: dict[str, JsonValue] = field(default_factory=dict)
    permissions: dict[tuple[str, str], tuple[OfferedTool, bool]] = field(default_factory=dict)
    kept_rules: KeptRules = field(default_factory=lambda: SessionRules(scopes=()))
    attempts: Counter[str] = field(default_factory=Counter)
    last_interrupt: float | None = None
    images: int = 0
    unavailable_reason: str | None = None

    def permission(
        self, tool: OfferedTool, arguments: Mapping[str, JsonValue], asked_by: str = ""
    ) -> bool | None:
        """Return the remembered decision for `tool` with these arguments, if any.

        A permission for the whole tool covers only calls that the same rule, or none, asks about.
        It ends when the server of the tool announces changes.
        """
        for covered in ("", asked_by, f"{asked_by}{sorted_json(dict(arguments))}"):
            about, decided = self.permissions.get((tool.name, covered), (None, None))
            is_covered = decided is False or covered or not asked_by
            has_ended = decided is True and tool.executor.is_outdated
            if about == tool and is_covered and not has_ended:
                return decided
        return None

    def remember_permission(
        self,
        tool: OfferedTool,
        arguments: Mapping[str, JsonValue],
        *,
        runs: bool,
        asked_by: str = "",
    ) -> None:
        """Reuse a decision about a call for the rest of the turn.

        A permission covers the displayed arguments, or the tool, and the rule `asked_by` which the
        user was asked. A refusal covers the tool.
        """
        covered = asked_by if runs else ""
        if runs and tool.covers == "arguments":
            covered += sorted_json(dict(arguments))
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


@dataclass(frozen=True, slots=True)
class BatchContext:
    """Context of all calls of a batch, with the documentation of tools (`catalog`).

    `results` are recorded results in the order of the calls. If set, no tool runs.
    """

    inquiry: InquiryBackend | None = None
    catalog: Mapping[str, str] = field(default_factory=dict)
    basis: ConfigSnapshot = field(default_factory=ConfigSnapshot)
    results: Sequence[RecordedResult] | None = None


@dataclass(frozen=True, slots=True)
class LimitedImages:
    """Images within the limits of a turn, and a line for each of the `omitted` ones."""

    images: tuple[Image, ...] = ()
    omitted: tuple[str, ...] = ()

    def add_omissions_to(self, text: str) -> str:
        """Return `text` followed by the lines about omitted images."""
        lines = list(self.omitted[:MAX_LISTED])
        more = len(self.omitted) - len(lines)
        if more:
            lines.append(f"[{more} more omitted]")
        return "\n".join([text, *lines] if text else lines)


NO_IMAGES: Final = LimitedImages()


def limit_images(images: Iterable[Image], limits: Record, *, before: int) -> LimitedImages:
    """Return the `images` within `limits`, if the turn has that many images `before` them."""
    kept: dict[str, Image] = {}
    omitted: list[str] = []
    for image in images:
        if image.digest in kept:
            continue
        if len(image.content) > limits.image_max_bytes:
            why: str | None = f"record.image_max_bytes is {limits.image_max_bytes}"
        elif before + len(kept) >= limits.images_per_turn:
            why = f"record.images_per_turn is {limits.images_per_turn}"
        else:
            why = find_image_problem(image)
        if why is None:
            kept[image.digest] = image
        else:
            omitted.append(image.left_out(why))
    return LimitedImages(tuple(kept.values()), tuple(omitted))


@dataclass(slots=True, eq=False)
class Call:
    """One tool call. `tool` is None if it is not available.

    Attributes:
        bad_arguments: Parse error of the model's arguments.
        event_id: Event id of the request, for the journal.
        number: Position among the calls of the batch with the same id. Models repeat ids.
        edited: Set if the user changed the arguments.
        ruling: The permission of the call, by a rule or by `run`; None if the user decided.
        reply: Message of the user to the model, in place of answers.
        automatic_answer_counts: Number of answers without the user, by question id.
        rejections: Number of proposed configuration changes that were not applied.
        formatted: Arguments as a formatter wrote them.
        texts_in_prompt: True if a prompt displays the text arguments.
        may_have_run: True if the call may have run before a restart or a crash.
        kept: The response that the cell's thread has kept for the journal.
        delivering: True if the user is asked about the result.
        structured: Data of the result, recorded only with the unedited text `delivered`.
        shown_images: Images for the model. They are omitted if the user edits the text.
        whole_chars: Length of the result before truncation, in characters.
        was_interrupted: True if an interrupt ended the tool's function.
        task: The task that runs the call. Another one is abandoned: it must not change the call.
        response: Final: once it is set, nothing changes.
        seconds: Duration of all runs, without the time for prompts.
    """

    request: ToolCallRequest
    tool: OfferedTool | None
    bad_arguments: str | None = None
    event_id: str = ""
    index: int = 0
    number: int = 1
    arguments: dict[str, JsonValue] = field(default_factory=dict)
    edited: Channel | None = None
    ruling: Ruling | None = None
    answers: dict[str, JsonValue] = field(default_factory=dict)
    question_ends: dict[str, QuestionOutcome] = field(default_factory=dict)
    reply: str | None = None
    automatic_answer_counts: Counter[str] = field(default_factory=Counter)
    rejections: int = 0
    rejection: DeltaRejection | None = None
    formatted: str | None = None
    is_displayed: bool = False
    needs_redisplay: bool = False
    texts_in_prompt: bool = False
    ran: bool = False
    may_have_run: bool = False
    kept: ToolCallResponse | None = None
    delivering: bool = False
    structured: JsonValue = None
    delivered: str | None = None
    shown_images: LimitedImages = NO_IMAGES
    whole_chars: int | None = None
    was_interrupted: bool = False
    task: asyncio.Task[bool] | None = None
    response: ToolCallResponse | None = None
    traceback: str | None = None
    exception: BaseException | None = None
    seconds: float = 0.0
    changes: list[ChangeEnds] = field(default_factory=list)

    @property
    def key(self) -> str:
        """Unique id in the batch."""
        return self.request.id if self.number == 1 else f"{self.request.id}#{self.number}"

    @property
    def title(self) -> str:
        """Display name of the tool."""
        return "a tool" if self.tool is not None and self.tool.hidden else self.request.name

    def reset(self) -> None:
        """Reset the call for another run. `may_have_run` remembers the earlier one."""
        self.may_have_run |= self.ran
        fresh = Call(self.request, self.tool)
        for each in fields(self):
            if each.name not in _KEPT_ON_RESET:
                setattr(self, each.name, getattr(fresh, each.name))


_KEPT_ON_RESET: Final = {
    *("request", "tool", "bad_arguments", "event_id", "index", "number"),
    *("may_have_run", "task", "exception", "changes"),
}


class CallEnded(Exception):  # noqa: N818 - mostly a decision of the user, and no error
    """A tool call ends with the response `content` instead of the result of its tool."""

    def __init__(
        self,
        content: str,
        *,
        is_error: bool = False,
        skipped: bool = False,
        stops_turn: bool = False,
    ) -> None:
        super().__init__(content)
        self.content = content
        self.is_error = is_error
        self.skipped = skipped
        self.stops_turn = stops_turn


def prepare_arguments(
    tool: OfferedTool, arguments: Mapping[str, JsonValue]
) -> dict[str, JsonValue] | Failure:
    """Return the arguments that `tool` will get, or the reason why it cannot run with them."""
    schema = tool.definition.parameters
    copy = copy_json(dict(arguments))  # tools may modify what they get, but not the record
    # Half a surrogate pair becomes U+FFFD here, so that a prompt shows what the tool gets.
    clean = as_object(make_storable(copy))
    given = drop_optional_nulls(coerce_arguments(clean, schema), schema)

    try:
        prepared = tool.executor.prepare(tool.name, given, schema)
    except Exception as exc:  # a tool's own code
        return Failure(error_summary(exc))
    return prepared if isinstance(prepared, Failure) else dict(prepared)
