"""Text of forms and of their summaries.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import Final, NamedTuple, TypeGuard, assert_never

from jp_nb.agent.form_state import FormDraft, PageDraft
from jp_nb.agent.prompts import (
    UNSET,
    ActionPrompt,
    Answered,
    AnyEnd,
    AnyPrompt,
    FormEnd,
    FormPrompt,
    NotAnswered,
    PromptEnd,
    ProposedChange,
    QuestionPrompt,
    SimplePrompt,
    Unavailable,
    get_outcome,
)
from jp_nb.record.outcomes import END_WORDS
from jp_nb.record.question_log import NONE_OF_THESE
from jp_nb.rendering import prompts as prompt_text
from jp_nb.rendering.prompts import (
    Difference,
    Line,
    PromptSummary,
    by_in_words,
    difference,
)
from jp_nb.rendering.questions import (
    NOT_ANSWERED,
    QuestionCard,
    card_markdown,
    card_text,
    format_marks,
    question_card,
)
from jp_nb.text import escape_markdown, one_line
from jp_nb.tools.answer_types import SelectAnswer
from jp_nb.tools.question import FormAnswer

OPEN_ONLY = "[You can answer only while the form is shown. Without a form, you are asked as text.]"


def without_form(prompt: AnyPrompt) -> str:
    """Return the questions and options, for readers who do not see the form."""
    if isinstance(prompt, ActionPrompt):
        return f"{prompt_text.titled(prompt)} {OPEN_ONLY}"
    if isinstance(prompt, QuestionPrompt):
        title, offered = prompt_text.titled(prompt), [*_option_lines(prompt)]
        return "\n".join([title, *offered, OPEN_ONLY]) if offered else f"{title} {OPEN_ONLY}"
    lines = []
    for number, page in enumerate(prompt.pages, start=1):
        lines += [f"{number}. {prompt_text.question(page)}", *_option_lines(page)]
    return "\n".join([*_head_lines(prompt), *lines, OPEN_ONLY])


def record_of(prompt: AnyPrompt, end: AnyEnd) -> PromptSummary:
    """Return the record that replaces `prompt` after its `end`, with options and fields.

    It never contains a secret.
    """
    if not isinstance(prompt, FormPrompt):
        assert not isinstance(end, FormEnd)
        card = _card(prompt, end) if _has_card(prompt) else None
        return _record(prompt_text.titled(prompt), prompt, end, card)
    ends = end.ends if isinstance(end, FormEnd) else [end] * len(prompt.pages)
    records = [
        _record(prompt_text.question(page), page, one, _card(page, one))
        for page, one in zip(prompt.pages, ends, strict=True)
    ]
    head = _head_lines(prompt)
    return PromptSummary(
        "\n".join([*head, *(record.plain for record in records)]),
        "\n\n".join([*map(escape_markdown, head), *(record.markdown for record in records)]),
    )


def _head_lines(prompt: FormPrompt) -> list[str]:
    header, by = prompt_text.header(prompt.pages[0]), prompt_text.asked_by(prompt.pages[0])
    said = f"{header} ({by})" if header and by else header or by
    return [said] if said else []


def _has_card(prompt: SimplePrompt) -> TypeGuard[QuestionPrompt]:
    # True if the record lists options, an own text or fields below the question.
    if isinstance(prompt, ActionPrompt):
        return False
    match prompt.question.answer_type:
        case SelectAnswer() as kind:
            bare = all(option.label is option.description is None for option in kind.options)
            return kind.multi or kind.other or not bare
        case kind:
            return isinstance(kind, FormAnswer)


def _record(
    asked: str, prompt: SimplePrompt, end: PromptEnd[Answered], card: QuestionCard | None
) -> PromptSummary:
    said = _format_outcome(prompt, end, card)
    head = f"{escape_markdown(asked)} → **{escape_markdown(said)}**"
    if card is None:
        return PromptSummary(f"{asked} → {said}", head)
    below = (f"    {line}" for line in card_text(card))
    return PromptSummary(
        "\n".join([f"{asked} → {said}", *below]),
        "\n\n".join(filter(None, [head, card_markdown(card)])),
    )


def _card(page: QuestionPrompt, end: PromptEnd[Answered] | None) -> QuestionCard:
    kind = page.question.answer_type
    if not isinstance(end, Answered):
        return question_card(kind.to_record(), answered=False)
    return question_card(kind.to_record(), kind.redacted(end.value), answered=True)


def _option_lines(page: QuestionPrompt) -> Iterator[str]:
    return (f"    {line}" for line in card_text(_card(page, None)))


def _format_outcome(
    prompt: SimplePrompt, end: PromptEnd[Answered], card: QuestionCard | None
) -> str:
    match end:
        case Answered(remember=remember):
            words = prompt_text.format_answer(prompt, end) if card is None else card.words
            for_turn = ", for this turn" if remember else ""
            return f"{words}{for_turn}{format_marks(get_outcome(end))}"
        case NotAnswered(by=by):
            return f"{END_WORDS[end.end].user}{by_in_words(by)}"
        case Unavailable():
            return f"not asked ({one_line(end.reason)})"
        case _:
            assert_never(end)


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
    """Return the short topic of the page; None without one."""
    return prompt_text.one_name(page.question.header) if page.question.header else None


class SummaryLine(NamedTuple):
    """A question and the answer that Submit sends now.

    Attributes:
        asked: The question in one line.
        answer: The answer as text; without an answer, the error, or a note that there is none.
        is_open: True if there is no answer to send.
        empty: Label of the button that confirms an empty answer; None if that is not valid.
    """

    asked: str
    answer: str
    is_open: bool
    empty: str | None = None


def heading(draft: FormDraft) -> str:
    """Return the heading of the summary."""
    if len(draft.pages) == 1:
        return ONE_NOT_ANSWERED if draft.open_pages else ONE_ANSWERED
    return NOT_ALL_ANSWERED if draft.open_pages else ALL_ANSWERED


def send_label(draft: FormDraft) -> str:
    """Return the label of the button that sends the answers in the summary."""
    return SEND if draft.open_pages else SEND_ALL


def summary(draft: FormDraft) -> list[SummaryLine]:
    """Return a line for each page, in order."""
    return [_summary_line(*each) for each in zip(draft.prompt.pages, draft.pages, strict=True)]


def _summary_line(page: QuestionPrompt, held: PageDraft) -> SummaryLine:
    asked = prompt_text.question(page)
    if held.answer is not None:
        return SummaryLine(asked, prompt_text.format_answer(page, held.answer), is_open=False)
    return SummaryLine(
        asked,
        held.problem or NOT_ANSWERED,
        is_open=True,
        empty=_empty_label(page) if held.empty else None,
    )


def _empty_label(page: QuestionPrompt) -> str:
    kind = page.question.answer_type
    if isinstance(kind, SelectAnswer) and kind.multi:
        return NONE_OF_THESE.capitalize()
    return EMPTY_TEXT


_TAGS = {"-": "del", "+": "ins", " ": "span", "…": "i"}
_KINDS = {"differs": "b", "fold": "i"}
_BETWEEN_WORDS = re.compile(r"[._/:-]+(?=\w)")


def change_table(changes: Iterable[ProposedChange]) -> str:
    """Return a table with a row for each of `changes`, complete and exact.

    Short values are next to each other. A long value shows its differences. If equal parts are
    folded, the user can unfold both full values.
    """
    found = [(change, difference(change)) for change in changes]
    body = "".join(_long_row(c, d) if d is not None else _short_row(c) for c, d in found)
    head = "".join(f'<th scope="col">{column}</th>' for column in prompt_text.COLUMNS)
    if all(d is not None for _, d in found):
        head = ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _short_row(change: ProposedChange) -> str:
    shown = prompt_text.exactly(change)
    cells = (_path(change), _text(UNSET if shown.now is None else shown.now))
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in (*cells, _text(shown.becomes)))}</tr>"


def _long_row(change: ProposedChange, found: Difference) -> str:
    title = f"{_path(change)} <span class='jp-nb-sizes'>{escape(found.sizes)}</span>"
    lines = "".join(map(_change_line, found.lines))
    whole = ""
    if found.is_folded:
        whole = _full_value(prompt_text.NOW_WHOLE, found.now) + _full_value(
            prompt_text.PROPOSED_WHOLE, found.proposed
        )
    return (
        f"<tr class='jp-nb-long'><td colspan='3'>{title}"
        f"<div class='jp-nb-lines'>{lines}</div>{whole}</td></tr>"
    )


def _change_line(line: Line) -> str:
    tag = _TAGS[line.sign]
    pieces = ((_KINDS.get(piece.kind), escape(piece.text)) for piece in line.pieces)
    text = "".join(f"<{kind}>{text}</{kind}>" if kind else text for kind, text in pieces)
    sign = "" if line.sign == "…" else f"<span>{line.sign}</span>"
    return f"<{tag}>{sign}<bdi>{text}</bdi></{tag}>"


def _full_value(title: str, lines: tuple[str, ...]) -> str:
    if not lines:
        return ""
    text = "".join(f"<span><bdi>{escape(line)}</bdi></span>" for line in lines)
    count = f"{len(lines):,} line{'' if len(lines) == 1 else 's'}"
    return (
        f"<details><summary>{title} ({count})</summary>"
        f"<div class='jp-nb-lines'>{text}</div></details>"
    )


def _path(change: ProposedChange) -> str:
    shown = escape(prompt_text.exactly(change).path)
    return f"<bdi>{_BETWEEN_WORDS.sub(lambda found: f'{found[0]}<wbr>', shown)}</bdi>"


def _text(text: str) -> str:
    return f"<bdi>{escape(text)}</bdi>"
