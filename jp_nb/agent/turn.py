"""A turn: from the user's request to an answer without tool calls.

Phases: idle -> streaming -> executing -> streaming … -> complete. There is no limit on cycles.

Source: `docs/turns.md`, `docs/providers.md`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from time import monotonic
from typing import Literal, assert_never

from pydantic import JsonValue

from jp_nb.agent.asking import BatchContext
from jp_nb.agent.attempt import MAX_TOOL_CALLS, Attempt, Chain
from jp_nb.agent.calls import Call
from jp_nb.agent.coordinator import NEVER_RAN, BatchEnd, Coordinator
from jp_nb.agent.display_events import (
    MODEL_WAITS,
    DiscardText,
    Display,
    EndOfText,
    InterruptHeard,
    Notice,
    PersonSays,
    ShowText,
    Waits,
)
from jp_nb.agent.interrupts import STOP, Interrupts, Verdict, menu
from jp_nb.agent.model_events import (
    Attachment,
    Finished,
    Flush,
    KeepAlive,
    ModelParameters,
    ModelRequest,
    Provider,
    ProviderEvent,
    Retry,
    TextPart,
    ToolCallStart,
    Usage,
)
from jp_nb.agent.model_inquiry import InquiryBackend
from jp_nb.agent.prompt_queue import Ask, asking
from jp_nb.agent.prompts import Prompter
from jp_nb.agent.questions import TurnState
from jp_nb.agent.response import add_usage
from jp_nb.agent.retry_words import retry_words, say_tries
from jp_nb.agent.secret_answers import Secrets
from jp_nb.agent.tool_set import ToolSet
from jp_nb.config.proposal import ConfigSnapshot
from jp_nb.config.tree.app_config import Request as RequestConfig
from jp_nb.config.tree.style_config import Interrupt as InterruptConfig
from jp_nb.errors import ConfigError, PromptUnavailable, ProviderError, UsageError
from jp_nb.record.events import (
    ChatRequest,
    ChatResponse,
    Entry,
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.record.stream import ConversationStream
from jp_nb.record.thread import Thread
from jp_nb.record.turn_marks import demanding, uncalled
from jp_nb.record.unanswered import NoAnswer, is_unanswered, marked
from jp_nb.tooling.base import CellThread

log = logging.getLogger(__name__)

MODEL_ID = "assistant.model.id"
PROVIDERS = "providers.llm"
CHOOSE_ANOTHER = f"`%jp config {MODEL_ID}=PROVIDER/NAME`"
MAX_TOTAL_TOKENS = "assistant.request.max_total_tokens"
TOO_MANY_TOKENS = "This tool call did not run: the turn had taken as many tokens as it may."
NO_ANSWER = "⚠ There was no answer: the request stays in the record and is not sent again"
TAKEN_BACK = "; what its options had set is taken back"
MAX_PATCHES = 10
MAX_BREAKS = 4
"""An answer that goes on a little at each attempt gets so many times `max_retries` attempts."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """What the configuration in force comes to: all that one model request needs.

    Attributes:
        inquiry: Answers questions of tools by asking a model.
        interrupts: What an interrupt of the kernel does.
        basis: The configuration itself, which tools may propose to change.
        chains: Whether an answer that reaches the token limit is gone on with.
    """

    provider: Provider
    provider_name: str
    model: str
    system: tuple[str, ...]
    offer: ToolSet
    tool_choice: str
    parameters: ModelParameters
    request: RequestConfig
    attachments: tuple[Attachment, ...] = ()
    inquiry: InquiryBackend | None = None
    interrupts: InterruptConfig = field(default_factory=InterruptConfig)
    basis: ConfigSnapshot = field(default_factory=ConfigSnapshot)
    chains: bool = False

    @property
    def full_name(self) -> str:
        """The model's name as it is configured: `provider/name`."""
        return f"{self.provider_name}/{self.model}"


