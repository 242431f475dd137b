"""Text of prompts and forms, and of the summaries that replace them in the output.

Source: `docs/prompts.md`, `docs/guide.md`, `docs/turns.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Final, NamedTuple

from pydantic import JsonValue

from jp_nb.agent.form_draft import FormDraft
from jp_nb.agent.prompts import (
    ActionPrompt,
    Answered,
    AnyEnd,
    AnyPrompt,
    FormEnd,
    FormPrompt,
    NotAnswered,
    PromptEnd,
    QuestionPrompt,
    SimplePrompt,
    get_outcome,
)
from jp_nb.record.outcomes import REFUSED, end_in_words
from jp_nb.record.recorded_answers import NONE_OF_THESE
from jp_nb.rendering.change_text import summarize_changes
from jp_nb.rendering.markdown import escape_markup
from jp_nb.rendering.question_text import (
    MAX_ALTERNATIVES,
    NOT_ANSWERED,
    QuestionCard,
    format_author,
    format_card_lines,
    format_marks,
    make_question_card,
    render_card,
)
from jp_nb.text import (
    ONE_LINE,
    escape_markdown,
    format_object,
    one_line,
    plain,
    spell_editable,
    spell_invisible,
    spell_lines,
    spell_prose,
    unspell,
    upper_first,
)
from jp_nb.toolkit.answer_types import AnswerType, UrlAnswer
from jp_nb.toolkit.question import FormAnswer
from jp_nb.toolkit.select_answer import SelectAnswer
from jp_nb.toolkit.web_address import WebAddress, read_web_address

SUBMIT_LABEL = "Submit"
CANCEL_LABEL = "Cancel"
DECLINE_LABEL: Final = "Decline"
CONFIRM_LABEL: Final = "Confirm"
"""Label of Submit for a form without fields."""
DONE_LABEL: Final = "Done"
"""Label of Submit for a question with a URL."""
ADDRESS_LABEL: Final = "The address"
OPEN_ADDRESS: Final = "Open {} in a new tab"
ADDRESS_AT: Final = "an address at {}"
NOT_OPENED: Final = "Open it yourself only if you are sure: copy the address"
SUGGESTED = "suggested"
"""Mark of the tool's default on a button or in a list of keys."""
SPELLED_OUT = "⟨U+200B⟩ stands for one invisible character; U+200B is its code point."
NO_BUTTON_CHOSEN = "Nothing is chosen yet. Press Tab or an arrow key to reach the buttons."
NOTHING_CHANGED = "You changed nothing. To send the proposed value, press {}."
ANSWERED_BELOW = "The form is not shown here. Please answer in the input box below."
UNSEEN = "This cell waits for an answer, but no page has shown its form yet. The form stays open."
NO_INPUT = "the page that ran the cell was reloaded or closed, or has run the cell again"
STDIN_INSTEAD = "To answer in an input box instead, interrupt the kernel (■)."


def format_unseen_notice(*, stdin: bool) -> str:
    """Return the notice for a form that no page has shown in time.

    With `stdin`, an interrupt changes it to a prompt on stdin.
    """
    return f"{UNSEEN} {STDIN_INSTEAD}" if stdin else UNSEEN


@dataclass(frozen=True, slots=True)
class BooleanChoice:
    """One answer to a boolean question: its button in a form, and its key on stdin."""

    label: str
    key: str
    meaning: str
    value: bool
    remember: bool = False


CHOICES_ONCE = (BooleanChoice("Yes", "y", "yes", True), BooleanChoice("No", "n", "no", False))
CHOICES_FOR_TURN = (
    BooleanChoice("Yes", "y", "yes, just this once", True),
    BooleanChoice(
        "Yes, for this turn", "Y", "yes, and remember for this turn", True, remember=True
    ),
    BooleanChoice("No", "n", "no, just this once", False),
    BooleanChoice("No, for this turn", "N", "no, and remember for this turn", False, remember=True),
)


def list_choices(prompt: QuestionPrompt) -> tuple[BooleanChoice, ...]:
    """Return the answers that a boolean question offers."""
    remember = prompt.remember and prompt.question.persistence == "turn"
    return CHOICES_FOR_TURN if remember else CHOICES_ONCE


