"""A turn: from the user's request to an answer without tool calls.

Phases: idle -> streaming -> executing -> streaming … -> complete. There is no limit on cycles.

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
from jp_nb.agent.questions import BatchContext, RecordedAnswer, TurnState
from jp_nb.agent.tokens import UsageCounter
from jp_nb.agent.tool_call import Call, limit_images
from jp_nb.agent.turn_state import LastRequest, Resolved, TurnRecord
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
from jp_nb.record.journal import CallProgress, CallStage, OpenCall, open_calls
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
"""The end of a cycle: the model is asked again, under another configuration or not, or it is over.

A restart of tool calls, and an escalated stop, are the coordinator's.
"""


Completion = Literal["completed", "interrupted", "stopped"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """The end of a turn, and its tokens; `stopped` by the person where a tool asked them.

    Attributes:
        why: Why it ended early, where that was neither a person nor a signal.
    """

    status: Completion
    usage: Usage
    why: str = ""


@dataclass(slots=True)
class TurnLoop:
    """Runs one turn on one conversation.

    Attributes:
        stream: The record; every entry is appended as it happens.
        thread: The provider's view of it, grown alongside.
        resolve: Resolves the configuration in force.
        prompter: Asks the person.
        cell: The cell's thread.
        display: Shows what happens.
        strict: End the turn as soon as nobody could decide what only a person may
            (`docs/decisions.md` D21).
        context: What tools are told in every call.
        secrets: What tools may not repeat.
        on_tool_error: Receives the exception of a tool, for a debugger.
        compaction_settings: None if the conversation is never compacted.
        compact_first: Make it shorter before the turn, whether or not it is over a bound.
        progress: Keeps the progress of the call with an event id where it outlives this process;
            what is recorded so far is on the disk when it returns, if a tool starts because of it.
        prepared: What was decided before anybody asked.
        changes: So many of the last changes of the configuration were made for this turn. They
            are taken back if it fails, or is interrupted, before the model said anything.
        recorded: What was answered before the turn was cut short, by the id of the inquiry.
        last_host: The host of the last request of the notebook that was sent over a network.
        sleep: Waits before a retry.
        clock: Seconds, for the time between two interrupts.
        interrupt_count: How many interrupts this turn took notice of; none after its end.
        is_unanswered: True if the turn got no answer, so that its request is not sent again.
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
    changes: int = 0
    recorded: Mapping[str, RecordedAnswer] = field(default_factory=dict)
    last_host: LastHost | None = None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = monotonic
    interrupt_count: int = 0
    is_unanswered: bool = False
    _record: TurnRecord = field(init=False)
    _tokens: UsageCounter = field(init=False)
    _phase: Callable[[], object] | None = None
    _problems: list[str] = field(default_factory=list)
    _began: bool = False
    _again: Sequence[OpenCall] = ()
    _batch: Sequence[str] = ()
    _over: bool = False
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
        """The provider's view of the record: another one than `thread` if it was made shorter."""
        return self._record.thread

    @property
    def sent(self) -> LastRequest | None:
        """The last request that went out."""
        return self._record.sent

    @property
    def host(self) -> LastHost | None:
        """The host of the last request by now."""
        return self._record.last_host

    async def run(self, request: ChatRequest, images: Sequence[Image] = ()) -> TurnEnd:
        """Append `request` as a new turn, and run it to its end.

        The model is shown `images` with it, as many as `record.images_per_turn` says.

        Raises:
            ProviderError: If the model cannot be reached or refuses for good. What arrived
                before is in the record.
            PromptUnavailable: With `strict`, if nobody could decide something.
            ConfigError: If the configuration does not resolve; nothing was appended.
            UsageError: If the model cannot be asked for that kind of answer; likewise.
        """
        return await self._ended(self._run(request, images))

    async def resume(
        self, again: Sequence[OpenCall], abandoned: Sequence[ToolCallResponse]
    ) -> TurnEnd:
        """Go on with the last turn of the conversation, which was cut short.

        Args:
            again: The open calls that run, once more or for the first time.
            abandoned: What the model is told of the others.

        Raises:
            ProviderError: As `run` does, and the other errors of it likewise.
        """
        return await self._ended(self._go_on(again, abandoned))

    async def _ended(self, work: Coroutine[Any, Any, Completion]) -> TurnEnd:
        """Have `work` done, and leave a record that is well formed, however it ends."""
        status: Completion | Literal["failed"] = "failed"
        try:
            status = await work
        except asyncio.CancelledError:
            status = "interrupted"
            if is_cancelled():  # else an interrupt came while the configuration was resolved
                raise
        finally:
            self._phase, self._over = None, True
            self._close(status)
        return TurnEnd(status, self.usage, self._why)

    async def _run(self, request: ChatRequest, images: Sequence[Image]) -> Completion:
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
            wanted = compaction.as_wanted(resolved) if self.compact_first else None
            await self._heeding(wanted or compaction.if_due(resolved, request.content))
        self._record.start_turn(request, shown.images)
        self._began, self._images = True, len(shown.images)
        for line in shown.omitted:
            self.display(Notice(f"⚠ {line}"))
        return await self._cycles(resolved, schema, choice=resolved.tool_choice)

    async def _go_on(
        self, again: Sequence[OpenCall], abandoned: Sequence[ToolCallResponse]
    ) -> Completion:
        if self.interrupt_count:
            return "interrupted"
        resolved = await self._resolve()
        turn = self.stream.current_turn()
        request = next(entry for entry in turn if isinstance(entry, ChatRequest))
        if request.response_schema is not None:
            resolved.provider.check_schema(request.response_schema)
        self._began, self._again = True, again
        self._images = sum(len(self.stream.images.images_of(entry).images) for entry in turn)
        self._record.add(*abandoned)
        tools = resolved.tools.tools
        calls = [
            Call(each.request, tools.get(each.request.name), may_have_run=each.may_have_run)
            for each in again
        ]
        return await self._cycles(
            resolved,
            request.response_schema,
            choice=resolved.tool_choice if is_unanswered(turn) else "auto",
            calls=calls,
        )

    def _close(self, status: Completion | Literal["failed"]) -> None:
        """Leave a record that is well formed, and that says if the turn got no answer."""
        may_have_run = [each.request for each in self._again if each.may_have_run]
        for call in self.stream.open_tool_calls() if self._began else ():
            told = RAN_BEFORE.format(NEVER_RAN) if call in may_have_run else NEVER_RAN
            self._record.add(ToolCallResponse(id=call.id, content=told, is_error=True))
        turn = self.stream.current_turn() if self._began else []
        self.is_unanswered = is_unanswered(turn)
        if status == "completed" or (self._began and not self.is_unanswered):
            self._tell_tokens()
            return
        silent = not any(isinstance(entry, ChatResponse) for entry in turn)
        takes_back = self.changes if silent else 0
        if self._began or takes_back:
            ended: Ended = "failed" if status == "failed" else "interrupted"
            mark = make_no_answer(NoAnswer(ended, takes_back))
            self._record.add(self._tokens.attach_usage(mark))
        else:
            self._tell_tokens()
        if self._began:
            notice = REQUEST_FAILED if status == "failed" else REQUEST_INTERRUPTED
            self.display(Notice(notice + (NOT_KEPT if takes_back else "")))

    def _tell_tokens(self) -> None:
        """Record the tokens of a response that left no entry, such as a refusal."""
        mark = self._tokens.attach_usage(ConfigDelta())
        if is_usage_mark(mark):
            self._record.add(mark)

    def interrupt(self) -> None:
        """Hear that the kernel was interrupted; called on the agent's loop.

        Before `run` has begun, nothing of the turn is recorded. After it ended, nothing happens.
        """
        if self._over:
            return
        self.interrupt_count += 1
        if self._phase is not None:
            self.display(InterruptReceived())  # at once: what comes of it may take a while
            self._phase()

    async def _heeding(self, work: Awaitable[T]) -> T:
        """Return what `work` comes to; an interrupt meanwhile ends the turn."""
        heard, task = self.interrupt_count, asyncio.ensure_future(work)
        self._phase = task.cancel
        result = await task
        if self.interrupt_count > heard:  # it came when the work was just done
            raise asyncio.CancelledError
        return result

    async def _resolve(self) -> Resolved:
        """Resolve the configuration, and say what is wrong with the sources of tools."""
        resolved = await self._heeding(self.resolve())  # a source may take long
        new = [x for x in resolved.tools.problems if x not in self._problems]
        for problem in new:
            self.display(Notice(f"⚠ {problem}. Its tools are not available."))
        self._problems += new
        self._record.provider = resolved.provider_name
        self._tokens.max_tokens = resolved.request.max_total_tokens
        return resolved

    async def _cycles(
        self,
        resolved: Resolved,
        schema: Mapping[str, JsonValue] | None,
        *,
        choice: str,
        calls: Sequence[Call] = (),
    ) -> Completion:
        """Run cycle after cycle; the configuration is resolved again when a tool changed it.

        The first one begins with `calls` that the model made before, if there are any.
        """
        interrupts = Interrupts(self.prompter, clock=self.clock)
        answers = AnswerStream(
            self._record,
            self._tokens,
            interrupts=interrupts,
            prompter=self.prompter,
            cell=self.cell,
            display=self.display,
            sleep=self.sleep,
        )
        coordinator = Coordinator(
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
            interrupts=interrupts,
            context=self.context,
            on_tool_error=self.on_tool_error,
            on_progress=self._report_progress,
        )
        changed = False
        while True:
            first, calls = calls, ()
            try:
                result = await self._cycle(answers, coordinator, resolved, choice, schema, first)
            except ProviderError as exc:
                if await self._shortened(exc, resolved):
                    continue
                if changed and (chosen := self._chosen_by_tools(exc)):
                    exc.args = (f"{str(exc).rstrip('.')}; {_stays(chosen, CHOOSE_ANOTHER)}",)
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

    async def _shortened(self, error: ProviderError, resolved: Resolved) -> bool:
        """Return whether the conversation is shorter after `error`: the same is asked again."""
        if self._compaction is None:
            return False
        return await self._heeding(self._compaction.after(error, resolved))

    async def _cycle(
        self,
        answers: AnswerStream,
        coordinator: Coordinator,
        resolved: Resolved,
        choice: str,
        schema: Mapping[str, JsonValue] | None,
        calls: Sequence[Call] = (),
    ) -> CycleResult:
        """Have the model answer once, and run the tool calls in the answer, or these `calls`."""
        if not calls:
            self._phase = answers.interrupt
            answered = await answers.request_calls(resolved, choice, schema)
            if answered is None:
                return "interrupted"
            calls = answered
            self._say_uncalled(choice, calls)
        if self._tokens.is_over:
            return self._too_many_tokens(calls)
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
            return self._too_many_tokens(calls, ran=True)
        return "follow_up" if end.change is None else "config_changed"

    def _say_uncalled(self, choice: str, calls: Sequence[Call]) -> None:
        """Say that the tool which this request demanded was not called."""
        missing = missing_call(choice, [call.request.name for call in calls])
        if missing is not None:
            self.display(
                Notice(f"⚠ The model did not call {missing}, although this turn requires it")
            )

    def _too_many_tokens(self, calls: Sequence[Call], *, ran: bool = False) -> CycleResult:
        """End a turn that took more tokens than it may: as an interrupt would, if it is not done.

        Args:
            calls: Those of the last answer.
            ran: Whether they have run.
        """
        for call in () if ran else calls:
            self._record.add(
                ToolCallResponse(id=call.request.id, content=TOO_MANY_TOKENS, is_error=True)
            )
        left = " The calls of the last answer did not run." if calls and not ran else ""
        ends = f". The turn ends here.{left} {ALLOW_MORE}" if calls else ""
        took, most = self._tokens.total, self._tokens.max_tokens
        told = f"The turn took {took} tokens; the limit {MAX_TOTAL_TOKENS} is {most}{ends}"
        self.display(Notice(f"⚠ {told}"))
        if not calls:
            return "completed"
        self._why = told
        return "interrupted"

    async def _resolve_again(self, schema: Mapping[str, JsonValue] | None) -> Resolved:
        """Resolve the configuration after tools changed it.

        Raises:
            ConfigError: If it does not resolve; it names the path. The change stays: the next
                one mends it.
        """
        try:
            resolved = await self._resolve()
        except ConfigError as exc:
            raise self._unusable(exc) from exc
        try:
            if schema is not None:
                resolved.provider.check_schema(schema)
        except UsageError as exc:
            raise self._unusable(ConfigError(str(exc), path=MODEL_ID)) from exc
        return resolved

    @staticmethod
    def _unusable(error: ConfigError) -> ConfigError:
        """Add to `error` what led to it and what to do."""
        first, *others = error.problems
        how = f"see the previous value with `%jp config --explain {first.path}`"
        return ConfigError(
            f"{first.message}; {_stays('the configuration', how)}",
            path=first.path,
            kind=first.kind,
            layer=error.layer,
            file=error.file,
            others=others,
        )

    def _chosen_by_tools(self, error: ProviderError) -> str:
        """Return the part of the model that the last change of tools chose; "" if none.

        A server that answers knows no such model; without an answer it is about the provider.
        """
        touched = [p for p in self.stream.deltas[-1].claims if p.startswith((MODEL_ID, PROVIDERS))]
        wanted = f"{MODEL_ID}.{'provider' if error.status is None else 'name'}"
        return wanted if wanted in touched else next(iter(touched), "")

    def _calls_of_batch(self, count: int) -> Sequence[str]:
        """Return the event ids of the calls that are about to run, in call order."""
        if self.progress is None:
            return ()
        if self._again:  # beside them are calls that have a response
            return [call.event_id for call in open_calls(self.stream, {})][-count:]
        found: list[str] = []
        index = len(self.stream)
        while len(found) < count:  # they are near the end, however long the turn is
            index -= 1
            if isinstance(self.stream.entries[index], ToolCallRequest):
                found.insert(0, self.stream.event_id(index))
        return found

    def _report_progress(self, call: Call, stage: CallStage, result: Sequence[Entry]) -> None:
        """Have the progress of a call of this batch kept."""
        if self.progress is not None:
            entries = [entry.stamped(self.stream.now()).to_raw() for entry in result]
            self.progress(self._batch[call.index], CallProgress(stage, tuple(entries)))

    async def _execute(
        self,
        coordinator: Coordinator,
        calls: Sequence[Call],
        resolved: Resolved,
        *,
        interrupted_after_end: bool,
    ) -> BatchEnd:
        """Run `calls`; record their responses and what they changed, in one step."""
        self._phase = coordinator.interrupt
        self._batch = self._calls_of_batch(len(calls))
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
        end = await run_batch(coordinator, calls, batch, self._record)
        if end.unsent_message:
            self._record.add_user_message(end.unsent_message, self.display)
        return end


def _shown(calls: Sequence[Call]) -> list[Image]:
    """Return what the model sees of the results of `calls`."""
    return [image for call in calls for image in call.shown_images.images]


async def run_batch(
    coordinator: Coordinator, calls: Sequence[Call], batch: BatchContext, record: TurnRecord
) -> BatchEnd:
    """Run `calls`; record their responses and what they changed, in one step."""
    try:
        end = await coordinator.run(calls, batch)
    except (asyncio.CancelledError, Exception):  # the record stays well formed
        record.add(*await coordinator.stop(), images=_shown(calls))
        raise
    change = [end.change] if end.change is not None else []
    record.add(*end.responses, *change, images=_shown(calls))
    return end


def user_required_error(reason: str) -> PromptUnavailable:
    """Return the error of a strict run in which nobody could decide something."""
    return PromptUnavailable(
        f"a decision needs a user, and no user is available: {reason}. Run the "
        "notebook in a live session, configure the decision in advance, or run "
        "without --strict.",
        reason=reason,
    )


def _stays(what: str, how: str) -> str:
    return (
        f"a tool changed {what} in this turn. The change remains until you set another value: {how}"
    )
