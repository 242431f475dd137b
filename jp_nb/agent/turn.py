"""Run one turn: from the user's request to a response without tool calls.

A turn consists of cycles: one request to the model (`TurnRequests`), and the tool calls of its
response (`Batch`). There is no limit on cycles. Before a request whose configuration may have
changed, it is resolved again (`TurnConfiguration`). However the turn ends, its record is complete:
each tool call has a response, and a turn without an answer is marked.

The loop runs on the agent's event loop. An interrupt of the kernel may come at any step, so long
steps run in `TurnInterrupts.run`, which cancels them.

Source: `docs/turns.md`, `docs/providers.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, assert_never

from pydantic import JsonValue

from jp_nb.agent.call_steps.batch import Batch
from jp_nb.agent.calls.call import Call
from jp_nb.agent.calls.image_limits import LimitedImages, limit_images
from jp_nb.agent.compacting.compactor import CompactionSettings, Compactor
from jp_nb.agent.display import Notice
from jp_nb.agent.effective_model import Resolved
from jp_nb.agent.model_requests.answer_retries import AnswerCheck, AnswerRetries
from jp_nb.agent.model_requests.model_call import AnswerStream
from jp_nb.agent.provider_events import Usage
from jp_nb.agent.turn_closing import TurnCompletion, TurnStatus, UnfinishedTurn
from jp_nb.agent.turn_configuration import TurnConfiguration
from jp_nb.agent.turn_edits import compare_edited_cells
from jp_nb.agent.turn_interrupts import TurnInterrupts
from jp_nb.agent.turn_plan import NOT_APPROVED_NOTICE
from jp_nb.agent.turn_requests import TurnRequests
from jp_nb.agent.turn_state import BatchContext, TurnContext
from jp_nb.errors import PromptUnavailable
from jp_nb.images import Image
from jp_nb.record.entries.events import (
    ChatRequest,
    Entry,
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.record.entries.unanswered_turns import is_unanswered
from jp_nb.record.reading.marks import make_request_marks
from jp_nb.record.unfinished_calls import OpenCall
from jp_nb.toolkit.cancellation import is_cancelled
from jp_nb.toolkit.cell_thread import CallInterrupted

TOKENS_SETTING = "assistant.request.max_total_tokens"
ALLOW_MORE_TOKENS_HINT = (
    f"Allow more with `%jp config {TOKENS_SETTING}=N` (0: no limit), then ask again."
)
TOO_MANY_TOKENS_TEXT = "This tool call did not run. The turn has reached its token limit."

CycleResult = Literal["follow_up", "config_changed", "completed", "interrupted", "stopped"]
"""The end of a cycle. `follow_up` and `config_changed` lead to another request."""


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """The end of a turn, and its tokens.

    Attributes:
        status: `interrupted` after an interrupt or at a limit, `stopped` if the user stopped the
            turn at a question of a tool.
        usage: The tokens of all requests of the turn.
        why: The reason for an early end without the user, such as a limit; else "".
    """

    status: TurnCompletion
    usage: Usage
    why: str = ""


@dataclass(slots=True)
class TurnLoop:
    """Runs one turn of a conversation.

    Attributes:
        turn: Ports and state of the turn.
        resolve: Returns the effective configuration for the next request.
        strict: End the turn when a decision needs a user, and none is available (D21).
        compaction_settings: None if the conversation is never compacted.
        compact_first: Compact the conversation before the turn, even below the limits.
        config_change_count: Number of trailing configuration changes of the record that belong to
            this turn, such as those of the option `-m`. They are reverted if the turn ends before
            the first output of the model.
        is_unanswered: True if the turn got no response. Later requests omit it.
        check_answer: Checks the structured answer, on the cell's thread; None without a schema.
    """

    turn: TurnContext
    resolve: Callable[[], Awaitable[Resolved]]
    strict: bool = False
    compaction_settings: CompactionSettings | None = None
    compact_first: bool = False
    config_change_count: int = 0
    check_answer: AnswerCheck | None = None
    is_unanswered: bool = False
    _has_begun: bool = False  # True once the request is in the record
    _resumed_calls: Sequence[OpenCall] = ()  # of the interrupted turn that `resume` continues
    _completion: TurnStatus = "failed"  # until the turn has ended otherwise
    _why: str = ""  # reason for an early end without the user
    _interrupts: TurnInterrupts = field(init=False)
    _configuration: TurnConfiguration = field(init=False)  # from the start of the turn

    def __post_init__(self) -> None:
        self._interrupts = TurnInterrupts(self.turn.display)

    @property
    def interrupt_count(self) -> int:
        """Number of interrupts so far."""
        return self._interrupts.count

    def interrupt(self) -> None:
        """Handle an interrupt of the kernel, on the agent's event loop."""
        self._interrupts.receive()

    async def run(self, request: ChatRequest, images: Sequence[Image] = ()) -> TurnEnd:
        """Append `request` as a new turn, and run it to its end.

        The request includes `images`, up to the setting `record.images_per_turn`.

        Raises:
            ProviderError: No attempt succeeded. The record has the entries before the error.
            PromptUnavailable: With `strict`, a decision needed a user and none was available.
            ConfigError: The configuration is not valid. Nothing was appended.
            UsageError: The model does not support the response schema. Nothing was appended.
        """
        with self._running():
            self._stop_if_interrupted()
            resolved = await self._begin(request, images)
            schema = request.response_schema
            choice = resolved.tool_choice
            self._completion = await self._run_cycles(resolved, schema, choice=choice)
            await self._interrupts.run(compare_edited_cells(self.turn))

        return self._make_end()

    async def resume(
        self, open_calls: Sequence[OpenCall], abandoned: Sequence[ToolCallResponse]
    ) -> TurnEnd:
        """Continue the last turn of the conversation, which was interrupted.

        The `open_calls` run, again or for the first time. `abandoned` are the responses to the
        open calls that do not run.

        Raises:
            ProviderError: As in `run`, like all other errors.
        """
        with self._running():
            self._stop_if_interrupted()
            resolved = await self._configuration.resolve_next()
            record = self.turn.record
            turn = record.stream.current_turn()
            schema = _find_request(turn).response_schema
            if schema is not None:
                resolved.provider.check_schema(schema)

            self._has_begun = True
            self._resumed_calls = open_calls
            recorded = record.stream.images
            self.turn.image_count = sum(len(recorded.images_of(entry).images) for entry in turn)
            record.add(*abandoned)

            # A forced tool choice has had its effect if the model answered before the interruption.
            choice = resolved.tool_choice if is_unanswered(turn) else "auto"
            calls = [_make_resumed_call(open_call, resolved) for open_call in open_calls]
            self._completion = await self._run_cycles(resolved, schema, choice=choice, calls=calls)
            await self._interrupts.run(compare_edited_cells(self.turn))

        return self._make_end()

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Prepare the turn for the block, and close it after the block, however this ends.

        An interrupt only ends the block: it is no error of the turn.
        """
        self._configuration = TurnConfiguration(self.turn, self._interrupts, self.resolve)
        try:
            yield
        except asyncio.CancelledError:
            self._completion = "interrupted"
            # The task of the turn was canceled from outside. Otherwise it was an interrupt of the
            # kernel, for which `TurnInterrupts.run` raises the same exception.
            if is_cancelled():
                raise
        finally:
            self._interrupts.end()  # an interrupt must not disturb the rest
            self._close()

    def _make_end(self) -> TurnEnd:
        """Return the end of a turn that did not fail. Tell the user if it had no approved plan."""
        assert self._completion != "failed"  # the error of a failed turn was raised
        if self._completion == "completed" and self.turn.plan.is_pending:
            self.turn.display(Notice(NOT_APPROVED_NOTICE))
        return TurnEnd(self._completion, self.turn.tokens.usage, self._why)

    def _stop_if_interrupted(self) -> None:
        """End the turn if an interrupt came before its first step, which could be canceled."""
        if self._interrupts.count:
            raise asyncio.CancelledError

    async def _begin(self, request: ChatRequest, images: Sequence[Image]) -> Resolved:
        """Append `request` as a new turn, and return the configuration of its first cycle."""
        resolved = await self._configuration.resolve_next()
        record = self.turn.record
        if request.response_schema is not None:
            resolved.provider.check_schema(request.response_schema)

        shown = limit_images(images, resolved.basis.config.record, earlier_count=0)
        request = self._complete_request(request, shown, resolved)
        await self._compact_before(request, resolved)

        record.start_turn(request, shown.images)
        self._has_begun = True
        self.turn.image_count = len(shown.images)
        for line in shown.omitted:
            self.turn.display(Notice(f"⚠ {line}"))
        return resolved

    def _complete_request(
        self, request: ChatRequest, shown: LimitedImages, resolved: Resolved
    ) -> ChatRequest:
        """Return `request` with lines about omitted images, and with marks about its settings."""
        # A replay must leave the same record, whatever the server is.
        host = "" if self._configuration.is_replayable(resolved) else resolved.host
        marks = make_request_marks(resolved.tool_choice, host)
        content = shown.add_omissions_to(request.content)
        metadata = {**request.metadata, **marks}
        return request.model_copy(update={"content": content, "metadata": metadata})

    async def _compact_before(self, request: ChatRequest, resolved: Resolved) -> None:
        """Compact the conversation if the user asked for it, or if `request` makes it too long."""
        if self.compaction_settings is None:
            return

        compactor = Compactor(self.turn, self.compaction_settings)
        if self.compact_first:
            await self._interrupts.run(compactor.compact_on_request(resolved))
        else:
            await self._interrupts.run(compactor.compact_if_due(resolved, request.content))

    def _close(self) -> None:
        """Complete the record of the turn (`turn_closing.py`)."""
        unfinished = UnfinishedTurn(
            turn=self.turn,
            status=self._completion,
            has_begun=self._has_begun,
            resumed_calls=self._resumed_calls,
            config_change_count=self.config_change_count,
        )
        self.is_unanswered = unfinished.close()

    async def _run_cycles(
        self,
        resolved: Resolved,
        schema: Mapping[str, JsonValue] | None,
        *,
        choice: str,
        calls: Sequence[Call] = (),
    ) -> TurnCompletion:
        """Run cycles, starting with `calls` of an earlier response if there are any.

        `choice` is the tool choice of the first request. A forced one has its effect once: later
        requests leave the choice to the model (`auto`), until a tool changes the setting.
        """
        requests = TurnRequests(self.turn, self._interrupts, self.compaction_settings, schema)
        retries = AnswerRetries(self.turn, self.check_answer)
        config_changed = False  # by a tool, just before the request

        while True:
            if not calls:
                answered = await requests.send(resolved, choice, changed=config_changed)
                if answered is None:  # an interrupt ended the turn
                    return "interrupted"
                calls = answered  # none if the response is the answer

            result = await self._run_calls(calls, requests.answers, resolved)
            calls = ()
            config_changed = result == "config_changed"

            match result:
                case "completed":
                    # A structured answer that does not fit leads to another request.
                    if not await self._reject_answer(retries, resolved, requests.answers):
                        return result
                    # A turn in which the model may call no tools keeps this for its new answer.
                    choice = "none" if choice == "none" else "auto"
                case "interrupted" | "stopped":
                    return result
                case "follow_up":
                    choice = "auto"
                    if _has_outdated_tools(resolved):  # an MCP server has announced a change
                        resolved = await self._configuration.resolve_next()
                case "config_changed":
                    previous = resolved.basis.config.assistant.tool_choice
                    resolved = await self._configuration.resolve_changed(schema)
                    # A tool choice that did not change has had its effect. If it were forced
                    # again in each cycle, the turn would never end.
                    is_same = resolved.basis.config.assistant.tool_choice == previous
                    choice = "auto" if is_same else resolved.tool_choice
                case _:
                    assert_never(result)

    async def _reject_answer(
        self, retries: AnswerRetries, resolved: Resolved, answers: AnswerStream
    ) -> bool:
        """Check the answer; return True if it was sent back, and the model gives another one.

        An interrupt ends the turn, also one that ends the check on the cell's thread.
        """
        max_retries = resolved.request.max_schema_retries
        work = retries.reject_answer(max_retries=max_retries, finish=answers.finish_reason)
        try:
            return await self._interrupts.run(work)
        except CallInterrupted:
            raise asyncio.CancelledError from None

    async def _run_calls(
        self,
        calls: Sequence[Call],
        answers: AnswerStream,
        resolved: Resolved,
    ) -> CycleResult:
        """Run the `calls` of a response, which may be none, and return the end of the cycle.

        The batch handles interrupts itself: it asks the user what to do with the running calls.
        """
        if self.turn.tokens.is_over_limit:
            return self._end_at_token_limit(calls)
        if not calls:
            return "completed"

        self._set_event_ids(calls)
        batch = self._make_batch(calls, resolved)
        self._interrupts.handler = batch.interrupt
        if answers.interrupted_after_end:  # the interrupt came when the answer was just complete
            batch.interrupt()
        end = await batch.run()

        # With the menu of an interrupt, the user can send a message in place of the results. If the
        # calls had ended before, it becomes a message of its own.
        if end.unsent_message:
            self.turn.record.add_user_message(end.unsent_message, self.turn.display)
        if end.ends_turn is not None:
            return end.ends_turn
        if self.strict and (reason := self.turn.unavailable_reason) is not None:
            raise make_user_required_error(reason)
        if self.turn.tokens.is_over_limit:  # by models that answered questions of the tools
            return self._end_at_token_limit(calls, ran=True)
        return "follow_up" if end.change is None else "config_changed"

    def _end_at_token_limit(self, calls: Sequence[Call], *, ran: bool = False) -> CycleResult:
        """End a turn at its token limit. `ran` is True if `calls` have run.

        A response without calls ends the turn anyway: the user only gets a notice.
        """
        open_calls = () if ran else calls
        for call in open_calls:
            self.turn.record.add(
                ToolCallResponse(id=call.request.id, content=TOO_MANY_TOKENS_TEXT, is_error=True)
            )

        total = self.turn.tokens.total
        limit = self.turn.tokens.max_tokens
        reason = f"The turn took {total} tokens; the limit {TOKENS_SETTING} is {limit}"
        if calls:
            effect = " The calls of the last answer did not run." if open_calls else ""
            reason += f". The turn ends here.{effect} {ALLOW_MORE_TOKENS_HINT}"
        self.turn.display(Notice(f"⚠ {reason}"))

        if not calls:
            return "completed"
        self._why = reason
        return "interrupted"

    def _set_event_ids(self, calls: Sequence[Call]) -> None:
        """Give new `calls` the event ids of their requests, for the journal, if there is one."""
        are_resumed = bool(calls[0].event_id)
        if self.turn.progress is None or are_resumed:
            return

        # The requests of the calls are the last ones of the record, in the same order. Other
        # entries of the response may be between them.
        stream = self.turn.record.stream
        index = len(stream)
        for call in reversed(calls):
            index -= 1
            while not isinstance(stream.entries[index], ToolCallRequest):
                index -= 1
            call.event_id = stream.event_id(index)

    def _make_batch(self, calls: Sequence[Call], resolved: Resolved) -> Batch:
        """Return the batch that runs `calls`, or that replays their recorded results."""
        results = None
        if resolved.results is not None:
            results = resolved.results(self.turn.record.context)

        context = BatchContext(
            inquiry=resolved.inquiry,
            catalog=resolved.tools.documentation,
            tools=resolved.tools.tools,
            basis=resolved.basis,
            results=results,
        )
        return Batch(self.turn, calls, context)


def make_user_required_error(reason: str) -> PromptUnavailable:
    """Return the error of a strict run in which a decision needed a user."""
    return PromptUnavailable(
        f"a decision needs a user, and no user is available: {reason}. Run the "
        "notebook in a live session, configure the decision in advance, or run "
        "without --strict.",
        reason=reason,
    )


def _find_request(turn: Sequence[Entry]) -> ChatRequest:
    """Return the request with which a turn begins."""
    return next(entry for entry in turn if isinstance(entry, ChatRequest))


def _make_resumed_call(open_call: OpenCall, resolved: Resolved) -> Call:
    """Return the call that runs an open call of the record, again or for the first time."""
    return Call(
        open_call.request,
        resolved.tools.tools.get(open_call.request.name),
        event_id=open_call.event_id,
        may_have_run=open_call.may_have_run,
        edits=open_call.change,
    )


def _has_outdated_tools(resolved: Resolved) -> bool:
    return any(tool.executor.is_outdated for tool in resolved.tools.tools.values())