def find_suggested_choice(prompt: QuestionPrompt) -> BooleanChoice | None:
    """Return the tool's suggested answer to a boolean question; None without one."""
    preset = get_preselected(prompt)
    return next((c for c in list_choices(prompt) if c.value is preset and not c.remember), None)


def format_header(prompt: SimplePrompt) -> str | None:
    """Return the label of the prompt in one line; None without a label."""
    return spell_name(prompt.label) if prompt.label else None


def format_asking_tool(prompt: SimplePrompt) -> str | None:
    """Return `asked by tool …`; None if the tool is hidden or no tool asks."""
    tool = None if isinstance(prompt, ActionPrompt) else prompt.tool
    return f"asked by tool {spell_name(tool)}" if tool else None


def format_origin(prompt: SimplePrompt) -> str | None:
    """Return `asked by tool …`, or the kind of the tool to run, such as `Python tool`."""
    if isinstance(prompt, ActionPrompt) and prompt.origin:
        return f"{spell_name(prompt.origin)} tool"
    return format_asking_tool(prompt)


def format_head_line(prompt: SimplePrompt) -> str:
    """Return header and asking tool in one line; "" without both."""
    title = format_header(prompt)
    by = format_asking_tool(prompt)
    if title and by:
        return f"{title} ({by})"

    return title or by or ""


def spell_name(text: str) -> str:
    """Return a name in one line, with invisible characters spelled out."""
    return plain(spell_invisible(text), limit=200)


def format_context(prompt: SimplePrompt) -> str | None:
    """Return the background text to show above the question; None without one."""
    background = None if isinstance(prompt, ActionPrompt) else prompt.question.context
    return plain(background).strip("\n") if background else None


class CaptionedLines(NamedTuple):
    """A caption, and lines of untrusted text below it."""

    caption: str
    lines: list[str]


def list_exhibits(prompt: SimplePrompt) -> list[CaptionedLines]:
    """Return the complete details of the decision, because the user approves all of them."""
    shown = []
    for exhibit in prompt.exhibits if isinstance(prompt, ActionPrompt) else ():
        count = ONE_LINE
        if isinstance(exhibit.value, str):
            count, lines = spell_lines(exhibit.value)
        else:
            lines = format_object(exhibit.value)

        caption = exhibit.caption if count == ONE_LINE else f"{exhibit.caption}: {count}"
        shown.append(CaptionedLines(caption, lines))

    return shown


def format_question(prompt: SimplePrompt) -> str:
    """Return the question in one line."""
    text = prompt.text if isinstance(prompt, ActionPrompt) else prompt.question.text
    return plain(re.sub(r"[\n\t]+", " ", spell_prose(text)).strip(), limit=2000)


def describe_expected(kind: AnswerType) -> str:
    """Return the expected input as text: `a text of at most 5 characters`."""
    return kind.expects.replace("a string", "a text", 1)


def describe_expected_picks(kind: SelectAnswer) -> str:
    """Return the expected number of options as text; "" if any number is valid."""
    least = kind.min_picks
    most = kind.max_picks

    if most is None:
        return f"Please pick at least {least}." if least else ""

    if least in (0, most):
        limit = "" if least else "at most "
        return f"Please pick {limit}{most}."

    return f"Please pick {least} to {most}."


class PromptSummary(NamedTuple):
    """The summary that replaces a prompt, as text and as Markdown."""

    plain: str
    markdown: str


def get_submit_label(prompt: QuestionPrompt) -> str:
    """Return the label of the button that sends the answer to a single question."""
    if prompt.submit is not None:
        return prompt.submit

    kind = prompt.question.answer_type
    if isinstance(kind, FormAnswer) and not kind.fields:
        return CONFIRM_LABEL

    return DONE_LABEL if isinstance(kind, UrlAnswer) else SUBMIT_LABEL


def find_address(prompt: SimplePrompt) -> WebAddress | None:
    """Return the URL that the user should open; None if the question has none."""
    if isinstance(prompt, ActionPrompt) or not isinstance(prompt.question.answer_type, UrlAnswer):
        return None
    return read_web_address(prompt.question.answer_type.url)


def list_address_warnings(found: WebAddress) -> list[str]:
    """Return the reasons to be careful with a URL, each in one line."""
    lines = [f"⚠ {one_line(spell_invisible(warning))}." for warning in found.warnings]
    return lines if found.link else [*lines, f"{NOT_OPENED}."]


