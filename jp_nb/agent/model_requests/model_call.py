"""Get an answer of the model: send the request, retry, continue, and record the answer.

`request_calls` returns the tool calls of an answer. On the way there, an answer may take several
requests: after an error that may pass, after the token limit, and after an interrupt in which the
user tells the model something. `response_receiver.py` displays the text of each response as it
arrives; here it is recorded when it is complete.

Source: `docs/turns.md`, `docs/providers.md`.
"""

from __future__ import annotations

import asyncio
from functools import partial

from jp_nb.agent.calls.call import Call
from jp_nb.agent.display import MODEL_WAITS, DiscardText, EndOfText, Notice, ShowText, Waits
from jp_nb.agent.effective_model import Resolved
from jp_nb.agent.model_requests.answer_attempt import Attempt
from jp_nb.agent.model_requests.answer_notices import list_end_notices
from jp_nb.agent.model_requests.answer_recorder import AnswerRecorder
from jp_nb.agent.model_requests.continued_answer import ContinuedAnswer
from jp_nb.agent.model_requests.response_receiver import ResponseReceiver
from jp_nb.agent.model_requests.retries import Failures, with_retries
from jp_nb.agent.model_requests.stream_interrupts import StreamInterrupts
from jp_nb.agent.provider import ModelRequest
from jp_nb.agent.provider_events import (
    FinishReason,
    Retry,
)
from jp_nb.agent.turn_record import LastRequest
from jp_nb.agent.turn_state import TurnContext
from jp_nb.errors import ProviderError
from jp_nb.record.entries.events import ChatResponse
from jp_nb.record.request_context.host_marks import LastHost, format_other_host


