"""Run one turn: from the user's request to a response without tool calls.

Each cycle streams a response and runs its tool calls. There is no limit on cycles.

Source: `docs/turns.md`, `docs/providers.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Literal, TypeVar, assert_never

from pydantic import JsonValue

from jp_nb.agent.batch import NEVER_RAN, RAN_BEFORE, BatchEnd, Coordinator
from jp_nb.agent.compaction import CompactionSettings, Compactor
from jp_nb.agent.display import Display, InterruptReceived, Notice
from jp_nb.agent.interrupts import Interrupts
from jp_nb.agent.model_call import AnswerStream
from jp_nb.agent.prompts import NOTHING_PREPARED, PreparedAnswers, Prompter
from jp_nb.agent.provider import Usage
from jp_nb.agent.tokens import UsageCounter
from jp_nb.agent.tool_call import Call, limit_images
from jp_nb.agent.turn_state import (
    BatchContext,
    LastRequest,
    RecordedAnswer,
    Resolved,
    TurnContext,
    TurnRecord,
    TurnState,
)
from jp_nb.errors import ConfigError, PromptUnavailable, ProviderError, UsageError
from jp_nb.images import Image
from jp_nb.record.context import RequestContext
from jp_nb.record.events import (
    ChatRequest,
    ChatResponse,
    ConfigDelta,
    Entry,
    ToolCallRequest,
    ToolCallResponse,
    is_usage_mark,
)
from jp_nb.record.journal import CallProgress, CallStage, OpenCall
from jp_nb.record.marks import LastHost, missing_call, with_host, with_tool_choice
from jp_nb.record.stream import ConversationStream, Ended, NoAnswer, is_unanswered, make_no_answer
from jp_nb.tools.base import CellThread, SharedContext, is_cancelled
from jp_nb.tools.secrets import SecretAnswers

MODEL_ID = "assistant.model.id"
PROVIDERS = "providers.llm"
CHOOSE_ANOTHER = f"`%jp config {MODEL_ID}=PROVIDER/NAME`"
MAX_TOTAL_TOKENS = "assistant.request.max_total_tokens"
ALLOW_MORE = f"Allow more with `%jp config {MAX_TOTAL_TOKENS}=N` (0: no limit), then ask again."
TOO_MANY_TOKENS = "This tool call did not run. The turn has reached its token limit."
AGAIN = "Run the cell again, or `%jp resume`."
REQUEST_FAILED = f"⚠ The request failed. {AGAIN}"
REQUEST_INTERRUPTED = f"⚠ Interrupted before an answer. {AGAIN}"
NOT_KEPT = " Its options, such as `-m`, were not kept."

CycleResult = Literal["follow_up", "config_changed", "completed", "interrupted", "stopped"]
"""The end of a cycle. `follow_up` and `config_changed` lead to another request."""


Completion = Literal["completed", "interrupted", "stopped"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """The end of a turn, and its tokens. `stopped` if the user stopped it at a question of a tool.

    Attributes:
        why: Reason for an early end without the user, such as a limit.
    """

    status: Completion
    usage: Usage
    why: str = ""


@dataclass(slots=True)
class TurnLoop:
    """Runs one turn of a conversation.

    Attributes:
        stream: The record. Entries are appended as they happen.
        thread: The context, which grows with the record.
        resolve: Resolves the effective configuration.
        strict: End the turn when a decision needs a user and none is available (`docs/decisions.md`
            D21).
        context: The part of the tool context that all calls share.
        secrets: Secrets to hide in results.
        on_tool_error: Receives the exception of a tool, for a debugger.
        compaction_settings: None if the conversation is never compacted.
        compact_first: Compact the conversation before the turn, even below the limits.
        progress: Stores the progress of the call with an event id in the journal. Before a tool
            starts, it flushes the journal to disk.
        prepared: Prepared answers and decisions.
        config_changes: Number of trailing configuration changes for this turn. They are reverted if
            the turn ends before the first output of the model.
        recorded: Answers from before an interruption of the turn, by the id of the inquiry.
        last_host: Host of the last request of the notebook over a network.
        sleep: Waits before a retry.
        clock: Returns seconds, for the time between two interrupts.
        interrupt_count: Number of interrupts, up to the end of the turn.
        is_unanswered: True if the turn got no response. Later requests omit it.
    """

    stream: ConversationStream
    thread: RequestContext
    resolve: Callable[[], Awaitable[Resolved]]
    prompter: Prompter
    cell: CellThread
    display: Display
    strict: bool = False
    context: SharedContext = field(default_factory=SharedContext)
    secrets: SecretAnswers = field(default_factory=SecretAnswers)
    on_tool_error: Callable[[Call, BaseException], None] | None = None
    compaction_settings: CompactionSettings | None = None
    compact_first: bool = False
    progress: Callable[[str, CallProgress], None] | None = None
    prepared: PreparedAnswers = NOTHING_PREPARED
    config_changes: int = 0
    recorded: Mapping[str, RecordedAnswer] = field(default_factory=dict)
    last_host: LastHost | None = None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = monotonic
    interrupt_count: int = 0
    is_unanswered: bool = False
    _record: TurnRecord = field(init=False)
    _tokens: UsageCounter = field(init=False)
    _on_interrupt: Callable[[], object] | None = None
    _problems: list[str] = field(default_factory=list)
    _has_begun: bool = False
    _resumed_calls: Sequence[OpenCall] = ()
    _is_over: bool = False
    _images: int = 0
    _why: str = ""
    _compaction: Compactor | None = None

    def __post_init__(self) -> None:
        self._record = TurnRecord(self.stream, self.thread, last_host=self.last_host)
        self._tokens = UsageCounter(self.display)
        if self.compaction_settings is not None:
            self._compaction = Compactor(
                self._record, self._tokens, self.prompter, self.display, self.compaction_settings
            )

    @property
    def usage(self) -> Usage:
        """Tokens so far."""
        return self._tokens.usage

    @property
    def request_context(self) -> RequestContext:
        """The context. Compaction replaces it with another object than `thread`."""
        return self._record.thread

    @property
    def sent(self) -> LastRequest | None:
        """The last request."""
        return self._record.sent

    @property
    def host(self) -> LastHost | None:
        """Host of the last request."""
        return self._record.last_host

    async def run(self, request: ChatRequest, images: Sequence[Image] = ()) -> TurnEnd:
        """Append `request` as a new turn, and run it to its end.

        The request includes `images`, up to the setting `record.images_per_turn`.

        Raises:
            ProviderError: No attempt succeeded. The record has the entries before the error.
            PromptUnavailable: With `strict`, a decision needed a user and none was available.
            ConfigError: The configuration is not valid. Nothing was appended.
            UsageError: The model does not support the response schema. Nothing was appended.
        """
        return await self._run_and_close(self._start(request, images))

    async def resume(
        self, again: Sequence[OpenCall], abandoned: Sequence[ToolCallResponse]
    ) -> TurnEnd:
        """Continue the last turn of the conversation, which was interrupted.

        Args:
            again: Open calls to run, again or for the first time.
            abandoned: Responses to the other open calls.

        Raises:
            ProviderError: As in `run`, like all other errors.
        """
        return await self._run_and_close(self._continue(again, abandoned))

    async def _run_and_close(self, work: Coroutine[Any, Any, Completion]) -> TurnEnd:
        status: Completion | Literal["failed"] = "failed"
        try:
            status = await work
        except asyncio.CancelledError:
            status = "interrupted"
            if is_cancelled():  # else an interrupt came while the configuration was resolved
                raise
        finally:
            self._on_interrupt, self._is_over = None, True
            self._close(status)
        return TurnEnd(status, self.usage, self._why)

    async def _start(self, request: ChatRequest, images: Sequence[Image]) -> Completion:
        if self.interrupt_count:
            return "interrupted"
        resolved = await self._resolve()
        schema = request.response_schema
        if schema is not None:
            resolved.provider.check_schema(schema)
        shown = limit_images(images, resolved.basis.config.record, before=0)
        request = request.model_copy(update={"content": shown.add_omissions_to(request.content)})
        request = with_tool_choice(request, resolved.tool_choice)
        if not (
            self.stream.is_reproducible or resolved.uses_cassette
        ):  # a replay leaves the same record
            request = with_host(request, resolved.host)
        if self._compaction is not None:
            compaction = self._compaction
            wanted = compaction.compact_on_request(resolved) if self.compact_first else None
            await self._interruptible(
                wanted or compaction.compact_if_due(resolved, request.content)
            )
        self._record.start_turn(request, shown.images)
        self._has_begun, self._images = True, len(shown.images)
        for line in shown.omitted:
            self.display(Notice(f"⚠ {line}"))
        return await self._run_cycles(resolved, schema, choice=resolved.tool_choice)

    async def _continue(
        self, again: Sequence[OpenCall], abandoned: Sequence[ToolCallResponse]
    ) -> Completion:
        if self.interrupt_count:
            return "interrupted"
        resolved = await self._resolve()
        turn = self.stream.current_turn()
        request = next(entry for entry in turn if isinstance(entry, ChatRequest))
        if request.response_schema is not None:
            resolved.provider.check_schema(request.response_schema)
        self._has_begun, self._resumed_calls = True, again
        self._images = sum(len(self.stream.images.images_of(entry).images) for entry in turn)
        self._record.add(*abandoned)
        tools = resolved.tools.tools
        calls = [
            Call(
                each.request,
                tools.get(each.request.name),
                event_id=each.event_id,
                may_have_run=each.may_have_run,
            )
            for each in again
        ]
        return await self._run_cycles(
            resolved,
            request.response_schema,
            choice=resolved.tool_choice if is_unanswered(turn) else "auto",
            calls=calls,
        )

    def _close(self, status: Completion | Literal["failed"]) -> None:
        """Complete the record, and mark a turn without a response."""
        may_have_run = [each.request for each in self._resumed_calls if each.may_have_run]
        for call in self.stream.open_tool_calls() if self._has_begun else ():
            content = RAN_BEFORE.format(NEVER_RAN) if call in may_have_run else NEVER_RAN
            self._record.add(ToolCallResponse(id=call.id, content=content, is_error=True))
        turn = self.stream.current_turn() if self._has_begun else []
        self.is_unanswered = is_unanswered(turn)
        if status == "completed" or (self._has_begun and not self.is_unanswered):
            self._record_usage()
            return
        has_no_output = not any(isinstance(entry, ChatResponse) for entry in turn)
        reverted_count = self.config_changes if has_no_output else 0
        if self._has_begun or reverted_count:
            ended: Ended = "failed" if status == "failed" else "interrupted"
            mark = make_no_answer(NoAnswer(ended, reverted_count))
            self._record.add(self._tokens.attach_usage(mark))
        else:
            self._record_usage()
        if self._has_begun:
            notice = REQUEST_FAILED if status == "failed" else REQUEST_INTERRUPTED
            self.display(Notice(notice + (NOT_KEPT if reverted_count else "")))

    def _record_usage(self) -> None:
        """Record the tokens of a response without an entry, such as a refusal."""
        mark = self._tokens.attach_usage(ConfigDelta())
        if is_usage_mark(mark):
            self._record.add(mark)

    def interrupt(self) -> None:
        """Handle an interrupt of the kernel, on the agent's event loop."""
        if self._is_over:  # it may arrive after the end
            return
        self.interrupt_count += 1
        if self._on_interrupt is not None:
            self.display(InterruptReceived())  # before the effect, which may take a while
            self._on_interrupt()

    async def _interruptible(self, work: Awaitable[T]) -> T:
        """Await `work`. An interrupt in the meantime ends the turn."""
        count, task = self.interrupt_count, asyncio.ensure_future(work)
        self._on_interrupt = task.cancel
        result = await task
        if self.interrupt_count > count:  # it came just after the end of the work
            raise asyncio.CancelledError
        return result

    async def _resolve(self) -> Resolved:
        """Resolve the configuration, and display problems of tool sources."""
        resolved = await self._interruptible(self.resolve())  # a source may take long
        new = [x for x in resolved.tools.problems if x not in self._problems]
        for problem in new:
            self.display(Notice(f"⚠ {problem}. Its tools are not available."))
        self._problems += new
        self._record.provider = resolved.provider_name
        self._tokens.max_tokens = resolved.request.max_total_tokens
        return resolved

    async def _run_cycles(
        self,
        resolved: Resolved,
        schema: Mapping[str, JsonValue] | None,
        *,
        choice: str,
        calls: Sequence[Call] = (),
    ) -> Completion:
        """Run cycles, starting with `calls` of an earlier response if there are any."""
        interrupts = Interrupts(self.prompter, clock=self.clock)
        context = TurnContext(
            record=self._record.add_question,
            prompter=self.prompter,
            cell=self.cell,
            display=self.display,
            state=TurnState(
                secrets=self.secrets,
                images=self._images,
                recorded=self.recorded,
                prepared=self.prepared,
            ),
            shared=self.context,
            on_tool_error=self.on_tool_error,
            on_progress=self._report_progress,
        )
        answers = AnswerStream(self._record, self._tokens, context, interrupts, self.sleep)
        coordinator = Coordinator(context, interrupts)
        changed = False
        while True:
            first, calls = calls, ()
            try:
                result = await self._run_cycle(
                    answers, coordinator, resolved, choice, schema, first
                )
            except ProviderError as exc:
                if await self._compact_after(exc, resolved):
                    continue
                if changed and (chosen := self._setting_changed_by_tools(exc)):
                    exc.args = (
                        f"{str(exc).rstrip('.')}; {_describe_change(chosen, CHOOSE_ANOTHER)}",
                    )
                raise
            changed = result == "config_changed"
            match result:
                case "completed" | "interrupted" | "stopped":
                    return result
                case "follow_up":
                    choice = "auto"
                case "config_changed":
                    before, resolved = resolved, await self._resolve_again(schema)
                    # One that was there before is not forced again: the turn would never end.
                    asked = resolved.basis.config.assistant.tool_choice
                    again = asked == before.basis.config.assistant.tool_choice
                    choice = "auto" if again else resolved.tool_choice
                case _:
                    assert_never(result)

    async def _compact_after(self, error: ProviderError, resolved: Resolved) -> bool:
        if self._compaction is None:
            return False
        return await self._interruptible(self._compaction.compact_after_error(error, resolved))

    async def _run_cycle(
        self,
        answers: AnswerStream,
        coordinator: Coordinator,
        resolved: Resolved,
        choice: str,
        schema: Mapping[str, JsonValue] | None,
        calls: Sequence[Call] = (),
    ) -> CycleResult:
        """Request one response and run its tool calls, or run `calls` without a request."""
        if not calls:
            self._on_interrupt = answers.interrupt
            answered = await answers.request_calls(resolved, choice, schema)
            if answered is None:
                return "interrupted"
            calls = answered
            self._notify_uncalled(choice, calls)
        if self._tokens.is_over:
            return self._end_at_token_limit(calls)
        if not calls:
            return "completed"
        end = await self._execute(
            coordinator, calls, resolved, interrupted_after_end=answers.interrupted_after_end
        )
        if end.stopped:
            return "stopped" if end.abandoned else "interrupted"
        if self.strict and coordinator.unavailable_reason is not None:
            raise user_required_error(coordinator.unavailable_reason)
        if self._tokens.is_over:  # models answered tools' questions
            return self._end_at_token_limit(calls, ran=True)
        return "follow_up" if end.change is None else "config_changed"

    def _notify_uncalled(self, choice: str, calls: Sequence[Call]) -> None:
        missing = missing_call(choice, [call.request.name for call in calls])
        if missing is not None:
            self.display(
                Notice(f"⚠ The model did not call {missing}, although this turn requires it")
            )

    def _end_at_token_limit(self, calls: Sequence[Call], *, ran: bool = False) -> CycleResult:
        """End a turn at its token limit. `ran` is True if `calls` have run."""
        for call in () if ran else calls:
            self._record.add(
                ToolCallResponse(id=call.request.id, content=TOO_MANY_TOKENS, is_error=True)
            )
        left = " The calls of the last answer did not run." if calls and not ran else ""
        ends = f". The turn ends here.{left} {ALLOW_MORE}" if calls else ""
        took, most = self._tokens.total, self._tokens.max_tokens
        reason = f"The turn took {took} tokens; the limit {MAX_TOTAL_TOKENS} is {most}{ends}"
        self.display(Notice(f"⚠ {reason}"))
        if not calls:
            return "completed"
        self._why = reason
        return "interrupted"

    async def _resolve_again(self, schema: Mapping[str, JsonValue] | None) -> Resolved:
        """Resolve the configuration after a tool changed it.

        Raises:
            ConfigError: The change is not valid, but remains until the next change.
        """
        try:
            resolved = await self._resolve()
        except ConfigError as exc:
            raise self._explain_config_error(exc) from exc
        try:
            if schema is not None:
                resolved.provider.check_schema(schema)
        except UsageError as exc:
            raise self._explain_config_error(ConfigError(str(exc), path=MODEL_ID)) from exc
        return resolved

    @staticmethod
    def _explain_config_error(error: ConfigError) -> ConfigError:
        """Add the cause and a remedy to `error`."""
        first, *others = error.problems
        how = f"see the previous value with `%jp config --explain {first.path}`"
        return ConfigError(
            f"{first.message}; {_describe_change('the configuration', how)}",
            path=first.path,
            kind=first.kind,
            layer=error.layer,
            file=error.file,
            others=others,
        )

    def _setting_changed_by_tools(self, error: ProviderError) -> str:
        """Return the setting of the model that the last change of a tool set; "" if none.

        An error with a status is about the model's name, other errors are about the provider.
        """
        touched = [p for p in self.stream.deltas[-1].claims if p.startswith((MODEL_ID, PROVIDERS))]
        wanted = f"{MODEL_ID}.{'provider' if error.status is None else 'name'}"
        return wanted if wanted in touched else next(iter(touched), "")

    def _set_event_ids(self, calls: Sequence[Call]) -> None:
        """Set the event ids of the calls of the last response."""
        index = len(self.stream)
        for call in reversed(calls):  # their requests are near the end of the record
            index -= 1
            while not isinstance(self.stream.entries[index], ToolCallRequest):
                index -= 1
            call.event_id = self.stream.event_id(index)

    def _report_progress(self, call: Call, stage: CallStage, result: Sequence[Entry]) -> None:
        """Store the progress of a call in the journal."""
        if self.progress is not None:
            entries = [entry.stamped(self.stream.now()).to_raw() for entry in result]
            self.progress(call.event_id, CallProgress(stage, tuple(entries)))

    async def _execute(
        self,
        coordinator: Coordinator,
        calls: Sequence[Call],
        resolved: Resolved,
        *,
        interrupted_after_end: bool,
    ) -> BatchEnd:
        """Run `calls`, and record their responses and configuration changes in one step."""
        self._on_interrupt = coordinator.interrupt
        if self.progress is not None and not calls[0].event_id:
            self._set_event_ids(calls)
        batch = BatchContext(
            thread=self._record.thread,
            inquiry=resolved.inquiry,
            catalog=resolved.tools.documentation,
            interrupts=resolved.interrupts,
            basis=resolved.basis,
            tokens=self._tokens,
            results=resolved.results(self.thread) if resolved.results is not None else None,
        )
        if interrupted_after_end:  # it came when the answer was just complete
            coordinator.interrupt()
        end = await coordinator.run(calls, batch, self._record)
        if end.unsent_message:
            self._record.add_user_message(end.unsent_message, self.display)
        return end


def user_required_error(reason: str) -> PromptUnavailable:
    """Return the error of a strict run in which a decision needed a user."""
    return PromptUnavailable(
        f"a decision needs a user, and no user is available: {reason}. Run the "
        "notebook in a live session, configure the decision in advance, or run "
        "without --strict.",
        reason=reason,
    )


def _describe_change(what: str, how: str) -> str:
    return (
        f"a tool changed {what} in this turn. The change remains until you set another value: {how}"
    )
