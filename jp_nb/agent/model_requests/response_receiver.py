"""Receive the response to one request, and display it as it arrives.

The events of the provider become entries in the `Attempt` (`answer_attempt.py`), and texts on the
display. Recording, retries, and continuations are work of the caller, `model_call.py`.

Source: `docs/turns.md`, `docs/providers.md`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing

from jp_nb.agent.display import MODEL_WAITS, EndOfText, Notice, ShowText, Waits
from jp_nb.agent.model_requests.answer_attempt import Attempt
from jp_nb.agent.model_requests.answer_notices import describe_report
from jp_nb.agent.provider import ModelRequest, Provider
from jp_nb.agent.provider_events import (
    Flush,
    KeepAlive,
    OmittedFiles,
    PrefixLoss,
    PromptCut,
    ProviderEvent,
    Retry,
    TextPart,
    ToolCallArguments,
    ToolCallStart,
)
from jp_nb.agent.turn_state import TurnContext
from jp_nb.errors import ProviderError
from jp_nb.record.entries.events import ChatResponse
from jp_nb.record.entries.measured_times import INTERRUPTED, OTHER_FAILURE, REPAIRED
from jp_nb.record.request_context.host_marks import mark_host


class ResponseReceiver:
    """Receives the responses of one turn.

    `wait_for_decision` waits while the menu of an interrupt is open. What the user chooses there
    may cancel the task that receives the response.
    """

    def __init__(self, turn: TurnContext, wait_for_decision: Callable[[], Awaitable[None]]) -> None:
        self._turn = turn
        self._wait_for_decision = wait_for_decision

    async def receive(self, provider: Provider, request: ModelRequest, attempt: Attempt) -> None:
        """Receive and display a response, and count its time and tokens, even if it fails.

        Return after the menu of an interrupt is closed.

        Raises:
            ProviderError: The response failed. `attempt` has what arrived before.
        """
        times = self._turn.times
        timed = times.begin_request()
        failed = INTERRUPTED  # until the response has ended: an interrupt cancels this task

        try:
            async with aclosing(provider.stream(request)) as events:
                async for event in events:
                    if isinstance(event, TextPart):
                        self._receive_text(event, attempt)
                    elif not isinstance(event, KeepAlive):
                        self._receive_item(event, attempt)
                    if attempt.has_content:
                        times.note_first_token(timed)
            # `Retry`: the provider asks to send the request again, with a repaired conversation.
            failed = REPAIRED if isinstance(attempt.builder.get_end(), Retry) else ""
        except Exception as exc:
            failed = exc.kind if isinstance(exc, ProviderError) else OTHER_FAILURE
            await self._wait_for_decision()  # `abort` keeps the partial answer out of the record
            raise
        finally:
            times.end(timed, failed)
            self._turn.tokens.count_for_entry(attempt.model, attempt.builder.usage)

        await self._wait_for_decision()

    def _receive_text(self, event: TextPart, attempt: Attempt) -> None:
        """Add and display a piece of text, without the words that a continuation repeats."""
        if event.text:
            attempt.has_content = True
        part = event if attempt.trimmer is None else attempt.trim(event)
        if part is None:
            return

        attempt.builder.feed(part)
        if attempt.has_ended_text:  # another text begins, so the last one is not continued
            attempt.has_ended_text = False
            self._turn.display(EndOfText())
        self._turn.display(ShowText(part.kind, part.text))

    def _receive_item(self, event: ProviderEvent, attempt: Attempt) -> None:
        """Handle an event that is no text: a report, a part of a tool call, the end of an item."""
        if isinstance(event, PrefixLoss | PromptCut | OmittedFiles):
            self._turn.display(Notice(describe_report(event)))
            return

        is_call = isinstance(event, ToolCallStart | ToolCallArguments)
        attempt.has_content = attempt.has_content or is_call
        if isinstance(event, ToolCallStart):
            text = f"{attempt.model}, which is writing a call of {event.name}"
            self._turn.display(Waits(MODEL_WAITS, text))
        if is_call or isinstance(event, Flush):
            self.show_withheld_text(attempt)

        entry = attempt.builder.feed(event)
        if entry is not None and isinstance(event, Flush) and event.metadata:
            # The metadata, such as a signature, is valid only at this server.
            entry = mark_host(entry, attempt.host)
        if entry is not None:
            attempt.add_entry(entry)
        if isinstance(event, Flush) and isinstance(entry, ChatResponse):
            attempt.has_ended_text = True  # displayed later: a continuation may follow

    def show_withheld_text(self, attempt: Attempt) -> None:
        """Display the text that the trimmer withholds: no more text follows."""
        part = attempt.take_withheld_text()
        if part is not None:
            attempt.builder.feed(part)
            self._turn.display(ShowText(part.kind, part.text))
