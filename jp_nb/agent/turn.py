"""A turn: from the user's request to an answer without tool calls.

Phases: idle -> streaming -> executing -> streaming … -> complete. There is no limit on cycles.

Source: `spec/tools-and-turn-loop.md` sections 11.1 to 11.3, `spec/providers.md` section 2.4.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from jp_nb.agent.coordinator import Call, Coordinator
from jp_nb.agent.inquiry import InquiryBackend
from jp_nb.agent.offer import Offer
from jp_nb.agent.ports import (
    CellThread,
    DiscardText,
    Display,
    EndOfText,
    Finished,
    Flush,
    KeepAlive,
    ModelParameters,
    ModelRequest,
    Notice,
    Prompter,
    Provider,
    ProviderEvent,
    Retry,
    ShowText,
    TextPart,
    Usage,
)
from jp_nb.agent.questions import TurnState
from jp_nb.agent.response import ResponseBuilder, add_usage
from jp_nb.config.app_config import Request as RequestConfig
from jp_nb.config.style_config import Interrupt as InterruptConfig
from jp_nb.errors import PromptUnavailable, ProviderError
from jp_nb.record.events import ChatRequest, ChatResponse, Entry, ToolCallRequest, ToolCallResponse
from jp_nb.record.stream import ConversationStream
from jp_nb.record.thread import Thread

MAX_PATCHES = 10
MAX_BREAKS = 4
"""An answer that goes on a little at each attempt gets so many times `max_retries` attempts."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """What the configuration in force comes to: all that one model request needs.

    Attributes:
        inquiry: Answers questions of tools by asking a model.
        interrupts: What an interrupt of the kernel does.
    """

    provider: Provider
    provider_name: str
    model: str
    system: tuple[str, ...]
    offer: Offer
    tool_choice: str
    parameters: ModelParameters
    request: RequestConfig
    inquiry: InquiryBackend | None = None
    interrupts: InterruptConfig = field(default_factory=InterruptConfig)


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How a turn ended, and the tokens it took."""

    status: Literal["completed", "interrupted"]
    usage: Usage


