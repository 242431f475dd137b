"""State of any prompt up to its end, for the notebook and stdin.

A front end draws the prompt, and calls a method for each input: `store_draft` for the content of
the page, `next` and `back`, `submit`, `cancel`, `expire` at a deadline. It then draws the new
`screen`. The prompt is over when `end` is set: the front end returns it to the code that asked.
Nothing is sent before.

A single question or decision is one page that its first answer ends. A form has pages, a summary
of open questions, and a menu. `page_drafts.py` has the content of the pages.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from jp_nb.agent.prompting.page_drafts import PageDraft, PageDrafts
from jp_nb.agent.prompting.prompt_ends import (
    REFUSED_MARK,
    Answered,
    AnyEnd,
    Channel,
    FormEnd,
    NotAnswered,
)
from jp_nb.agent.prompting.prompts import ActionPrompt, AnyPrompt, FormPrompt, QuestionPrompt

Screen = Literal["page", "summary", "menu", "discard"]
"""A page, the summary before sending, the menu of Cancel, or the question before discarding."""


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
        self._channel = channel
        self._drafts = PageDrafts(
            self.questions,
            channel,
            is_single=self.is_single,
            is_partial=isinstance(prompt, FormPrompt) and prompt.partial,
        )
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
        return self._drafts.pages

    @property
    def is_first(self) -> bool:
        """True on the first page."""
        return self.page == 0

    @property
    def is_last(self) -> bool:
        """True on the last page."""
        return self.page == len(self.pages) - 1

    @property
    def can_submit(self) -> bool:
        """True if the current page offers Submit."""
        return self.is_last or self.reviewed

    @property
    def open_pages(self) -> list[int]:
        """Indexes of the pages that are neither answered nor declined."""
        return self._drafts.open_pages

    @property
    def blocking_page(self) -> int | None:
        """Index of the first page that prevents Submit; None if the form is complete."""
        return self._drafts.blocking_page

    def store_draft(self, draft: PageDraft) -> None:
        """Store the content of the current page. A blank one leaves a declined page declined."""
        if self.end is None:
            self._drafts.store(self.page, draft)

    def decide(self, answer: Answered) -> None:
        """End a prompt that is no form with an answer, such as that of a button."""
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

        if 0 <= page < len(self.pages):
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
            self.must_answer = True  # after `go`, which resets it
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
        if self.end is None and self._drafts.confirm_empty(page):
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

        if len(self.pages) == 1:
            self._leave(NotAnswered("declined", self._channel, marks=REFUSED_MARK), entered=entered)
            return

        self._drafts.decline(self.page)
        if self.is_last or self.reviewed:
            self.review()
        else:
            self.next()

    def _leave(self, end: NotAnswered, *, entered: bool) -> None:
        """End the prompt, or ask before input is discarded. `entered` is as in `cancel`."""
        self._end_after_discard = end
        if entered or not self._drafts.is_blank:
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
        self._finish_with(FormEnd(self._drafts.list_ends("cancelled"), then="reply", text=text))

    def stop(self) -> None:
        """Stop the turn. All questions are cancelled."""
        cancelled = NotAnswered("cancelled", self._channel)
        self._finish_with(FormEnd((cancelled,) * len(self.pages), then="stop"))

    def _send_answers(self) -> None:
        """End the prompt with its answers. Open questions of a form are declined."""
        if self.is_single:
            answer = self.pages[0].answer
            assert answer is not None
            self._finish_with(answer)
        else:
            self._finish_with(FormEnd(self._drafts.list_ends("declined")))

    def _finish_timed_out(self) -> None:
        """End a form at its deadline. Without a required answer, the whole form has timed out."""
        if self._drafts.has_missed:
            self._finish_with(NotAnswered("timed_out", self._channel))
        else:
            self._send_answers()

    def _finish_with(self, end: AnyEnd) -> None:
        """Set the end of the prompt, unless it has one."""
        if self.end is None:
            self.end = end
            self.step += 1

    def expire(self, picked: Answered | None = None) -> None:
        """Handle the timeout of the current page, and go to the next page.

        `picked` is a selection on the page that was not sent. On the last page, the form ends. On
        the summary, all open pages time out and the form ends. A single prompt ends at once. The
        menu and the question before discarding cover a page, and this page times out.
        """
        if self.end is not None:
            return

        if self.is_single:
            self._finish_with(NotAnswered("timed_out", self._channel))
            return

        if self.screen == "summary":
            for index in self.open_pages:
                self._drafts.time_out(index)
            self._finish_timed_out()
            return

        self._drafts.time_out(self.page, picked)
        if self.is_last:
            self._finish_timed_out()
        else:
            self.next()


def _list_questions(prompt: AnyPrompt) -> tuple[QuestionPrompt, ...]:
    """Return the question of each page. A decision among buttons has none."""
    match prompt:
        case FormPrompt():
            return prompt.pages
        case QuestionPrompt():
            return (prompt,)
        case ActionPrompt():
            return ()
