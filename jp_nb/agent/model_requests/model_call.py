"""Get an answer of the model: stream the response, retry, continue, and record it.

`request_calls` returns the tool calls of an answer. On the way there, an answer may take several
requests: after an error that may pass, after the token limit, and after an interrupt in which the
user tells the model something. Text is displayed as it arrives, and recorded when it is complete.

Source: `docs/turns.md`, `docs/providers.md`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial
from typing import Final

from jp_nb.agent.calls.call import Call
from jp_nb.agent.display import (
    MODEL_WAITS,
    DiscardText,
    EndOfText,
    Notice,
    ShowText,
    Waits,
)
from jp_nb.agent.effective_model import Resolved
from jp_nb.agent.model_requests.answer_attempt import CALLS_SETTING, Attempt, ContinuedAnswer
from jp_nb.agent.model_requests.retries import Failures, with_retries
from jp_nb.agent.model_requests.stream_interrupts import StreamInterrupts
from jp_nb.agent.provider import (
    Finished,
    FinishReason,
    Flush,
    InputChange,
    KeepAlive,
    ModelRequest,
    OmittedFiles,
    PrefixLoss,
    PromptCut,
    Provider,
    ProviderEvent,
    Retry,
    TextPart,
    ToolCallArguments,
    ToolCallStart,
)
from jp_nb.agent.turn_record import LastRequest
from jp_nb.agent.turn_state import TurnContext
from jp_nb.errors import ProviderError
from jp_nb.record.entries.events import ChatResponse, Entry
from jp_nb.record.entries.measured_times import INTERRUPTED, OTHER_FAILURE, REPAIRED
from jp_nb.record.reading.marks import with_input_changes
from jp_nb.record.request_context.host_marks import LastHost, format_other_host, mark_host
from jp_nb.record.request_context.request_head import mark_head
from jp_nb.record.stream import ConversationStream

log = logging.getLogger(__name__)
MAX_NAMED_FILES: Final = 5
"""Number of files that a notice about omitted files names."""


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
            work = asyncio.ensure_future(self._answer_with_continuations(resolved, request))
            settings = resolved.basis.config.interrupt
            handler = StreamInterrupts(work, self._turn, settings)
            self._interrupt_handler = handler

            try:
                calls = await work
                self.interrupted_after_end = handler.interrupted_after_end
                if handler.interrupted_after_end and not calls:
                    return None
                return calls
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

    async def _answer_with_continuations(
        self, resolved: Resolved, request: ModelRequest
    ) -> list[Call]:
        # A structured answer, or a forced tool call, must be in one response.
        is_free = request.schema is None and request.tool_choice in ("auto", "none")
        self._chain = ContinuedAnswer(resolved.continues_answers and is_free)
        failures = Failures()  # of all requests of this answer, continuations included

        while True:
            attempt = await with_retries(
                partial(self._send_once, resolved, request),
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
        text = f"{model}: {again}" if again else model
        self._wait_for(text, until)

    async def _send_once(self, resolved: Resolved, request: ModelRequest) -> Attempt | Retry:
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
            len(record.context),
            record.stream.entries[-1],
        )

        try:
            await self._receive(resolved.provider, request, attempt)
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

    async def _receive(self, provider: Provider, request: ModelRequest, attempt: Attempt) -> None:
        """Receive and display a response, and count its tokens, even if it fails."""
        times = self._turn.times
        timed = times.begin_request()
        failed = INTERRUPTED

        try:
            async with aclosing(provider.stream(request)) as events:
                async for event in events:
                    if isinstance(event, TextPart):
                        self._receive_text(event, attempt)
                    elif not isinstance(event, KeepAlive):
                        self._receive_item(event, attempt)
                    if attempt.has_content:
                        times.note_first_token(timed)
            failed = REPAIRED if isinstance(attempt.builder.end(), Retry) else ""
        except Exception as exc:
            failed = exc.kind if isinstance(exc, ProviderError) else OTHER_FAILURE
            await self._wait_for_decision()  # `abort` keeps the partial answer out of the record
            raise
        finally:
            times.end(timed, failed)
            self._turn.tokens.add(attempt.model, attempt.builder.usage)

        await self._wait_for_decision()

    async def _wait_for_decision(self) -> None:
        """Wait until no menu is open."""
        handler = self._interrupt_handler
        while handler is not None and not handler.decided.is_set():
            await handler.decided.wait()

    def _receive_text(self, event: TextPart, attempt: Attempt) -> None:
        if event.text:
            attempt.has_content = True
        part = event if attempt.trimmer is None else attempt.trim(event)
        if part is None:
            return

        attempt.builder.feed(part)
        if attempt.text_ended:
            attempt.text_ended = False
            self._turn.display(EndOfText())
        self._turn.display(ShowText(part.kind, part.text))

    def _receive_item(self, event: ProviderEvent, attempt: Attempt) -> None:
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

        if isinstance(event, OmittedFiles):
            self._notify(_format_omitted_files(event))
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

        text = attempt.trimmer.rest()
        if text:
            attempt.builder.feed(TextPart(attempt.held_index, "message", text))
            self._turn.display(ShowText("message", text))
        attempt.held_index = None

    def _finish(self, attempt: Attempt) -> bool:
        """Record a complete response; return True if the answer is to be continued."""
        finished = attempt.builder.finished
        assert finished is not None
        self.finish_reason = finished.reason
        if finished.reason == "refused":
            self._discard_refused(attempt, finished.detail)
            return False

        self._show_held_text(attempt)
        rest, unfinished = attempt.builder.finish()
        entries = self._turn.tokens.attach_usage_to_last(attempt.entries_to_record(rest))

        changes = attempt.builder.input_changes
        if changes and log.isEnabledFor(logging.DEBUG):
            _log_input_changes(changes, self._turn.record.stream)
        counts = Counter((change.reason, change.is_dropped) for change in changes)
        if entries:
            entries[-1] = with_input_changes(entries[-1], counts)
            entries = self._turn.times.attach_to_last(entries)
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

    def _discard_refused(self, attempt: Attempt, reason: str | None) -> None:
        """Discard a refused response. The parts of the answer before it stay."""
        attempt.entries.clear()
        self._turn.display(DiscardText())
        for part in self._chain.kept:  # already recorded, so shown again
            self._turn.display(ShowText(part.kind, part.text))
            self._turn.display(EndOfText())

        detail = f": {reason}" if reason else ""
        self._notify(f"⚠ The model refused to answer{detail}")

    def _record(self, entries: list[Entry], attempt: Attempt) -> None:
        """Record the `entries` of a response, the first one with changes of the request's head."""
        record = self._turn.record
        if entries and attempt.head is not None:
            entries[0] = mark_head(entries[0], attempt.head, record.context.head)
        record.add(*entries)

    def _notify_end(self, finished: Finished, attempt: Attempt, unfinished: Sequence[str]) -> None:
        for name in (*unfinished, *attempt.make_truncated_call()):
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
            reason = finished.detail or "no reason given"
            self._notify(f"⚠ The model stopped: {reason}")

    def _record_partial(self, attempt: Attempt) -> list[ChatResponse]:
        """Record the texts of an incomplete answer, and return them. Its tool calls never ran."""
        self._show_held_text(attempt)
        entries = attempt.entries_to_record(attempt.builder.peek())
        texts = [entry for entry in entries if isinstance(entry, ChatResponse)]
        if texts:
            self._recorded_before = "the retry"
            with_usage = self._turn.tokens.attach_usage_to_last(texts)
            self._record(self._turn.times.attach_to_last(with_usage), attempt)

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


def _format_omitted_files(omitted: OmittedFiles) -> str:
    named = omitted.names[:MAX_NAMED_FILES]
    more = len(omitted.names) - len(named)
    listed = ", ".join(named)
    if more:
        listed = f"{listed}, and {more} more"

    notice = f"⚠ The model does not get {listed}: {omitted.reason}."
    return f"{notice} {omitted.advice}".strip()
