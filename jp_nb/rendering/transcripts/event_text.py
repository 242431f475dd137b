"""Text of the events that a transcript shows as they are: decisions, notices, and messages.

A decision is the outcome of a question, or of a configuration change, such as:

    ? Deploy now? → Yes

The *card* of a question has the answer in words, and the options, texts, and fields that are listed
below it (`question_card.py`).

Source: `docs/guide.md`, `docs/turns.md`.
"""

from __future__ import annotations

import json
import re
from typing import Literal, assert_never

from jp_nb.agent.display import (
    ChangeEnds,
    Notice,
    QuestionEnds,
    ShowRequest,
    UserMessage,
)
from jp_nb.agent.prepared_answers import ANSWERS_CHANNEL
from jp_nb.exact_form import format_user_name
from jp_nb.record.reading.outcome_words import CHANNEL_WORDS, END_WORDS
from jp_nb.rendering.markdown import (
    escape_markup,
    make_code_block,
    make_code_span,
    make_details_block,
    quote_markdown,
)
from jp_nb.rendering.markdown_sanitizer import sanitize_markdown
from jp_nb.rendering.prompt_texts.card_text import format_card_lines, render_card
from jp_nb.rendering.prompt_texts.change_text import ChangeSummary, summarize_changes
from jp_nb.rendering.prompt_texts.outcome_text import format_outcome
from jp_nb.rendering.prompt_texts.question_card import QuestionCard, make_question_card
from jp_nb.rendering.report import (
    MAX_LINE_CHARS,
    Report,
    limit_text,
    make_line,
    make_note,
)
from jp_nb.text import one_line, plain
from jp_nb.toolkit.question import Question

_NAME = re.compile(r"[\w.-]{1,64}")
NO_BREAK_SPACE = "\u00a0"

ShownEvent = QuestionEnds | ChangeEnds | Notice | ShowRequest | UserMessage
"""An event of a turn that is shown as it is."""


def render_event(event: ShownEvent) -> Report:
    """Return the text of `event`."""
    match event:
        case QuestionEnds():
            return _render_question(event)
        case ChangeEnds():
            return _render_change(event)
        case Notice(text=text):
            return _render_notice(text)
        case ShowRequest(text=text):
            return _render_request(text)
        case UserMessage(text=text):
            shown = make_line(text)
            return Report(f"> 💬 {shown.markdown}", f"> {shown.text}")
        case _:
            assert_never(event)


def _render_question(ends: QuestionEnds) -> Report:
    """Return the question with its outcome, and below an answer, the options or fields."""
    label = one_line(ends.label, limit=80) if ends.label else ""
    question = one_line(ends.question.text, limit=500)
    card = QuestionCard()
    if ends.outcome.stored == "answered":
        kind = ends.question.answer_type.to_record()
        card = make_question_card(kind, ends.answer, answered=True)

    outcome = format_outcome(ends.outcome, card.headline)
    text = f"? {question} {outcome}"
    markdown = f"❓ {escape_markup(question)} **{escape_markup(outcome)}**"
    if label:
        text = f"? {label}: {question} {outcome}"
        markdown = (
            f"❓ **{escape_markup(label)}**: {escape_markup(question)} **{escape_markup(outcome)}**"
        )

    quotation = quote_markdown("\n\n".join(filter(None, [markdown, render_card(card)])))
    if ends.question.context:
        quotation = f"{_quote_context(ends.question)}\n\n{quotation}"

    card_lines = [f"    {line}" for line in format_card_lines(card)]
    return Report(quotation, "\n".join([text, *card_lines]))


def _quote_context(question: Question) -> str:
    """Return the text above a question as a quotation. The plain text does not have it."""
    context = plain(question.context or "", limit=2000)
    if question.context_is_text:
        lines = filter(str.strip, context.split("\n"))
        return quote_markdown("\n\n".join(map(escape_markup, lines)))

    # Sanitize the quotation, not its content, because `> ` may change which lines are code.
    return sanitize_markdown(quote_markdown(context))


def _render_change(ends: ChangeEnds) -> Report:
    """Return the decision about configuration changes. Several changes have a line each."""
    tool = one_line(ends.tool, limit=80)
    listed = summarize_changes(ends.changes)

    heading = ChangeSummary(f"{tool}: {len(ends.changes)} configuration changes")
    if len(listed) == 1:
        heading = listed[0]._replace(line=f"{tool}: {listed[0].line}")
        listed = []

    decision = _format_decision(ends)
    text = [f"⟳ {heading.line} — {decision}", *(f"    {line}" for line in heading.difference)]
    for change in listed:
        text.append(f"    {change.line}")
        text += [f"        {line}" for line in change.difference]

    heading_line = f"⟳ {make_code_span(heading.line)} — {escape_markup(decision)}"
    items = []
    for change in listed:
        items.append(_add_difference(f"- {make_code_span(change.line)}", change, "  "))
    blocks = [_add_difference(heading_line, heading, ""), "\n".join(items)]

    return Report("\n\n".join(filter(None, blocks)), "\n".join(text))


def _add_difference(line: str, change: ChangeSummary, indentation: str) -> str:
    """Return `line` with the difference of a long value below, indented as part of its item."""
    if not change.difference:
        return line

    block = make_code_block("\n".join(change.difference), "diff").split("\n")
    return "\n".join([line, "", *(f"{indentation}{text}" for text in block)])


def _format_decision(ends: ChangeEnds) -> str:
    """Return who decided about configuration changes, and how."""
    if ends.by == "nobody":
        reason = ends.reason or END_WORDS["unavailable"].user
        return f"not applied: {one_line(reason, limit=300)}"

    approver = format_approver(ends.by, ends.channel, ends.person)
    if not ends.applied:
        return f"rejected by {approver}"
    if not ends.takes_effect:
        return f"approved by {approver}; not applied outside a turn"

    return f"applied by {approver}"


def _render_notice(notice: str) -> Report:
    """Return a notice, whose lines stay lines in Markdown."""
    shown = limit_text(notice, lines=50)

    # Markdown removes the indentation of a line, but not no-break spaces.
    lines = []
    for line in shown.split("\n"):
        text = one_line(line, limit=MAX_LINE_CHARS)
        if text:
            indentation = len(line) - len(line.lstrip(" "))
            lines.append(f"{NO_BREAK_SPACE * indentation}{make_note(text).markdown}")

    return Report("  \n".join(lines), shown)


def _render_request(text: str) -> Report:
    """Return a request that the program wrote for the user, such as that of `%jp why`, folded."""
    block = make_details_block("Request", make_code_block(text, limit=len(text)))
    lines = plain(text, limit=len(text)).split("\n")
    return Report(block, "\n".join(f"> {line}".rstrip() for line in lines))


def format_approver(by: Literal["person", "grant"], channel: str | None, name: str | None) -> str:
    """Return the source of an approval: `you (form)`."""
    if by == "grant":
        return "a grant"
    if channel == ANSWERS_CHANNEL:
        return f"the {CHANNEL_WORDS[ANSWERS_CHANNEL].origin}"

    user = "you" if name is None else format_user_name(name)
    return f"{user} ({format_name(channel)})" if channel else user


def format_name(text: str) -> str:
    """Return a name of the record; quoted if it could look like other words of its line."""
    return text if _NAME.fullmatch(text) else json.dumps(one_line(text, limit=60))
