"""Let models answer the questions of a tool, concurrently.

The first model that fails ends the call of the tool, and the other requests.

Source: `docs/turns.md` (RFD 028).
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from pydantic import JsonValue

from jp_nb.agent.call_steps.open_inquiries import OpenInquiries, OpenInquiry
from jp_nb.agent.calls.activity import Activity
from jp_nb.agent.calls.call import Call
from jp_nb.agent.display import Waits
from jp_nb.agent.inquiries.inquiry import InquiryError, ModelInquiry
from jp_nb.agent.prompting.prompt_ends import Unavailable
from jp_nb.agent.provider_events import Usage
from jp_nb.agent.turn_state import TurnContext
from jp_nb.record.entries.token_usage import ModelUsage
from jp_nb.toolkit.cancellation import is_cancelled, raise_if_cancelled

log = logging.getLogger(__name__)

INQUIRY_FAILED_TEXT = (
    "The tool '{tool}' asked a follow-up question (\"{text}\") that was routed to a secondary "
    "assistant for resolution, but the secondary assistant failed to provide a valid answer. "
    "Error: {error}. You may retry the tool call or end the turn."
)
NO_INQUIRY_BACKEND_REASON = "No model is available to answer the question"
NO_TOKENS_LEFT_REASON = "The turn has reached its token limit"


class ModelQuestions:
    """Asks models the questions of a batch's calls.

    In both methods, `unavailable` is the reason why the user was not asked instead; None if a user
    is available. If the model fails too, the turn keeps this reason for its report.
    """

    def __init__(self, turn: TurnContext, activity: Activity, inquiries: OpenInquiries) -> None:
        self._turn = turn
        self._activity = activity
        self._inquiries = inquiries

    async def ask(self, inquiries: list[OpenInquiry], unavailable: Unavailable | None) -> None:
        """Ask models concurrently. The first failure ends the call, and the other requests.

        Raises:
            CallEnded: A model gave no valid answer.
        """
        if not inquiries:
            return

        raise_if_cancelled()
        if len(inquiries) == 1:
            await self._ask_model(inquiries[0], unavailable)
            return

        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._ask_model(inquiry, unavailable)) for inquiry in inquiries]
        running_count = len(tasks)
        # The call itself already counts as one task. It stands for the last one that ends.
        self._activity.begin(running_count - 1)

        def on_end(_: object) -> None:
            nonlocal running_count
            running_count -= 1
            if running_count:
                self._activity.end()

        for task in tasks:
            task.add_done_callback(on_end)

        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)

        for failure in ended:  # a canceled task has none: `CancelledError` is no `Exception`
            if isinstance(failure, Exception):
                raise failure

    async def _ask_model(self, inquiry: OpenInquiry, unavailable: Unavailable | None) -> None:
        """Ask the model, and use its answer. Without a valid one, the call ends."""
        try:
            answer = await self._get_answer(inquiry)
        except InquiryError as exc:
            problem = str(exc)
        else:
            if inquiry.outcome is None:  # else another question has just ended the call
                self._inquiries.use_answer(inquiry, answer, "model")
            return

        if unavailable is not None:
            self._turn.unavailable_reason = unavailable.reason
        text = INQUIRY_FAILED_TEXT.format(
            tool=inquiry.group.tool.name, text=inquiry.question.text, error=problem
        )
        raise self._inquiries.end_call(inquiry.group, text, "failed")

    async def _get_answer(self, inquiry: OpenInquiry) -> JsonValue:
        """Return the answer of the model.

        Raises:
            InquiryError: There is no model, no token left, or no valid answer.
        """
        backend = inquiry.group.batch.inquiry
        call = inquiry.group.call
        if self._turn.tokens.is_over_limit:
            raise InquiryError(NO_TOKENS_LEFT_REASON)
        if backend is None:
            raise InquiryError(NO_INQUIRY_BACKEND_REASON)

        request = ModelInquiry(
            inquiry.id,
            call.request.id,
            inquiry.group.tool.name,
            inquiry.question,
            call.number,
            waits=partial(self._show_wait, call),
            on_usage=partial(self._count_usage, inquiry),
            when_idle=self._activity.when_idle,
        )

        try:
            answer = await backend.inquire(self._turn.record.context, request)
            raise_if_cancelled()
            return answer
        except InquiryError:
            raise
        except asyncio.CancelledError as exc:
            if is_cancelled():
                raise
            # Not this task was canceled, but something that the provider awaits.
            raise InquiryError("Inquiry cancelled") from exc
        except Exception as exc:
            log.exception("An inquiry failed")
            raise InquiryError(type(exc).__name__) from exc

    def _count_usage(self, inquiry: OpenInquiry, model: str, usage: Usage) -> None:
        tokens = inquiry.usage.tokens + self._turn.tokens.count(usage)
        inquiry.usage = ModelUsage(model, tokens)

    def _show_wait(
        self, call: Call, model: str, *, again: str = "", until: float | None = None
    ) -> None:
        text = f"{model}, which is answering a question of {call.title}"
        if again:
            text += f": {again}"
        self._turn.display(Waits(call.key, text, until))
