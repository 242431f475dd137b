"""The words of a form with pages, the same in a notebook and on stdin.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from jp_nb.agent.form_draft import FormDraft, PageDraft
from jp_nb.agent.prompts import QuestionPrompt
from jp_nb.record.answer_words import NONE_OF_THESE, NOT_ANSWERED
from jp_nb.rendering import wording
from jp_nb.tooling.select_kind import SelectAnswer

BACK: Final = "Back"
NEXT: Final = "Next"
REPLY: Final = "Reply to the assistant"
STOP: Final = "Stop the turn"
SEND: Final = "Send as it is"
SEND_ALL: Final = "Send"
DISCARD: Final = "Discard"
NOT_ALL_ANSWERED: Final = "Not every question is answered. Go back to one, or send it as it is."
ONE_NOT_ANSWERED: Final = "The question is not answered. Go back to it, or send it as it is."
ALL_ANSWERED: Final = "Every question is answered. Send the answers, or go back to one."
ONE_ANSWERED: Final = "The question is answered. Send the answer, or go back to it."
MENU: Final = "Leave the questions?"
MENU_HINT: Final = "Your answers are kept until you choose."
DISCARDED: Final = "Your input would be lost."
REPLY_LABEL: Final = "Your reply, sent together with the answers so far:"
REPLY_IS_BLANK: Final = "Please type what you want to say."
DEMANDED: Final = "This question is required. Answer it before you send."
UNTOUCHED: Final = "You changed nothing here. Press {} to continue."
FAILED: Final = "An error occurred ({}). Nothing was lost: try again, or cancel."
UNCHECKED: Final = "Your input could not be checked ({}), so nothing is sent."
TIME_WENT: Final = "The time for the previous question is over. Press Back to see it."
ANSWER: Final = "Answer"
CHANGE: Final = "Change"
EMPTY_TEXT: Final = "Answer with an empty text"
SECRET_KEPT: Final = "Entered. Type to replace it."
STALE: Final = "Something else happened first, so your click changed nothing."


def progress(draft: FormDraft) -> str | None:
    """Return `Question 2 of 4`; None if there is one page."""
    count = len(draft.prompt.pages)
    return f"Question {draft.page + 1} of {count}" if count > 1 else None


def page_header(page: QuestionPrompt) -> str | None:
    """Return the word or two that name what the page is about; None if there are none."""
    return wording.one_name(page.question.header) if page.question.header else None


class SummaryLine(NamedTuple):
    """A question and what would be sent for it.

    Attributes:
        answer: In words; what is wrong with it, or that there is none.
        is_open: Whether nothing would be sent.
        empty: The words by which the person confirms that nothing is the answer; None if that is
            no answer.
    """

    asked: str
    answer: str
    is_open: bool
    empty: str | None = None


def heading(draft: FormDraft) -> str:
    """Return the line above the summary."""
    if len(draft.pages) == 1:
        return ONE_NOT_ANSWERED if draft.open_pages else ONE_ANSWERED
    return NOT_ALL_ANSWERED if draft.open_pages else ALL_ANSWERED


def send_label(draft: FormDraft) -> str:
    """Return the label of the button that sends what the summary shows."""
    return SEND if draft.open_pages else SEND_ALL


def summary(draft: FormDraft) -> list[SummaryLine]:
    """Return a line for each page, in order."""
    return [_line(*each) for each in zip(draft.prompt.pages, draft.pages, strict=True)]


def _line(page: QuestionPrompt, held: PageDraft) -> SummaryLine:
    asked = wording.question(page)
    if held.answer is not None:
        return SummaryLine(asked, wording.given(page, held.answer), is_open=False)
    return SummaryLine(
        asked,
        held.problem or NOT_ANSWERED,
        is_open=True,
        empty=_empty(page) if held.empty else None,
    )


def _empty(page: QuestionPrompt) -> str:
    kind = page.question.answer_type
    if isinstance(kind, SelectAnswer) and kind.multi:
        return NONE_OF_THESE.capitalize()
    return EMPTY_TEXT
