"""Run one turn: from the user's request to a response without tool calls.

Each cycle streams a response and runs its tool calls. There is no limit on cycles.

Source: `docs/turns.md`, `docs/providers.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar, assert_never

from pydantic import JsonValue

from jp_nb.agent.answer_retries import AnswerCheck, AnswerRetries
from jp_nb.agent.appended_changes import DEFAULT_CONTEXT_TOKENS, find_excessive_changes
from jp_nb.agent.batch import NEVER_RAN, Batch
from jp_nb.agent.call import Call
from jp_nb.agent.call_runner import RAN_BEFORE
from jp_nb.agent.compactor import CompactionSettings, Compactor
from jp_nb.agent.display import InterruptReceived, Notice
from jp_nb.agent.effective_model import Resolved
from jp_nb.agent.image_limits import limit_images
from jp_nb.agent.model_call import AnswerStream
from jp_nb.agent.provider import ModelRequest, Usage
from jp_nb.agent.refusals import explain_refusal
from jp_nb.agent.turn_state import BatchContext, TurnContext
from jp_nb.errors import ConfigError, PromptUnavailable, ProviderError, UsageError
from jp_nb.images import Image
from jp_nb.record.context import RequestContext
from jp_nb.record.events import (
    ChatRequest,
    ChatResponse,
    ConfigDelta,
    ToolCallRequest,
    ToolCallResponse,
    is_usage_mark,
)
from jp_nb.record.marks import missing_call, request_marks
from jp_nb.record.stream import Ended, NoAnswer, is_unanswered, make_no_answer
from jp_nb.record.turn_view import OpenCall
from jp_nb.text import one_line
from jp_nb.toolkit.base import CallInterrupted, is_cancelled

MODEL_ID = "assistant.model.id"
PROVIDERS = "providers.llm"
CHOOSE_ANOTHER = f"`%jp config {MODEL_ID}=PROVIDER/NAME`"
TOKENS_SETTING = "assistant.request.max_total_tokens"
ALLOW_MORE = f"Allow more with `%jp config {TOKENS_SETTING}=N` (0: no limit), then ask again."
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

    `why` is the reason for an early end without the user, such as a limit.
    """

    status: Completion
    usage: Usage
    why: str = ""