@dataclass(slots=True)
class TurnLoop:
    """Runs one turn on one conversation.

    Attributes:
        stream: The record; every entry is appended as it happens.
        thread: The provider's view of it, grown alongside.
        resolve: What the configuration in force comes to.
        prompter: Asks the person.
        cell: The cell's thread.
        display: Shows what happens.
        strict: End the turn as soon as nobody could decide what only a person may (D21).
        context: `root` and `conversation_id` for tools.
        sleep: Waits before a retry.
        usage: Tokens so far.
    """

    stream: ConversationStream
    thread: Thread
    resolve: Callable[[], Resolved]
    prompter: Prompter
    cell: CellThread
    display: Display
    strict: bool = False
    context: Mapping[str, str] = field(default_factory=dict)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    usage: Usage = field(default_factory=Usage)
    _task: asyncio.Task[TurnEnd] | None = None
    _stopping: bool = False
    _provider_name: str = ""
    _shown: Literal["message", "reasoning", "structured"] | None = None

    async def run(self, request: ChatRequest) -> TurnEnd:
        """Append `request` as a new turn and see it through.

        Raises:
            ProviderError: If the model cannot be reached or refuses for good. What arrived
                before is in the record.
            PromptUnavailable: With `strict`, if nobody could decide something.
            ConfigError: If the configuration does not resolve; nothing was appended.
        """
        if self._stopping:
            return TurnEnd("interrupted", self.usage)
        self._task = asyncio.current_task()
        resolved = self._resolve()
        self.stream.start_turn(request)
        self.thread.add(request, self._provider_name)
        schema = request.response_schema
        try:
            await self._cycles(resolved, schema)
        except asyncio.CancelledError:
            if not self._stopping or self._task is None:
                raise
            self._task.uncancel()
            return TurnEnd("interrupted", self.usage)
        return TurnEnd("completed", self.usage)

    def interrupt(self) -> None:
        """Stop: keep what arrived, give every open tool call its response, end the turn.

        From the agent's loop. Before `run` has begun, nothing of the turn is recorded; a second
        call changes nothing.
        """
        if self._stopping:
            return
        self._stopping = True
        if self._task is not None:
            self._task.cancel()

    def _resolve(self) -> Resolved:
        resolved = self.resolve()
        self._provider_name = resolved.provider_name
        return resolved

    def _record(self, entry: Entry) -> None:
        self.stream.append(entry)
        self.thread.add(self.stream.entries[-1], self._provider_name)

    async def _cycles(self, resolved: Resolved, schema: Mapping[str, JsonValue] | None) -> None:
        choice = resolved.tool_choice
        coordinator = Coordinator(
            record=self._record,
            prompter=self.prompter,
            cell=self.cell,
            display=self.display,
            state=TurnState(),
            context=self.context,
        )
        while True:
            calls = await self._stream(resolved, choice, schema)
            if not calls:
                return
            await self._execute(coordinator, calls)
            if self.strict and coordinator.unavailable is not None:
                raise PromptUnavailable(
                    "a question needs a person and nobody can be asked: "
                    f"{coordinator.unavailable}. Run the notebook in a live session, configure "
                    "an answer, or leave out --strict.",
                    reason=coordinator.unavailable,
                )
            choice = "auto"

    # --- executing ---------------------------------------------------------------------------

    async def _execute(self, coordinator: Coordinator, calls: Sequence[Call]) -> None:
        try:
            responses = await coordinator.run(calls)
        except (asyncio.CancelledError, Exception):  # the record stays well formed
            self._commit(await coordinator.stop())
            raise
        self._commit(responses)

    def _commit(self, responses: Sequence[ToolCallResponse]) -> None:
        start = len(self.stream)
        self.stream.append(*responses)
        for entry in self.stream.entries[start:]:
            self.thread.add(entry, self._provider_name)

    # --- streaming ---------------------------------------------------------------------------

    async def _stream(
        self, resolved: Resolved, choice: str, schema: Mapping[str, JsonValue] | None
    ) -> list[Call]:
        """One model response, with as many attempts as it takes; the tool calls in it."""
        attempt = patches = breaks = 0
        request = self._request(resolved, choice, schema)
        while True:
            one = _Attempt()
            try:
                finished = await self._attempt(resolved.provider, request, one)
            except ProviderError as exc:
                attempt = 1 if one.has_content else attempt + 1
                breaks += 1
                self._keep_partial(one)
                most = resolved.request.max_retries
                if not exc.retryable or attempt > most or breaks > MAX_BREAKS * max(most, 1):
                    raise
                await self._wait(exc, attempt, resolved.request)
                continue
            except BaseException:  # interrupted, or a provider's fault
                self._keep_partial(one)
                raise
            if finished is not None:
                self._finish(finished, one)
                return self._calls(one, resolved.offer)
            assert one.retry is not None
            patches += 1
            if patches > MAX_PATCHES:
                raise ProviderError(f"the provider keeps rejecting the thread: {one.retry.reason}")

    def _request(
        self, resolved: Resolved, choice: str, schema: Mapping[str, JsonValue] | None
    ) -> ModelRequest:
        limits = resolved.request
        return ModelRequest(
            model=resolved.model,
            thread=self.thread,
            system=resolved.system,
            tools=tuple(tool.definition for tool in resolved.offer.tools.values()),
            tool_choice=choice,
            parameters=resolved.parameters,
            schema=schema,
            idle_timeout=float(limits.stream_idle_timeout_secs),
            max_response_bytes=limits.max_response_bytes,
            conversation_id=self.stream.id,
        )

    async def _wait(self, error: ProviderError, attempt: int, limits: RequestConfig) -> None:
        kind = error.kind.replace("_", " ")
        text = f"⚠ {kind}, retrying ({attempt}/{limits.max_retries})…"
        self.display(Notice(text, transient=True))
        await self.sleep(backoff(limits, attempt, error.retry_after))

    async def _attempt(
        self, provider: Provider, request: ModelRequest, one: _Attempt
    ) -> Finished | None:
        """How one response ended; None if the provider asks to be called again."""
        try:
            finished = await self._consume(provider, request, one)
        finally:
            self.usage = add_usage(self.usage, one.builder.usage)
        if finished is None and one.retry is None:
            raise ProviderError("the stream ended before the answer did", kind="transient")
        return finished

    async def _consume(
        self, provider: Provider, request: ModelRequest, one: _Attempt
    ) -> Finished | None:
        feed, display = one.builder.feed, self.display
        finished = None
        async with aclosing(provider.stream(request)) as events:
            async for event in events:
                if isinstance(event, TextPart):
                    one.has_content = True
                    feed(event)
                    display(ShowText(event.kind, event.text))
                elif isinstance(event, KeepAlive):
                    continue
                elif isinstance(event, Finished):
                    finished = event
                elif isinstance(event, Retry):
                    one.retry = event
                else:
                    self._item(event, one)
        return finished

    def _item(self, event: ProviderEvent, one: _Attempt) -> None:
        one.has_content = one.has_content or not isinstance(event, Usage)
        entry = one.builder.feed(event)
        if entry is not None:
            one.entries.append(entry)
        if isinstance(event, Flush) and isinstance(entry, ChatResponse):
            self.display(EndOfText())

    def _finish(self, finished: Finished, one: _Attempt) -> None:
        """Store the response, whole: until here a refusal or a break takes nothing back."""
        if finished.reason == "refused":
            detail = f": {finished.detail}" if finished.detail else ""
            one.entries.clear()
            self.display(DiscardText())
            self.display(Notice(f"⚠ The model refused to answer{detail}"))
            return
        rest, unfinished = one.builder.finish()
        for entry in (*one.entries, *rest):
            self._record(entry)
        self.display(EndOfText())
        for name in unfinished:
            self.display(Notice(f"⚠ The call of {name} was cut off and did not run"))
        if finished.reason == "max_tokens":
            self.display(Notice("⚠ The answer reached the token limit and is cut off"))
        elif finished.reason == "other":
            self.display(Notice(f"⚠ The model stopped: {finished.detail or 'no reason given'}"))

    def _keep_partial(self, one: _Attempt) -> None:
        """Store the texts of an answer that broke off; tool calls in it never ran: they drop."""
        for entry in (*one.entries, *one.builder.peek()):
            if isinstance(entry, ChatResponse):
                self._record(entry)
        if one.has_content:
            self.display(EndOfText())

    @staticmethod
    def _calls(one: _Attempt, offer: Offer) -> list[Call]:
        bad = one.builder.bad_arguments
        return [
            Call(entry, offer.tools.get(entry.name), bad.get(entry.id))
            for entry in one.entries
            if isinstance(entry, ToolCallRequest)
        ]


@dataclass(slots=True)
class _Attempt:
    """One request and what came of it so far."""

    builder: ResponseBuilder = field(default_factory=ResponseBuilder)
    entries: list[Entry] = field(default_factory=list)
    retry: Retry | None = None
    has_content: bool = False


def backoff(limits: RequestConfig, attempt: int, retry_after: float | None) -> float:
    """Seconds to wait before attempt number `attempt` (from 1) is followed by the next.

    The server's wish counts, capped; without one the wait doubles, with up to half a second of
    jitter.
    """
    ceiling = float(limits.max_backoff_secs)
    if retry_after is not None:
        return min(retry_after, ceiling)
    base = limits.base_backoff_ms / 1000
    jitter = random.uniform(0, min(0.5, base))
    return float(min(base * 2 ** (attempt - 1) + jitter, ceiling))