CycleResult = Literal["follow_up", "config_changed", "completed", "stopped"]
"""How a cycle ended: the model is asked again, under another configuration or not, or it is over.

A restart of tool calls, and an escalated stop, are the coordinator's.
"""


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
        secrets: What tools may not repeat.
        changes: So many of the last changes of the configuration were made for this turn. They
            are taken back if it fails, or is interrupted, before the model said anything.
        sleep: Waits before a retry.
        clock: Seconds, for the time between two interrupts.
        usage: Tokens so far.
        interrupts_heard: How many interrupts this turn took notice of; none after its end.
        left_out: Whether the turn got no answer, so that its request is not sent again.
    """

    stream: ConversationStream
    thread: Thread
    resolve: Callable[[], Resolved]
    prompter: Prompter
    cell: CellThread
    display: Display
    strict: bool = False
    context: Mapping[str, str] = field(default_factory=dict)
    secrets: Secrets = field(default_factory=Secrets)
    changes: int = 0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = monotonic
    usage: Usage = field(default_factory=Usage)
    interrupts_heard: int = 0
    left_out: bool = False
    _phase: Callable[[], None] | None = None
    _provider_name: str = ""
    _interrupts: Interrupts | None = None
    _listening: _Listening | None = None
    _began: bool = False
    _late: bool = False
    _kept: str = ""
    _over: bool = False

    async def run(self, request: ChatRequest) -> TurnEnd:
        """Append `request` as a new turn and see it through.

        Raises:
            ProviderError: If the model cannot be reached or refuses for good. What arrived
                before is in the record.
            PromptUnavailable: With `strict`, if nobody could decide something.
            ConfigError: If the configuration does not resolve; nothing was appended.
            UsageError: If the model cannot be asked for that kind of answer; likewise.
        """
        status: Literal["completed", "interrupted", "failed"] = "failed"
        try:
            status = await self._run(request)
        except asyncio.CancelledError:
            status = "interrupted"
            raise
        finally:
            self._phase, self._over = None, True
            self._close(status)
        return TurnEnd(status, self.usage)

    async def _run(self, request: ChatRequest) -> Literal["completed", "interrupted"]:
        if self.interrupts_heard:
            return "interrupted"
        resolved = self._resolve()
        schema = request.response_schema
        if schema is not None:
            resolved.provider.check_schema(schema)
        self.stream.start_turn(demanding(request, resolved.tool_choice))
        self._began = True
        self.thread.add(self.stream.entries[-1], self._provider_name)
        self._interrupts = Interrupts(self.prompter, clock=self.clock)
        return await self._cycles(resolved, schema, self._interrupts)

    def _close(self, status: Literal["completed", "interrupted", "failed"]) -> None:
        """Leave a record that is well formed, and that says if the turn got no answer."""
        for call in self.stream.unanswered() if self._began else ():
            self._record(ToolCallResponse(id=call.id, content=NEVER_RAN, is_error=True))
        turn = self.stream.current_turn() if self._began else []
        self.left_out = is_unanswered(turn)
        if status == "completed" or (self._began and not self.left_out):
            return
        silent = not any(isinstance(entry, ChatResponse) for entry in turn)
        takes_back = self.changes if silent else 0
        if self._began or takes_back:
            self._record(marked(NoAnswer(status, takes_back)))
        if self._began:
            self.display(Notice(NO_ANSWER + (TAKEN_BACK if takes_back else "")))

    def interrupt(self) -> None:
        """The kernel was interrupted; from the agent's loop.

        Before `run` has begun, nothing of the turn is recorded. After it ended, nothing happens.
        """
        if self._over:
            return
        self.interrupts_heard += 1
        if self._phase is not None:
            self.display(InterruptHeard())  # at once: what comes of it may take a while
            self._phase()

    def _resolve(self) -> Resolved:
        resolved = self.resolve()
        self._provider_name = resolved.provider_name
        if resolved.inquiry is not None:
            resolved.inquiry.on_usage = self.add_usage
        return resolved

    def _record(self, entry: Entry) -> None:
        self.stream.append(entry)
        self.thread.add(self.stream.entries[-1], self._provider_name)

    def add_usage(self, more: Usage) -> None:
        """Count tokens that something beside the main stream took."""
        self.usage = add_usage(self.usage, more)

    async def _cycles(
        self, resolved: Resolved, schema: Mapping[str, JsonValue] | None, interrupts: Interrupts
    ) -> Literal["completed", "interrupted"]:
        """Cycle after cycle; what the configuration comes to is looked up between them."""
        choice = resolved.tool_choice
        coordinator = Coordinator(
            record=self._record,
            prompter=self.prompter,
            cell=self.cell,
            display=self.display,
            state=TurnState(secrets=self.secrets),
            interrupts=interrupts,
            context=self.context,
        )
        changed = False
        while True:
            try:
                result = await self._cycle(coordinator, resolved, choice, schema, interrupts)
            except ProviderError as exc:
                if changed and (chosen := self._chosen_by_tools(exc)):
                    exc.args = (f"{str(exc).rstrip('.')}; {_stays(chosen, CHOOSE_ANOTHER)}",)
                raise
            changed = result == "config_changed"
            match result:
                case "completed":
                    return "completed"
                case "stopped":
                    return "interrupted"
                case "follow_up":
                    choice = "auto"
                case "config_changed":
                    before, resolved = resolved, self._resolve_again(schema)
                    # One that was there before is not forced again: the turn would never end.
                    asked = resolved.basis.config.assistant.tool_choice
                    again = asked == before.basis.config.assistant.tool_choice
                    choice = "auto" if again else resolved.tool_choice
                case _:
                    assert_never(result)

    async def _cycle(
        self,
        coordinator: Coordinator,
        resolved: Resolved,
        choice: str,
        schema: Mapping[str, JsonValue] | None,
        interrupts: Interrupts,
    ) -> CycleResult:
        """One response of the model, and the tool calls in it."""
        calls = await self._response(resolved, choice, schema, interrupts)
        if calls is None:
            return "stopped"
        self._say_uncalled(choice, calls)
        if self._took_too_much(resolved.request, calls):
            return "stopped" if calls else "completed"
        if not calls:
            return "completed"
        end = await self._execute(coordinator, calls, resolved)
        if end.stopped:
            return "stopped"
        if self.strict and coordinator.unavailable is not None:
            raise PromptUnavailable(
                "a decision needs a person and nobody can be asked: "
                f"{coordinator.unavailable}. Run the notebook in a live session, configure "
                "it, or leave out --strict.",
                reason=coordinator.unavailable,
            )
        return "follow_up" if end.change is None else "config_changed"

    def _say_uncalled(self, choice: str, calls: Sequence[Call]) -> None:
        """Say that the tool which this request demanded was not called."""
        missing = uncalled(choice, [call.request.name for call in calls])
        if missing is not None:
            self.display(Notice(f"⚠ The model did not call {missing}, which this turn demanded"))

    def _tokens(self) -> int:
        return (self.usage.input_tokens or 0) + (self.usage.output_tokens or 0)

    def _is_over(self, limits: RequestConfig) -> bool:
        return 0 < limits.max_total_tokens < self._tokens()

    def _took_too_much(self, limits: RequestConfig, calls: Sequence[Call]) -> bool:
        """Whether the turn took more tokens than it may: `calls` then do not run."""
        if not self._is_over(limits):
            return False
        total, most = self._tokens(), limits.max_total_tokens
        for call in calls:
            self._record(
                ToolCallResponse(id=call.request.id, content=TOO_MANY_TOKENS, is_error=True)
            )
        ends = ": it ends here, and the calls of the last answer did not run" if calls else ""
        self.display(Notice(f"⚠ The turn took {total} tokens, {MAX_TOTAL_TOKENS} is {most}{ends}"))
        return True

    def _resolve_again(self, schema: Mapping[str, JsonValue] | None) -> Resolved:
        """What the configuration comes to after tools changed it.

        Raises:
            ConfigError: If it comes to nothing; it names the path. The change stays: the next
                one mends it.
        """
        try:
            resolved = self._resolve()
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
        """`error`, with what led to it and what to do."""
        first, *others = error.problems
        how = f"`%jp config --explain {first.path}` tells what it was before"
        return ConfigError(
            f"{first.message}; {_stays('the configuration', how)}",
            path=first.path,
            kind=first.kind,
            layer=error.layer,
            file=error.file,
            others=others,
        )

    def _chosen_by_tools(self, error: ProviderError) -> str:
        """Which part of the model the last change of tools chose, to blame; "" if none.

        A server that answers knows no such model; without an answer it is about the provider.
        """
        touched = [p for p in self.stream.deltas[-1].claims if p.startswith((MODEL_ID, PROVIDERS))]
        wanted = f"{MODEL_ID}.{'provider' if error.status is None else 'name'}"
        return wanted if wanted in touched else next(iter(touched), "")

    # --- executing ---------------------------------------------------------------------------

    async def _execute(
        self, coordinator: Coordinator, calls: Sequence[Call], resolved: Resolved
    ) -> BatchEnd:
        """Run `calls`; record their responses and what they changed, in one step."""
        self._phase = coordinator.interrupt
        batch = BatchContext(
            thread=self.thread,
            inquiry=resolved.inquiry,
            catalog=resolved.offer.documentation,
            interrupts=resolved.interrupts,
            basis=resolved.basis,
        )
        if self._late:
            coordinator.interrupt()
        try:
            end = await coordinator.run(calls, batch)
        except (asyncio.CancelledError, Exception):  # the record stays well formed
            self._commit(await coordinator.stop())
            raise
        self._commit([*end.responses, *([end.change] if end.change is not None else [])])
        if end.unsaid:
            self._say(end.unsaid)
        return end

    def _commit(self, entries: Sequence[Entry]) -> None:
        start = len(self.stream)
        self.stream.append(*entries)
        for entry in self.stream.entries[start:]:
            self.thread.add(entry, self._provider_name)

    def _say(self, text: str) -> None:
        """Record what the person says to the model in the middle of a turn."""
        self._record(ChatRequest(content=text))
        self.display(PersonSays(text))

    # --- streaming, and what an interrupt makes of it ------------------------------------------

    async def _response(
        self,
        resolved: Resolved,
        choice: str,
        schema: Mapping[str, JsonValue] | None,
        interrupts: Interrupts,
    ) -> list[Call] | None:
        """The tool calls of the model's response; None if the turn is to end."""
        while True:
            self._kept = ""
            work = asyncio.ensure_future(self._stream(resolved, choice, schema))
            listening = _Listening(
                work,
                interrupts,
                resolved.interrupts,
                asking(self.prompter),
                self.cell.release,
                self.display,
            )
            self._listening, self._phase = listening, listening.interrupt
            try:
                calls = await work
                self._late = listening.late
                return calls if calls or not listening.late else None
            except asyncio.CancelledError:
                if listening.verdict is None:
                    raise
            finally:
                listening.close()
                self._listening = None
            if listening.verdict.choice == "abort":
                self._say_aborted()
            if listening.verdict.choice != "reply":
                return None
            self._say(listening.verdict.text)

    def _say_aborted(self) -> None:
        if self._kept:  # the record only grows
            self.display(Notice(f"⚠ Aborted: only what came before {self._kept} is kept"))
        else:
            self.display(DiscardText())
            self.display(Notice("⚠ Aborted: what the model had begun to say is discarded"))

    # --- streaming ---------------------------------------------------------------------------

    async def _stream(
        self, resolved: Resolved, choice: str, schema: Mapping[str, JsonValue] | None
    ) -> list[Call]:
        """One model response, with as many attempts as it takes; the tool calls in it."""
        attempt = patches = breaks = 0
        request = self._request(resolved, choice, schema)
        chain = Chain(resolved.chains and schema is None and choice in ("auto", "none"))
        while True:
            limit = resolved.request.max_tool_calls
            one = Attempt(resolved.full_name, limit, seam=chain.seam())
            self._wait_for(one.model)
            try:
                finished = await self._attempt(resolved.provider, request, one)
            except ProviderError as exc:
                attempt = 1 if one.has_content else attempt + 1
                breaks += 1
                chain.keep(self._keep_partial(one))
                most = resolved.request.max_retries
                if not exc.retryable or attempt > most or breaks > MAX_BREAKS * max(most, 1):
                    say_tries(exc, breaks)
                    raise
                await self._wait(exc, attempt, resolved)
                await self._decided()
                continue
            except BaseException:  # interrupted, or a provider's fault
                self._keep_or_discard(one)
                raise
            if finished is not None:
                if self._finish(finished, one, chain, resolved.request):
                    attempt = patches = breaks = 0
                    continue
                self._wait_for("")
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
            attachments=resolved.attachments,
            tools=tuple(tool.definition for tool in resolved.offer.tools.values()),
            tool_choice=choice,
            parameters=resolved.parameters,
            schema=schema,
            idle_timeout=float(limits.stream_idle_timeout_secs),
            max_response_bytes=limits.max_response_bytes,
            conversation_id=self.stream.id,
        )

    async def _wait(self, error: ProviderError, attempt: int, resolved: Resolved) -> None:
        limits = resolved.request
        seconds = backoff(limits, attempt, error.retry_after)
        again = retry_words(error, attempt, limits.max_retries)
        self._wait_for(f"{resolved.full_name}: {again}", until=monotonic() + seconds)
        await self.sleep(seconds)

    def _wait_for(self, text: str, *, until: float | None = None) -> None:
        self.display(Waits(MODEL_WAITS, text, until))

    async def _attempt(
        self, provider: Provider, request: ModelRequest, one: Attempt
    ) -> Finished | None:
        """How one response ended; None if the provider asks to be called again.

        Not before it is decided what an interrupt does: until then nothing is recorded.
        """
        try:
            finished = await self._consume(provider, request, one)
            if finished is None and one.retry is None:
                raise ProviderError("the stream ended before the answer did", kind="transient")
        except Exception:
            await self._decided()
            raise
        finally:
            self.add_usage(one.builder.usage)
        await self._decided()
        return finished

    async def _decided(self) -> None:
        if self._listening is not None:
            await self._listening.decided.wait()

    async def _consume(
        self, provider: Provider, request: ModelRequest, one: Attempt
    ) -> Finished | None:
        feed, display = one.builder.feed, self.display
        finished = None
        async with aclosing(provider.stream(request)) as events:
            async for event in events:
                if isinstance(event, TextPart):
                    one.has_content = True
                    part = event if one.seam is None else one.trimmed(event)
                    if part is None:
                        continue
                    feed(part)
                    if one.text_ended:
                        one.text_ended = False
                        display(EndOfText())
                    display(ShowText(part.kind, part.text))
                elif isinstance(event, KeepAlive):
                    continue
                elif isinstance(event, Finished):
                    finished = event
                elif isinstance(event, Retry):
                    one.retry = event
                else:
                    self._item(event, one)
        return finished

    def _item(self, event: ProviderEvent, one: Attempt) -> None:
        one.has_content = one.has_content or not isinstance(event, Usage)
        if isinstance(event, ToolCallStart):
            self._wait_for(f"{one.model}, which writes a call of {event.name}")
        if not isinstance(event, Usage):
            self._release(one)
        entry = one.builder.feed(event)
        if entry is not None and one.keeps(entry):
            one.entries.append(entry)
        if isinstance(event, Flush) and isinstance(entry, ChatResponse):
            one.text_ended = True  # it is shown once more comes: an answer may be gone on with

    def _release(self, one: Attempt) -> None:
        """Take what was held back of a continued answer: no more of that text comes."""
        if (part := one.held()) is not None:
            one.builder.feed(part)
            self.display(ShowText(part.kind, part.text))

    def _finish(
        self, finished: Finished, one: Attempt, chain: Chain, limits: RequestConfig
    ) -> bool:
        """Store the response, whole: until here a refusal or a break takes nothing back.

        Returns whether the answer is to be gone on with.
        """
        if finished.reason == "refused":
            self._refused(finished, one, chain)
            return False
        self._release(one)
        one.reason = finished.reason
        rest, unfinished = one.builder.finish()
        entries = one.stored(rest)
        for entry in entries:
            self._record(entry)
        may = not (one.calls or unfinished or self._is_over(limits))
        if chain.goes_on(finished, entries, may=may):
            self._kept = "the continuation"
            return True
        self.display(EndOfText())
        self._say_end(finished, one, unfinished, chain)
        return False

    def _refused(self, finished: Finished, one: Attempt, chain: Chain) -> None:
        detail = f": {finished.detail}" if finished.detail else ""
        one.entries.clear()
        self.display(DiscardText())
        for part in chain.kept:  # they are in the record
            self.display(ShowText(part.kind, part.text))
            self.display(EndOfText())
        self.display(Notice(f"⚠ The model refused to answer{detail}"))

    def _say_end(
        self, finished: Finished, one: Attempt, unfinished: Sequence[str], chain: Chain
    ) -> None:
        for name in (*unfinished, *one.cut_call()):
            self.display(Notice(f"⚠ The call of {name} was cut off and did not run"))
        if one.most_calls and one.calls > one.most_calls:
            told = f"⚠ Of {one.calls} tool calls in one answer the first {one.most_calls} run"
            self.display(Notice(f"{told} ({MAX_TOOL_CALLS})"))
        if finished.reason == "max_tokens":
            times = f" {chain.parts + 1} times" if chain.parts else ""
            self.display(Notice(f"⚠ The answer reached the token limit{times} and is cut off"))
        elif finished.reason == "other":
            self.display(Notice(f"⚠ The model stopped: {finished.detail or 'no reason given'}"))

    def _keep_or_discard(self, one: Attempt) -> None:
        verdict = self._listening.verdict if self._listening is not None else None
        if verdict is None or verdict.choice != "abort":
            self._keep_partial(one)

    def _keep_partial(self, one: Attempt) -> list[ChatResponse]:
        """Store the texts of an answer that broke off, and return them.

        Tool calls in it never ran: they drop.
        """
        self._release(one)
        texts = [e for e in one.stored(one.builder.peek()) if isinstance(e, ChatResponse)]
        for entry in texts:
            self._kept = "the retry"
            self._record(entry)
        if one.has_content and one.seam is None:  # one that is gone on with stays one text
            self.display(EndOfText())
        return texts

    @staticmethod
    def _calls(one: Attempt, offer: ToolSet) -> list[Call]:
        bad = one.problems()
        requests = (entry for entry in one.entries if isinstance(entry, ToolCallRequest))
        return [
            Call(request, offer.tools.get(request.name), bad.get(number))
            for number, request in enumerate(requests)
        ]


