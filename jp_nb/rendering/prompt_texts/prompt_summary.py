"""The summary that replaces a prompt in the output, with its answer or the reason for none.

For example, the summary of a question with its answer:

    Deploy now? → Yes

Until then, `open_prompt_text.py` has the text for readers who do not see the form.

The *end* of a prompt is `Answered`, `NotAnswered`, or `Unavailable`, which has the reason why the
user was not asked (`prompt_ends.py`). A form also has a `FormEnd`, with the end of each page. The
*card* of a question has the answer in words (`headline`), and the lines below it, such as the
options (`question_card.py`).

Source: `docs/prompts.md`, `docs/turns.md`.
"""

from __future__ import annotations

from typing import NamedTuple

from jp_nb.agent.prompting.prompt_ends import (
    Answered,
    AnyEnd,
    FormEnd,
    NotAnswered,
    PromptEnd,
    get_outcome,
)
from jp_nb.agent.prompting.prompts import (
    ActionPrompt,
    AnyPrompt,
    FormPrompt,
    QuestionPrompt,
    SimplePrompt,
)
from jp_nb.record.reading.outcome_words import end_in_words
from jp_nb.rendering.markdown import escape_markup
from jp_nb.rendering.prompt_texts.card_text import format_card_lines, render_card
from jp_nb.rendering.prompt_texts.outcome_text import format_author, format_marks
from jp_nb.rendering.prompt_texts.prompt_text import (
    format_head_line,
    format_prompt_answer,
    format_question,
    format_titled_question,
)
from jp_nb.rendering.prompt_texts.question_card import (
    MAX_ALTERNATIVES,
    QuestionCard,
    make_question_card,
)
from jp_nb.text import one_line
from jp_nb.toolkit.question import FormAnswer
from jp_nb.toolkit.question_types.select_answer import SelectAnswer


class PromptSummary(NamedTuple):
    """The summary that replaces a prompt, as text and as Markdown."""

    plain: str
    markdown: str


def summarize_prompt(prompt: AnyPrompt, end: AnyEnd) -> PromptSummary:
    """Return the summary that replaces `prompt` after its `end`, with options and fields.

    It never contains a secret.
    """
    if isinstance(prompt, FormPrompt):
        return _summarize_form(prompt, end)

    assert not isinstance(end, FormEnd)
    question = format_titled_question(prompt)
    return _summarize_page(question, prompt, end, has_card=_has_card(prompt))


def _summarize_form(prompt: FormPrompt, end: AnyEnd) -> PromptSummary:
    """Return the summaries of all pages below each other, with the head of the form."""
    # A form that ended as a whole, such as by an interrupt, has one end for all pages.
    ends = end.ends if isinstance(end, FormEnd) else [end] * len(prompt.pages)
    summaries = [
        _summarize_page(format_question(page), page, page_end, has_card=True)
        for page, page_end in zip(prompt.pages, ends, strict=True)
    ]

    plain_lines = [summary.plain for summary in summaries]
    markdown = [summary.markdown for summary in summaries]
    if head := format_head_line(prompt.pages[0]):
        plain_lines.insert(0, head)
        markdown.insert(0, escape_markup(head))

    return PromptSummary("\n".join(plain_lines), "\n\n".join(markdown))


def _has_card(prompt: SimplePrompt) -> bool:
    """Return True if the summary of a single question has options or fields below it.

    A page of a form always has a card. For a single question, one line is enough if it can hold the
    answer: a short choice of one option has its label there.
    """
    if isinstance(prompt, ActionPrompt):
        return False

    kind = prompt.question.answer_type
    if isinstance(kind, SelectAnswer):
        is_bare = all(
            option.label is None and option.description is None for option in kind.options
        )
        is_long = len(kind.options) > MAX_ALTERNATIVES
        return kind.multi or kind.other or is_long or not is_bare

    return isinstance(kind, FormAnswer)


def _summarize_page(
    question: str, prompt: SimplePrompt, end: PromptEnd[Answered], *, has_card: bool
) -> PromptSummary:
    """Return the summary of one question: its text, its outcome, and the lines of its card."""
    card = QuestionCard()

    if isinstance(end, Answered):
        answer = format_prompt_answer(prompt, end)
        if has_card and isinstance(prompt, QuestionPrompt):
            card = _make_card(prompt, end)
            answer = card.headline

        for_turn = ", for this turn" if end.remember else ""
        outcome = f"{answer}{for_turn}{format_marks(get_outcome(end))}"
    elif isinstance(end, NotAnswered):
        outcome = f"{end_in_words(end.end, end.marks)}{format_author(end.by)}"
    else:
        outcome = f"not asked ({one_line(end.reason)})"

    card_lines = [f"    {line}" for line in format_card_lines(card)]
    markdown = f"{escape_markup(question)} → **{escape_markup(outcome)}**"
    return PromptSummary(
        "\n".join([f"{question} → {outcome}", *card_lines]),
        "\n\n".join(filter(None, [markdown, render_card(card)])),
    )


def _make_card(page: QuestionPrompt, end: Answered) -> QuestionCard:
    """Return the card of an answered question."""
    answer_type = page.question.answer_type
    answer_without_secrets = answer_type.redacted(end.value)
    return make_question_card(answer_type.to_record(), answer_without_secrets, answered=True)