@dataclass(slots=True)
class TurnLoop:
    """Runs one turn of a conversation.

    Attributes:
        strict: End the turn when a decision needs a user, and none is available (D21).
        compaction_settings: None if the conversation is never compacted.
        compact_first: Compact the conversation before the turn, even below the limits.
        config_changes: Number of trailing configuration changes for this turn. They are reverted if
            the turn ends before the first output of the model.
        is_unanswered: True if the turn got no response. Later requests omit it.
        check_answer: Checks the structured answer, on the cell's thread; None without a schema.
    """

    turn: TurnContext
    resolve: Callable[[], Awaitable[Resolved]]
    strict: bool = False
    compaction_settings: CompactionSettings | None = None
    compact_first: bool = False
    config_changes: int = 0
    check_answer: AnswerCheck | None = None
    interrupt_count: int = 0
    is_unanswered: bool = False
    _on_interrupt: Callable[[], object] | None = None
    _problems: list[str] = field(default_factory=list)
    _has_begun: bool = False
    _resumed_calls: Sequence[OpenCall] = ()
    _is_over: bool = False
    _why: str = ""
    _bounded: RequestContext | None = None  # its changed instructions were measured

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

        The open calls `again` run, again or for the first time. `abandoned` are the responses to
        the other open calls.

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
            self._on_interrupt = None
            self._is_over = True
            self._close(status)
        return TurnEnd(status, self.turn.tokens.usage, self._why)

    async def _start(self, request: ChatRequest, images: Sequence[Image]) -> Completion:
        if self.interrupt_count:
            return "interrupted"
        resolved = await self._resolve()
        record = self.turn.record
        schema = request.response_schema
        if schema is not None:
            resolved.provider.check_schema(schema)
        shown = limit_images(images, resolved.basis.config.record, before=0)
        is_replayable = record.stream.is_reproducible or resolved.uses_cassette
        marks = request_marks(resolved.tool_choice, "" if is_replayable else resolved.host)
        content = shown.add_omissions_to(request.content)
        request = request.model_copy(
            update={"content": content, "metadata": {**request.metadata, **marks}}
        )
        if self.compaction_settings is not None:
            compactor = Compactor(self.turn, self.compaction_settings)
            await self._interruptible(
                compactor.compact_on_request(resolved)
                if self.compact_first
                else compactor.compact_if_due(resolved, request.content)
            )
        record.start_turn(request, shown.images)
        self._has_begun, self.turn.images = True, len(shown.images)
        for line in shown.omitted:
            self.turn.display(Notice(f"⚠ {line}"))
        return await self._run_cycles(resolved, schema, choice=resolved.tool_choice)

    async def _continue(
        self, again: Sequence[OpenCall], abandoned: Sequence[ToolCallResponse]
    ) -> Completion:
        if self.interrupt_count:
            return "interrupted"
        resolved = await self._resolve()
        record = self.turn.record
        turn = record.stream.current_turn()
        request = next(entry for entry in turn if isinstance(entry, ChatRequest))
        if request.response_schema is not None:
            resolved.provider.check_schema(request.response_schema)
        self._has_begun = True
        self._resumed_calls = again
        images = record.stream.images
        self.turn.images = sum(len(images.images_of(entry).images) for entry in turn)
        record.add(*abandoned)
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
        record = self.turn.record
        tokens = self.turn.tokens
        may_have_run = [each.request for each in self._resumed_calls if each.may_have_run]
        for call in record.stream.open_tool_calls() if self._has_begun else ():
            content = RAN_BEFORE.format(NEVER_RAN) if call in may_have_run else NEVER_RAN
            record.add(ToolCallResponse(id=call.id, content=content, is_error=True))
        turn = record.stream.current_turn() if self._has_begun else []
        self.is_unanswered = is_unanswered(turn)
        failed = status != "completed" and (not self._has_begun or self.is_unanswered)
        has_output = any(isinstance(entry, ChatResponse) for entry in turn)
        reverted_count = self.config_changes if failed and not has_output else 0
        if failed and (self._has_begun or reverted_count):
            ended: Ended = "failed" if status == "failed" else "interrupted"
            record.add(tokens.attach_usage(make_no_answer(NoAnswer(ended, reverted_count))))
        elif is_usage_mark(mark := tokens.attach_usage(ConfigDelta())):
            record.add(mark)  # tokens of a response without an entry, such as a refusal
        if failed and self._has_begun:
            notice = REQUEST_FAILED if status == "failed" else REQUEST_INTERRUPTED
            self.turn.display(Notice(notice + (NOT_KEPT if reverted_count else "")))

    def interrupt(self) -> None:
        """Handle an interrupt of the kernel, on the agent's event loop."""
        if self._is_over:  # it may arrive after the end
            return
        self.interrupt_count += 1
        if self._on_interrupt is not None:
            self.turn.display(InterruptReceived())  # before the effect, which may take a while
            self._on_interrupt()

    async def _interruptible(self, work: Awaitable[T]) -> T:
        """Await `work`. An interrupt in the meantime ends the turn."""
        count = self.interrupt_count
        task = asyncio.ensure_future(work)
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
            self.turn.display(Notice(f"⚠ {problem}. Its tools are not available."))
        self._problems += new
        for notice in resolved.tools.notices:
            self.turn.display(Notice(f"⚠ {notice}"))
        self.turn.record.provider = resolved.provider_name
        self.turn.tokens.max_tokens = resolved.request.max_total_tokens
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
        answers = AnswerStream(self.turn)
        retries = AnswerRetries(self.turn, self.check_answer)
        changed = False
        while True:
            if not calls:
                answered = await self._request(answers, resolved, choice, schema, changed=changed)
                if answered is None:
                    return "interrupted"
                calls = answered
            result = await self._run_calls(calls, answers, resolved)
            calls = ()
            changed = result == "config_changed"
            match result:
                case "completed":
                    if not await self._reject_answer(retries, resolved, answers):
                        return result
                    choice = "none" if choice == "none" else "auto"
                case "interrupted" | "stopped":
                    return result
                case "follow_up":
                    choice = "auto"
                    if _has_outdated_tools(resolved):
                        resolved = await self._resolve()
                case "config_changed":
                    before = resolved
                    resolved = await self._resolve_again(schema)
                    # One that was there before is not forced again: the turn would never end.
                    asked = resolved.basis.config.assistant.tool_choice
                    again = asked == before.basis.config.assistant.tool_choice
                    choice = "auto" if again else resolved.tool_choice
                case _:
                    assert_never(result)

    async def _reject_answer(
        self, retries: AnswerRetries, resolved: Resolved, answers: AnswerStream
    ) -> bool:
        """Check the answer; return True if the model is to give another one."""
        try:
            return await self._interruptible(
                retries.reject_answer(
                    max_retries=resolved.request.max_schema_retries, finish=answers.finish_reason
                )
            )
        except CallInterrupted:
            raise asyncio.CancelledError from None

    async def _request(
        self,
        answers: AnswerStream,
        resolved: Resolved,
        choice: str,
        schema: Mapping[str, JsonValue] | None,
        *,
        changed: bool,
    ) -> Sequence[Call] | None:
        """Return the calls of the next response; None if an interrupt ended the turn.

        `changed` is True if a tool changed the configuration just before.
        """
        record = self.turn.record
        while True:
            self._on_interrupt = answers.interrupt
            self._restore_attachments(resolved)
            request = resolved.model_request(
                record.thread, choice=choice, schema=schema, conversation_id=record.stream.id
            )
            request = self._bound_changes(resolved, request)
            try:
                calls = await answers.request_calls(resolved, request)
                break
            except ProviderError as exc:
                if self.compaction_settings is not None:
                    compactor = Compactor(self.turn, self.compaction_settings)
                    if await self._interruptible(compactor.compact_after_error(exc, resolved)):
                        continue
                if changed and (chosen := self._setting_changed_by_tools(exc)):
                    exc.args = (
                        f"{str(exc).rstrip('.')}; {_describe_change(chosen, CHOOSE_ANOTHER)}",
                    )
                elif advice := explain_refusal(exc, self.turn.record):
                    exc.args = (f"{str(exc).rstrip('. ')}. {advice}.",)
                raise
        if calls is not None:
            missing = missing_call(choice, [call.request.name for call in calls])
            if missing is not None:
                text = f"⚠ The model did not call {missing}, although this turn requires it"
                self.turn.display(Notice(text))
        return calls

    def _restore_attachments(self, resolved: Resolved) -> None:
        """Note the contents of attachments. If earlier ones are not known, begin a new head."""
        record = self.turn.record
        record.thread.note_contents(resolved.attachments)
        if missing := record.thread.missing_attachments():
            first, *others = {f"`{one_line(mark.source, limit=100)}`": None for mark in missing}
            names = f"{first} and {len(others)} more attachments" if others else first
            self.turn.display(
                Notice(
                    f"⚠ The conversation was sent with other contents of {names}, which are not "
                    "available any more. This request sends the current attachments in front. "
                    "The provider's prompt cache and earlier reasoning are lost."
                )
            )
            record.thread = record.thread.without_heads()

    def _bound_changes(self, resolved: Resolved, request: ModelRequest) -> ModelRequest:
        """Return `request`, with a new head if appended changes fill much of the context."""
        record = self.turn.record
        last = record.thread.head
        is_changed = last is not None and last != request.head
        if self._bounded is record.thread and not is_changed:
            return request

        self._bounded = record.thread
        size = resolved.context_tokens
        parts = find_excessive_changes(resolved.provider, request, size)
        if not parts:
            return request

        context = f"{size or DEFAULT_CONTEXT_TOKENS:,}"
        self.turn.display(
            Notice(
                f"⚠ Changes of {', '.join(parts)} take more than a quarter of the model's "
                f"context ({context} tokens). This request sends only the current values. The "
                "provider's prompt cache and earlier reasoning are lost."
            )
        )
        record.thread = record.thread.without_heads()
        self._bounded = record.thread
        return replace(request, thread=record.thread)

    async def _run_calls(
        self,
        calls: Sequence[Call],
        answers: AnswerStream,
        resolved: Resolved,
    ) -> CycleResult:
        """Run the `calls` of a response, which may be none."""
        if self.turn.tokens.is_over:
            return self._end_at_token_limit(calls)
        if not calls:
            return "completed"
        batch = self._make_batch(calls, resolved)
        self._on_interrupt = batch.interrupt
        if answers.interrupted_after_end:  # the interrupt came when the answer was just complete
            batch.interrupt()
        end = await batch.run()
        if end.unsent_message:
            self.turn.record.add_user_message(end.unsent_message, self.turn.display)
        if end.ends_turn is not None:
            return end.ends_turn
        if self.strict and (reason := self.turn.unavailable_reason) is not None:
            raise user_required_error(reason)
        if self.turn.tokens.is_over:  # models answered tools' questions
            return self._end_at_token_limit(calls, ran=True)
        return "follow_up" if end.change is None else "config_changed"

    def _end_at_token_limit(self, calls: Sequence[Call], *, ran: bool = False) -> CycleResult:
        """End a turn at its token limit. `ran` is True if `calls` have run."""
        for call in () if ran else calls:
            self.turn.record.add(
                ToolCallResponse(id=call.request.id, content=TOO_MANY_TOKENS, is_error=True)
            )
        left = " The calls of the last answer did not run." if calls and not ran else ""
        ends = f". The turn ends here.{left} {ALLOW_MORE}" if calls else ""
        took = self.turn.tokens.total
        most = self.turn.tokens.max_tokens
        reason = f"The turn took {took} tokens; the limit {TOKENS_SETTING} is {most}{ends}"
        self.turn.display(Notice(f"⚠ {reason}"))
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
            if schema is not None:
                resolved.provider.check_schema(schema)
            return resolved
        except (ConfigError, UsageError) as exc:
            error = exc if isinstance(exc, ConfigError) else ConfigError(str(exc), path=MODEL_ID)
            first, *others = error.problems
            how = f"see the previous value with `%jp config --explain {first.path}`"
            raise ConfigError(
                f"{first.message}; {_describe_change('the configuration', how)}",
                path=first.path,
                kind=first.kind,
                layer=error.layer,
                file=error.file,
                others=others,
            ) from exc

    def _setting_changed_by_tools(self, error: ProviderError) -> str:
        """Return the setting of the model that the last change of a tool set; "" if none.

        An error with a status is about the model's name, other errors are about the provider.
        """
        claims = self.turn.record.stream.deltas[-1].claims
        touched = [path for path in claims if path.startswith((MODEL_ID, PROVIDERS))]
        wanted = f"{MODEL_ID}.{'provider' if error.status is None else 'name'}"
        return wanted if wanted in touched else next(iter(touched), "")

    def _make_batch(self, calls: Sequence[Call], resolved: Resolved) -> Batch:
        """Return the batch that runs `calls`, which get the event ids of their requests."""
        record = self.turn.record
        if self.turn.progress is not None and not calls[0].event_id:
            index = len(record.stream)
            for call in reversed(calls):  # their requests are near the end of the record
                index -= 1
                while not isinstance(record.stream.entries[index], ToolCallRequest):
                    index -= 1
                call.event_id = record.stream.event_id(index)
        context = BatchContext(
            inquiry=resolved.inquiry,
            catalog=resolved.tools.documentation,
            basis=resolved.basis,
            results=None if resolved.results is None else resolved.results(record.thread),
        )
        return Batch(self.turn, calls, context)


def user_required_error(reason: str) -> PromptUnavailable:
    """Return the error of a strict run in which a decision needed a user."""
    return PromptUnavailable(
        f"a decision needs a user, and no user is available: {reason}. Run the "
        "notebook in a live session, configure the decision in advance, or run "
        "without --strict.",
        reason=reason,
    )


def _has_outdated_tools(resolved: Resolved) -> bool:
    return any(tool.executor.is_outdated for tool in resolved.tools.tools.values())


def _describe_change(what: str, how: str) -> str:
    return (
        f"a tool changed {what} in this turn. The change remains until you set another value: {how}"
    )
