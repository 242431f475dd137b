"""State of any prompt up to its end, for the notebook and stdin.

A front end draws the prompt, and calls a method for each input: `store_draft` for the content of
the page, `next` and `back`, `submit`, `cancel`, `expire` at a deadline. It then draws the new
`screen`. The prompt is over when `end` is set. Nothing is sent before.

A single question or decision is one page that its first answer ends. A form has pages, a summary
of open questions, and a menu.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from jp_nb.agent.prompting.prompt_ends import (
    REFUSED_MARK,
    Answered,
    AnyEnd,
    Channel,
    FormEnd,
    NotAnswered,
    apply_timeout_default,
)
from jp_nb.agent.prompting.prompts import ActionPrompt, AnyPrompt, FormPrompt, QuestionPrompt

Screen = Literal["page", "summary", "menu", "discard"]
"""A page, the summary before sending, the menu of Cancel, or the question before discarding."""


@dataclass(frozen=True, slots=True)
class PageDraft:
    """Content of one page. Its question is open while it has no `answer`.

    Attributes:
        answer: The valid answer on the page; None without one.
        empty: The answer if the user confirms an empty page; None if that is not valid.
        problem: An error message about the input; "" without one.
        timed_out: True if no answer came in time.
        declined: True if the user pressed Decline.
    """

    answer: Answered | None = None
    empty: Answered | None = None
    problem: str = ""
    timed_out: bool = False
    declined: bool = False

    @property
    def is_blank(self) -> bool:
        """True if it has neither an answer nor invalid input."""
        return self.answer is None and not self.problem


BLANK = PageDraft()


class FormDraft:
    """State machine of a prompt up to its `end`, for the notebook and stdin. It draws nothing.

    Attributes:
        questions: Question of each page; empty for a decision, whose only page has buttons.
        is_single: True for a question or a decision that is no form. The first answer ends it.
        page: Index of the current page, also while another screen covers it.
        screen: The screen that is displayed now.
        step: Changes with each change of the display. Clicks with an older step are stale.
        must_answer: True if Submit led to this page because it needs an answer.
        reviewed: True once Submit was tried. Each page offers it from then on.
        end: Outcome of the prompt; None while it is open. Later input is ignored.
    """

    def __init__(self, prompt: AnyPrompt, channel: Channel) -> None:
        self.prompt = prompt
        self.questions = _list_questions(prompt)
        self.is_single = not isinstance(prompt, FormPrompt)
        self.page = 0
        self.screen: Screen = "page"
        self.step = 0
        self.must_answer = False
        self.reviewed = False
        self.end: AnyEnd | None = None
        self._partial = isinstance(prompt, FormPrompt) and prompt.partial
        self._channel = channel
        self._pages = [BLANK] * max(1, len(self.questions))
        # The end if the user confirms the screen `discard`.
        self._end_after_discard = NotAnswered("cancelled", channel)

    @property
    def question(self) -> QuestionPrompt:
        """Question of the current page. A decision has none."""
        return self.questions[self.page]

    @property
    def has_menu(self) -> bool:
        """True if Cancel shows a menu."""
        return isinstance(self.prompt, FormPrompt) and self.prompt.menu

    @property
    def can_cancel(self) -> bool:
        """True if the prompt may end without a decision."""
        return not (isinstance(self.prompt, ActionPrompt) and self.prompt.only_buttons)

    @property
    def can_decline(self) -> bool:
        """True if each page can be declined, which is not the same as Cancel."""
        return isinstance(self.prompt, FormPrompt) and self.prompt.declines

    @property
    def pages(self) -> Sequence[PageDraft]:
        """Content of each page."""
        return self._pages

    @property
    def is_first(self) -> bool:
        """True on the first page."""
        return self.page == 0

    @property
    def is_last(self) -> bool:
        """True on the last page."""
        return self.page == len(self._pages) - 1

    @property
    def can_submit(self) -> bool:
        """True if the current page offers Submit."""
        return self.is_last or self.reviewed

    @property
    def open_pages(self) -> list[int]:
        """Indexes of the pages that are neither answered nor declined."""
        pages = enumerate(self._pages)
        return [index for index, page in pages if page.answer is None and not page.declined]

    @property
    def blocking_page(self) -> int | None:
        """Index of the first page that prevents Submit; None if the form is complete."""
        for index in self.open_pages:
            if self._pages[index].problem or self._is_missed(index):
                return index

        return None

    def _is_missed(self, index: int) -> bool:
        """Return True if a page needs an answer and has none. `partial` forms need none."""
        page = self._pages[index]
        if self.is_single:
            return page.answer is None

        required = self.questions[index].question.required
        return required and not self._partial and page.answer is None and not page.declined

    def store_draft(self, draft: PageDraft) -> None:
        """Store the content of the current page. A blank one leaves a declined page declined."""
        if self.end is not None:
            return

        stays_declined = draft.is_blank and self._pages[self.page].declined
        if not stays_declined:
            self._pages[self.page] = draft

    def decide(self, answer: Answered) -> None:
        """End a single prompt with the answer of a button."""
        self.store_draft(PageDraft(answer))
        self._send_answers()

    def next(self) -> None:
        """Go to the next page, if there is one."""
        self.go(self.page + 1)

    def back(self) -> None:
        """Go to the previous page, if there is one."""
        self.go(self.page - 1)

    def go(self, page: int) -> None:
        """Go to `page`, if there is one."""
        if self.end is not None:
            return

        if 0 <= page < len(self._pages):
            self.page = page
            self._show("page")

    def redraw(self) -> None:
        """Count another display of the same screen, such as one with other controls."""
        self.step += 1

    def _show(self, screen: Screen) -> None:
        """Display `screen` from now on."""
        self.screen = screen
        self.must_answer = False
        self.step += 1

    def submit(self) -> None:
        """Send all answers, or show the page that prevents it, or the summary of open pages."""
        if self.end is not None:
            return

        self.reviewed = True
        if (blocking := self.blocking_page) is not None:
            self.go(blocking)
            self.must_answer = True
        elif self.open_pages:
            self._show("summary")
        else:
            self._send_answers()

    def review(self) -> None:
        """Show the summary, even if a page prevents Submit."""
        if self.end is not None:
            return

        self.reviewed = True
        self._show("summary")

    def confirm_empty(self, page: int) -> None:
        """Accept the empty answer of `page`."""
        if self.end is not None:
            return

        if 0 <= page < len(self._pages) and (empty := self._pages[page].empty) is not None:
            self._pages[page] = PageDraft(empty)
            self.step += 1

    def send(self) -> None:
        """Send the answers if the summary is displayed. Open questions are declined.

        If a page prevents it, that page is shown instead.
        """
        if self.end is not None or self.screen != "summary":
            return

        if self.blocking_page is None:
            self._send_answers()
        else:
            self.submit()

    def cancel(self, *, entered: bool = False) -> None:
        """Display the menu, or ask before answers are discarded, or end the prompt.

        `entered` is True if the current page has input that is not stored yet.
        """
        if self.end is not None or not self.can_cancel:
            return

        if self.has_menu:
            self._show("menu")
        elif self.is_single:
            self._finish_with(NotAnswered("cancelled", self._channel))
        else:
            self._leave(NotAnswered("cancelled", self._channel), entered=entered)

    def decline(self, *, entered: bool = False) -> None:
        """Decline the current page, and go to the next one, or to the summary after the last.

        A form with one page ends, but asks before input is discarded, as `cancel` does.
        """
        if self.end is not None:
            return

        if len(self._pages) == 1:
            self._leave(NotAnswered("declined", self._channel, marks=REFUSED_MARK), entered=entered)
            return

        self._pages[self.page] = PageDraft(declined=True)
        if self.is_last or self.reviewed:
            self.review()
        else:
            self.next()

    def _leave(self, end: NotAnswered, *, entered: bool) -> None:
        """End the prompt, or ask before input is discarded. `entered` is as in `cancel`."""
        self._end_after_discard = end
        if entered or not all(page.is_blank for page in self._pages):
            self._show("discard")
        else:
            self._finish_with(end)

    def resume(self) -> None:
        """Return to the current page."""
        if self.end is None:
            self._show("page")

    def discard(self) -> None:
        """End the form and discard the answers."""
        self._finish_with(self._end_after_discard)

    def reply(self, text: str) -> None:
        """Send `text` to the model with the answers so far."""
        self._finish_with(FormEnd(self._list_ends("cancelled"), then="reply", text=text))

    def stop(self) -> None:
        """Stop the turn. All questions are cancelled."""
        cancelled = NotAnswered("cancelled", self._channel)
        self._finish_with(FormEnd((cancelled,) * len(self._pages), then="stop"))

    def _send_answers(self) -> None:
        """End the prompt with its answers. Open questions of a form are declined."""
        if self.is_single:
            assert self._pages[0].answer is not None
            self._finish_with(self._pages[0].answer)
        else:
            self._finish_with(FormEnd(self._list_ends("declined")))

    def _finish_timed_out(self) -> None:
        """End a form at its deadline. Without a required answer, the whole form has timed out."""
        if any(map(self._is_missed, range(len(self._pages)))):
            self._finish_with(NotAnswered("timed_out", self._channel))
        else:
            self._send_answers()

    def _list_ends(
        self, end_of_open: Literal["declined", "cancelled"]
    ) -> tuple[Answered | NotAnswered, ...]:
        """Return the end of each page. Pages that the user left open get `end_of_open`."""
        return tuple(
            page.answer or self._make_end_without_answer(page, end_of_open) for page in self._pages
        )

    def _make_end_without_answer(
        self, page: PageDraft, end_of_open: Literal["declined", "cancelled"]
    ) -> NotAnswered:
        if page.declined:
            return NotAnswered("declined", self._channel, marks=REFUSED_MARK)
        if page.timed_out:
            return NotAnswered("timed_out", self._channel)
        return NotAnswered(end_of_open, self._channel)

    def _finish_with(self, end: AnyEnd) -> None:
        """Set the end of the prompt, unless it has one."""
        if self.end is None:
            self.end = end
            self.step += 1

    def expire(self, picked: Answered | None = None) -> None:
        """Handle the timeout of the current page, and go to the next page.

        `picked` is a selection on the page that was not sent. On the last page, the form ends. On
        the summary, all open pages time out and the form ends. A single prompt ends at once.
        """
        if self.end is not None:
            return

        if self.is_single:
            self._finish_with(NotAnswered("timed_out", self._channel))
            return

        if self.screen == "summary":
            for index in self.open_pages:
                self._time_out(index)
            self._finish_timed_out()
            return

        self._time_out(self.page, picked)
        if self.is_last:
            self._finish_timed_out()
        else:
            self.next()

    def _time_out(self, index: int, picked: Answered | None = None) -> None:
        """Give a page without an answer the one that its deadline allows, or none.

        That is `picked`, as in `expire`, or the automatic answer of an optional question. Exclusive
        questions accept only sent answers.
        """
        question = self.questions[index].question
        page = self._pages[index]

        if picked is not None and not question.exclusive:
            late = replace(picked, marks=picked.marks | {"timed_out"})
            self._pages[index] = PageDraft(late, timed_out=True)
        elif page.answer is None and not page.declined:
            end = apply_timeout_default(question, NotAnswered("timed_out", self._channel))
            chosen = end if isinstance(end, Answered) else None
            self._pages[index] = PageDraft(chosen, timed_out=True)


def _list_questions(prompt: AnyPrompt) -> tuple[QuestionPrompt, ...]:
    """Return the question of each page. A decision among buttons has none."""
    match prompt:
        case FormPrompt():
            return prompt.pages
        case QuestionPrompt():
            return (prompt,)
        case ActionPrompt():
            return ()
