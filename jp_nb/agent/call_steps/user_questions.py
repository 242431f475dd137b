"""Ask the user the questions of a tool with one prompt, and record how the prompt ended.

The tool asks with a `NeedsInput` (`jp_nb/toolkit/outcome.py`), which has the questions, and:

- `partial`: the tool runs again even without an answer to a required question.
- `menu`: Cancel opens a menu, in which the user can send the model a message, or stop the turn.
- `decline`: the form has a button Decline, which is an answer to the tool.
- `withdrawn`: a future that is done when the tool does not need the answers any more.

Source: `docs/turns.md`, `docs/prompts.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, assert_never

from jp_nb.agent.call_steps.open_inquiries import InquiryGroup, OpenInquiries, OpenInquiry
from jp_nb.agent.calls.call import CallEnded
from jp_nb.agent.calls.screen_queue import ScreenQueue
from jp_nb.agent.display import UserMessage, Waits
from jp_nb.agent.prompting.prompt_ends import (
    Answered,
    FormEnd,
    NotAnswered,
    PromptEnd,
    Unavailable,
    apply_timeout_default,
    get_outcome,
)
from jp_nb.agent.prompting.prompts import FormPrompt, Prompt, QuestionPrompt, make_prompt
from jp_nb.agent.turn_memory import is_reusable
from jp_nb.agent.turn_state import TurnContext
from jp_nb.record.entries.outcomes import QuestionOutcome
from jp_nb.record.reading.outcome_words import END_WORDS
from jp_nb.toolkit.cancellation import raise_if_cancelled
from jp_nb.toolkit.question import Question

STOPPED_BY_USER_TEXT = "The user stopped the turn and cancelled the questions."
ASSISTANT_HEADER = "Assistant"
"""Header of questions that the model asks through a tool."""


class UserQuestions:
    """Asks the user the questions of a batch's calls, one prompt at a time."""

    def __init__(self, turn: TurnContext, screen: ScreenQueue, inquiries: OpenInquiries) -> None:
        self._turn = turn
        self._screen = screen
        self._inquiries = inquiries

    async def ask(self, group: InquiryGroup, inquiries: list[OpenInquiry]) -> Unavailable | None:
        """Ask the user the `inquiries` of `group`, and record their outcomes.

        Answers that the user lets the turn remember while this waits for the screen are used
        without a prompt. Return the reason if no user was available after all: the questions stay
        open, to be routed again.

        Raises:
            CallEnded: The user stopped the turn, or closed a prompt that the tool needs.
        """
        questions = "a question" if len(inquiries) == 1 else f"{len(inquiries)} questions"
        who = "the assistant" if group.label == ASSISTANT_HEADER else group.call.title
        text = f"your answer to {questions} from {who}"
        self._turn.display(Waits(group.call.key, text, person=True))

        # The tool has run already (`after_run`): the functions of other calls begin first, because
        # this prompt may block the cell's thread.
        async with self._screen.take_screen(after_run=True) as ask:
            for inquiry in inquiries:  # another call may have asked the same question meanwhile
                answer = self._turn.memory.find_answer(group.tool.name, inquiry.question)
                if answer is not None:
                    self._inquiries.use_answer(inquiry, answer, "remembered")
            shown = [inquiry for inquiry in inquiries if inquiry.outcome is None]
            if not shown:
                return None

            end = await _ask_until_withdrawn(ask(_make_prompt(group, shown)), group.needs.withdrawn)
            raise_if_cancelled()  # the call was canceled just as the prompt ended
            if isinstance(end, Unavailable):
                return end
            self._record_prompt_end(group, shown, end)
            return None

    def _record_prompt_end(
        self,
        group: InquiryGroup,
        inquiries: list[OpenInquiry],
        end: Answered | NotAnswered | FormEnd,
    ) -> None:
        """Record the outcomes of `inquiries`, whose prompt had this `end`.

        Raises:
            CallEnded: The user stopped the turn, or closed a prompt that the tool needs.
        """
        match end:
            case FormEnd(then="stop", ends=ends):
                raise self._stop_turn(group, ends[0])
            case FormEnd(ends=ends):
                for inquiry, page_end in zip(inquiries, ends, strict=True):
                    self._record_outcome(inquiry, page_end)
                reply = end.text if end.then == "reply" else None
                group.call.state.answers.reply = reply
                if reply is not None:
                    self._turn.display(UserMessage(reply))
            case NotAnswered():
                self._record_missing_answers(group, inquiries, end)
            case Answered(value=value, remember=remember):
                [inquiry] = inquiries  # a prompt without a form has a single question
                if remember and _is_rememberable(inquiry.question):
                    self._turn.memory.remember_answer(group.tool.name, inquiry.question, value)
                self._record_outcome(inquiry, end)
            case _:
                assert_never(end)

    def _record_missing_answers(
        self, group: InquiryGroup, inquiries: list[OpenInquiry], end: NotAnswered
    ) -> None:
        """Record a prompt that ended as a whole, without any answer.

        The call ends with it, with two exceptions. A tool with `partial` accepts missing answers,
        unless an interrupt closed the prompt. After a timeout, optional questions have their
        defaults: `ToolQuestions`, which called this, ends the call if an answer is still missing.
        """
        if end.end == "cancelled" and group.needs.menu:  # with a menu, Cancel stops the turn
            raise self._stop_turn(group, end)

        for inquiry in inquiries:
            self._record_outcome(inquiry, apply_timeout_default(inquiry.question, end))
        accepts_it = group.needs.partial and end.end != "interrupted"
        if not accepts_it and end.end != "timed_out":
            raise CallEnded(END_WORDS[end.end].response, skipped=True)

    def _record_outcome(self, inquiry: OpenInquiry, end: Answered | NotAnswered) -> None:
        answer = end.value if isinstance(end, Answered) else None
        self._inquiries.close(inquiry, get_outcome(end), answer)

    def _stop_turn(self, group: InquiryGroup, end: Answered | NotAnswered) -> CallEnded:
        """Close the questions, and return the end of the call. Unsent input is discarded."""
        self._screen.hold()  # no other prompt appears before the turn ends
        for inquiry in group.open_inquiries:
            self._inquiries.close(inquiry, QuestionOutcome("cancelled", end.channel, by=end.by))
        return CallEnded(STOPPED_BY_USER_TEXT, is_error=True, skipped=True, stops_turn=True)


