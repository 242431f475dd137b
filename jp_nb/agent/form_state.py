"""A form with pages on its way to its end: which page is up, what each holds, what comes next.

The form in a notebook and the one on stdin both drive it. It draws nothing and reads no clock.

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
    FormPromptEnd,
    NotAnswered,
    QuestionPrompt,
    apply_timeout_default,
)

Screen = Literal["page", "summary", "menu", "discard"]
"""What is up: a page; what is about to be sent; the ways out; whether to throw answers away."""


@dataclass(frozen=True, slots=True)
class PageDraft:
    """What one page holds.

    Attributes:
        answer: What would be sent; None while the question is open.
        empty: What is sent once the person confirms that nothing is the answer: no pick, a blank
            text. None if that is no answer.
        problem: What is wrong with what stands there; "" if nothing is.
        timed_out: Whether the time for it was over before it was answered.
    """

    answer: Answered | None = None
    empty: Answered | None = None
    problem: str = ""
    timed_out: bool = False


BLANK = PageDraft()


class FormDraft:
    """One form with pages, from the first page to its `end`. What comes after the end is ignored.

    Attributes:
        prompt: What is asked.
        page: Index of the page that is up, or that the other screens lead back to.
        screen: What is up.
        step: Changes with whatever is up: a click on something older is stale.
        demanded: True if Submit led to this page, because it must be answered first.
        reviewed: True once Submit was tried: it is then offered on every page.
        end: How the form ended; None while it is open.
    """

    def __init__(self, prompt: FormPrompt, channel: Channel) -> None:
        self.prompt = prompt
        self.page = 0
        self.screen: Screen = "page"
        self.step = 0
        self.demanded = False
        self.reviewed = False
        self.end: FormPromptEnd | None = None
        self._channel = channel
        self._pages = [BLANK] * len(prompt.pages)

    # --- what is up --------------------------------------------------------------------------

    @property
    def asked(self) -> QuestionPrompt:
        """The question of the page that is up."""
        return self.prompt.pages[self.page]

    @property
    def pages(self) -> Sequence[PageDraft]:
        """What each page holds, as it was last left."""
        return self._pages

    @property
    def is_first(self) -> bool:
        """True on the page that has none before it."""
        return self.page == 0

    @property
    def is_last(self) -> bool:
        """True on the page that has none after it."""
        return self.page == len(self._pages) - 1

    @property
    def can_submit(self) -> bool:
        """True if the page that is up offers Submit."""
        return self.is_last or self.reviewed

    @property
    def open_pages(self) -> list[int]:
        """The pages without an answer, in order."""
        return [index for index, page in enumerate(self._pages) if page.answer is None]

    @property
    def blocked(self) -> int | None:
        """The first page that nothing can be sent without; None if all could be sent."""
        return next((index for index in self.open_pages if self._blocks(index)), None)

    def _blocks(self, index: int) -> bool:
        return bool(self._pages[index].problem) or self._is_missed(index)

    def _is_missed(self, index: int) -> bool:
        """Return True if the page is open and may not be."""
        required = self.prompt.pages[index].question.required
        return required and not self.prompt.partial and self._pages[index].answer is None

    # --- pages -------------------------------------------------------------------------------

    def hold(self, draft: PageDraft) -> None:
        """Keep what stands on the page that is up."""
        if self.end is None:
            self._pages[self.page] = draft

    def next(self) -> None:
        """Turn to the next page; on the last one nothing changes."""
        if not self.is_last:
            self.go(self.page + 1)

    def back(self) -> None:
        """Turn to the page before; on the first one nothing changes."""
        if not self.is_first:
            self.go(self.page - 1)

    def go(self, page: int) -> None:
        """Turn to `page`, from wherever."""
        if 0 <= page < len(self._pages):
            self.page = page
            self._show("page")

    def _show(self, screen: Screen) -> None:
        if self.end is None:
            self.screen = screen
            self.demanded = False
            self.step += 1

    # --- ends --------------------------------------------------------------------------------

    def submit(self) -> None:
        """Send all answers; with something open show the page in the way, or the summary."""
        self.reviewed = True
        if (blocked := self.blocked) is not None:
            self.go(blocked)
            self.demanded = True
        elif self.open_pages:
            self._show("summary")
        else:
            self._finish()

    def confirm_empty(self, page: int) -> None:
        """Take nothing as the answer to `page`, as its `empty` says."""
        if 0 <= page < len(self._pages) and (empty := self._pages[page].empty) is not None:
            self._pages[page] = PageDraft(empty)
            self.step += 1

    def send(self) -> None:
        """Send what the summary shows: what is open is declined."""
        if self.screen == "summary":
            self._finish()

    def cancel(self, *, entered: bool = False) -> None:
        """Show the ways out; without a menu end, or ask before what was `entered` is lost."""
        if self.prompt.menu:
            self._show("menu")
        elif entered or any(page.answer or page.problem for page in self._pages):
            self._show("discard")
        else:
            self._end(NotAnswered("cancelled", self._channel))

    def resume(self) -> None:
        """Return to the page that was up, with what it held."""
        self._show("page")

    def discard(self) -> None:
        """Cancel although something was entered."""
        self._end(NotAnswered("cancelled", self._channel))

    def reply(self, text: str) -> None:
        """Send `text` to the model with the answers so far."""
        self._end(FormEnd(self._ends("cancelled"), then="reply", text=text))

    def stop(self) -> None:
        """Stop the turn: every question is cancelled."""
        cancelled = NotAnswered("cancelled", self._channel)
        self._end(FormEnd((cancelled,) * len(self._pages), then="stop"))

    def _finish(self) -> None:
        if any(map(self._is_missed, range(len(self._pages)))):  # the time for it was over
            self._end(NotAnswered("timed_out", self._channel))
        else:
            self._end(FormEnd(self._ends("declined")))

    def _ends(self, left: Literal["declined", "cancelled"]) -> tuple[Answered | NotAnswered, ...]:
        """Return the end of each page; a question that is open was `left` so."""
        return tuple(
            page.answer or NotAnswered("timed_out" if page.timed_out else left, self._channel)
            for page in self._pages
        )

    def _end(self, end: FormPromptEnd) -> None:
        if self.end is None:
            self.end = end
            self.step += 1

    # --- deadlines ---------------------------------------------------------------------------

    def expire(self, picked: Answered | None = None) -> None:
        """Take what there is as the time for the page is over, and turn to the next one.

        On the summary all that is open ends so, and the form with it.

        Args:
            picked: What the person picked on the page since it came up; None if nothing.
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
        """Settle a page whose time is over.

        A question for a person alone takes nothing that was not sent; nor is anything chosen for a
        question that must be answered.
        """
        question, held = self.prompt.pages[index].question, self._pages[index].answer
        if picked is not None and not question.exclusive:
            late = replace(picked, marks=picked.marks | {"timed_out"})
            self._pages[index] = PageDraft(late, timed_out=True)
        elif held is None:
            end = apply_timeout_default(question, NotAnswered("timed_out", self._channel))
            chosen = end if isinstance(end, Answered) else None
            self._pages[index] = PageDraft(chosen, timed_out=True)