class AnswerStream:
    """Asks the model, and records the response when it is complete.

    One answer may take several requests: after errors, token limits, and interrupts. The end of a
    text is displayed only when something else follows, because a continuation may follow at first.

    Attributes:
        interrupted_after_end: True if an interrupt came when the last response was just complete.
        finish_reason: The reason why the last response ended.
    """

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._recorder = AnswerRecorder(turn)
        self._receiver = ResponseReceiver(turn, self._wait_for_decision)
        # Handles interrupts while a response is received; None between responses.
        self._interrupt_handler: StreamInterrupts | None = None
        self._answer = ContinuedAnswer(is_enabled=False)
        # The step before which a part of the answer was recorded, for a notice to the user: "the
        # retry" or "the continuation"; "" if nothing is recorded.
        self._recorded_before = ""
        self.interrupted_after_end = False
        self.finish_reason: FinishReason = "completed"

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
                    return None  # nothing follows that could handle the interrupt
                return calls
            except asyncio.CancelledError:
                if handler.verdict is None:
                    raise
            finally:
                handler.close()
                self._interrupt_handler = None

            if handler.verdict.choice == "abort":
                self._notify_aborted()
            if handler.verdict.choice != "reply":
                return None
            # The user told the model something, so it is asked again.
            self._turn.record.add_user_message(handler.verdict.text, self._turn.display)

    def _notify_aborted(self) -> None:
        """Tell the user what is left of an answer that the user discarded."""
        if self._recorded_before:  # a recorded text cannot be taken back
            kept = f"the text before {self._recorded_before}"
            self._notify(f"⚠ Aborted. The record keeps only {kept}.")
        else:
            self._turn.display(DiscardText())
            self._notify("⚠ Aborted. The text of this answer is discarded.")

    async def _answer_with_continuations(
        self, resolved: Resolved, request: ModelRequest
    ) -> list[Call]:
        """Return the tool calls of the answer, after as many requests as it takes."""
        # A structured answer, or a forced tool call, must be in one response.
        may_be_split = request.schema is None and request.tool_choice in ("auto", "none")
        self._answer = ContinuedAnswer(resolved.continues_answers and may_be_split)
        failures = Failures()  # of all requests of this answer, continuations included

        while True:
            attempt = await with_retries(
                partial(self._send_once, resolved, request),
                model=resolved.full_name,
                limits=resolved.request,
                waits=self._show_model_wait,
                sleep=self._turn.sleep,
                failures=failures,
            )
            is_continued = self._finish(attempt)
            if not is_continued:  # else the same request is sent, whose context has grown
                self._show_wait("")
                return attempt.make_calls(resolved.tools)

    def _show_wait(self, text: str, until: float | None = None) -> None:
        self._turn.display(Waits(MODEL_WAITS, text, until))

    def _show_model_wait(self, model: str, *, again: str = "", until: float | None = None) -> None:
        text = f"{model}: {again}" if again else model
        self._show_wait(text, until)

    async def _send_once(self, resolved: Resolved, request: ModelRequest) -> Attempt | Retry:
        """Send `request` once; return `Retry` if the provider asks for another request."""
        await self._wait_for_decision()  # the menu may still be open from the pause before a retry
        attempt = self._make_attempt(resolved, request)
        if resolved.host:
            self._note_host(resolved)

        record = self._turn.record
        record.sent = LastRequest(  # for `%jp request`
            provider=resolved.provider,
            provider_name=resolved.provider_name,
            request=request,
            item_count=len(record.context),
            last_entry=record.stream.entries[-1],
        )

        try:
            await self._receiver.receive(resolved.provider, request, attempt)
        except ProviderError:
            # Another attempt may follow, and belongs to the same answer. The user has not aborted:
            # that cancels this task, and `CancelledError` is handled below.
            self._answer.note_recorded(self._record_partial(attempt))
            raise
        except BaseException:  # an interrupt cancels this task, or the provider has a bug
            if not self._is_aborted():
                self._record_partial(attempt)
            raise

        end = attempt.builder.get_end()
        if not isinstance(end, Retry):
            return attempt
        if end.notice:
            self._notify(end.notice)
        return end

    def _is_aborted(self) -> bool:
        """Return True if the user chose to discard the answer."""
        handler = self._interrupt_handler
        verdict = None if handler is None else handler.verdict
        return verdict is not None and verdict.choice == "abort"

    def _make_attempt(self, resolved: Resolved, request: ModelRequest) -> Attempt:
        """Return an attempt that knows which facts about the request are recorded."""
        attempt = Attempt(
            resolved.full_name,
            resolved.request.max_tool_calls,
            trimmer=self._answer.make_trimmer(),
        )
        # Recording and replay of a cassette must leave the same record: both have the head, and
        # neither has the host.
        records_head = bool(resolved.host) or resolved.uses_cassette
        records_host = not self._turn.record.stream.is_reproducible and not resolved.uses_cassette

        if records_head:
            attempt.head = request.head
        if records_host:
            attempt.host = resolved.host
        return attempt

    def _note_host(self, resolved: Resolved) -> None:
        """Note the host that gets the conversation, and tell the user if it is another one."""
        record = self._turn.record
        last = record.last_host
        record.last_host = LastHost.of(resolved.host)
        if last is not None and last.mark != record.last_host.mark:
            self._notify(format_other_host(last, resolved.host, resolved.provider_name))

    def _notify(self, text: str) -> None:
        self._turn.display(Notice(text))

    async def _wait_for_decision(self) -> None:
        """Wait until the menu of an interrupt is closed, if it is open.

        All choices but `continue` cancel this task.
        """
        handler = self._interrupt_handler
        # A loop, because another interrupt may open the menu before this task runs again.
        while handler is not None and not handler.decided.is_set():
            await handler.decided.wait()

    def _finish(self, attempt: Attempt) -> bool:
        """Record a complete response; return True if the answer is to be continued."""
        finished = attempt.builder.finished
        assert finished is not None
        self.finish_reason = finished.reason
        if finished.reason == "refused":
            self._discard_refused(attempt, finished.detail)
            return False

        self._receiver.show_withheld_text(attempt)
        entries = self._recorder.record_response(attempt)
        self._answer.note_recorded(entries)

        has_calls = attempt.call_count > 0 or bool(attempt.builder.list_unfinished_calls())
        may_continue = not has_calls and not self._turn.tokens.is_over_limit
        if may_continue and self._answer.begin_continuation(finished, entries):
            self._recorded_before = "the continuation"
            return True

        self._turn.display(EndOfText())
        for notice in list_end_notices(attempt, self._answer, entries):
            self._notify(notice)
        return False

    def _discard_refused(self, attempt: Attempt, reason: str | None) -> None:
        """Discard a refused response. The parts of the answer before it stay."""
        attempt.entries.clear()
        self._turn.display(DiscardText())
        for part in self._answer.recorded_parts:  # already recorded, so shown again
            self._turn.display(ShowText(part.kind, part.text))
            self._turn.display(EndOfText())

        detail = f": {reason}" if reason else ""
        self._notify(f"⚠ The model refused to answer{detail}")

    def _record_partial(self, attempt: Attempt) -> list[ChatResponse]:
        """Record the texts of an incomplete answer, and return them."""
        self._receiver.show_withheld_text(attempt)
        texts = self._recorder.record_texts(attempt)
        if texts:
            self._recorded_before = "the retry"

        # A continuation and the text before it are displayed as one text.
        if attempt.has_content and attempt.trimmer is None:
            self._turn.display(EndOfText())
        return texts
