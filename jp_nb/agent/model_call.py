"""Send one model request: stream the response, retry, continue, and handle interrupts.

Source: `docs/turns.md`, `docs/providers.md`, `docs/decisions.md` D24.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from jp_nb.agent.call import Call
from jp_nb.agent.display import (
    MODEL_WAITS,
    DiscardText,
    EndOfText,
    InterruptReceived,
    Notice,
    ShowText,
    Waits,
)
from jp_nb.agent.effective_model import Resolved
from jp_nb.agent.interrupts import (
    ESCALATED,
    STOP,
    Verdict,
    ask_menu,
    decide_without_menu,
    stream_menu,
)
from jp_nb.agent.prompt_queue import SafeAsk
from jp_nb.agent.provider import (
    Finished,
    FinishReason,
    Flush,
    InputChange,
    KeepAlive,
    ModelRequest,
    PrefixLoss,
    PromptCut,
    Provider,
    ProviderEvent,
    Retry,
    TextPart,
    ToolCallArguments,
    ToolCallStart,
)
from jp_nb.agent.response import Failures, OverlapTrimmer, ResponseBuilder, with_retries
from jp_nb.agent.tool_set import ToolSet
from jp_nb.agent.turn_record import LastRequest
from jp_nb.agent.turn_state import TurnContext
from jp_nb.config.tree.app import Interrupt as InterruptConfig
from jp_nb.errors import ProviderError
from jp_nb.record.events import ChatResponse, Entry, ToolCallRequest
from jp_nb.record.head import RequestHead, mark_head
from jp_nb.record.marks import (
    LastHost,
    format_other_host,
    is_continuation,
    mark_continuation,
    mark_host,
    with_input_changes,
)
from jp_nb.record.stream import ConversationStream

CALLS_SETTING = "assistant.request.max_tool_calls"
MAX_CONTINUATIONS = 5
"""Maximum number of continuations of a response that reaches the token limit."""
CUT_CALL = (
    "The answer reached its token limit within this call. The arguments are "
    "incomplete, so the call did not run. Call again with shorter arguments, or "
    "split the work into several calls."
)


@dataclass(slots=True)
class ContinuedAnswer:
    """One answer in several responses. All but the last reached the token limit."""

    is_enabled: bool
    parts: int = 0  # continuations
    kept: list[TextPart] = field(default_factory=list)  # recorded; a continued text is one part

    def note_recorded(self, entries: Sequence[Entry]) -> None:
        """Note that `entries` of the answer are recorded."""
        for entry in entries:
            if not isinstance(entry, ChatResponse) or entry.kind == "structured":
                continue
            part = TextPart(0, entry.kind, entry.message or entry.reasoning or "")
            if self.kept and is_continuation(entry):
                part = replace(part, text=self.kept.pop().text + part.text)
            self.kept.append(part)

    def trimmer(self) -> OverlapTrimmer | None:
        """Return the trimmer for the next response; None if it is the first."""
        text = "".join(part.text for part in self.kept if part.kind == "message")
        return OverlapTrimmer(text) if self.parts else None

    def begin_continuation(self, finished: Finished, entries: Sequence[Entry]) -> bool:
        """Return True if the answer is to be continued after a response with these `entries`."""
        is_cut = finished.reason == "max_tokens" and self.parts < MAX_CONTINUATIONS
        has_text = any(isinstance(entry, ChatResponse) and entry.message for entry in entries)
        is_continued = self.is_enabled and is_cut and has_text
        self.parts += is_continued
        return is_continued


@dataclass(slots=True)
class Attempt:
    """One request to `model`, and its response so far.

    In a continuation, `trimmer` removes repeated text, and reasoning is dropped.
    """

    model: str
    max_tool_calls: int = 0  # that run; 0: no limit
    trimmer: OverlapTrimmer | None = None
    builder: ResponseBuilder = field(default_factory=ResponseBuilder)
    entries: list[Entry] = field(default_factory=list)
    has_content: bool = False
    text_ended: bool = False  # and the display does not know it yet
    call_count: int = 0
    held_index: int | None = None  # item of the text that the trimmer holds back
    head: RequestHead | None = None  # of the request, if it is to be recorded
    host: str = ""  # of the server, if it is to be recorded

    def trim(self, part: TextPart) -> TextPart | None:
        """Return the new part of a part of a continuation; None if there is none yet."""
        if part.kind != "message" or self.trimmer is None:
            return None
        text = self.trimmer.feed(part.text)
        self.held_index = part.index
        return replace(part, text=text) if text else None

    def entries_to_record(self, rest: Sequence[Entry]) -> list[Entry]:
        """Return the entries of the response. The text of a continuation is marked as such."""
        entries = [*self.entries, *rest]
        for index, entry in enumerate(entries if self.trimmer is not None else ()):
            if isinstance(entry, ChatResponse) and entry.kind == "message":
                entries[index] = mark_continuation(entry)
                break
        return entries

    def truncated_call(self) -> list[str]:
        """Return the name of the call in which the token limit was reached, if any."""
        last = self.entries[-1] if self.entries else None
        end = self.builder.finished
        if end is None or end.reason != "max_tokens" or not isinstance(last, ToolCallRequest):
            return []
        # Earlier calls are complete, and so is the last one if its arguments are valid.
        broken = {*self.builder.bad_arguments, *self.builder.without_arguments}
        return [last.name] if self.call_count - 1 in broken else []

    def should_record(self, entry: Entry) -> bool:
        """Return True if `entry` is recorded: surplus tool calls are not, except for the first."""
        self.call_count += isinstance(entry, ToolCallRequest)
        # The first surplus call gets an error as its response, which explains the limit.
        is_surplus = 0 < self.max_tool_calls < self.call_count - 1
        return not (is_surplus and isinstance(entry, ToolCallRequest))

    def calls(self, tools: ToolSet) -> list[Call]:
        """Return the tool calls of the response, with the errors of those that cannot run."""
        errors = dict(self.builder.bad_arguments)
        if self.truncated_call():
            errors[self.call_count - 1] = CUT_CALL
        if self.max_tool_calls and (surplus := self.call_count - self.max_tool_calls) > 0:
            others = f" Further calls that are dropped: {surplus - 1}." if surplus > 1 else ""
            errors[self.max_tool_calls] = (
                f"This call did not run. Your answer contains {self.call_count} tool calls, but "
                f"{CALLS_SETTING} allows {self.max_tool_calls}.{others} Make fewer calls in one "
                "answer."
            )
        requests = (entry for entry in self.entries if isinstance(entry, ToolCallRequest))
        return [
            Call(request, tools.tools.get(request.name), errors.get(number))
            for number, request in enumerate(requests)
        ]


log = logging.getLogger(__name__)


class StreamInterrupts:
    """Handles interrupts while `work` streams a response. It cancels `work` to end the turn."""

    def __init__(
        self, work: asyncio.Future[list[Call]], turn: TurnContext, settings: InterruptConfig
    ) -> None:
        self._work = work
        self._turn = turn
        self._settings = settings
        self._menu: asyncio.Task[None] | None = None
        self.decided = asyncio.Event()
        self.decided.set()
        self.verdict: Verdict | None = None  # the reason for canceling `work` here
        self.interrupted_after_end = False  # when the response was just complete

    def interrupt(self) -> None:
        """Handle an interrupt of the kernel."""
        if self.verdict is not None:  # a slow cleanup may delay the end
            if self.verdict.choice == "reply":
                self._turn.display(InterruptReceived("stop"))
                self.verdict = ESCALATED  # the message is not sent: the user wants to stop
            self._work.cancel()
            return
        if self._work.done():
            self.interrupted_after_end = True
            return
        in_menu = self._menu is not None
        verdict = decide_without_menu(self._turn, "streaming", self._settings, in_menu=in_menu)
        if verdict is not None:
            self.close()
            self._carry_out(verdict)
            return
        self._turn.display(InterruptReceived("menu"))
        self.decided.clear()
        self._menu = asyncio.get_running_loop().create_task(self._show_menu())

    def close(self) -> None:
        """Close the menu."""
        menu_task = self._menu
        self._menu = None
        if menu_task is not None:
            menu_task.cancel()

    async def _show_menu(self) -> None:
        try:
            verdict = await ask_menu(
                SafeAsk(self._turn.prompter),
                "streaming",
                self._settings,
                stream_menu(self._turn.record.request),
            )
        except Exception:
            log.exception("The menu failed")
            verdict = STOP
        self._menu = None
        self._carry_out(verdict)

    def _carry_out(self, verdict: Verdict) -> None:
        self._turn.display(InterruptReceived(verdict.choice))
        if verdict.choice in ("continue", "reply"):
            self._turn.cell.release()
        if verdict.choice == "continue":
            self.decided.set()
        elif self.verdict is None:
            self.verdict = verdict
            self._work.cancel()


class AnswerStream:
    """Asks the model, displays the response as it arrives, and records it when it is complete.

    One answer may take several requests: after errors, token limits, and interrupts.
    """

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._interrupt_handler: StreamInterrupts | None = None
        self._chain = ContinuedAnswer(is_enabled=False)
        self._recorded_before = ""
        self.interrupted_after_end = False  # when the last response was just complete
        self.finish_reason: FinishReason = "completed"  # of the last response

    def interrupt(self) -> None:
        """Handle an interrupt of the kernel, on the agent's event loop."""
        if self._interrupt_handler is not None:
            self._interrupt_handler.interrupt()

    async def request_calls(self, resolved: Resolved, request: ModelRequest) -> list[Call] | None:
        """Ask the model; return the tool calls of the answer, or None if the turn is to end.

        Raises:
            ProviderError: No attempt succeeded.
        """
        while True:
            self._recorded_before = ""
            work = asyncio.ensure_future(self._answer(resolved, request))
            settings = resolved.basis.config.interrupt
            handler = StreamInterrupts(work, self._turn, settings)
            self._interrupt_handler = handler
            try:
                calls = await work
                self.interrupted_after_end = handler.interrupted_after_end
                return calls if calls or not handler.interrupted_after_end else None
            except asyncio.CancelledError:
                if handler.verdict is None:
                    raise
            finally:
                handler.close()
                self._interrupt_handler = None
            if handler.verdict.choice == "abort" and self._recorded_before:
                text = f"⚠ Aborted. The record keeps only the text before {self._recorded_before}."
                self._notify(text)  # the record only grows
            elif handler.verdict.choice == "abort":
                self._turn.display(DiscardText())
                self._notify("⚠ Aborted. The text of this answer is discarded.")
            if handler.verdict.choice != "reply":
                return None
            self._turn.record.add_user_message(handler.verdict.text, self._turn.display)

    async def _answer(self, resolved: Resolved, request: ModelRequest) -> list[Call]:
        # A structured answer, or a forced tool call, must be in one response.
        is_free = request.schema is None and request.tool_choice in ("auto", "none")
        self._chain = ContinuedAnswer(resolved.continues_answers and is_free)
        failures = Failures()  # of all requests of this answer, continuations included

        while True:
            attempt = await with_retries(
                lambda: self._send(resolved, request),
                model=resolved.full_name,
                limits=resolved.request,
                waits=self._wait_for_model,
                sleep=self._turn.sleep,
                failures=failures,
            )
            if not self._finish(attempt):
                self._wait_for("")
                return attempt.calls(resolved.tools)

    def _wait_for(self, text: str, until: float | None = None) -> None:
        self._turn.display(Waits(MODEL_WAITS, text, until))

    def _wait_for_model(self, model: str, *, again: str = "", until: float | None = None) -> None:
        self._wait_for(f"{model}: {again}" if again else model, until)

    async def _send(self, resolved: Resolved, request: ModelRequest) -> Attempt | Retry:
        """Send `request` once; return `Retry` if the provider asks for another request."""
        await self._wait_for_decision()  # an interrupt in the pause before
        attempt = Attempt(
            resolved.full_name, resolved.request.max_tool_calls, trimmer=self._chain.trimmer()
        )
        record = self._turn.record
        host = resolved.host
        if host or resolved.uses_cassette:  # a replay leaves the same record
            attempt.head = request.head
        if not (record.stream.is_reproducible or resolved.uses_cassette):
            attempt.host = host
        if host:
            last = record.last_host
            record.last_host = LastHost.of(host)
            if last is not None and last.mark != record.last_host.mark:
                self._notify(format_other_host(last, host, resolved.provider_name))
        record.sent = LastRequest(
            resolved.provider,
            resolved.provider_name,
            request,
            len(record.thread),
            record.stream.entries[-1],
        )
        try:
            await self._consume_with_usage(resolved.provider, request, attempt)
        except ProviderError:
            self._chain.note_recorded(self._record_partial(attempt))
            raise
        except BaseException:  # an interrupt, or a bug of the provider
            handler = self._interrupt_handler
            verdict = None if handler is None else handler.verdict
            if verdict is None or verdict.choice != "abort":
                self._record_partial(attempt)
            raise
        end = attempt.builder.end()
        if not isinstance(end, Retry):
            return attempt
        if end.notice:
            self._notify(end.notice)
        return end

    def _notify(self, text: str) -> None:
        self._turn.display(Notice(text))

    async def _consume_with_usage(
        self, provider: Provider, request: ModelRequest, attempt: Attempt
    ) -> None:
        try:
            await self._consume(provider, request, attempt)
            attempt.builder.end()
        except Exception:
            await self._wait_for_decision()  # `abort` keeps the partial answer out of the record
            raise
        finally:
            self._turn.tokens.add(attempt.model, attempt.builder.usage)
        await self._wait_for_decision()

    async def _wait_for_decision(self) -> None:
        """Wait until no menu is open."""
        handler = self._interrupt_handler
        while handler is not None and not handler.decided.is_set():
            await handler.decided.wait()

    async def _consume(self, provider: Provider, request: ModelRequest, attempt: Attempt) -> None:
        feed = attempt.builder.feed
        display = self._turn.display
        async with aclosing(provider.stream(request)) as events:
            async for event in events:
                if not isinstance(event, TextPart):
                    if not isinstance(event, KeepAlive):
                        self._consume_item(event, attempt)
                    continue
                attempt.has_content = attempt.has_content or bool(event.text)
                part = event if attempt.trimmer is None else attempt.trim(event)
                if part is not None:
                    feed(part)
                    if attempt.text_ended:
                        attempt.text_ended = False
                        display(EndOfText())
                    display(ShowText(part.kind, part.text))

    def _consume_item(self, event: ProviderEvent, attempt: Attempt) -> None:
        if isinstance(event, PrefixLoss):
            self._notify(
                f"⚠ Only {event.kept} % of the previous request is at the beginning of this one: "
                f"{event.part} changed. The provider's prompt cache does not cover the rest, see "
                "`%jp request --diff`."
            )
            return
        if isinstance(event, PromptCut):
            self._notify(
                f"⚠ The server read only {event.read:,} tokens of a request with at least "
                f"{event.sent:,}: its context is too small, and it cut the rest. {event.advice}"
            )
            return
        is_call = isinstance(event, ToolCallStart | ToolCallArguments)
        attempt.has_content = attempt.has_content or is_call
        if isinstance(event, ToolCallStart):
            self._wait_for(f"{attempt.model}, which is writing a call of {event.name}")
        if is_call or isinstance(event, Flush):
            self._show_held_text(attempt)
        entry = attempt.builder.feed(event)
        if entry is not None and isinstance(event, Flush) and event.metadata:
            entry = mark_host(entry, attempt.host)
        if entry is not None and attempt.should_record(entry):
            attempt.entries.append(entry)
        if isinstance(event, Flush) and isinstance(entry, ChatResponse):
            attempt.text_ended = True  # displayed later: a continuation may follow

    def _show_held_text(self, attempt: Attempt) -> None:
        """Display the text that the trimmer held back: no more text follows."""
        if attempt.trimmer is None or attempt.held_index is None:
            return
        if text := attempt.trimmer.rest():
            attempt.builder.feed(TextPart(attempt.held_index, "message", text))
            self._turn.display(ShowText("message", text))
        attempt.held_index = None

    def _finish(self, attempt: Attempt) -> bool:
        """Record a complete response; return True if the answer is to be continued."""
        finished = attempt.builder.finished
        assert finished is not None
        self.finish_reason = finished.reason
        if finished.reason == "refused":
            detail = f": {finished.detail}" if finished.detail else ""
            attempt.entries.clear()
            self._turn.display(DiscardText())
            for part in self._chain.kept:  # already recorded, so shown again
                self._turn.display(ShowText(part.kind, part.text))
                self._turn.display(EndOfText())
            self._notify(f"⚠ The model refused to answer{detail}")
            return False
        self._show_held_text(attempt)
        rest, unfinished = attempt.builder.finish()
        entries = self._turn.tokens.attach_usage_to_last(attempt.entries_to_record(rest))
        changes = attempt.builder.input_changes
        if changes and log.isEnabledFor(logging.DEBUG):
            _log_input_changes(changes, self._turn.record.stream)
        counts = Counter((change.reason, change.is_dropped) for change in changes)
        entries[-1:] = [with_input_changes(entry, counts) for entry in entries[-1:]]
        self._record(entries, attempt)
        self._chain.note_recorded(entries)
        is_final = attempt.call_count or unfinished or self._turn.tokens.is_over
        if not is_final and self._chain.begin_continuation(finished, entries):
            self._recorded_before = "the continuation"
            return True
        self._turn.display(EndOfText())
        self._notify_end(finished, attempt, unfinished)
        is_thought = (isinstance(x, ChatResponse) and x.kind == "reasoning" for x in entries)
        is_empty = all(is_thought) and not (unfinished or self._chain.parts)
        if finished.reason == "completed" and is_empty:
            self._notify(
                "⚠ The model returned an empty answer. `%jp retry` sends the request again"
            )
        return False

    def _record(self, entries: list[Entry], attempt: Attempt) -> None:
        """Record the `entries` of a response, the first one with changes of the request's head."""
        record = self._turn.record
        if entries and attempt.head is not None:
            entries[0] = mark_head(entries[0], attempt.head, record.thread.head)
        record.add(*entries)

    def _notify_end(self, finished: Finished, attempt: Attempt, unfinished: Sequence[str]) -> None:
        for name in (*unfinished, *attempt.truncated_call()):
            self._notify(f"⚠ The call of {name} is incomplete and did not run")
        if attempt.max_tool_calls and attempt.call_count > attempt.max_tool_calls:
            self._notify(
                f"⚠ Only the first {attempt.max_tool_calls} of {attempt.call_count} tool calls "
                f"in this answer run ({CALLS_SETTING})"
            )
        if finished.reason == "max_tokens":
            parts = self._chain.parts
            times = f" {parts + 1} times" if parts else ""
            self._notify(f"⚠ The answer reached the token limit{times} and is incomplete")
        elif finished.reason == "other":
            self._notify(f"⚠ The model stopped: {finished.detail or 'no reason given'}")

    def _record_partial(self, attempt: Attempt) -> list[ChatResponse]:
        """Record the texts of an incomplete answer, and return them. Its tool calls never ran."""
        self._show_held_text(attempt)
        entries = attempt.entries_to_record(attempt.builder.peek())
        texts = [entry for entry in entries if isinstance(entry, ChatResponse)]
        if texts:
            self._recorded_before = "the retry"
            self._record(self._turn.tokens.attach_usage_to_last(texts), attempt)
        # A continuation is displayed as one text.
        if attempt.has_content and attempt.trimmer is None:
            self._turn.display(EndOfText())
        return texts


def _log_input_changes(changes: Sequence[InputChange], stream: ConversationStream) -> None:
    marks = {change.mark for change in changes if change.mark}
    found: dict[str, str] = {}
    for index, entry in enumerate(stream.entries):
        if isinstance(entry, ChatResponse):
            values = {value for value in entry.metadata.values() if isinstance(value, str)}
            found |= dict.fromkeys(values & marks, stream.event_id(index))
    for change in changes:
        what = "was not sent to the model" if change.is_dropped else "was sent to the model"
        event_id = found.get(change.mark, "unknown")
        log.debug("The reasoning of event %s %s: %s changed", event_id, what, change.reason)
