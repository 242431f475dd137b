"""Texts of a form with several pages: labels, messages, and the summary before it is sent.

`FormDraft` (`jp_nb/agent/prompting/form_draft.py`) is the state of such a form.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from jp_nb.agent.prompting.form_draft import FormDraft
from jp_nb.agent.prompting.prompts import QuestionPrompt
from jp_nb.record.reading.outcome_words import REFUSED
from jp_nb.record.reading.recorded_answers import NONE_OF_THESE
from jp_nb.rendering.prompt_texts.prompt_text import (
    format_prompt_answer,
    format_question,
    spell_name,
)
from jp_nb.rendering.prompt_texts.question_card import NOT_ANSWERED
from jp_nb.text import upper_first
from jp_nb.toolkit.question_types.select_answer import SelectAnswer

BACK_LABEL: Final = "Back"
NEXT_LABEL: Final = "Next"
REPLY_BUTTON_LABEL: Final = "Reply to the assistant"
STOP_TURN_LABEL: Final = "Stop the turn"
SEND_AS_IS_LABEL: Final = "Send as it is"
SEND_ALL_LABEL: Final = "Send"
DISCARD_LABEL: Final = "Discard"
NOT_ALL_ANSWERED: Final = "Not every question is answered. Go back to one, or send it as it is."
ONE_NOT_ANSWERED: Final = "The question is not answered. Go back to it, or send it as it is."
ALL_ANSWERED: Final = "Every question is answered. Send the answers, or go back to one."
ONE_ANSWERED: Final = "The question is answered. Send the answer, or go back to it."
MENU_QUESTION: Final = "Leave the questions?"
MENU_HINT: Final = "Your answers are kept until you choose."
DISCARD_WARNING: Final = "Your input would be lost."
REPLY_LABEL: Final = "Your reply, sent together with the answers so far:"
REPLY_IS_BLANK: Final = "Please type what you want to say."
DEMANDED: Final = "This question is required. Answer it before you send."
UNTOUCHED: Final = "You changed nothing here. Press {} to continue."
FAILED: Final = "An error occurred ({}). Nothing was lost: try again, or cancel."
UNCHECKED: Final = "Your input could not be checked ({}), so nothing is sent."
TIME_WENT: Final = "The time for the previous question is over. Press Back to see it."
ANSWER_LABEL: Final = "Answer"
CHANGE_LABEL: Final = "Change"
EMPTY_TEXT_LABEL: Final = "Answer with an empty text"
SECRET_KEPT: Final = "Entered. Type to replace it."
STOCK_WIDGETS: Final = "This page shows the form with standard controls, without its shortcuts."
STALE: Final = "Something else happened first, so your click changed nothing."


def format_progress(draft: FormDraft) -> str | None:
    """Return `Question 2 of 4`; None if there is one page."""
    count = len(draft.pages)
    return f"Question {draft.page + 1} of {count}" if count > 1 else None


def format_page_header(page: QuestionPrompt) -> str | None:
    """Return the short topic of the page; None without one."""
    return spell_name(page.question.header) if page.question.header else None


class SummaryLine(NamedTuple):
    """A question and its answer, before a form is sent.

    Attributes:
        asked: The question.
        answer: The answer that Submit sends now; if it `is_open`, an error or a note.
        is_open: True if the question has no answer yet.
        empty: Label of the button that confirms an empty answer; None if that is not valid.
    """

    asked: str
    answer: str
    is_open: bool
    empty: str | None = None


def get_summary_heading(draft: FormDraft) -> str:
    """Return the heading of the summary."""
    if len(draft.pages) == 1:
        return ONE_NOT_ANSWERED if draft.open_pages else ONE_ANSWERED
    return NOT_ALL_ANSWERED if draft.open_pages else ALL_ANSWERED


def summarize_form(draft: FormDraft) -> list[SummaryLine]:
    """Return a line for each page, in order."""
    lines = []
    for question, page in zip(draft.questions, draft.pages, strict=True):
        is_open = page.answer is None
        empty_label = None
        if page.empty and is_open:  # `empty` is the answer that an empty page gives
            empty_label = _get_empty_label(question)

        if page.answer is not None:
            answer = format_prompt_answer(question, page.answer)
        elif page.declined:  # the user pressed Decline, which needs no answer
            answer = REFUSED
            is_open = False
        else:
            answer = upper_first(page.problem) or NOT_ANSWERED

        lines.append(SummaryLine(format_question(question), answer, is_open, empty_label))

    return lines


def _get_empty_label(page: QuestionPrompt) -> str:
    answer_type = page.question.answer_type
    if isinstance(answer_type, SelectAnswer) and answer_type.multi:
        return NONE_OF_THESE.capitalize()
    return EMPTY_TEXT_LABEL