class _Listening:
    """Hears interrupts while a model answers, and asks the person what to do.

    Attributes:
        decided: Set unless the person is being asked.
        verdict: Why `work` was cancelled; None if it was not, or not from here.
        late: Whether an interrupt came when the answer was just complete.
    """

    def __init__(
        self,
        work: asyncio.Future[list[Call]],
        interrupts: Interrupts,
        settings: InterruptConfig,
        ask: Ask,
        release: Callable[[], None],
        display: Display,
    ) -> None:
        self._work = work
        self._interrupts = interrupts
        self._settings = settings
        self._ask = ask
        self._release = release
        self._display = display
        self._menu: asyncio.Task[None] | None = None
        self.decided = asyncio.Event()
        self.decided.set()
        self.verdict: Verdict | None = None
        self.late = False

    def interrupt(self) -> None:
        """The kernel was interrupted."""
        if self._work.done():
            self.late = True
            return
        if self.verdict is not None:  # it is ending, and something holds that up
            self._work.cancel()
            return
        in_menu = self._menu is not None
        verdict = self._interrupts.at_once("streaming", self._settings, in_menu=in_menu)
        if verdict is not None:
            self.close()
            self._carry_out(verdict)
            return
        self._display(InterruptHeard("menu"))
        self.decided.clear()
        self._menu = asyncio.get_running_loop().create_task(self._have_menu())

    def close(self) -> None:
        """Take the menu away."""
        menu_task, self._menu = self._menu, None
        if menu_task is not None:
            menu_task.cancel()

    async def _have_menu(self) -> None:
        try:
            verdict = await menu(self._ask, "streaming", self._settings)
        except Exception:
            log.exception("The menu failed")
            verdict = STOP
        self._menu = None
        self._carry_out(verdict)

    def _carry_out(self, verdict: Verdict) -> None:
        self._display(InterruptHeard(verdict.choice))
        if verdict.choice in ("continue", "reply"):
            self._release()
        if verdict.choice == "continue":
            self.decided.set()
        elif self.verdict is None:
            self.verdict = verdict
            self._work.cancel()


def _stays(what: str, how: str) -> str:
    return f"a tool changed {what} in this turn, and it stays so until you change it: {how}"


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
