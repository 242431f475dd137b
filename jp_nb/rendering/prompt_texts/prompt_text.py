"""Texts of a prompt: header, question, context, details, and the expected answer.

A form and the dialogue on stdin show the same texts. All come from a model, a tool, or a file. So
invisible characters in them are *spelled out*: `a⟨U+200B⟩b`. Only the background of a question
loses them instead (`plain`), because the user does not decide about it.

`boolean_choices.py` has the answers of a yes-or-no question, `editable_text.py` the content of a
text box, `form_text.py` the texts of forms with several pages, `address_text.py` those of a URL,
and `prompt_summary.py` the text that replaces a prompt.

Source: `docs/prompts.md`, `docs/guide.md`, `docs/turns.md`.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from pydantic import JsonValue

from jp_nb.agent.prompting.prompt_ends import Answered
from jp_nb.agent.prompting.prompts import (
    ActionPrompt,
    PromptDetail,
    QuestionPrompt,
    SimplePrompt,
)
from jp_nb.exact_form import (
    ONE_LINE,
    spell_invisible,
    spell_lines,
    spell_prose,
)
from jp_nb.object_text import format_object
from jp_nb.rendering.prompt_texts.change_text import summarize_changes
from jp_nb.text import plain
from jp_nb.toolkit.question import FormAnswer
from jp_nb.toolkit.question_types.answer_types import AnswerType, UrlAnswer
from jp_nb.toolkit.question_types.select_answer import SelectAnswer

SUBMIT_LABEL = "Submit"
CANCEL_LABEL = "Cancel"
DECLINE_LABEL: Final = "Decline"
CONFIRM_LABEL: Final = "Confirm"
"""Label of Submit for a form without fields."""
DONE_LABEL: Final = "Done"
"""Label of Submit for a question with a URL."""
SUGGESTED = "suggested"
"""Mark of the tool's default on a button or in a list of keys."""
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
    tool = format_asking_tool(prompt)
    if title and tool:
        return f"{title} ({tool})"

    return title or tool or ""


def spell_name(text: str) -> str:
    """Return a name in one line, with invisible characters spelled out."""
    return plain(spell_invisible(text), limit=200)


def format_context(prompt: SimplePrompt) -> str | None:
    """Return the background text to show above the question; None without one.

    The document of a decision, such as a plan, is complete, with invisible characters spelled out,
    because the user decides about it.
    """
    if isinstance(prompt, ActionPrompt):
        return spell_prose(prompt.document).strip("\n") if prompt.document else None

    background = prompt.question.context
    return plain(background).strip("\n") if background else None


class CaptionedLines(NamedTuple):
    """A caption, and lines of untrusted text below it, with invisible characters spelled out."""

    caption: str
    lines: list[str]


def list_exhibits(prompt: SimplePrompt) -> list[CaptionedLines]:
    """Return the complete details of the decision, because the user approves all of them."""
    if not isinstance(prompt, ActionPrompt):
        return []
    return [_format_exhibit(exhibit) for exhibit in prompt.exhibits]


def _format_exhibit(exhibit: PromptDetail) -> CaptionedLines:
    """Return a detail with its caption, and the size of a text of several lines: `code: 3 lines`.

    An exhibit with a `size_text` has that text in place of the size.
    """
    size = ""
    if isinstance(exhibit.value, str):
        line_count, lines = spell_lines(exhibit.value)  # the count in words
        if line_count != ONE_LINE:
            size = line_count
    else:
        lines = format_object(exhibit.value)

    if exhibit.size_text is not None:
        size = exhibit.size_text
    caption = f"{exhibit.caption}: {size}" if size else exhibit.caption
    return CaptionedLines(caption, lines)


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
    if least == 0:
        return f"Please pick at most {most}."
    if least == most:
        return f"Please pick {most}."
    return f"Please pick {least} to {most}."


def get_submit_label(prompt: QuestionPrompt) -> str:
    """Return the label of the button that sends the answer to a single question."""
    if prompt.submit is not None:
        return prompt.submit

    kind = prompt.question.answer_type
    if isinstance(kind, FormAnswer) and not kind.fields:
        return CONFIRM_LABEL

    return DONE_LABEL if isinstance(kind, UrlAnswer) else SUBMIT_LABEL


def format_titled_question(prompt: SimplePrompt) -> str:
    """Return header, question, proposed changes and asking tool in one line."""
    line = format_question(prompt)
    if title := format_header(prompt):
        line = f"{title}: {line}"

    if isinstance(prompt, ActionPrompt) and prompt.changes:
        changes = "; ".join(summary.line for summary in summarize_changes(prompt.changes))
        line = f"{line}: {changes}"

    if tool := format_asking_tool(prompt):
        line = f"{line} ({tool})"

    return line


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