def format_address_lines(prompt: SimplePrompt) -> list[str]:
    """Return the whole URL in one line, its host, and the warnings, for a console."""
    found = find_address(prompt)
    if found is None:
        return []

    host = [f"  Host: {spell_invisible(found.host)}"] if found.host else []
    warnings = [f"  {warning}" for warning in list_address_warnings(found)]
    return [f"  {spell_invisible(found.text)}", *host, *warnings]


def render_address(found: WebAddress) -> str:
    """Return HTML that shows a URL as text with its host marked, and a link that opens it.

    The link is styled as a button. The new tab gets no access to the page and no referrer.
    """
    parts = [escape(spell_invisible(part)) for part in (found.before, found.host, found.after)]
    marked = parts[0]
    if found.host:
        marked = f"{parts[0]}<mark>{parts[1]}</mark>{parts[2]}"

    # A long URL scrolls, also with the keys of the keyboard.
    region = f'class="jp-nb-url" tabindex="0" role="region" aria-label="{ADDRESS_LABEL}"'
    block = f'<div {region}><bdo dir="ltr">{marked}</bdo></div>'

    for warning in list_address_warnings(found):
        block += f'<div class="jp-nb-warning">{escape(warning)}</div>'

    if found.link is None:
        return block

    label = escape(OPEN_ADDRESS.format(spell_invisible(found.host)))
    return (
        f'{block}<a class="jupyter-button jp-nb-open" target="_blank" rel="noopener noreferrer" '
        f'href="{escape(found.link)}">{label}</a>'
    )


def format_titled_question(prompt: SimplePrompt) -> str:
    """Return header, question, proposed changes and asking tool in one line."""
    asked = format_question(prompt)
    if title := format_header(prompt):
        asked = f"{title}: {asked}"

    if isinstance(prompt, ActionPrompt) and prompt.changes:
        changes = "; ".join(each.line for each in summarize_changes(prompt.changes))
        asked = f"{asked}: {changes}"

    if by := format_asking_tool(prompt):
        asked = f"{asked} ({by})"

    return asked


def format_prompt_answer(prompt: SimplePrompt, end: Answered) -> str:
    """Return the text of an answer."""
    if isinstance(prompt, ActionPrompt):
        labels = {action.value: action.label for action in prompt.actions}
        return spell_invisible(labels.get(str(end.value), str(end.value)))
    return prompt.question.answer_type.format_answer(end.value) or '""'


def get_preselected(prompt: QuestionPrompt) -> JsonValue:
    """Return the default if it is a valid answer and not a secret, else None."""
    question = prompt.question
    return question.default if question.fits_default else None


@dataclass(frozen=True, slots=True)
class EditableText:
    """A text as the user edits it in a box. `hint` explains spelled-out characters, if any."""

    shown: str
    hint: str | None

    def unspell_edited(self, text: str) -> str:
        """Return the text that the user meant by the edited `text`."""
        return text if self.hint is None else unspell(text)


def make_editable_text(prompt: QuestionPrompt) -> EditableText:
    """Return the initial content of the text box of a question."""
    preset = get_preselected(prompt)
    text = preset if isinstance(preset, str) else ""
    shown = spell_editable(text)
    hint = SPELLED_OUT if shown != text else None
    return EditableText(shown, hint)


OPEN_ONLY = "[You can answer only while the form is shown. Without a form, you are asked as text.]"


def format_without_form(prompt: AnyPrompt) -> str:
    """Return the questions and options, for readers who do not see the form."""
    if isinstance(prompt, FormPrompt):
        lines = [*filter(None, [format_head_line(prompt.pages[0])])]

        for number, page in enumerate(prompt.pages, start=1):
            lines += [f"{number}. {format_question(page)}", *_list_option_lines(page)]
        return "\n".join([*lines, OPEN_ONLY])

    offered = [*_list_option_lines(prompt)] if isinstance(prompt, QuestionPrompt) else []

    if not offered:
        return f"{format_titled_question(prompt)} {OPEN_ONLY}"
    return "\n".join([format_titled_question(prompt), *offered, OPEN_ONLY])