async def _ask_until_withdrawn(
    asking: Coroutine[Any, Any, PromptEnd[Answered | FormEnd]],
    withdrawn: asyncio.Future[None] | None,
) -> PromptEnd[Answered | FormEnd]:
    """Return the end of a prompt, which is closed if the tool withdraws its question before.

    A server may do so: `withdrawn` is then done.
    """
    if withdrawn is None:
        return await asking

    prompt = asyncio.ensure_future(asking)
    ends: list[asyncio.Future[Any]] = [prompt, withdrawn]
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not prompt.done():
            prompt.cancel()
            await asyncio.wait([prompt])

    return NotAnswered("cancelled") if prompt.cancelled() else prompt.result()


def _is_rememberable(question: Question) -> bool:
    """Return True if a prompt may offer to remember the answer to `question` for the turn."""
    return question.answer_type.rememberable and is_reusable(question)


def _make_prompt(group: InquiryGroup, inquiries: list[OpenInquiry]) -> Prompt[Answered | FormEnd]:
    """Return the prompt for `inquiries` of `group`: a single question, or a form with pages.

    A tool with several questions gets a form, even if only one of them has no answer yet. For the
    only question of a tool, `make_prompt` decides.
    """
    needs = group.needs
    tool = group.tool
    may_stay_open = needs.partial and not needs.decline  # else each page can be declined
    has_form_options = needs.partial or needs.menu or needs.decline
    is_alone = len(needs.questions) == 1 and not has_form_options
    tool_name = None if tool.hidden else tool.name

    pages = tuple(
        QuestionPrompt(
            inquiry.question,
            label=inquiry.label,
            tool=tool_name,
            remember=is_alone and _is_rememberable(inquiry.question),
        )
        for inquiry in inquiries
    )

    if len(needs.questions) > 1:
        return FormPrompt(pages, partial=may_stay_open, menu=needs.menu, declines=needs.decline)
    return make_prompt(pages, partial=may_stay_open, menu=needs.menu, declines=needs.decline)
