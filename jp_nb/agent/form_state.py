"""State machine of a form with pages: current page and screen, answers, and the outcome.

The forms in the notebook and on stdin share it. It draws nothing and reads no clock.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from jp_nb.agent.prompts import (
    Answered,
    Channel,
    FormEnd,
    FormPrompt,
    NotAnswered,
    PromptEnd,
    QuestionPrompt,
    apply_timeout_default,
)

Screen = Literal["page", "summary", "menu", "discard"]
"""A page, the summary before sending, the menu of Cancel, or the question about discarding answers.
"""


@dataclass(frozen=True, slots=True)
class PageDraft:
    """Content of one page.

    Attributes:
        answer: The answer to send; None while the question is open.
        empty: The answer to send if the user confirms an empty page. None if it is not valid.
        problem: Error message about the input; "" without an error.
        timed_out: True if the time was over before the question was answered.
    """

    answer: Answered | None = None
    empty: Answered | None = None
    problem: str = ""
    timed_out: bool = False


BLANK = PageDraft()


class FormDraft:
    """A form from the first page to its `end`. It ignores everything after its end.

    Attributes:
        page: Index of the current page.
        step: Changes with each change of the display. Clicks with an older step are stale.
        demanded: True if Submit led to this page because it needs an answer.
        reviewed: True once Submit was tried. Each page offers it from then on.
        end: Outcome of the form; None while it is open.
    """

    def __init__(self, prompt: FormPrompt, channel: Channel) -> None:
        self.prompt = prompt
        self.page = 0
        self.screen: Screen = "page"
        self.step = 0
        self.demanded = False
        self.reviewed = False
        self.end: PromptEnd[FormEnd] | None = None
        self._channel = channel
        self._pages = [BLANK] * len(prompt.pages)

    @property
    def asked(self) -> QuestionPrompt:
        """Question of the current page."""
        return self.prompt.pages[self.page]

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
        """Indexes of the pages without an answer."""
        return [index for index, page in enumerate(self._pages) if page.answer is None]

    @property
    def blocked(self) -> int | None:
        """Index of the first page that prevents Submit; None if the form is complete."""
        return next((index for index in self.open_pages if self._blocks(index)), None)

    def _blocks(self, index: int) -> bool:
        return bool(self._pages[index].problem) or self._is_missed(index)

    def _is_missed(self, index: int) -> bool:
        required = self.prompt.pages[index].question.required
        return required and not self.prompt.partial and self._pages[index].answer is None

    def hold(self, draft: PageDraft) -> None:
        """Store the content of the current page."""
        if self.end is None:
            self._pages[self.page] = draft

    def next(self) -> None:
        """Go to the next page, if there is one."""
        if not self.is_last:
            self.go(self.page + 1)

    def back(self) -> None:
        """Go to the previous page, if there is one."""
        if not self.is_first:
            self.go(self.page - 1)

    def go(self, page: int) -> None:
        """Go to `page`."""
        if 0 <= page < len(self._pages):
            self.page = page
            self._show("page")

    def _show(self, screen: Screen) -> None:
        if self.end is None:
            self.screen = screen
            self.demanded = False
            self.step += 1

    def submit(self) -> None:
        """Send all answers, or show the page that prevents it, or the summary of open pages."""
        self.reviewed = True
        if (blocked := self.blocked) is not None:
            self.go(blocked)
            self.demanded = True
        elif self.open_pages:
            self._show("summary")
        else:
            self._finish()

    def review(self) -> None:
        """Show the summary, even if a page prevents Submit."""
        self.reviewed = True
        self._show("summary")

    def confirm_empty(self, page: int) -> None:
        """Accept the empty answer of `page`."""
        if 0 <= page < len(self._pages) and (empty := self._pages[page].empty) is not None:
            self._pages[page] = PageDraft(empty)
            self.step += 1

    def send(self) -> None:
        """Send the answers from the summary. Open questions are declined."""
        if self.screen == "summary":
            self._finish()

    def cancel(self, *, entered: bool = False) -> None:
        """Display the menu, or ask before answers are discarded, or end the form.

        `entered` is True if the current page has input that is not stored yet.
        """
        if self.prompt.menu:
            self._show("menu")
        elif entered or any(page.answer or page.problem for page in self._pages):
            self._show("discard")
        else:
            self._end(NotAnswered("cancelled", self._channel))

    def resume(self) -> None:
        """Return to the current page."""
        self._show("page")

    def discard(self) -> None:
        """End the form and discard the answers."""
        self._end(NotAnswered("cancelled", self._channel))

    def reply(self, text: str) -> None:
        """Send `text` to the model with the answers so far."""
        self._end(FormEnd(self._ends("cancelled"), then="reply", text=text))

    def stop(self) -> None:
        """Stop the turn. All questions are cancelled."""
        cancelled = NotAnswered("cancelled", self._channel)
        self._end(FormEnd((cancelled,) * len(self._pages), then="stop"))

    def _finish(self) -> None:
        if any(map(self._is_missed, range(len(self._pages)))):  # the time was over
            self._end(NotAnswered("timed_out", self._channel))
        else:
            self._end(FormEnd(self._ends("declined")))

    def _ends(self, left: Literal["declined", "cancelled"]) -> tuple[Answered | NotAnswered, ...]:
        return tuple(
            page.answer or NotAnswered("timed_out" if page.timed_out else left, self._channel)
            for page in self._pages
        )

    def _end(self, end: PromptEnd[FormEnd]) -> None:
        if self.end is None:
            self.end = end
            self.step += 1

    def expire(self, picked: Answered | None = None) -> None:
        """End the time for the current page, and go to the next one.

        On the last page and on the summary, end the form.

        Args:
            picked: Unsent selection of the user on the page.
        """
        if self.screen == "summary":
            for index in self.open_pages:
                self._time_out(index)
            self._finish()
            return
        self._time_out(self.page, picked)
        if self.is_last:
            self._finish()
        else:
            self.next()

    def _time_out(self, index: int, picked: Answered | None = None) -> None:
        # Exclusive questions accept only sent answers, and required ones no automatic answer.
        question, held = self.prompt.pages[index].question, self._pages[index].answer
        if picked is not None and not question.exclusive:
            late = replace(picked, marks=picked.marks | {"timed_out"})
            self._pages[index] = PageDraft(late, timed_out=True)
        elif held is None:
            end = apply_timeout_default(question, NotAnswered("timed_out", self._channel))
            chosen = end if isinstance(end, Answered) else None
            self._pages[index] = PageDraft(chosen, timed_out=True)