def summarize_prompt(prompt: AnyPrompt, end: AnyEnd) -> PromptSummary:
    """Return the summary that replaces `prompt` after its `end`, with options and fields.

    It never contains a secret.
    """
    if not isinstance(prompt, FormPrompt):
        assert not isinstance(end, FormEnd)
        return _summarize_page(
            format_titled_question(prompt), prompt, end, has_card=_has_card(prompt)
        )

    ends = end.ends if isinstance(end, FormEnd) else [end] * len(prompt.pages)
    records = [
        _summarize_page(format_question(page), page, one, has_card=True)
        for page, one in zip(prompt.pages, ends, strict=True)
    ]

    head = [*filter(None, [format_head_line(prompt.pages[0])])]
    return PromptSummary(
        "\n".join([*head, *(record.plain for record in records)]),
        "\n\n".join([*map(escape_markdown, head), *(record.markdown for record in records)]),
    )


def _has_card(prompt: SimplePrompt) -> bool:
    # True if the record lists options, an own text or fields below the question.
    if isinstance(prompt, ActionPrompt):
        return False

    kind = prompt.question.answer_type

    if isinstance(kind, SelectAnswer):
        is_bare = all(option.label is option.description is None for option in kind.options)
        is_long = len(kind.options) > MAX_ALTERNATIVES
        return kind.multi or kind.other or is_long or not is_bare

    return isinstance(kind, FormAnswer)


def _summarize_page(
    asked: str, prompt: SimplePrompt, end: PromptEnd[Answered], *, has_card: bool
) -> PromptSummary:
    card = QuestionCard()

    if isinstance(end, Answered):
        words = format_prompt_answer(prompt, end)
        if has_card and isinstance(prompt, QuestionPrompt):
            card = _make_card(prompt, end)
            words = card.headline

        for_turn = ", for this turn" if end.remember else ""
        said = f"{words}{for_turn}{format_marks(get_outcome(end))}"
    elif isinstance(end, NotAnswered):
        said = f"{end_in_words(end.end, end.marks)}{format_author(end.by)}"
    else:
        said = f"not asked ({one_line(end.reason)})"

    below = (f"    {line}" for line in format_card_lines(card))
    head = f"{escape_markup(asked)} → **{escape_markup(said)}**"
    return PromptSummary(
        "\n".join([f"{asked} → {said}", *below]),
        "\n\n".join(filter(None, [head, render_card(card)])),
    )


def _make_card(page: QuestionPrompt, end: PromptEnd[Answered] | None) -> QuestionCard:
    kind = page.question.answer_type
    answered = isinstance(end, Answered)
    answer = kind.redacted(end.value) if isinstance(end, Answered) else None
    return make_question_card(kind.to_record(), answer, answered=answered)


def _list_option_lines(page: QuestionPrompt) -> Iterator[str]:
    # Of a URL only the host: a page may make a link of the whole text.
    if (found := find_address(page)) is not None and found.host:
        yield f"    {ADDRESS_AT.format(spell_invisible(found.host))}"
    yield from (f"    {line}" for line in format_card_lines(_make_card(page, None)))


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
STALE: Final = "Something else happened first, so your click changed nothing."


def format_progress(draft: FormDraft) -> str | None:
    """Return `Question 2 of 4`; None if there is one page."""
    count = len(draft.prompt.pages)
    return f"Question {draft.page + 1} of {count}" if count > 1 else None


def format_page_header(page: QuestionPrompt) -> str | None:
    """Return the short topic of the page; None without one."""
    return spell_name(page.question.header) if page.question.header else None


class SummaryLine(NamedTuple):
    """A question and the answer that Submit sends now; if it `is_open`, an error or a note.

    `empty` is the label of the button that confirms an empty answer; None if that is not valid.
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
    for page, held in zip(draft.prompt.pages, draft.pages, strict=True):
        kind = page.question.answer_type
        is_open = held.answer is None
        empty = None

        if held.empty and is_open:
            several = isinstance(kind, SelectAnswer) and kind.multi
            empty = NONE_OF_THESE.capitalize() if several else EMPTY_TEXT_LABEL

        if held.answer:
            given = format_prompt_answer(page, held.answer)
        elif held.declined:
            given = REFUSED
            is_open = False
        else:
            given = upper_first(held.problem) or NOT_ANSWERED

        lines.append(SummaryLine(format_question(page), given, is_open, empty))

    return lines
