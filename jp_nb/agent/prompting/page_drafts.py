"""Contents of the pages of a prompt: their answers, and the end that each question gets.

`form_draft.py` has the rest of the state of the prompt, such as the page that is displayed.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from jp_nb.agent.prompting.prompt_ends import (
    REFUSED_MARK,
    Answered,
    Channel,
    NotAnswered,
    apply_timeout_default,
)
from jp_nb.agent.prompting.prompts import QuestionPrompt


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

    @property
    def is_open(self) -> bool:
        """True if it is neither answered nor declined."""
        return self.answer is None and not self.declined


BLANK = PageDraft()


class PageDrafts:
    """Contents of all pages of one prompt, from blank pages on.

    Attributes:
        pages: The content of each page. A decision among buttons has one page and no question.
    """

    def __init__(
        self,
        questions: Sequence[QuestionPrompt],
        channel: Channel,
        *,
        is_single: bool,
        is_partial: bool,
    ) -> None:
        """Make the pages of `questions`, whose answers come from `channel`.

        `is_single` is True for a prompt that is no form: its only page always needs an answer.
        Of a form with `is_partial`, no page needs one.
        """
        self.pages = [BLANK] * max(1, len(questions))
        self._questions = questions
        self._channel = channel
        self._is_single = is_single
        self._is_partial = is_partial

    @property
    def is_blank(self) -> bool:
        """True if no page has an answer or invalid input."""
        return all(page.is_blank for page in self.pages)

    @property
    def open_pages(self) -> list[int]:
        """Indexes of the pages that are neither answered nor declined."""
        return [index for index, page in enumerate(self.pages) if page.is_open]

    @property
    def blocking_page(self) -> int | None:
        """Index of the first page that prevents Submit; None if the form is complete."""
        for index in self.open_pages:
            if self.pages[index].problem or self._is_missed(index):
                return index

        return None

    @property
    def has_missed(self) -> bool:
        """True if a page needs an answer and has none."""
        return any(map(self._is_missed, range(len(self.pages))))

    def _is_missed(self, index: int) -> bool:
        page = self.pages[index]
        if self._is_single:  # also an optional question: the user can close the prompt instead
            return page.answer is None

        required = self._questions[index].question.required
        return required and not self._is_partial and page.is_open

    def store(self, index: int, draft: PageDraft) -> None:
        """Store the content of a page. A blank one leaves a declined page declined."""
        stays_declined = draft.is_blank and self.pages[index].declined
        if not stays_declined:
            self.pages[index] = draft

    def decline(self, index: int) -> None:
        """Replace the content of a page by the answer of the button Decline."""
        self.pages[index] = PageDraft(declined=True)

    def confirm_empty(self, index: int) -> bool:
        """Accept the empty answer of a page; return False if it is not valid."""
        is_page = 0 <= index < len(self.pages)
        empty = self.pages[index].empty if is_page else None
        if empty is None:
            return False

        self.pages[index] = PageDraft(empty)
        return True

    def time_out(self, index: int, picked: Answered | None = None) -> None:
        """Set the content of a page whose time is over.

        It is `picked`, a selection on the page that was not sent yet, if there is one. Exclusive
        questions accept only sent answers. A page that is still open gets the automatic answer of
        an optional question, or none. Any other page keeps its answer.
        """
        question = self._questions[index].question
        page = self.pages[index]

        if picked is not None and not question.exclusive:
            late = replace(picked, marks=picked.marks | {"timed_out"})
            self.pages[index] = PageDraft(late, timed_out=True)
        elif page.is_open:
            end = apply_timeout_default(question, NotAnswered("timed_out", self._channel))
            chosen = end if isinstance(end, Answered) else None
            self.pages[index] = PageDraft(chosen, timed_out=True)

    def list_ends(
        self, end_of_open: Literal["declined", "cancelled"]
    ) -> tuple[Answered | NotAnswered, ...]:
        """Return the end of each page. Pages that the user left open get `end_of_open`."""
        return tuple(
            page.answer or self._make_end_without_answer(page, end_of_open) for page in self.pages
        )

    def _make_end_without_answer(
        self, page: PageDraft, end_of_open: Literal["declined", "cancelled"]
    ) -> NotAnswered:
        if page.declined:
            return NotAnswered("declined", self._channel, marks=REFUSED_MARK)
        if page.timed_out:
            return NotAnswered("timed_out", self._channel)
        return NotAnswered(end_of_open, self._channel)
